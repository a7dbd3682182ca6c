"""What policies learn from before a run: how many events of the training sessions wanted each expert.

A file that only counts picks (MoE-Infinity npy, llama.cpp imatrix, colibri usage history) serves as well: its counts
are of picks, not events.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replay.errors import InputError
from replay.evict import Training
from replay.importers.counts import read_counts
from replay.lane.lane import Lane
from replay.prepare.union import wanted
from replay.trace import Trace, open_trace
from replay.trace.fields import FILE
from replay.trace.view import whole


def event_counts(trace: Trace, sessions: Sequence[tuple[int, int]] | None) -> NDArray[np.int64]:
    """Events that wanted each expert, as recorded, every row of them.

    Parameters
    ----------
    trace : Trace
    sessions : sequence of (int, int), or None
        Runs of sessions, the first and last of each, both included; None: all of them.

    Returns
    -------
    int64[L * E]

    Raises
    ------
    InputError
        The trace has none of the sessions of a run.
    """
    meta = trace.meta
    chosen = np.ones(len(trace.windows), bool)
    if sessions is not None:
        chosen[:] = False
        for first, last in sessions:
            run = (trace.windows.session >= first) & (trace.windows.session <= last)
            if not run.any():
                known = trace.windows.session
                raise InputError(
                    f"{trace.path}: no session from {first} to {last}; the trace has sessions {known.min()} to "
                    f"{known.max()}"
                )
            chosen |= run
    counts = np.zeros(meta.layers * meta.experts, np.int64)
    for chunk in trace.chunks({"selections"}):
        rows = np.where(chosen[chunk.w0 : chunk.w1], np.diff(chunk.row_start), 0)
        offsets, wants = wanted(chunk, rows, meta.layers, meta.experts)
        layer = np.repeat(np.arange(len(offsets) - 1) % meta.layers, np.diff(offsets))
        counts += np.bincount(layer * meta.experts + wants, minlength=len(counts))
    return counts


def teach(trace: Trace, lanes: Sequence[Lane]) -> None:
    """Let every lane whose policy learns do so, each source read once.

    Raises
    ------
    InputError
        A training trace or file of counts is of another shape, or lacks the sessions.
    """
    learned: dict[Training, NDArray[np.int64]] = {}
    for lane in lanes:
        evict = lane.policy.spec.evict
        source = lane.steps.training(lane.policy.values[evict.name])
        if source is None:
            continue
        if source not in learned:
            try:
                learned[source] = _counts(trace, source)
            except InputError as problem:
                raise InputError(f"policy {lane.policy.spec.text}: {problem}") from None
        lane.steps.learn(lane.memory, learned[source])


def _counts(trace: Trace, source: Training) -> NDArray[np.int64]:
    """Counts of a source: sessions of this trace, another trace, or a file that only counts."""
    meta = trace.meta
    path = None if source.trace is None else Path(source.trace)
    if path is not None and path.is_file() and path.name != FILE:
        return read_counts(path).matched(meta.layers, meta.experts, meta.layer_ids)
    other = whole(trace) if path is None else open_trace(path)
    if (other.meta.layers, other.meta.experts) != (meta.layers, meta.experts):
        raise InputError(
            f"{other.path} has {other.meta.layers} layers of {other.meta.experts} experts; expected the shape of the "
            "replayed trace"
        )
    return event_counts(other, source.sessions)
