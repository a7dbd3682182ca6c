"""Eviction policies against libcachesim on plain request streams: misses equal to the unit.

A stream is a model of one layer whose windows pick one expert each, played with ``cell=sequential`` and sizes of
one byte. Each line of ``PARITY`` is a policy here and its counterpart there. ``random`` cannot be matched.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from replay.arena.partition import plan_slots
from replay.declare.semantics import Semantics
from replay.engine.frame import LOOKUPS, MISSES
from replay.lane.lane import Lane, combine
from replay.lane.shape import Shape
from replay.prepare.chunk import prepare
from replay.prepare.lookahead import foresee
from replay.spec.grammar import parse
from replay.spec.resolve import resolve


class Pair(NamedTuple):
    """A policy here; the key of its misses in moe96k_misses.json; libcachesim's class and its parameters.

    ``least``: the fewest slots at which drawn streams are compared. libcachesim's S3FIFO keeps nothing while a tenth
    of its slots is below two (or aborts), its TwoQ while a quarter is below one. Its LIRS evicts, while a hundredth
    of its slots is below two, the very key that is hit in its queue, and yet counts that key's next request as a
    hit: it then holds more keys than it has slots.
    """

    spec: str
    name: str
    kind: str
    parameters: dict[str, Any] = {}
    least: int = 1


PARITY = [
    Pair("lru", "LRU", "LRU"),
    Pair("fifo", "FIFO", "FIFO"),
    Pair("clock", "Clock", "Clock"),
    Pair("lfu", "LFU", "LFU"),
    Pair("sieve", "Sieve", "Sieve"),
    Pair("arc", "ARC", "ARC"),
    Pair("2q:amcap=1", "TwoQ", "TwoQ", least=4),
    Pair("s3fifo:fill=lcs", "S3FIFO", "S3FIFO", least=20),
    Pair(
        "s3fifo:fill=lcs,promote=1",
        "S3FIFO(move_to_main_threshold=1)",
        "S3FIFO",
        {"move_to_main_threshold": 1},
        least=20,
    ),
    Pair("lirs:stack=2,demote=1", "LIRS", "LIRS", least=200),
    Pair("belady", "Belady", "Belady"),
]
pairs = pytest.mark.parametrize("pair", PARITY, ids=lambda pair: pair.spec)

META = SimpleNamespace(policy=None, router=None)


def stream_of(keys: NDArray[Any]) -> SimpleNamespace:
    """A chunk of windows that pick one expert each."""
    offsets = np.arange(len(keys) + 1, dtype=np.int64)
    picks = SimpleNamespace(values=keys.astype(np.int32), offsets=offsets)
    return SimpleNamespace(
        w0=0, w1=len(keys), row_start=offsets, selections=picks, candidates=None, router_scores=None
    )


def lane_of(spec: str, experts: int, slots: int) -> Lane:
    """A lane over one layer of unit-sized experts."""
    classes = np.zeros((1, experts), np.uint8)
    shape = Shape(1, experts, 1, np.ones((1, experts), np.int64), classes, 1)
    plan = plan_slots(classes, np.array([slots], np.int64), False)
    return Lane(shape, plan, resolve(parse(spec), META), Semantics(cell="sequential"))


def misses(spec: str, keys: NDArray[Any], slots: int) -> int:
    """Misses of a policy on a stream of dense keys."""
    experts = int(keys.max()) + 1
    lane = lane_of(spec, experts, slots)
    ready = prepare(stream_of(keys), 1, experts, np.zeros(len(keys), bool), combine([lane]), False)
    if lane.looks_ahead:
        lane.foresee(foresee([lane.view(ready)], 1, experts, sequential=True))
    out = lane.step(ready)
    assert out is not None
    assert int(out.counts[:, LOOKUPS].sum()) == len(keys)
    return int(out.counts[:, MISSES].sum())


def next_requests(keys: NDArray[Any]) -> list[int]:
    """Place of the next request of each key, far away where there is none: what libcachesim's Belady reads."""
    place: dict[int, int] = {}
    found = [1 << 62] * len(keys)
    for i, key in reversed(list(enumerate(keys.tolist()))):
        found[i] = place.get(key, 1 << 62)
        place[key] = i
    return found


def their_misses(library: Any, pair: Pair, keys: NDArray[Any], slots: int) -> int:
    """Misses of libcachesim on the same stream."""
    cache = getattr(library, pair.kind)(cache_size=slots, hashpower=12, **pair.parameters)
    request = library.Request()
    request.obj_size = 1
    missed = 0
    for key, following in zip(keys.tolist(), next_requests(keys), strict=True):
        request.obj_id = key
        request.next_access_vtime = following
        missed += not cache.get(request)
    return missed


def zipf_stream(seed: int) -> NDArray[np.int64]:
    """Draw 30,000 independent requests of 3,000 keys, Zipf 0.9."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 3001) ** -0.9
    return rng.permutation(3000)[rng.choice(3000, 30_000, p=weights / weights.sum())]


def scan_stream(seed: int) -> NDArray[np.int64]:
    """Skewed requests of 800 keys, cut by scans of up to 600 other keys and by short loops."""
    rng = np.random.default_rng(seed)
    parts: list[NDArray[np.int64]] = []
    while sum(map(len, parts)) < 30_000:
        way = rng.integers(4)
        start, length = int(rng.integers(800, 2000)), int(rng.integers(20, 600))
        if way == 0:
            parts.append(np.arange(start, start + length) % 2000)
        elif way == 1:
            parts.append(np.tile(np.arange(start, start + length // 4) % 2000, int(rng.integers(2, 6))))
        else:
            parts.append((800 * rng.random(length * 2) ** 3).astype(np.int64))
    return np.concatenate(parts)[:30_000]


def layered_stream(seed: int) -> NDArray[np.int64]:
    """Tokens through 12 layers of 96 experts, four each, that often pick again what they picked last."""
    rng = np.random.default_rng(seed)
    taste = rng.gamma(0.3, size=(12, 96))
    bonus = np.zeros((12, 96))
    picks: list[NDArray[np.int64]] = []
    for token in range(500):
        if token % 100 == 0:
            taste = (taste + rng.gamma(0.3, size=taste.shape)) / 2
        scores = np.log(taste + 1e-3) + bonus + rng.gumbel(size=taste.shape)
        chosen = np.argsort(-scores, axis=1)[:, :4]
        bonus[:] = 0
        np.put_along_axis(bonus, chosen, 2.0, axis=1)
        picks.append((chosen + 96 * np.arange(12)[:, None]).ravel())
    return np.concatenate(picks)


@pairs
def test_recorded_misses_of_the_moe_stream(pair: Pair, shared: Path) -> None:
    """The published misses at seven capacities; libcachesim itself is not needed."""
    expected = json.loads((shared / "traces/streams/moe96k_misses.json").read_text())
    keys = np.load(shared / "traces/streams/moe96k.npy")
    got = [misses(pair.spec, keys, slots) for slots in expected["capacities"]]
    assert got == expected["misses"][pair.name]


@pairs
@pytest.mark.parametrize("draw", [zipf_stream, scan_stream, layered_stream], ids=["zipf", "scan", "layered"])
def test_misses_equal_libcachesim(pair: Pair, draw: Any) -> None:
    """Streams drawn here, at capacities from tiny to nearly all keys."""
    library = pytest.importorskip(
        "libcachesim", reason="libcachesim is not installed: nothing to compare with"
    )
    for seed, every in ((1, (2, 10, 57, 300)), (2, (23, 128, 480, 1000, 1900))):
        keys = draw(seed)
        capacities = [slots for slots in every if slots >= pair.least]
        got = [misses(pair.spec, keys, slots) for slots in capacities]
        assert got == [their_misses(library, pair, keys, slots) for slots in capacities], seed
