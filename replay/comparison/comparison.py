"""Compare policies on a trace: lanes for every policy and capacity, one pass, tables out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay import retain
from replay.arena.bound import Bound
from replay.arena.bound import resolve as resolve_bound
from replay.clock.timing import ClockParams, recorded_times
from replay.comparison.candidate import Builder, Candidate, Row, choose
from replay.comparison.offline import Played, beaten, holds
from replay.comparison.parting import Parting
from replay.comparison.play import Progress, play
from replay.comparison.provenance import learned_notes, price_notes
from replay.comparison.sensitivity import sensitivity_frame
from replay.comparison.summary import summarise
from replay.comparison.trust import holds_none_or_all, nothing_counted, warnings_for
from replay.comparison.unread import unread
from replay.declare.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.errors import InputError
from replay.evict.own import files_of
from replay.fidelity import fidelity_of
from replay.ledger.agreement import routes_frame
from replay.ledger.ledger import layers_frame, reads_frame
from replay.ledger.outcome import gates_frame
from replay.ledger.recording import recorded_tally
from replay.ledger.window_table import WindowRows, WindowTable
from replay.origin import command_line, trace_info, versions
from replay.run import Run
from replay.spec.grammar import PolicySpec, declaration
from replay.spec.resolve import same_by_construction
from replay.survey.curve import DEFAULT_GRID, curves_frame
from replay.trace import Trace
from replay.trace.shuffle import shuffled


def compare(
    trace: Trace,
    policies: Sequence[str] = (),
    *,
    slots: str | None = None,
    bytes: str | None = None,
    budget: Path | None = None,
    semantics: Semantics | None = None,
    routes: Sequence[Routes] = (RECORDED_ROUTES,),
    grid: Sequence[float] = DEFAULT_GRID,
    clock: ClockParams | None = None,
    clock_grid: Sequence[ClockParams] = (),
    baseline: str | None = None,
    skip: bool = False,
    reads: bool = False,
    part: bool = True,
    check: bool = False,
    control: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Replay a trace through policies and put their figures side by side.

    Parameters
    ----------
    trace : Trace
        An open trace.
    policies : sequence of str
        Specs, see :mod:`replay.spec.grammar`; ``DEFAULT_SPECS`` where empty.
    slots, bytes : str, optional
        The bound as the command line takes it; what the trace recorded, else 17.6% of the experts.
    budget : Path, optional
        A file of slots by layer instead (:func:`replay.arena.bound.read_budget`); scope ``layer`` only.
    semantics : Semantics, optional
        How events are played; the defaults of semantics 4.
    routes : sequence of Routes
        Whose selections are followed.
    grid : sequence of float
        Capacities of ``curves``, as factors of the bound; empty: no curves.
    clock : ClockParams, optional
        Disk and compute; without one the columns of time are null.
    clock_grid : sequence of ClockParams
        Further clocks over the same replays: what the table ``sensitivity`` holds (needs a clock).
    baseline : str, optional
        Spec that changes are against; the first one.
    skip : bool
        Leave out policies that cannot run.
    reads : bool
        Keep every read (needs a clock).
    part : bool
        Measure how far recorded and rerouted routes part where it is cheap and only recorded ones are asked
        for (:mod:`replay.comparison.parting`).
    check : bool
        Say whether a replay of the recorded policy gives what was recorded (:mod:`replay.fidelity.told`).
    control : int, optional
        Seed of the control ``shuffled`` (:mod:`replay.trace.shuffle`): the windows in random order within each
        session. What the engine itself did then stands beside nothing.
    threads : int, optional
    progress : callable, optional

    Returns
    -------
    Run

    Raises
    ------
    InputError
        A policy cannot run, an option cannot be read, or the trace is damaged.
    IdentityError
        A result breaks a conservation identity.
    """
    semantics = semantics or Semantics()
    if control is not None:
        trace, check = shuffled(trace, control), False
    if semantics.warm >= len(trace.windows):
        raise InputError(
            f"--start warm:{semantics.warm}: the trace has {len(trace.windows)} windows, so none would be counted; "
            "give fewer"
        )
    bound = resolve_bound(slots, bytes, trace.meta.policy, trace.classes, budget)
    if bound.by_layer is not None and semantics.scope != "layer":
        raise InputError("--budget gives every layer its slots; add --scope layer")
    chosen, left = choose(trace, policies, routes, bound, skip)
    base = _baseline([spec for spec, _ in chosen], baseline)
    builder = Builder(trace, bound, semantics, clock, reads, clock_grid if clock else ())
    found = [builder.candidate(spec, kind, grid) for spec, kind in chosen]
    parting = Parting(builder, found, routes, part)
    entries = {id(e): e for c in found for e in (c.entry, *(p.entry for p in c.points))}
    entries |= {id(e): e for e in parting.entries.values()}
    coverage = play(trace, list(entries.values()), threads=threads, progress=progress)
    found = _finished(found, bound, skip, left)
    own = [] if control is not None else _recording(trace, found[0].tokens, semantics.warm, clock)
    rows: list[Row] = [*found, *own]
    layers = pl.concat([layers_frame(r.text, r.routes, r.tally) for r in rows])
    windows = WindowTable([WindowRows(r.text, r.routes, r.tally, trace.windows, r.tokens) for r in rows])
    curves = None
    if grid:
        curves = pl.concat([curves_frame(c.text, c.routes, c.points, trace.sizes) for c in found])
    every = None
    if reads:
        every = pl.concat([reads_frame(c.text, c.routes, c.entry.reads, semantics.warm) for c in found])
    admitting = [c for c in found if c.outcomes is not None]
    gated = None
    if admitting:
        gated = pl.concat(
            [gates_frame(c.text, c.routes, c.outcomes, c.tally) for c in admitting if c.outcomes]
        )
    summary = summarise(rows, base.text, semantics.warm, trace.windows.prefill)
    away = [c for c in found if c.routes != "recorded"]
    kept = pl.concat([routes_frame(c.text, c.routes, c.tally, c.given_up) for c in away]) if away else None
    parted = parting.report(found)
    warnings = (
        [] if control is None else [f"a control: windows shuffled within each session (seed {control})"]
    )
    warnings += [*nothing_counted(summary), *holds_none_or_all(trace, bound)]
    warnings += warnings_for(trace, [c.policy for c in found], semantics, bound, routes, coverage, parted)
    for spec in {c.text: c.policy.spec for c in found}.values():
        warnings += learned_notes(trace, spec.text, [spec])
    warnings += price_notes([c.policy for c in found])
    if holds(semantics, bound, trace.sizes, bool(trace.windows.prefill.any())):
        warnings += beaten(each for c in found for each in _played(c, bound))
    info = {
        "command": command_line(),
        "versions": versions(),
        "trace": trace_info(trace),
        "bound": {
            "slots": bound.slots,
            "bytes": bound.bytes,
            "origin": bound.origin,
            "by_layer": bound.by_layer,
        },
        "semantics": semantics.describe(),
        "routes": [each.text for each in routes],
        "control": None if control is None else {"name": "shuffled", "seed": control},
        "grid": list(grid),
        "clock": clock.as_dict() if clock else None,
        "clock_from_timing": recorded_times(clock, trace.has("timing")),
        "baseline": base.text,
        "policies": [{"policy": c.text, "routes": c.routes, "resolved": c.policy.describe()} for c in found],
        "sources": {each.name: declaration(each.name).source for c in found for each in c.policy.spec.parts},
        "policy_files": files_of(c.policy.spec.evict.name for c in found),
        "same_by_construction": _same(found, chosen[0][1], trace.meta.top_k),
        "denominators": {"tokens": {c.text: int(c.tokens[semantics.warm :].sum()) for c in found}},
        "parting": parted,
        "left_out": left,
        "notes": [f"{c.text}: {note}" for c in found for note in (*c.entry.lane.notes(), *unread(c, trace))],
        "warnings": warnings,
    }
    if check:
        info["fidelity"] = fidelity_of(trace)
    swept = None
    if trace.has("drafts"):
        info["drafts"], swept = _drafts(trace, [c.policy.spec for c in found])
    moved = sensitivity_frame(found, semantics.warm) if builder.clocks else None
    return Run(layers, windows, curves, every, summary, info, kept, moved, swept, gated)


def _same(found: Sequence[Candidate], routes: Routes, top_k: int) -> list[list[str]]:
    """Policies that must give the same counts under the first kind of routes."""
    policies = [c.policy for c in found if c.routes == routes.text]
    return [list(group) for group in same_by_construction(policies, routes.kind, top_k)]


def _recording(trace: Trace, tokens: NDArray[np.int64], warm: int, clock: ClockParams | None) -> list[Row]:
    """The engine's own reads as a row beside the replays, where the trace has them and time is asked for."""
    tally = recorded_tally(trace, warm) if clock is not None else None
    return [] if tally is None else [Row("recorded", "recorded", tokens, tally)]


def _played(one: Candidate, bound: Bound) -> list[Played]:
    """What a candidate missed at its bounds: the run's, then the curve's."""
    lanes = [(bound, one.entry), *((point.bound, point.entry) for point in one.points)]
    return [Played(entry.lane, at, entry.tally.misses_in_all) for at, entry in lanes]


def _finished(found: Sequence[Candidate], bound: Bound, skip: bool, left: list[str]) -> list[Candidate]:
    """Those whose arena held every event; the others stop the run, or are left out with ``skip``."""
    done = []
    for one in found:
        failure = one.entry.lane.failure
        if failure is None:
            done.append(one)
        elif skip:
            left.append(f"left out {one.text}: {failure}")
        else:
            raise InputError(f"policy {one.text}: {failure} (the arena: {bound.describe()})")
    if not done:
        raise InputError(f"no policy is left: {left[-1]}")
    return done


def _drafts(trace: Trace, specs: Sequence[PolicySpec]) -> tuple[dict[str, Any], pl.DataFrame | None]:
    """What the specs' draft retention and the usual policies are worth on the trace's rounds; the sweep's table."""
    named = [retain.from_parts(spec.retention) for spec in specs if spec.retention]
    policies, data = [*named, *retain.default_policies()], retain.read_recorded(trace)
    found = retain.survey(trace, policies, skip=True, data=data).as_dict()
    if not len(data.rounds.window):
        return found, None
    swept = retain.sweep(trace, data)
    found["economy"] = retain.economy(trace, data, policies).as_dict()
    for step in found["economy"]["calibration"]:
        del step["curve"]  # long; `replay drafts --json` has it
    found["choices"] = swept.as_dict()["choices"]
    return found, swept.frame()


def _baseline(specs: Sequence[PolicySpec], baseline: str | None) -> PolicySpec:
    """The spec that changes are against."""
    if baseline is None:
        return specs[0]
    for spec in specs:
        if spec.text == baseline.strip():
            return spec
    raise InputError(
        f"--baseline {baseline}: not among the policies; give one of: {', '.join(s.text for s in specs)}"
    )
