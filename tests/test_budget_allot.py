"""Splits of slots over layers against brute force."""

import itertools

import numpy as np
import pytest

from replay.budget.allot import equal, optimum, ranges, total, transfer
from replay.errors import InputError


def draw(rng: np.random.Generator, convex: bool) -> list[np.ndarray]:
    """Costs of two to four layers: falling, convex or not, the first entries out of reach."""
    costs = []
    for _ in range(rng.integers(2, 5)):
        steps = rng.integers(0, 9, rng.integers(1, 7)).astype(float)
        if convex:
            steps = np.sort(steps)[::-1]
        else:
            steps -= rng.integers(0, 3)  # more slots may cost more
        cost = 50 - np.concatenate([[0], np.cumsum(steps)])
        costs.append(np.concatenate([np.full(rng.integers(0, 3), np.inf), cost]))
    return costs


def every(costs: list[np.ndarray], slots: int) -> dict[tuple[int, ...], float]:
    """Cost of every split."""
    sizes = [range(len(each)) for each in costs]
    splits = (each for each in itertools.product(*sizes) if sum(each) == slots)
    return {each: total(costs, np.array(each)) for each in splits}


@pytest.mark.parametrize("convex", [True, False])
def test_splits_against_brute_force(convex: bool) -> None:
    rng = np.random.default_rng(convex)
    for _ in range(150):
        costs = draw(rng, convex)
        low, high = ranges(costs)
        slots = int(rng.integers(low.sum(), high.sum() + 1))
        best = min(every(costs, slots).values())
        start, moved, found = (rule(costs, slots) for rule in (equal, transfer, optimum))
        for split in (start, moved, found):
            assert split.sum() == slots and (low <= split).all() and (split <= high).all()
        assert total(costs, found) == best
        assert best <= total(costs, moved) <= total(costs, start)
        if convex:
            assert total(costs, moved) == best, "where gains only shrink, single moves find the optimum"


def single_moves(costs: list[np.ndarray], slots: int) -> list[int]:
    """The transfer in the plainest words: of all moves of one slot the one that gains most, while it gains."""
    split = equal(costs, slots).tolist()
    low, high = (each.tolist() for each in ranges(costs))
    layers = range(len(costs))
    while True:
        moves = [
            (
                (costs[b][split[b]] - costs[b][split[b] + 1]) - (costs[a][split[a] - 1] - costs[a][split[a]]),
                a,
                b,
            )
            for a in layers
            for b in layers
            if a != b and split[a] > low[a] and split[b] < high[b]
        ]
        best = max(moves, default=(0, 0, 0), key=lambda move: move[0])
        if best[0] <= 0:
            return split
        split[best[1]] -= 1
        split[best[2]] += 1


def test_transfer_stops_where_no_move_gains() -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        costs = [each + rng.random(len(each)) for each in draw(rng, False)]  # no ties
        low, high = ranges(costs)
        slots = int(rng.integers(low.sum(), high.sum() + 1))
        assert transfer(costs, slots).tolist() == single_moves(costs, slots)


def test_transfer_can_miss_what_the_optimum_finds() -> None:
    """A layer that pays only with two slots more: no single move gains."""
    costs = [np.array([9.0, 9, 9, 9, 0]), np.array([9.0, 8, 7, 6, 5])]
    assert (transfer(costs, 4).tolist(), optimum(costs, 4).tolist()) == ([0, 4], [4, 0])
    assert (total(costs, transfer(costs, 4)), total(costs, optimum(costs, 4))) == (14, 9)


def test_equal_bends_only_where_it_must() -> None:
    flat = [np.zeros(9)] * 3
    assert equal(flat, 10).tolist() == [4, 3, 3]
    assert equal(flat, 99).tolist() == [8, 8, 8], "no layer has a use for more"
    needy = [np.array([np.inf] * 6 + [1.0, 0]), np.zeros(4), np.zeros(4)]
    assert equal(needy, 8).tolist() == [6, 1, 1]
    with pytest.raises(InputError, match="5 slots cannot give every layer .* at least 6"):
        equal(needy, 5)
