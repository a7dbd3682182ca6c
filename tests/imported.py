"""Import a made file in a test, and look at the lists of the trace."""

from pathlib import Path
from typing import Any

import numpy as np

from replay.importers import Imported, Request, importer
from replay.trace import Trace, open_trace


def convert(
    name: str, source: Path, request: Request | None = None, destination: Path | None = None
) -> tuple[Imported, Trace]:
    """Import a file; the result, and the trace."""
    to = destination or source.parent / "trace"
    result = importer(name)(source, to, request or Request())
    return result, open_trace(to)


def lists(trace: Trace, column: str = "experts") -> dict[tuple[int, int, int], Any]:
    """One column of the selections by (window, row, layer)."""
    found = {}
    for chunk in trace.chunks({"selections"}, {"selections": ("weights", "outcome")}):
        picks, layers = chunk.selections, trace.meta.layers
        assert picks is not None
        values = picks.values if column == "experts" else getattr(chunk, column)
        for at, (a, b) in enumerate(zip(picks.offsets[:-1], picks.offsets[1:], strict=True)):
            row = at // layers
            window = int(np.searchsorted(chunk.row_start, row, side="right")) - 1
            key = (chunk.w0 + window, int(row - chunk.row_start[window]), at % layers)
            found[key] = values[a:b].tolist()
    return found


def phases(trace: Trace) -> list[str]:
    """The phase of each window as it is recorded."""
    windows = trace.windows
    return [
        "unknown" if not known else "prefill" if prefill else "decode"
        for known, prefill in zip(windows.recorded.tolist(), windows.prefill.tolist(), strict=True)
    ]
