"""Cut a trace: its first windows, as a small trace of its own that says what it was cut from."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from replay.errors import InputError, nearest
from replay.trace.fields import FILE
from replay.trace.file import TableInfo, open_parquet
from replay.trace.reader import Trace
from replay.trace.staging import refuse_taken
from replay.trace.writer import TraceWriter

_ALWAYS = ("windows", "selections", "experts")
_WHOLE = ("windows", "experts")  # checked as a trace is opened
_ROWS = 4096  # rows copied at once


@dataclass(frozen=True)
class Cut:
    """What a cut kept.

    Attributes
    ----------
    path : str
        The new trace.
    windows, of_windows : int
        Windows kept, and those that there were.
    sessions : int
        Sessions kept.
    whole : bool
        Whether the last of them is kept to its end.
    rows : dict of int
        Rows kept, by table.
    left_out : tuple of str
        Tables that are not in it: not asked for, or without a row in these windows.
    bytes : int
        Size of its files.
    """

    path: str
    windows: int
    of_windows: int
    sessions: int
    whole: bool
    rows: dict[str, int]
    left_out: tuple[str, ...]
    bytes: int


def cut(
    trace: Trace,
    destination: str | os.PathLike[str],
    windows: int,
    tables: Collection[str] | None = None,
    force: bool = False,
) -> Cut:
    """Write the first windows of a trace as a trace.

    A cut begins at window 0, so what the engine counted and held stays true of it; every column is kept, also
    those that the format does not name.

    Parameters
    ----------
    trace : Trace
        An open trace.
    destination : path
        The new trace's folder.
    windows : int
        How many windows to keep.
    tables : collection of str, optional
        The tables to keep besides windows, selections and experts; all where None.
    force : bool
        Whether an old trace there is replaced.

    Returns
    -------
    Cut
        What was kept.

    Raises
    ------
    InputError
        Not so many windows, a table that is not there, a destination that is taken, or rows to copy that the
        format refuses.
    """
    total = len(trace.windows)
    if not 1 <= windows <= total:
        raise InputError(f"{trace.path}: expected 1 to {total} windows to keep, found {windows}")
    path = Path(destination)
    if path.exists() and path.samefile(trace.path):
        raise InputError(f"{path}: a trace cannot be cut into itself; name another folder")
    kept = _chosen(trace, tables)
    refuse_taken(path, FILE, force)
    _check(trace, kept, windows)
    rows: dict[str, int] = {}
    with TraceWriter(path, {}, force) as writer:
        for name in kept:
            for part in _first_rows(trace.tables[name], windows):
                writer.append(name, part)
                rows[name] = rows.get(name, 0) + part.num_rows
        left_out = tuple(name for name in trace.tables if name not in rows)
        writer.meta.update(_meta(trace, windows, left_out))
    session = trace.windows.session
    return Cut(
        str(path),
        windows,
        total,
        len(np.unique(session[:windows])),
        windows == total or bool(session[windows] != session[windows - 1]),
        rows,
        left_out,
        sum(each.stat().st_size for each in path.iterdir()),
    )


def _chosen(trace: Trace, tables: Collection[str] | None) -> list[str]:
    """Tables to keep, in the trace's order."""
    for name in tables or ():
        if name not in trace.tables:
            raise InputError(f"{trace.path}: the trace has no table {name!r}; {nearest(name, trace.tables)}")
    wanted = set(trace.tables if tables is None else tables) | set(_ALWAYS)
    return [name for name in trace.tables if name in wanted]


def _check(trace: Trace, tables: Collection[str], windows: int) -> None:
    """Read what will be copied with every check, so that damage is told of the trace and not of its copy."""
    names = [name for name in tables if name not in _WHOLE]
    for chunk in trace.chunks(names, {"selections": ("weights", "outcome")}):
        if chunk.w1 >= windows:
            return


def _first_rows(info: TableInfo, windows: int) -> Iterator[pa.Table]:
    """Rows of the first windows of a table; all of one that has no windows."""
    file = open_parquet(info.path, info.metadata)
    for batch in file.iter_batches(_ROWS):
        count = batch.num_rows
        if "window" in info.table.key:
            count = int(np.searchsorted(batch.column("window").to_numpy(), windows))
        if count:
            yield pa.Table.from_batches([batch.slice(0, count)])
        if count < batch.num_rows:
            return


def _meta(trace: Trace, windows: int, left_out: tuple[str, ...]) -> dict[str, Any]:
    """trace.json of the cut: the original's, and in ``source`` what it was cut from."""
    document = {key: value for key, value in trace.meta.raw.items() if key != "tables"}
    source = dict(trace.meta.source)
    told: dict[str, Any] = {
        "of": trace.path.resolve().name,
        "windows": windows,
        "of_windows": len(trace.windows),
        "tables_left_out": list(left_out),
        "sha256": {name: info.sha256 for name, info in trace.tables.items() if name not in left_out},
    }
    if "cut" in source:
        told["before"] = source["cut"]
    return document | {"source": source | {"cut": told}}
