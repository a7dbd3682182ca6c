"""Compare policies on a trace: lanes for every policy and capacity, one pass, tables out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay import retain
from replay.bound import Bound
from replay.bound import resolve as resolve_bound
from replay.clock import Clock
from replay.curve import DEFAULT_GRID, Point, curves_frame
from replay.errors import InputError
from replay.lane import Lane, Shape
from replay.ledger import Tally, layers_frame, reads_frame, windows_frame
from replay.play import Entry, Progress, play
from replay.policy import lacking
from replay.recording import recorded_tally
from replay.resolve import Resolved, identity, resolve, same_by_construction
from replay.run import Run, command_line, versions
from replay.semantics import Semantics
from replay.spec import PolicySpec, declaration, parse_all
from replay.summary import summarise
from replay.timing import ClockParams
from replay.trace import Trace
from replay.trust import warnings_for

DEFAULT_SPECS = (
    "none+lru",
    "unpert1+lru",
    "unpert1+decode2q",
    "unpert0+lru",
    "unpert0+decode2q",
    "route:p=1+lru",
    "route:p=1+decode2q",
)
"""What is compared where no policy is named."""


@dataclass
class Row:
    """One row of a comparison: a policy under one kind of routes, or the recording itself.

    Attributes
    ----------
    text : str
        The spec as given, or ``recorded``.
    routes : str
    tokens : int64[windows]
        Committed tokens of each window: what "per token" divides by.
    tally : Tally
    """

    text: str
    routes: str
    tokens: NDArray[np.int64]
    tally: Tally


@dataclass
class Candidate(Row):
    """A policy with its lanes.

    Attributes
    ----------
    policy : Resolved
    entry : Entry
        The lane at the run's bound.
    points : list of Point
        The same policy at other capacities.
    """

    policy: Resolved
    entry: Entry
    points: list[Point] = field(default_factory=list)


def refusal(spec: PolicySpec, trace: Trace, bound: Bound) -> str | None:
    """Why a policy cannot run on a trace, or None where it can."""
    candidates = trace.tables.get("candidates")
    dense = candidates is None or "experts" not in candidates.columns
    for part in spec.parts:
        reason = lacking(declaration(part.name), trace.tables, dense)
        if reason is not None:
            return (
                f"{part.name} {reason}, which {trace.path} lacks; `replay policies TRACE` lists what it has"
            )
    return None


def choose(
    trace: Trace, texts: Sequence[str], bound: Bound, skip: bool
) -> tuple[list[PolicySpec], list[str]]:
    """The specs to run, and what was left out and why.

    Raises
    ------
    InputError
        A named policy cannot run and ``skip`` is not set, or none is left.
    """
    chosen, left = [], []
    for spec in parse_all(texts or DEFAULT_SPECS):
        reason = refusal(spec, trace, bound)
        if reason is None:
            chosen.append(spec)
        elif skip or not texts:
            left.append(f"left out {spec.text}: {reason}")
        else:
            raise InputError(f"policy {spec.text}: {reason}; or leave it out with --skip")
    if not chosen:
        raise InputError(f"no policy is left to run: {left[0]}")
    return chosen, left


def _retention(
    trace: Trace, spec: PolicySpec, drafts: Any
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows that count and committed tokens of every window, under a spec's draft retention."""
    windows = trace.windows
    if drafts is None:
        return None, (~windows.prefill).astype(np.int64)
    policy = retain.from_parts(spec.retention)
    tokens = retain.committed(windows.rows, windows.prefill, drafts, policy)
    if not spec.retention:
        return None, tokens
    retain.require_recorded(
        policy,
        retain.recorded_retention(trace.meta.policy, trace.meta.engine),
        int(windows.rows.max(initial=1)) - 1,
    )
    return retain.rows_used(windows.rows, drafts, policy), tokens


def candidates(
    trace: Trace,
    specs: Sequence[PolicySpec],
    routes: Sequence[str],
    bound: Bound,
    semantics: Semantics,
    grid: Sequence[float],
    clock: ClockParams | None,
    keep_reads: bool = False,
) -> list[Candidate]:
    """Lanes of every policy at the bound and over the grid."""
    shape, by_layer = Shape.of(trace), semantics.scope == "layer"
    drafts = retain.read_drafts(trace) if trace.has("drafts") else None
    shared: dict[Hashable, Entry] = {}
    views: dict[bytes, NDArray[np.int64]] = {}
    found = []
    for kind in routes:
        for spec in specs:
            policy = resolve(spec, trace.meta)
            used, tokens = _retention(trace, spec, drafts)
            if used is not None:
                used = views.setdefault(used.tobytes(), used)

            def entry(
                at: Bound, main: bool, policy: Resolved = policy, used: Any = used, kind: str = kind
            ) -> Entry:
                key = (identity(policy, kind == "rerouted"), kind, id(used), at.slots, at.bytes, main)
                if key not in shared:
                    timed = main and clock is not None
                    lane = Lane(
                        shape, at.plan(trace.classes, by_layer), policy, semantics, kind, used, log=timed
                    )
                    tally = Tally(f"{policy.spec.text} ({kind})", shape.layers, semantics.warm, timed, main)
                    ticking = Clock(clock, trace.sizes, split=semantics.split) if timed and clock else None
                    shared[key] = Entry(lane, tally, ticking, keep_reads and main)
                return shared[key]

            at_bound = entry(bound, True)
            one = Candidate(spec.text, kind, tokens, at_bound.tally, policy, at_bound)
            for factor in grid:
                at = bound.scaled(factor)
                same = (at.slots, at.bytes) == (bound.slots, bound.bytes)
                one.points.append(Point(at, at_bound if same else entry(at, False)))
            found.append(one)
    return found


def compare(
    trace: Trace,
    policies: Sequence[str] = (),
    *,
    slots: str | None = None,
    bytes: str | None = None,
    semantics: Semantics | None = None,
    routes: Sequence[str] = ("recorded",),
    grid: Sequence[float] = DEFAULT_GRID,
    clock: ClockParams | None = None,
    baseline: str | None = None,
    skip: bool = False,
    reads: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Replay a trace through policies and put their figures side by side.

    Parameters
    ----------
    trace : Trace
        An open trace.
    policies : sequence of str
        Specs, see :mod:`replay.spec`; ``DEFAULT_SPECS`` where empty.
    slots, bytes : str, optional
        The bound as the command line takes it; what the trace recorded, else 17.6% of the experts.
    semantics : Semantics, optional
        How events are played; the defaults of semantics 4.
    routes : sequence of str
        ``recorded``, ``rerouted``.
    grid : sequence of float
        Capacities of ``curves``, as factors of the bound; empty: no curves.
    clock : ClockParams, optional
        Disk and compute; without one the columns of time are null.
    baseline : str, optional
        Spec that changes are against; the first one.
    skip : bool
        Leave out policies that cannot run.
    reads : bool
        Keep every read (needs a clock).
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
    bound = resolve_bound(slots, bytes, trace.meta.policy, trace.classes)
    specs, left = choose(trace, policies, bound, skip)
    base = _baseline(specs, baseline)
    found = candidates(trace, specs, routes, bound, semantics, grid, clock, reads)
    entries = {id(e): e for c in found for e in (c.entry, *(p.entry for p in c.points))}
    coverage = play(trace, list(entries.values()), threads=threads, progress=progress)
    for one in list(found):
        failure = one.entry.lane.failure
        if failure is None:
            continue
        if not skip:
            raise InputError(f"policy {one.text}: {failure}")
        found.remove(one)
        left.append(f"left out {one.text}: {failure}")
    if not found:
        raise InputError(f"no policy is left: {left[-1]}")
    rows: list[Row] = [*found, *_recording(trace, found[0].tokens, semantics.warm, clock)]
    layers = pl.concat([layers_frame(r.text, r.routes, r.tally) for r in rows])
    windows = pl.concat([windows_frame(r.text, r.routes, r.tally, trace.windows) for r in rows])
    curves = pl.concat([curves_frame(c.text, c.routes, c.points) for c in found]) if grid else None
    every = None
    if reads:
        every = pl.concat([reads_frame(c.text, c.routes, c.entry.reads, semantics.warm) for c in found])
    summary = summarise(rows, base.text, semantics.warm)
    info = {
        "command": command_line(),
        "versions": versions(),
        "trace": _trace_info(trace),
        "bound": {"slots": bound.slots, "bytes": bound.bytes, "origin": bound.origin},
        "semantics": semantics.describe(),
        "routes": list(routes),
        "grid": list(grid),
        "clock": clock.as_dict() if clock else None,
        "baseline": base.text,
        "policies": [{"policy": c.text, "routes": c.routes, "resolved": c.policy.describe()} for c in found],
        "same_by_construction": [
            list(group) for group in same_by_construction([c.policy for c in found if c.routes == routes[0]])
        ],
        "denominators": {"tokens": {c.text: int(c.tokens[semantics.warm :].sum()) for c in found}},
        "left_out": left,
        "notes": [f"{c.text}: {note}" for c in found for note in c.entry.lane.notes()],
        "warnings": warnings_for(trace, [c.policy for c in found], semantics, bound, routes, coverage),
    }
    return Run(layers, windows, curves, every, summary, info)


def _recording(trace: Trace, tokens: NDArray[np.int64], warm: int, clock: ClockParams | None) -> list[Row]:
    """The engine's own reads as a row beside the replays, where the trace has them and time is asked for."""
    tally = recorded_tally(trace, warm) if clock is not None else None
    return [] if tally is None else [Row("recorded", "recorded", tokens, tally)]


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


def _trace_info(trace: Trace) -> dict[str, Any]:
    """What identifies the trace: its name, shape, and the hashes of its tables."""
    meta, windows = trace.meta, trace.windows
    return {
        "name": trace.path.resolve().name,
        "model": meta.name,
        "layers": meta.layers,
        "experts": meta.experts,
        "top_k": meta.top_k,
        "windows": len(windows),
        "decode_windows": int((~windows.prefill).sum()),
        "sessions": len(np.unique(windows.session)),
        "sha256": {name: table.sha256 for name, table in trace.tables.items()},
    }
