"""The router's rule (semantics 2): the page's example, and every case of the engine's own test grid."""

import itertools
import math

import numpy as np
import pytest

from replay.router.rule import WEIGHT_FLOOR, route, weights
from replay.router.shortlist import shortlist_dense, shortlist_halves, shortlist_sparse

EXPERTS = (32, 256, 512)
BASE_SCALES = (0.5, 1.0, 2.0, 4.0, math.exp(0.85))
R1_SCALES = (0.5, 1.0, 2.0, 4.0, math.exp(0.4))
PROTECTIONS = range(11)
DRAWS = 12
PICKS = 10
RESIDENCY = ("none", "all-miss", "all-hit", "mixed")


def reference(z, held, count, protect, bonus, rank1, draft):
    """Pick rank by rank: at each rank the best score, boosted as that rank says, of those not picked yet."""
    if draft:
        protect, bonus, rank1 = 1, 2 * bonus, 0.0
    z = z.astype(np.float64)
    rows = np.arange(len(z))
    free = np.isfinite(z)
    picks = np.empty((len(z), count), np.int64)
    early = rank1 if rank1 > 0 and protect > 1 else 0.0
    for rank in range(count):
        if rank < protect:
            boost = early if rank > 0 else 0.0
        else:
            boost = bonus if bonus > 0 else early
        score = np.where(free, z + boost * held, -np.inf)
        picks[:, rank] = np.where(score.max(axis=1) > -np.inf, score.argmax(axis=1), -1)
        free[rows, picks[:, rank]] = False
    return picks


def reference_weights(z, picks):
    """Unboosted softmax over the chosen set, written out in extended precision."""
    z = z.astype(np.longdouble)
    probability = np.exp(z - z.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    chosen = np.take_along_axis(probability, picks, axis=1)
    return chosen / np.maximum(chosen.sum(axis=1, keepdims=True), WEIGHT_FLOOR)


def held_for(kind, z, rng):
    """Residents of one kind, for every row."""
    top = np.argsort(-z, axis=1, kind="stable")[:, :PICKS]
    held = np.zeros(z.shape, bool)
    if kind == "all-hit":
        np.put_along_axis(held, top, True, axis=1)
    elif kind == "all-miss":
        held = rng.random(z.shape) < 0.3
        np.put_along_axis(held, top, False, axis=1)
    elif kind == "mixed":
        held = rng.random(z.shape) < 0.3
    return held


def test_example():
    """The example of semantics 2, and its raw top six."""
    z = -0.1 * np.arange(512)[None, :]
    held = np.zeros((1, 512), bool)
    held[0, 6:20] = True
    assert route(z, held, 10, protect=3, bonus=0.85)[0].tolist() == [0, 1, 2, 6, 7, 8, 9, 10, 11, 3]
    assert route(z, held, 6)[0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("experts", EXPERTS)
def test_every_case(experts):
    """Ids equal a per-rank reference and weights agree to 2e-7 in all cases of the grid (158,400 in all)."""
    rng = np.random.default_rng(experts)
    cases = 0
    for base, r1, protect in itertools.product(BASE_SCALES, R1_SCALES, PROTECTIONS):
        for moce, draft_row in itertools.product((False, True), repeat=2):
            z = rng.normal(0, 1.5, (DRAWS * len(RESIDENCY), experts)).astype(np.float16).astype(np.float32)
            held = np.concatenate(
                [
                    held_for(kind, z[i::4], np.random.default_rng([experts, i]))
                    for i, kind in enumerate(RESIDENCY)
                ]
            )
            z = np.concatenate([z[i::4] for i in range(4)])
            bonus, rank1, draft = math.log(base), math.log(r1), moce and draft_row
            expected = reference(z, held, PICKS, protect, bonus, rank1, draft)
            picks = route(z, held, PICKS, protect=protect, bonus=bonus, rank1=rank1, draft=draft)
            assert np.array_equal(picks, expected), (base, r1, protect, moce, draft_row)
            assert np.abs(weights(z, picks) - reference_weights(z, picks)).max() < 2e-7
            cases += len(z)
    assert cases == 158_400 // len(EXPERTS)


def test_ties_masks_and_small_scores():
    """Ties go to the lowest id, also those that a boost makes or rounding hides; -inf is never picked."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        experts = int(rng.integers(2, 20))
        z = rng.integers(-3, 4, (6, experts)).astype(np.float32) * np.float32(rng.choice([0.25, 1e-20, 1.0]))
        z[rng.random(z.shape) < 0.2] = -np.inf
        held = rng.random(z.shape) < 0.5
        count, protect = int(rng.integers(1, experts + 3)), int(rng.integers(0, 5))
        bonus, rank1 = rng.choice([0.0, 0.25, 0.5, 0.85, -1.0], 2)
        expected = reference(z, held, count, protect, bonus, rank1, False)
        assert np.array_equal(route(z, held, count, protect, float(bonus), float(rank1)), expected)


def listed(row: np.ndarray, count: int, reach: float) -> list[tuple[int, float]]:
    """The shortlist of one row by its definition: every finite score that a boost could bring to the count-th best."""
    finite = [(-float(x), e) for e, x in enumerate(row) if np.isfinite(x)]
    best = sorted(finite)[:count]
    kth = -best[-1][0] if len(best) == count else -np.inf
    return [(e, -x) for x, e in sorted(finite) if -x + reach >= kth]


@pytest.mark.parametrize("experts", [1, 2, 31, 32, 33, 64, 100, 512])
def test_shortlists_are_what_they_are_defined_to_be(experts):
    """Dense rows as float32 and as the bits of float16, and sparse ones: ties, -inf, signs, any count and reach."""
    rng = np.random.default_rng(experts)
    for draw in range(24):
        scale = rng.choice([1e-7, 0.25, 3.0, 2000.0])
        halves = (rng.normal(0, 1, (5, experts)) * scale).astype(np.float16)
        if draw % 3 == 0:
            halves = np.round(halves)  # many ties, and zeros of both signs
        halves[rng.random(halves.shape) < rng.choice([0.0, 0.3, 0.95])] = -np.inf
        halves[0] = -np.inf
        wide = halves.astype(np.float32)
        count = int(rng.choice([1, 2, 6, 10, 32, 33, experts, experts + 5]))
        reach = float(rng.choice([0.0, 0.85, 1e-9, 7.5, 1e6]))
        expected = [listed(row, min(count, experts), reach) for row in wide]
        for offsets, ids, scores in (
            shortlist_dense(wide, count, reach),
            shortlist_halves(halves.view(np.int16), count, reach),
        ):
            for i, row in enumerate(expected):
                found = slice(offsets[i], offsets[i + 1])
                assert list(zip(ids[found].tolist(), scores[found].tolist(), strict=True)) == row
        order = rng.permuted(np.tile(np.arange(experts, dtype=np.int32), (5, 1)), axis=1)
        starts = np.arange(6, dtype=np.int64) * experts
        mixed = np.take_along_axis(wide, order.astype(np.int64), 1)
        offsets, ids, scores = shortlist_sparse(starts, order.ravel(), mixed.ravel())
        for i, row in enumerate(wide):
            found = slice(offsets[i], offsets[i + 1])
            assert list(zip(ids[found].tolist(), scores[found].tolist(), strict=True)) == listed(
                row, experts, np.inf
            )
