"""Where a result comes from: the command, the versions and the trace that it was made with."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from replay import __version__
from replay.text import as_text

if TYPE_CHECKING:
    from replay.trace import Trace


def versions() -> dict[str, str]:
    """Versions of everything that can move a figure."""
    found = {"replay": __version__, "python": platform.python_version()}
    for name in ("numba", "numpy", "polars", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def trace_info(trace: Trace) -> dict[str, Any]:
    """What identifies the trace: its name, shape, and the hashes of its tables."""
    meta, windows = trace.meta, trace.windows
    return {
        "name": as_text(trace.path.resolve().name),
        "model": meta.name,
        "layers": meta.layers,
        "experts": meta.experts,
        "top_k": meta.top_k,
        "windows": len(windows),
        "decode_windows": int((~windows.prefill).sum()),
        "sessions": len(np.unique(windows.session)),
        "sized": trace.sized,
        "sha256": {name: table.sha256 for name, table in trace.tables.items()},
    }


def command_line() -> list[str]:
    """The command as it was given, the program's own path left out."""
    return ["replay", *map(as_text, sys.argv[1:])]
