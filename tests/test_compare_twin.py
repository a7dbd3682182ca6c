"""``compare`` end to end against the slow twins: a trace on disk, the clock, the tables."""

import os
from dataclasses import replace

import numpy as np
import pytest
from slow.arena import ArenaTooSmall
from slow.clock import COUNTS as TIMES
from slow.clock import clock_slow
from slow.evict.static import runs_of
from slow.make import Case, draw_case, write
from slow.result import COUNTERS
from slow.twin import replay_slow
from test_engine_twin import spec_text

from replay.clock.timing import PARAMETERS, load_clock
from replay.comparison.comparison import compare
from replay.declare.semantics import Semantics, parse_prefill, parse_routes, parse_start
from replay.errors import InputError
from replay.trace import open_trace

CASES = int(os.environ.get("REPLAY_COMPARE_CASES", "120"))


def clock_file(case: Case, path) -> None:
    """Write a case's clock as a user would."""
    given = {name: getattr(case.clock, name) for name in PARAMETERS if getattr(case.clock, name) is not None}
    path.write_text("".join(f"{name} = {value}\n" for name, value in given.items()))


def run_case(case: Case, path):
    """Run ``compare`` on a case; None where the arena is too small."""
    options = case.options
    write(case.trace, path / "trace", float16=case.trace.layers % 2 == 0)
    clock_file(case, path / "clock.toml")
    trace = open_trace(path / "trace")
    start, warm = parse_start(options.start)
    semantics = Semantics(
        options.scope, options.split, options.order, options.cell, start, warm, parse_prefill(options.prefill),
        options.prompt_hot or None,
    )  # fmt: skip
    classes = range(max(case.trace.classes.values()) + 1)  # one that no expert has, too
    slots = None if options.slots is None else ",".join(str(options.slots.get(c, 1)) for c in classes)
    budget = None if options.budget is None else str(options.budget)
    return compare(
        trace, [spec_text(case)], slots=slots, bytes=budget, semantics=semantics,
        routes=[parse_routes(options.routes)], grid=(), clock=load_clock(path / "clock.toml", trace.meta.io), threads=2,
    )  # fmt: skip


def expected(case: Case):
    """The twins' counters and times by (window, layer), and totals by window; None where too small."""
    try:
        slow = replay_slow(case.trace, case.spec, case.options, case.clock)
    except ArenaTooSmall:
        return None
    times = clock_slow(case.trace, slow, case.clock, case.options.split, case.options.warm)
    return slow, times


def same(value, slow: float) -> bool:
    """Equal to one part in a million."""
    return abs(value - slow) <= 1e-6 * abs(slow)


def check_row(row, cells, where) -> None:
    """A row of a table equals the sum of its cells."""
    for name in COUNTERS:
        assert row[name] == sum(c[name] for c in cells), (where, name)
    for name in TIMES:
        total = sum(c[name] for c in cells)
        if name.endswith("_ns"):
            assert same(row[name.replace("_ns", "_us")], total / 1000), (where, name)
        else:
            assert row[name] == total, (where, name)


def sessions_exist(case: Case) -> bool:
    """Whether the training sessions of ``static`` are in the trace."""
    if case.spec.evict != "static":
        return True
    there = {window.session for window in case.trace.windows}
    return all(there & run for run in runs_of(str(case.spec.evict_options["train"])))


def routes_served(case: Case) -> bool:
    """Whether the trace has the router scores that routes and finemoe need; it and cacheprior read full rows."""
    full = case.options.kind == "cacheprior" or case.spec.prefetch == "finemoe"
    if case.options.kind != "rerouted" and not full:
        return True
    scored = [z for z in case.trace.router_scores.values() if z is not None]
    return bool(scored) and (not full or all(len(z) == case.trace.experts for z in scored))


def usable(seed: int) -> Case | None:
    """A case that the command line can express and a trace can serve, or None."""
    case = draw_case(seed)
    slots = case.options.slots
    if slots is not None and any(isinstance(k, tuple) for k in slots):
        return None
    if isinstance(case.options.budget, dict) or (
        case.options.start == "recorded" and not case.trace.residents
    ):
        return None
    scored = any(scores is not None for scores in case.trace.router_scores.values())
    if not sessions_exist(case) or (case.options.routes != "recorded" and not scored):
        return None
    if case.trace.has_candidates and not case.trace.candidates:
        return None
    if not routes_served(case):
        return None
    if case.spec.prefetch in ("unpert1", "unpert0", "route", "seqmoe") and not case.trace.has_candidates:
        return None
    return replace(case, options=replace(case.options, rows_used={}))


def compare_case(seed: int, path) -> str:
    """Compare one case; returns what it exercised."""
    case = usable(seed)
    if case is None:
        return "skipped"
    found = expected(case)
    if found is None:
        with pytest.raises(InputError, match="cannot hold one event"):
            run_case(case, path)
        return "too small"
    slow, times = found
    run = run_case(case, path)
    cells = {key: {**slow.counters[key], **times.counts[key]} for key in slow.counters}
    windows = run.windows.to_dicts()
    assert [row["window"] for row in windows] == sorted({w for w, _ in cells})
    for row in windows:
        w = row["window"]
        check_row(row, [cells[w, la] for la in range(case.trace.layers)], (seed, w))
        assert (row["peak_speculative"], row["peak_limbo"]) == slow.peaks[w]
        assert same(row["total_us"], times.total_ns[w] / 1000), (seed, w)
    layers = run.layers.to_dicts()
    prefill = [w.prefill for w in case.trace.windows]
    phases = {("prefill" if prefill[w] else "decode") for w, _ in cells}
    assert {row["phase"] for row in layers} == phases
    for row in layers:
        chosen = [
            c
            for (w, la), c in cells.items()
            if la == row["layer"] and prefill[w] == (row["phase"] == "prefill")
        ]
        check_row(row, chosen, (seed, row["phase"], row["layer"]))
    check_routes(case, slow, run)
    check_gates(case, slow, run)
    return "equal"


def check_gates(case: Case, slow, run) -> None:
    """What gates were asked, admitted and rightly so, by layer: decode windows that count."""
    if not case.spec.gates and case.spec.prefetch != "seqmoe":
        assert run.gates is None
        return
    counted = range(case.options.warm, len(case.trace.windows))
    told = {row["layer"]: row for row in run.gates.iter_rows(named=True)}
    assert sorted(told) == list(range(case.trace.layers))
    for layer, row in told.items():
        found = [slow.outcomes[w, layer] for w in counted if not case.trace.windows[w].prefill]
        total = [sum(each) for each in zip(*found, strict=True)] if found else [0] * 4
        names = ("asked", "admitted", "asked_wanted", "admitted_wanted")
        assert [row[name] for name in names] == total, layer


def check_routes(case: Case, slow, run) -> None:
    """What new routes change about the picks, by layer and by window, and the mass that they give up."""
    if case.options.kind == "recorded":
        assert run.routes is None and run.windows["picks_made"].null_count() == len(run.windows)
        return
    warm, phase = case.options.warm, ["prefill" if w.prefill else "decode" for w in case.trace.windows]
    counted = {key: pair for key, pair in slow.agreement.items() if key[0] >= warm}
    for row in run.windows.iter_rows(named=True):
        pairs = [pair for (w, _), pair in counted.items() if w == row["window"]]
        assert [row["picks_made"], row["picks_kept"]] == [sum(each) for each in zip(*pairs, strict=True)]
    for row in run.routes.iter_rows(named=True):
        here = row["phase"], row["layer"]
        pairs = [pair for (w, la), pair in counted.items() if (phase[w], la) == here]
        assert [row["picks_made"], row["picks_kept"]] == [sum(each) for each in zip(*pairs, strict=True)]
        mass = sorted(x for (w, _, la), x in slow.given_up.items() if w >= warm and (phase[w], la) == here)
        assert row["rows"] == (None if case.options.kind == "predicted" else len(mass))
        if mass:
            assert abs(row["given_up_mean_ratio"] - sum(mass) / len(mass)) < 1e-6
            assert abs(row["given_up_p99_ratio"] - mass[-(-99 * len(mass) // 100) - 1]) < 1e-4
        else:
            assert row["given_up_mean_ratio"] is row["given_up_p99_ratio"] is None


@pytest.mark.parametrize("block", range(6))
def test_tables_equal_the_twins(block, tmp_path):
    """Every column of layers and windows equals the twins', times to one part in a million."""
    seen = []
    for seed in range(block * CASES // 6, (block + 1) * CASES // 6):
        (tmp_path / str(seed)).mkdir()
        seen.append(compare_case(seed, tmp_path / str(seed)))
    assert seen.count("equal") > len(seen) // 3


def test_residency_is_the_same_under_any_clock(tmp_path):
    """Residency counters do not depend on the clock."""
    case = usable(7)
    assert case is not None
    runs = []
    for i, workers in enumerate((1, 5)):
        (tmp_path / str(i)).mkdir()
        clock = replace(case.clock, workers=workers, reserved=0, device_gbps=0.05 if i else 6.0)
        runs.append(
            run_case(replace(case, clock=clock), tmp_path / str(i)).windows.select(*COUNTERS).to_numpy()
        )
    assert np.array_equal(*runs)
