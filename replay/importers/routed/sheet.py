"""Windows as rows of the tables ``windows`` and ``selections``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replay.importers.routed.cells import DECODE, PREFILL
from replay.importers.routed.survey import Survey
from replay.importers.routed.window import Shape, Windows
from replay.trace import TraceWriter

PHASES = {PREFILL: "prefill", DECODE: "decode"}


def append_windows(
    writer: TraceWriter, shape: Shape, windows: Windows, written: int, survey: Survey, domains: list[str]
) -> None:
    """Write some windows and their selections.

    Parameters
    ----------
    writer : TraceWriter
        The trace.
    shape : Shape
        What every window shares.
    windows : Windows
        To write.
    written : int
        Windows of the trace so far, these included.
    survey : Survey
        Says whether any list has weights, or outcomes.
    domains : list of str
        Names of the domains; empty: none.
    """
    count = len(windows.rows)
    window = np.arange(written - count, written)
    table = {
        "window": window,
        "session": windows.session,
        "phase": pa.array([PHASES.get(phase) for phase in windows.phase.tolist()], pa.string()),
        "rows": windows.rows,
    }
    if domains:
        codes = np.full(count, -1) if windows.domain is None else windows.domain
        names = [domains[code] if code >= 0 else None for code in codes.tolist()]
        table["domain"] = pa.array(names, pa.string())
    writer.append("windows", pa.table(table))
    starts = np.cumsum(windows.rows) - windows.rows
    row = np.arange(windows.rows.sum()) - np.repeat(starts, windows.rows)
    key = {
        "window": np.repeat(window, windows.rows * shape.layers),
        "row": np.repeat(row, shape.layers),
        "layer": np.tile(np.arange(shape.layers), len(row)),
    }
    offsets = pa.array(windows.offsets, pa.int32())
    lists = {"experts": pa.ListArray.from_arrays(offsets, pa.array(windows.experts, pa.uint16()))}
    if survey.weighed:
        lists["weights"] = _weights(windows, offsets)
    if survey.outcomes:
        values = np.full(len(windows.experts), 255) if windows.outcome is None else windows.outcome
        lists["outcome"] = pa.ListArray.from_arrays(offsets, pa.array(values, pa.uint8()))
    writer.append("selections", pa.table(key | lists))


def _weights(windows: Windows, offsets: pa.Array) -> pa.Array:
    """Weights of each list; null where one of the list's is not a number."""
    values = np.full(len(windows.experts), np.nan) if windows.weights is None else windows.weights
    lengths = np.diff(windows.offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    unknown = np.bincount(owner[~np.isfinite(values)], minlength=len(lengths)) > 0
    return pa.ListArray.from_arrays(offsets, pa.array(values.astype(np.float32)), mask=pa.array(unknown))
