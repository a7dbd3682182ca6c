"""Exporters: from a trace to what another program reads. One file a format, one line each in ``EXPORTERS``.

An exporter's module has a function ``export(trace, file) -> tuple of str``: it writes lines to an open text file and
says what the format does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO

from replay.errors import InputError, nearest
from replay.trace import Trace
from replay.trace.staging import staged_file

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
    with staged_file(destination, force) as staged, staged.open("w", encoding="utf-8", newline="\n") as file:
        return export(trace, file)
