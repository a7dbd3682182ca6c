"""Exporters: from a trace to what another program reads. One file a format, one line each in ``EXPORTERS``.

An exporter's module has a function ``export(trace, file) -> tuple of str``: it writes lines to an open text file and
says what the format does not hold.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO

from replay.errors import InputError, nearest
from replay.trace import Trace

EXPORTERS: dict[str, str] = {
    "jsonl": "replay.exporters.jsonl",
    "llamacpp": "replay.exporters.llamacpp",
}
"""Module of each format's exporter."""


def export_trace(name: str, trace: Trace, destination: Path, force: bool = False) -> tuple[str, ...]:
    """Write a trace in another format, whole or not at all.

    Parameters
    ----------
    name : str
        The format.
    trace : Trace
    destination : Path
        The file.
    force : bool
        Whether a file there is replaced, once the new one is whole.

    Returns
    -------
    tuple of str
        What the format does not hold of the trace.

    Raises
    ------
    InputError
        No such format, the file is there, or the trace is not one that the format can hold.
    """
    if name not in EXPORTERS:
        raise InputError(f"no exporter is called {name!r}; {nearest(name, EXPORTERS)}")
    export: Callable[[Trace, IO[str]], tuple[str, ...]] = import_module(EXPORTERS[name]).export
    if destination.exists() and not force:
        raise InputError(f"{destination}: exists already; name another file, or replace it with --force")
    if destination.is_dir():
        raise InputError(f"{destination}: is a folder; name a file")
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, staged = tempfile.mkstemp(
        prefix=f".{destination.name}.", suffix=".partial", dir=destination.parent
    )
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            notes = export(trace, file)
        os.chmod(staged, 0o644)
        os.replace(staged, destination)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise
    return notes
