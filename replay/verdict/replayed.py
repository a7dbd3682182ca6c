"""The verdict over replays: a baseline and a candidate on the same traces, session by session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.arena.bound import resolve as resolve_bound
from replay.clock.timing import ClockParams, load_clock
from replay.comparison.candidate import Builder, Candidate, refusal
from replay.comparison.parting import REROUTED, biased
from replay.comparison.play import Progress, play
from replay.comparison.provenance import learned_notes, price_notes
from replay.comparison.trust import unsized
from replay.declare.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.errors import InputError
from replay.spec.grammar import PolicySpec, parse_all
from replay.spec.resolve import same_by_construction
from replay.trace import Trace
from replay.verdict.ladder import Step, changed, ladder
from replay.verdict.paired import figures_of
from replay.verdict.pool import pooled
from replay.verdict.rule import decide
from replay.verdict.session import FIGURES, Sessions, gather, join
from replay.verdict.whole import Rung, Verdict, settle


def verdict_replayed(
    traces: Sequence[Trace],
    baseline: str,
    candidate: str,
    *,
    slots: str | None = None,
    bytes: str | None = None,
    budget: Path | None = None,
    semantics: Semantics | None = None,
    routes: Routes | None = None,
    clock: ClockParams | None = None,
    mixed: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Replay two policies on traces and compare them session by session.

    Parameters
    ----------
    traces : sequence of Trace
        Each is replayed from its own start; their sessions are pooled.
    baseline, candidate : str
        Specs. Where they differ in more than one part, the ladder between them is replayed too.
    slots, bytes : str, optional
        The bound; each trace's own where neither is given.
    budget : Path, optional
        A file of slots by layer instead; scope ``layer`` only.
    semantics : Semantics, optional
    routes : Routes, optional
        By default rerouted where a trace was recorded with a bonus, holds router scores, and both specs allow
        it; recorded otherwise.
    clock : ClockParams, optional
        By default each trace's own.
    mixed : bool
        Whether sessions of different models may be pooled.
    seed : int
        Of the intervals.
    threads : int, optional
    progress : callable, optional
        Called with the number of windows done, of all traces.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        A spec cannot run on a trace, a trace is given twice, or the traces are of different models.
    """
    semantics = semantics or Semantics()
    mixture = pooled(traces, mixed)
    if budget is not None and semantics.scope != "layer":
        raise InputError("--budget gives every layer its slots; add --scope layer")
    base, other = _one(baseline, "--baseline"), _one(candidate, "--candidate")
    steps = ladder(base, other)
    specs = [base, *(step.spec for step in steps)] if steps else [base, other]
    held = [resolve_bound(slots, bytes, trace.meta.policy, trace.classes, budget) for trace in traces]
    chosen = routes or _default_routes(traces, specs, held)
    notes: list[str] = []
    pairs: list[list[Sessions]] = []
    bounds, clocks, done = [], [], 0
    for trace, bound in zip(traces, held, strict=True):
        params = clock or load_clock(None, trace.meta.io)
        report = None if progress is None else (lambda n, before=done: progress(before + n))
        found = _played(trace, specs, chosen, bound, semantics, params, threads, report)
        pairs.append(_pairs(trace, found, semantics.warm))
        notes += _notes(trace, found, chosen)
        bounds.append({"slots": bound.slots, "bytes": bound.bytes, "origin": bound.origin})
        clocks.append(params.as_dict())
        done += len(trace.windows)
    sessions = [join(parts) for parts in zip(*pairs, strict=True)]
    names = base.text, other.text
    found_verdict = settle("replayed", [str(t.path) for t in traces], names, sessions[0], seed)
    found_verdict.notes = list(
        dict.fromkeys([*_more_than_one(base, other), *mixture, *unsized(traces), *notes])
    )
    found_verdict.ladder = [_rung(step, part, seed) for step, part in zip(steps, sessions[1:], strict=False)]
    found_verdict.info = {
        "sized": all(trace.sized for trace in traces),
        "routes": chosen.text,
        "bounds": bounds,
        "semantics": semantics.describe(),
        "clocks": clocks,
        "seed": seed,
    }
    return found_verdict


def _one(text: str, option: str) -> PolicySpec:
    """The one spec that an option names."""
    specs = parse_all([text])
    if len(specs) != 1:
        raise InputError(f"{option} {text}: {len(specs)} policies; name one, as @FILE:NAME")
    return specs[0]


def _default_routes(traces: Sequence[Trace], specs: Sequence[PolicySpec], held: Sequence[Bound]) -> Routes:
    """Rerouted where a bonus was recorded and every spec can be rerouted on every trace."""
    if not any(biased(trace) for trace in traces) and all(spec.router is None for spec in specs):
        return RECORDED_ROUTES
    for trace, bound in zip(traces, held, strict=True):
        if any(refusal(spec, REROUTED, trace, bound) is not None for spec in specs):
            return RECORDED_ROUTES
    return REROUTED


def _played(
    trace: Trace,
    specs: Sequence[PolicySpec],
    routes: Routes,
    bound: Bound,
    semantics: Semantics,
    clock: ClockParams,
    threads: int | None,
    progress: Progress | None,
) -> list[Candidate]:
    """Every spec over one trace, in one pass."""
    if semantics.warm >= len(trace.windows):
        raise InputError(
            f"--start warm:{semantics.warm}: {trace.path} has {len(trace.windows)} windows; give fewer"
        )
    builder = Builder(trace, bound, semantics, clock)
    found = []
    for spec in specs:
        reason = refusal(spec, routes, trace, bound)
        if reason is not None:
            raise InputError(f"policy {spec.text}: {reason}")
        found.append(builder.candidate(spec, routes, ()))
    play(trace, list({id(c.entry): c.entry for c in found}.values()), threads=threads, progress=progress)
    for each in found:
        if each.entry.lane.failure is not None:
            raise InputError(f"policy {each.text}: {trace.path}: {each.entry.lane.failure}")
    return found


def _pairs(trace: Trace, found: Sequence[Candidate], warm: int) -> list[Sessions]:
    """Baseline against the last, then each against the one before."""
    windows = trace.windows
    counted = ~windows.prefill & (np.arange(len(windows)) >= warm)
    columns = [_columns(each, len(windows)) for each in found]
    order = [(0, len(found) - 1), *((i - 1, i) for i in range(1, len(found)))]
    return [
        gather(windows, counted, [found[i].tokens for i in pair], [columns[i] for i in pair])
        for pair in order
    ]


def _columns(candidate: Candidate, windows: int) -> dict[str, NDArray[np.float64]]:
    """A candidate's figures of every window of the trace; 0 where a window is not counted."""
    sums = candidate.tally.by_window()
    found = {}
    for name, (parts, divisor) in FIGURES.items():
        values = np.zeros(windows)
        values[sums["window"]] = sum(sums[part] for part in parts) / divisor
        found[name] = values
    return found


def _rung(step: Step, sessions: Sessions, seed: int) -> Rung:
    figures = figures_of(sessions, seed)
    outcome, reasons = decide(figures, len(sessions))
    return Rung(step.change, step.spec.text, outcome, reasons, figures)


def _more_than_one(baseline: PolicySpec, candidate: PolicySpec) -> list[str]:
    kinds = changed(baseline, candidate)
    if len(kinds) < 2:
        return []
    return [f"the specs differ in {len(kinds)} parts ({', '.join(kinds)}): the ladder changes one at a time"]


def _notes(trace: Trace, found: Sequence[Candidate], routes: Routes) -> list[str]:
    """What to know of one trace's replay."""
    notes = []
    if same_by_construction([found[0].policy, found[-1].policy], routes.kind, trace.meta.top_k):
        notes.append("the two policies are the same by construction")
    if routes.kind == "recorded" and biased(trace):
        notes.append(
            f"{trace.path}: recorded with a resident bonus and replayed with recorded routes: only a screen of a screen"
        )
    if routes.kind == "rerouted":
        notes.append("routes are rerouted: first order, hidden states stay as recorded")
    if any(each.policy.spec.retention for each in found):
        notes.append("draft retention is exact within a round and a screen across rounds")
    for each in found:
        notes += learned_notes(trace, each.policy.spec.text, [each.policy.spec])
    return notes + price_notes([each.policy for each in found])
