"""What policies learn from before a run: how many events of the training sessions wanted each expert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replay.chunk import wanted
from replay.errors import InputError
from replay.evict import Training
from replay.lane import Lane
from replay.trace import Trace, open_trace


def event_counts(trace: Trace, sessions: tuple[int, int] | None) -> NDArray[np.int64]:
    """Events that wanted each expert, as recorded, every row of them.

    Parameters
    ----------
    trace : Trace
    sessions : tuple of int and int, or None
        First and last session, both included; None: all of them.

    Returns
    -------
    int64[L * E]

    Raises
    ------
    InputError
        The trace has none of those sessions.
    """
    meta = trace.meta
    chosen = np.ones(len(trace.windows), bool)
    if sessions is not None:
        chosen = (trace.windows.session >= sessions[0]) & (trace.windows.session <= sessions[1])
        if not chosen.any():
            known = np.unique(trace.windows.session)
            raise InputError(
                f"{trace.path}: no session from {sessions[0]} to {sessions[1]}; the trace has sessions {known.min()} "
                f"to {known.max()}"
            )
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
        A training trace is of another shape, or lacks the sessions.
    """
    learned: dict[Training, NDArray[np.int64]] = {}
    for lane in lanes:
        evict = lane.policy.spec.evict
        source = lane.steps.training(lane.policy.values[evict.name])
        if source is None:
            continue
        if source not in learned:
            other = trace if source.trace is None else open_trace(source.trace)
            same = (other.meta.layers, other.meta.experts) == (trace.meta.layers, trace.meta.experts)
            if not same:
                raise InputError(
                    f"policy {lane.policy.spec.text}: {other.path} has {other.meta.layers} layers of "
                    f"{other.meta.experts} experts; expected the shape of the replayed trace"
                )
            learned[source] = event_counts(other, source.sessions)
        lane.steps.learn(lane.memory, learned[source])
