"""The verdict over two recorded engine runs on the same windows: counters, waits, routes and output hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay import retain
from replay.errors import InputError
from replay.ledger.recording import recorded_tally
from replay.spec.resolve import recorded_text, unknown_recorded
from replay.trace import Trace
from replay.verdict.alike import Outputs, compare_outputs
from replay.verdict.session import FIGURES, gather
from replay.verdict.whole import Verdict, settle

COUNTED = {"misses": "misses", "late": "late", "wait_us": "wait_us"}


@dataclass
class _Side:
    """One run: its figures by window, the windows that have them, and committed tokens."""

    figures: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    covered: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def verdict_recorded(baseline: Trace, candidate: Trace, *, seed: int = 0) -> Verdict:
    """Compare two recordings of the same windows, session by session.

    Parameters
    ----------
    baseline, candidate : Trace
    seed : int
        Of the intervals.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        They are not recordings of the same windows, or record no counters, outcomes or reads.
    """
    traces = baseline, candidate
    _same_windows(*traces)
    outputs = compare_outputs(*traces)
    sides = [_side(trace) for trace in traces]
    names = [name for name in FIGURES if all(name in side.figures for side in sides)]
    if "misses" not in names:
        raise InputError(
            f"{baseline.path}, {candidate.path}: nothing to compare: both need the table counters or reads, or the "
            "column outcome of selections"
        )
    seen = [side.covered[name] for side in sides for name in names]
    counted = ~baseline.windows.prefill & np.logical_and.reduce(seen)
    if not counted.any():
        raise InputError(f"{baseline.path}, {candidate.path}: no decode window is counted on both sides")
    tokens = [_tokens(trace) for trace in traces]
    columns = [{name: side.figures[name] for name in names} for side in sides]
    sessions = gather(baseline.windows, counted, tokens, columns)
    labels = _label(baseline), _label(candidate)
    found = settle(
        "recorded", [str(t.path) for t in traces], labels, sessions, seed, _forbidden(traces, outputs)
    )
    found.notes = _notes(traces, outputs, names, int((~baseline.windows.prefill & ~counted).sum()))
    sized = all(trace.sized for trace in traces)
    found.info = {
        "sized": sized,
        "outputs": vars(outputs),
        "bonus": [_bonus(t) for t in traces],
        "seed": seed,
    }
    return found


def _label(trace: Trace) -> str:
    """A run's policy as far as its trace says it, and its name."""
    policy = trace.meta.policy or {}
    if unknown_recorded(trace.meta) is not None:
        text = f"{(policy.get('prefetch') or {}).get('name', 'none')}+{policy['evict']}"
    else:
        text = recorded_text(trace.meta) or "policy not recorded"
    return f"{trace.path.resolve().name} ({text})"


def _bonus(trace: Trace) -> float | None:
    """Largest resident bonus of a run; None where it is not known."""
    router = trace.meta.router
    if router is None or router.bonus is None:
        return None
    return max(router.bonus, router.r1_bonus or 0.0, 0.0)


def _same_windows(one: Trace, other: Trace) -> None:
    """Refuse runs on other windows or another model."""
    shapes = [(t.meta.layers, t.meta.experts, t.meta.top_k) for t in (one, other)]
    a, b = one.windows, other.windows
    if shapes[0] != shapes[1]:
        raise InputError(f"{other.path}: {shapes[1]} layers, experts, top_k; {one.path} has {shapes[0]}")
    if len(a) != len(b):
        raise InputError(f"{other.path}: {len(b)} windows; {one.path} has {len(a)}: not the same windows")
    for name in ("session", "rows", "prefill"):
        wrong = np.flatnonzero(getattr(a, name) != getattr(b, name))
        if len(wrong):
            at = int(wrong[0])
            raise InputError(
                f"{other.path}: window {at}: {name} {getattr(b, name)[at]}; {one.path} has {getattr(a, name)[at]}: not "
                "the same windows"
            )


def _side(trace: Trace) -> _Side:
    """A run's figures: from its counters, else its outcomes, and what its reads add."""
    side = _Side()
    if trace.has("counters"):
        _add_counters(trace, side)
    elif "outcome" in trace.tables["selections"].columns:
        _add_outcomes(trace, side)
    if trace.has("reads"):
        tally = recorded_tally(trace)
        assert tally is not None
        sums = tally.by_window()
        for name, (parts, divisor) in FIGURES.items():
            if name not in side.figures and tally.unknown.isdisjoint(parts):
                side.figures[name] = np.asarray(sum(sums[part] for part in parts) / divisor, np.float64)
                side.covered[name] = np.ones(len(trace.windows), bool)
    return side


def _add_counters(trace: Trace, side: _Side) -> None:
    """Sum the table ``counters`` by window."""
    count = len(trace.windows)
    sums = {name: np.zeros(count) for name in COUNTED}
    rows = {name: np.zeros(count, np.int64) for name in COUNTED}
    for chunk in trace.chunks({"counters"}):
        table = chunk.tables["counters"]
        for name, column in COUNTED.items():
            if column in table:
                values = table[column].astype(np.float64)
                told = ~np.isnan(values)
                np.add.at(sums[name], table["window"][told], values[told])
                np.add.at(rows[name], table["window"][told], 1)
    for name in COUNTED:
        covered = rows[name] == trace.meta.layers
        if covered.any():
            side.figures[name], side.covered[name] = sums[name], covered


def _add_outcomes(trace: Trace, side: _Side) -> None:
    """Count recorded misses by window; a repeat inside an event says nothing."""
    layers = trace.meta.layers
    misses, told = np.zeros(len(trace.windows)), np.zeros(len(trace.windows), bool)
    for chunk in trace.chunks({"selections"}, {"selections": ("outcome",)}):
        lists, outcome = chunk.selections, chunk.outcome
        if lists is None or outcome is None:
            continue
        row = np.repeat(np.arange(len(lists.offsets) - 1) // layers, np.diff(lists.offsets))
        window = chunk.w0 + np.searchsorted(chunk.row_start, row, side="right") - 1
        np.add.at(misses, window[outcome == 0], 1)
        told[window[outcome != 255]] = True
    if told.any():
        side.figures["misses"], side.covered["misses"] = misses, told


def _tokens(trace: Trace) -> NDArray[np.int64]:
    """Committed tokens of every window."""
    windows = trace.windows
    if not trace.has("drafts"):
        return (~windows.prefill).astype(np.int64)
    return retain.committed(windows.rows, windows.prefill, retain.read_drafts(trace), retain.from_parts(()))


def _forbidden(traces: tuple[Trace, Trace], outputs: Outputs) -> list[str]:
    """What differs though both runs had bonus 0."""
    if any(_bonus(trace) != 0 for trace in traces):
        return []
    found = []
    if outputs.routes:
        found.append(
            f"routes differ in {outputs.routes} of {outputs.rows} rows though both ran with bonus 0; the first is "
            "window {}, row {}, layer {}".format(*outputs.first or (0, 0, 0))
        )
    if outputs.hashes:
        found.append(
            f"output hashes differ in {outputs.hashes} of {outputs.windows} windows though both ran with bonus 0"
        )
    return found


def _notes(traces: tuple[Trace, Trace], outputs: Outputs, names: list[str], uncovered: int) -> list[str]:
    notes = []
    if any(_bonus(trace) is None for trace in traces):
        notes.append("the bonus of a run is not known: that routes or hashes differ rejects nothing")
    notes.append(
        f"routes differ in {outputs.routes} of {outputs.rows} rows"
        + (f", the order alone in {outputs.order}" if outputs.order else "")
        + (f"; output hashes in {outputs.hashes} of {outputs.windows} windows" if outputs.windows else "")
    )
    missing = [name for name in FIGURES if name not in names]
    if missing:
        notes.append(f"not recorded on both sides: {', '.join(missing)}")
    if uncovered:
        notes.append(f"{uncovered} decode windows are not counted on both sides and are left out")
    policies = [dict(_flat(trace.meta.policy or {})) for trace in traces]
    other = sorted(
        key for key in {*policies[0], *policies[1]} if policies[0].get(key) != policies[1].get(key)
    )
    if len(other) > 1:
        notes.append(
            f"the runs differ in {len(other)} settings ({', '.join(other)}): no one of them is tested alone"
        )
    return notes


def _flat(policy: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted name."""
    for key, value in policy.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{head}{key}.")
        else:
            yield f"{head}{key}", value
