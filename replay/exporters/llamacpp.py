"""The trace's picks as CSV ``phase,token,layer,rank,expert`` (and ``weight``), as llama.cpp's tracers write them."""

from __future__ import annotations

from typing import IO

import numpy as np

from replay.errors import InputError
from replay.trace import Chunk, Trace


def export(trace: Trace, file: IO[str]) -> tuple[str, ...]:
    """Write a trace's picks, window after window, layer after layer.

    Parameters
    ----------
    trace : Trace
    file : text file
        Open for writing.

    Returns
    -------
    tuple of str
        What the format does not hold.

    Raises
    ------
    InputError
        Sessions come back, or a row has no pick at a layer before its last: the format could not tell.
    """
    _check_sessions(trace)
    weighed = "weights" in trace.tables["selections"].columns
    file.write("phase,token,layer,rank,expert" + (",weight" if weighed else "") + "\n")
    position = _positions(trace)
    ids = trace.meta.layer_ids or tuple(range(trace.meta.layers))
    for chunk in trace.chunks({"selections"}, {"selections": ("weights",)}):
        for window in range(chunk.w0, chunk.w1):
            _window(file, trace, chunk, window, int(position[window]), ids, weighed)
    held = ("windows", "selections", "experts")
    lost = [name for name in trace.tables if name not in held]
    notes = ["sizes, sessions' numbers and what the engine ran have no place in the format"]
    return (*notes, *([f"tables left out: {', '.join(lost)}"] if lost else []))


def _check_sessions(trace: Trace) -> None:
    session = trace.windows.session
    changes = int((np.diff(session) != 0).sum())
    if changes + 1 != len(np.unique(session)):
        raise InputError(
            f"{trace.path}: windows of sessions alternate; the format tells sessions by positions only"
        )


def _positions(trace: Trace) -> np.ndarray:
    """Position of each window's first row in its session."""
    rows, session = trace.windows.rows, trace.windows.session
    before = np.cumsum(rows) - rows
    starts = np.append(True, np.diff(session) != 0)
    return before - np.maximum.accumulate(np.where(starts, before, 0))


def _window(
    file: IO[str], trace: Trace, chunk: Chunk, window: int, position: int, ids: tuple[int, ...], weighed: bool
) -> None:
    picks = chunk.selections
    assert picks is not None
    windows, layers = trace.windows, trace.meta.layers
    phase = ("prefill" if windows.prefill[window] else "decode") if windows.recorded[window] else ""
    first = int(chunk.row_start[window - chunk.w0])
    for layer in range(layers):
        for row in range(int(windows.rows[window])):
            a, b = picks.offsets[(first + row) * layers + layer :][:2].tolist()
            for rank in range(b - a):
                text = f"{phase},{position + row},{ids[layer]},{rank},{picks.values[a + rank]}"
                if weighed and chunk.weights is not None:
                    text += f",{float(chunk.weights[a + rank])!r}"
                file.write(text + "\n")
