"""The offline bounds: optimal by exhaustive search, never beaten; the bound check and what it leaves out."""

import itertools
import json
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from slow.make import draw_trace, write
from test_engine_twin import lists

from replay import evict
from replay.arena.bound import Bound
from replay.arena.partition import plan_slots
from replay.arena.record import FAR
from replay.comparison.comparison import compare
from replay.comparison.offline import Played, beaten, holds
from replay.declare.semantics import Semantics, parse_routes
from replay.engine.frame import MISSES
from replay.errors import InputError
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.prepare.chunk import Demand, prepare
from replay.prepare.lookahead import foresee
from replay.spec.grammar import declaration, parse
from replay.spec.resolve import resolve
from replay.trace import open_trace

META = SimpleNamespace(policy=None, router=None)
FORCED = [name for name in evict.POLICIES if not declaration(name).declines and name != "static"]


def draw_events(rng: Random, layers: int, experts: int, windows: int, rows: int) -> list[list[list[int]]]:
    """Picks of every list of a trace: by window and row, then layer; repeats across rows are likely."""
    return [
        [rng.sample(range(experts), rng.randint(0, 2)) for _ in range(layers)] for _ in range(windows * rows)
    ]


def misses(spec: str, picks, layers: int, experts: int, rows: int, slots: int, **ways) -> int | None:
    """Misses of a policy on one chunk of windows of ``rows`` rows; None where the arena is too small."""
    windows = len(picks) // rows
    chunk = SimpleNamespace(
        w0=0, w1=windows, row_start=np.arange(windows + 1, dtype=np.int64) * rows,
        selections=lists([ids for row in picks for ids in row]), candidates=None, router_scores=None,
    )  # fmt: skip
    classes = np.zeros((layers, experts), np.uint8)
    shape = Shape(layers, experts, 2, np.ones((layers, experts), np.int64), classes, rows)
    semantics = Semantics(**ways)
    plan = plan_slots(classes, np.array([slots], np.int64), semantics.scope == "layer")
    lane = Lane(shape, plan, resolve(parse(spec), META), semantics)
    ready = prepare(chunk, layers, experts, np.zeros(windows, bool), Demand(), False)
    if lane.looks_ahead:
        sequential = semantics.cell == "sequential"
        lane.foresee(foresee([lane.view(ready)], layers, experts, sequential, lane.looks_ahead == "later"))
    out = lane.step(ready)
    return None if out is None else int(out.counts[:, MISSES].sum())


def least_misses(events: list[set], slots: int) -> int | None:
    """Fewest misses of any policy that keeps every miss: a search over all states of the cache."""
    states = {frozenset(): 0}
    for wanted in events:
        if len(wanted) > slots:
            return None
        following: dict[frozenset, int] = {}
        for held, cost in states.items():
            cost += len(wanted - held)
            others = held - wanted
            keep = min(len(others), slots - len(wanted))
            for kept in itertools.combinations(sorted(others), keep):
                state = frozenset(kept) | wanted
                following[state] = min(cost, following.get(state, cost))
        states = following
    return min(states.values())


@pytest.mark.parametrize("seed", range(20))
def test_belady_is_the_least_of_all(seed: int) -> None:
    """Atomic events with pinned members, and sequential lookups: no way of evicting misses less."""
    rng = Random(seed)
    layers, experts, rows = rng.randint(1, 2), rng.randint(3, 4), rng.randint(1, 2)
    picks = draw_events(rng, layers, experts, rng.randint(6, 10), rows)
    windows = [picks[i : i + rows] for i in range(0, len(picks), rows)]
    events = [{(la, e) for row in w for e in row[la]} for w in windows for la in range(layers)]
    lookups = [{(la, e)} for w in windows for la in range(layers) for row in w for e in row[la]]
    for slots in range(1, layers * experts + 1):
        least = least_misses(events, slots)
        for order in ("id", "rows"):
            assert misses("belady", picks, layers, experts, rows, slots, order=order) == least
        least = least_misses(lookups, slots)
        assert misses("belady", picks, layers, experts, rows, slots, cell="sequential") == least


@pytest.mark.parametrize("seed", range(40))
def test_no_policy_beats_belady(seed: int) -> None:
    """Every policy that keeps its misses, at one bound, order, cell and scope; bypassing never misses more."""
    rng = Random(seed)
    layers, experts, rows = rng.randint(1, 3), rng.randint(3, 12), rng.randint(1, 3)
    picks = draw_events(rng, layers, experts, 40, rows)
    ways = {
        "order": rng.choice(["id", "rows"]),
        "cell": rng.choice(["atomic", "sequential"]),
        "scope": rng.choice(["global", "layer"]),
    }
    slots = rng.randint(2, layers * experts)
    bound = misses("belady", picks, layers, experts, rows, slots, **ways)
    if bound is None:
        return
    for spec in [*FORCED, "decode2q:head", "decode2q:quota=0.5", "belady-n:2", "belady-n:62,gamma=0.5"]:
        found = misses(spec, picks, layers, experts, rows, slots, **ways)
        assert found is not None and found >= bound, spec
    bypass = misses("belady-bypass", picks, layers, experts, rows, slots, **ways)
    assert bypass is not None and bypass <= bound


def test_belady_on_a_trace_of_many_layers(shared: Path) -> None:
    """The published stream as 200 tokens of 48 layers: the next lookup decides, so libcachesim's misses hold."""
    expected = json.loads((shared / "traces/streams/moe96k_misses.json").read_text())
    keys = np.load(shared / "traces/streams/moe96k.npy").astype(np.int64)
    picks = (keys.reshape(200, 48, 10) % 512).tolist()
    assert (keys.reshape(200, 48, 10) // 512 == np.arange(48)[:, None]).all()
    for slots, least in list(zip(expected["capacities"], expected["misses"]["Belady"], strict=True))[::2]:
        assert misses("belady", picks, 48, 512, 1, slots, cell="sequential") == least


def test_belady_n_knows_only_so_much() -> None:
    """One layer, picks A B C A B C ..: with two windows known belady-n sees what to keep, with none it is lru."""
    turns = [[[e]] for e in [0, 1, 2] * 20]
    assert misses("lru", turns, 1, 3, 1, 2) == 60
    assert misses("belady-n:n=1", turns, 1, 3, 1, 2) == misses("belady", turns, 1, 3, 1, 2) == 31
    scan = [[[e]] for e in [0, 1, 2, 3, 4, 5] * 10]
    assert misses("lru", scan, 1, 6, 1, 5) == 60
    assert [misses(f"belady-n:n={n}", scan, 1, 6, 1, 5) for n in (1, 2, 3, 4, 5)] == [33, 24, 19, 16, 16]
    assert misses("belady", scan, 1, 6, 1, 5) == 16


def test_discount_weighs_near_uses_against_many() -> None:
    """At the first 1 of 2 0 1 1 2 0 0 1 the small gamma keeps 2, which comes next; gamma = 1 keeps the two 0s."""
    turns = [[[e]] for e in (2, 0, 1, 1, 2, 0, 0, 1)]
    assert misses("belady-n:n=4,gamma=0.3", turns, 1, 3, 1, 2) == misses("belady", turns, 1, 3, 1, 2) == 4
    assert misses("belady-n:n=4,gamma=1", turns, 1, 3, 1, 2) == 5
    picks = [[[e]] for e in (0, 1, 2, 0, 1, 1)]
    future = foresee([view_of(picks)], 1, 3, deep=True)
    next_use, later = future.between(0, 6)
    assert next_use.tolist() == [3, 4, FAR, FAR, 5, FAR]
    assert later.tolist() == [0, 1, 0, 0, 0, 0]


def view_of(picks):
    """Events of one-row windows of one layer."""
    values = lists([ids for row in picks for ids in row])
    rows = np.arange(len(picks) + 1, dtype=np.int64)
    chunk = SimpleNamespace(
        w0=0, w1=len(picks), row_start=rows, selections=values, candidates=None, router_scores=None
    )
    return prepare(chunk, 1, 3, np.zeros(len(picks), bool), Demand(), False).events(None)


@pytest.fixture
def trace(tmp_path: Path):
    """A drawn trace on disk, one that has all tables."""
    drawn = draw_trace(3)
    write(drawn, tmp_path / "trace")
    return open_trace(tmp_path / "trace")


def test_compare_plays_the_bounds(trace) -> None:
    """All three beside lru, over the grid; nobody is flagged."""
    every = str(trace.meta.layers * trace.meta.experts)
    classes = int(trace.classes.max()) + 1
    specs = ["lru", "belady", "belady-bypass", "belady-n:2", "random"]
    run = compare(trace, specs, slots=",".join([every] * classes), grid=(0.5, 1.0))
    assert not [each for each in run.warnings if "belady" in each]
    found = {row["policy"]: row["misses"] for row in run.summary}
    assert found["belady-bypass"] <= found["belady"] <= found["lru"]


def test_routes_that_change_have_no_future(trace) -> None:
    """Refused by name under rerouted routes; under bytes belady is said to be a heuristic, belady-n refused."""
    for spec in ("belady", "belady-bypass", "belady-n", "oracle+lru"):
        with pytest.raises(InputError, match=spec.removesuffix("+lru")):
            compare(trace, [spec], routes=[parse_routes("rerouted")])
    run = compare(trace, ["belady"], bytes="1GB", grid=())
    assert any("heuristic" in each for each in run.warnings)
    with pytest.raises(InputError, match="belady-n is not defined under a byte budget"):
        compare(trace, ["belady-n"], bytes="1GB")


def entry(text: str, missed: int, routes: str = "recorded", stopped: bool = False):
    """As much of a played lane as the check reads, and its misses."""
    lane = SimpleNamespace(
        policy=resolve(parse(text), META),
        routes=parse_routes(routes),
        rows_used=None,
        failure=stopped or None,
    )
    return lane, missed


def test_a_row_below_the_bound_is_flagged() -> None:
    """Only forced rows of recorded routes without read-ahead, against belady at the same bound."""
    at, other = Bound((10,), None, ""), Bound((20,), None, "")
    rows = [(at, entry("belady", 50)), (other, entry("belady", 30))]
    quiet = [
        (at, entry("lru", 50)),
        (at, entry("belady-bypass", 40)),
        (at, entry("unpert1+lru", 40)),
        (at, entry("lfu", 40, "rerouted")),
        (at, entry("lfu", 0, stopped=True)),
        (other, entry("fifo", 40)),
    ]

    def check(rows):
        return beaten(Played(lane, bound, missed) for bound, (lane, missed) in rows)

    assert check(rows + quiet) == []
    (said,) = check([*rows, *quiet, (at, entry("sieve", 49)), (other, entry("sieve", 29))])
    assert said.startswith("sieve misses 49 at 10 slots, less than belady's 50")


def test_where_the_bound_holds() -> None:
    """Slots, or bytes and one size; no prefill that streams or spares."""
    slots, budget = Bound((10,), None, ""), Bound(None, 1000, "")
    even, uneven = np.full((2, 3), 5), np.arange(6).reshape(2, 3)
    assert holds(Semantics(), slots, uneven, True)
    assert holds(Semantics(), budget, even, True) and not holds(Semantics(), budget, uneven, True)
    streaming = Semantics(stream=8)
    assert holds(streaming, slots, even, False) and not holds(streaming, slots, even, True)
    assert not holds(Semantics(prompt_hot=3), slots, even, True)
