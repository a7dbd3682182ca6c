"""Replay fidelity: a replay of the recorded policy reproduces its record, and whatever differs is found."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Outcome
from slow.make import Case, _tables, draw_case
from slow.make import _meta as drawn_meta
from slow.twin import replay_slow

from replay.declare.policy import show_value
from replay.declare.semantics import Semantics
from replay.errors import CheckFailed
from replay.fidelity import Fidelity, check_fidelity
from replay.fidelity.policy import recorded_semantics
from replay.trace import open_trace, write_trace

Cli = Callable[..., Outcome]

# one layer, four experts, three slots, LRU: picks of each window, their outcomes, and the residents before
PICKS = ([0, 1], [0, 2], [3, 0], [2, 3])
OUTCOMES = ([0, 0], [1, 0], [0, 1], [1, 1])
RESIDENTS = ([], [0, 1], [0, 1, 2], [0, 2, 3])
POLICY = {"prefetch": {"name": "none"}, "evict": "lru", "slots": [3]}


def small(
    path: Path,
    policy: Any = POLICY,
    outcomes: Any = OUTCOMES,
    residents: Any = RESIDENTS,
    hits: Any = (0, 1, 1, 2),
) -> Path:
    """Write the trace above; None leaves a record out."""
    windows = range(len(PICKS))
    selections: dict[str, Any] = {"window": windows, "row": [0] * 4, "layer": [0] * 4, "experts": PICKS}
    if outcomes is not None:
        selections["outcome"] = outcomes
    tables = {
        "windows": pa.table(
            {"window": windows, "session": [0] * 4, "phase": ["decode"] * 4, "rows": [1] * 4}
        ),
        "selections": pa.table(selections),
    }
    if residents is not None:
        kept = [w for w in windows if residents[w] is not None]
        tables["residents"] = pa.table(
            {"window": kept, "layer": [0] * len(kept), "experts": [residents[w] for w in kept]},
            schema=pa.schema({"window": pa.uint32(), "layer": pa.uint16(), "experts": pa.list_(pa.uint16())}),
        )
    if hits is not None:
        zero = [0] * 4
        tables["counters"] = pa.table(
            {"window": windows, "layer": zero, "hits": hits, "prefetch_hits": zero, "late": zero,
             "misses": [2 - n for n in hits]}
        )  # fmt: skip
    model = {"name": "small", "layers": 1, "experts": 4, "top_k": 2}
    write_trace(path, {"model": model, "expert_bytes": 10, "policy": policy}, tables)
    return path


def check(path: Path) -> Fidelity:
    return check_fidelity(open_trace(path))


# --- by hand ---------------------------------------------------------------------------------------


def test_equal(tmp_path: Path) -> None:
    found = check(small(tmp_path / "t"))
    assert found.holds and found.first is None
    assert found.compared == ("outcome", "counters", "residents")
    assert (found.policy, found.events, found.equal, found.lookups, found.lookups_equal) == (
        "none+lru",
        4,
        4,
        8,
        8,
    )
    totals = {(each.source, each.name): (each.recorded, each.replayed) for each in found.totals}
    assert totals == {
        ("outcome", "hits"): (4, 4), ("outcome", "prefetch_hits"): (0, 0), ("outcome", "misses"): (4, 4),
        ("outcome", "demand_bytes"): (40, 40), ("counters", "hits"): (4, 4), ("counters", "prefetch_hits"): (0, 0),
        ("counters", "misses"): (4, 4), ("residents", "residents"): (8, 8),
    }  # fmt: skip


@pytest.mark.parametrize("kept", ["outcomes", "residents", "hits"])
def test_any_one_record_is_enough(tmp_path: Path, kept: str) -> None:
    found = check(
        small(tmp_path / "t", **{name: None for name in ("outcomes", "residents", "hits") if name != kept})
    )
    assert found.holds and found.events == 4 and len(found.compared) == 1


def test_unknown_outcomes_and_windows_without_snapshots_are_not_compared(tmp_path: Path) -> None:
    outcomes = ([255, 255], [255, 0], [0, 1], [1, 1])
    found = check(small(tmp_path / "t", outcomes=outcomes, residents=(None, *RESIDENTS[1:]), hits=None))
    assert (found.events, found.equal, found.lookups) == (3, 3, 5)


def test_an_outcome_that_differs(tmp_path: Path) -> None:
    found = check(small(tmp_path / "t", outcomes=(*OUTCOMES[:2], [1, 1], [1, 1])))
    assert (found.events, found.equal, found.lookups, found.lookups_equal) == (4, 3, 8, 7)
    first = found.first
    assert first is not None
    assert (first.window, first.layer, first.experts) == (2, 0, [3])
    assert first.recorded == {
        "outcome": [(0, 1), (3, 1)], "hits": 1, "prefetch_hits": 0, "misses": 1, "residents": [0, 1, 2],
    }  # fmt: skip
    assert first.replayed == first.recorded | {"outcome": [(0, 1), (3, 0)]}


def test_a_counter_that_differs(tmp_path: Path) -> None:
    found = check(small(tmp_path / "t", hits=(0, 2, 1, 1)))
    assert (found.equal, found.lookups_equal) == (2, 8)
    assert found.first is not None and found.first.window == 1
    assert (found.first.recorded["hits"], found.first.replayed["hits"]) == (2, 1)


def test_a_resident_that_differs(tmp_path: Path) -> None:
    found = check(small(tmp_path / "t", residents=(*RESIDENTS[:3], [1, 2, 3])))
    assert found.equal == 3 and found.first is not None
    assert (found.first.window, found.first.experts) == (3, [0, 1])
    assert (found.first.recorded["residents"], found.first.replayed["residents"]) == ([1, 2, 3], [0, 2, 3])


def test_another_policy_differs(tmp_path: Path) -> None:
    """Two slots: expert 1 leaves a window earlier."""
    found = check(small(tmp_path / "t", policy=POLICY | {"slots": [2]}, residents=None))
    assert not found.holds and found.first is not None
    assert (found.first.window, found.first.experts) == (3, [2])


def test_each_pick_is_a_lookup_under_sequential(tmp_path: Path) -> None:
    """Two rows of one event, two slots: 0 stays, 2 takes the place of 1, 1 comes back."""
    columns = {"window": [0] * 3, "row": [0, 1, 2], "layer": [0] * 3, "experts": [[0, 1], [0, 2], [1, 2]]}
    tables = {
        "windows": pa.table({"window": [0], "session": [0], "phase": ["decode"], "rows": [3]}),
        "selections": pa.table(columns | {"outcome": [[0, 0], [1, 0], [0, 1]]}),
    }
    model = {"name": "small", "layers": 1, "experts": 4, "top_k": 2}
    policy = POLICY | {"slots": [2], "cell": "sequential"}
    write_trace(tmp_path / "t", {"model": model, "expert_bytes": 10, "policy": policy}, tables)
    found = check(tmp_path / "t")
    assert (found.holds, found.lookups) == (True, 6)
    assert {each.name: each.replayed for each in found.totals}["demand_bytes"] == 40


def test_a_recorded_start(tmp_path: Path) -> None:
    record = {
        "outcomes": ([1, 1], *OUTCOMES[1:]),
        "residents": ([0, 1], *RESIDENTS[1:]),
        "hits": (2, 1, 1, 2),
    }
    assert check(small(tmp_path / "t", policy=POLICY | {"start": "recorded"}, **record)).holds
    assert not check(small(tmp_path / "cold", **record)).holds


def test_a_warm_start_is_not_compared(tmp_path: Path) -> None:
    wrong = ([1, 1], [1, 0], [0, 1], [1, 1])
    found = check(small(tmp_path / "t", policy=POLICY | {"start": "warm:2"}, outcomes=wrong))
    assert (found.holds, found.events, found.lookups) == (True, 2, 4)


def test_command(tmp_path: Path, cli: Cli) -> None:
    equal, other = (
        small(tmp_path / "equal"),
        small(tmp_path / "other", outcomes=(*OUTCOMES[:2], [1, 1], [1, 1])),
    )
    code, out, err = cli("fidelity", equal)
    assert (code, err) == (0, "")
    assert "replayed none+lru, 3 slots (as recorded): scope global, split on, order id, cell atomic" in out
    assert "events                   4      4\nlookups  outcome         8      8\n" in out
    code, out, err = cli("fidelity", other)
    assert code == 1
    assert err == (
        f"replay: error: {other}: 1 of 4 events differ from the record; the first is window 2, layer 0\n"
    )
    assert "first event that differs: window 2, layer 0\n  experts   3\n" in out
    assert (
        "  recorded  outcome 0:hit 3:hit; hits 1; prefetch_hits 0; misses 1; residents before 0 1 2\n" in out
    )
    assert "  replayed  outcome 0:hit 3:miss; hits 1;" in out
    code, out, _ = cli("fidelity", other, "--json")
    report = json.loads(out)
    assert (code, report["holds"], report["equal"], report["first"]["experts"]) == (1, False, 3, [3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": None}, "does not say which policy ran"),
        ({"policy": {"slots": [3]}}, "does not say which policy ran"),
        ({"policy": {"evict": "lru"}}, "says neither policy.slots nor policy.bytes"),
        ({"policy": POLICY | {"evict": "lruu"}}, "policy names 'lruu'"),
        ({"policy": POLICY | {"order": "sideways"}}, "no such order"),
        ({"policy": POLICY | {"order": 3}}, "policy.order is 3; expected a text such as 'id'"),
        ({"policy": POLICY | {"start": "hot"}}, "expected cold, recorded or warm:N"),
        ({"policy": POLICY | {"prompt_hot": "x"}}, "policy.prompt_hot is 'x'; expected a whole number"),
        ({"policy": POLICY | {"prefetch": {"name": "unpert1"}}}, "needs the table candidates"),
        ({"policy": {"evict": "sieve", "bytes": 30}}, "sieve is not defined under a byte budget"),
        ({"outcomes": None, "residents": None, "hits": None}, "nothing to compare with"),
        ({"outcomes": ([255, 255],) * 4, "residents": None, "hits": None}, "nothing to compare"),
    ],
)
def test_nothing_to_replay_or_compare(tmp_path: Path, cli: Cli, change: dict[str, Any], message: str) -> None:
    """One line and exit code 2."""
    path = small(tmp_path / "t", **change)
    code, out, err = cli("fidelity", path)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert message in err


def test_an_arena_that_cannot_hold_an_event(tmp_path: Path) -> None:
    path = small(tmp_path / "t", policy=POLICY | {"slots": [1]}, residents=None)
    with pytest.raises(CheckFailed, match="window 0, layer 0: the arena's 1 slot cannot hold"):
        check(path)


def test_semantics_are_the_recorded_ones() -> None:
    assert recorded_semantics({}) == Semantics()
    said = {"scope": "layer", "split": False, "order": "rows", "cell": "sequential", "start": "recorded"}
    found = recorded_semantics(said | {"prefill": "stream:4", "prompt_hot": 2})
    assert found == Semantics("layer", False, "rows", "sequential", "recorded", 0, 4, 2)


# --- against the slow twin -------------------------------------------------------------------------


def recorded_case(seed: int, path: Path) -> bool:
    """Write a drawn case as an engine would have recorded it; say whether it can be recorded."""
    case = draw_case(seed)
    spec = replace(case.spec, gates=(), guess=None, spare=None)  # trace.json names none of these
    case = replace(case, spec=spec)
    options = replace(case.options, routes="recorded", rows_used={})
    by_pair = options.slots is not None and any(isinstance(key, tuple) for key in options.slots)
    if case.spec.evict not in ("lru", "decode2q") or by_pair or case.spec.prefetch == "seqmoe":
        return False  # an engine's own schedule is not the nominal one
    lacking = case.spec.prefetch in ("unpert1", "unpert0", "route") and not case.trace.candidates
    full = [z is not None and len(z) == case.trace.experts for z in case.trace.router_scores.values()]
    lacking |= case.spec.prefetch == "finemoe" and not (full and all(full))
    if lacking or (options.start == "recorded" and not case.trace.residents):
        return False
    if options.start == "recorded":  # the twin's own snapshots take the place of the drawn ones
        options = replace(options, start="cold")
    try:
        done = replay_slow(case.trace, case.spec, options)
    except Exception as problem:
        assert type(problem).__name__ == "ArenaTooSmall"
        return False
    trace = case.trace
    policy = policy_of(Case(trace, case.spec, options, case.clock))
    meta = drawn_meta(trace) | {"policy": policy, "io": None}
    trace.residents = done.residents
    score = pa.list_(pa.float16())
    tables = _tables(trace, score, False)
    names = ("hits", "prefetch_hits", "misses", "issued")
    rows = [
        {"window": w, "layer": la, "late": 0, **{name: counts[name] for name in names}}
        for (w, la), counts in sorted(done.counters.items())
    ]
    if rows:
        tables["counters"] = pa.Table.from_pylist(rows)
    write_trace(path, meta, tables)
    return bool(rows)


def policy_of(case: Case) -> dict[str, Any]:
    """``policy`` of trace.json."""
    spec, options, classes = case.spec, case.options, set(case.trace.classes.values())
    given = {"k": spec.k, "protect": spec.p, "bonus": spec.b, "r1": spec.r1}
    prefetch = {**case.trace.prefetch, **{k: v for k, v in given.items() if v is not None}}
    prefetch |= spec.prefetch_options
    evict = ",".join(f"{k}={show_value(v)}" for k, v in spec.evict_options.items())
    policy: dict[str, Any] = {
        "prefetch": {"name": spec.prefetch, "touch": int(spec.touch), **prefetch},
        "evict": spec.evict + (":" + evict if evict else ""),
    }
    for name in ("scope", "split", "order", "cell", "start", "prefill"):
        policy[name] = getattr(options, name)
    if options.prompt_hot:
        policy["prompt_hot"] = options.prompt_hot
    if options.budget is not None:
        policy["bytes"] = options.budget
    else:
        slots = options.slots or {}
        policy["slots"] = [slots.get(c, 1) for c in range(max(classes) + 1)]
    return policy


@pytest.mark.parametrize("block", range(4))
def test_what_the_twin_recorded_is_reproduced(tmp_path: Path, block: int) -> None:
    """Read-ahead, limbo, prefill streams, scopes, budgets, cells: any recorded policy."""
    done = 0
    for seed in range(block * 60, block * 60 + 60):
        if recorded_case(seed, tmp_path / str(seed)):
            found = check(tmp_path / str(seed))
            assert found.holds, (seed, found.policy, found.semantics, found.first)
            done += 1
    assert done > 3


# --- recorded traces -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "events"), [("e64-moce", 49_152), ("e256-moce", 16_384), ("e64-plain", 65_536)]
)
def test_recorded_traces_are_reproduced(shared: Path, name: str, events: int) -> None:
    found = check(shared / "traces" / "recorded" / name)
    assert (found.events, found.equal, found.first) == (events, events, None)
    assert found.compared == ("counters", "residents")


def test_the_sample_is_reproduced(root: Path) -> None:
    found = check(root / "traces" / "e256-moce")
    assert (found.events, found.equal) == (4096, 4096)
    totals = {each.name: each.replayed for each in found.totals}
    assert (totals["hits"], totals["misses"]) == (22_507, 10_261)


def test_a_trace_without_a_recorded_policy(shared: Path, cli: Cli) -> None:
    code, _, err = cli("fidelity", shared / "traces" / "recorded" / "e64-spec")
    assert code == 2 and "nothing to compare with" in err


def test_the_toy(shared: Path, tmp_path: Path) -> None:
    """30 accesses, 12 hits, 18 misses with LRU at two slots a layer, event by event."""
    source = shared / "traces" / "external" / "toy" / "events.csv"
    if not source.is_file():
        pytest.skip("the toy is not in the shared folder")
    events = list(csv.DictReader(source.read_text().splitlines()))
    key = [(int(each["scheduler_step"]), int(each["layer"])) for each in events]
    windows = sorted({window for window, _ in key})
    layers = 1 + max(layer for _, layer in key)
    picks = [[int(e) for e in each["requested_experts"].split()] for each in events]
    zero = [0] * len(events)
    columns = {"window": [w for w, _ in key], "layer": [la for _, la in key]}
    counts = {name: [int(each[name]) for each in events] for name in ("hits", "misses")}
    tables = {
        "windows": pa.table(
            {"window": windows, "session": [0] * len(windows), "phase": ["decode"] * len(windows),
             "rows": [1] * len(windows)}
        ),
        "selections": pa.table(columns | {"row": zero, "experts": picks}),
        "counters": pa.table(columns | counts | {"prefetch_hits": zero, "late": zero}),
    }  # fmt: skip
    model = {"name": "toy", "layers": layers, "experts": 4, "top_k": 2}
    policy = {"prefetch": {"name": "none"}, "evict": "lru", "slots": [2 * layers], "scope": "layer"}
    write_trace(tmp_path / "toy", {"model": model, "expert_bytes": 1, "policy": policy}, tables)
    found = check(tmp_path / "toy")
    assert found.holds and found.events == 15
    totals = {each.name: each.replayed for each in found.totals}
    assert (totals["hits"], totals["misses"]) == (12, 18)
