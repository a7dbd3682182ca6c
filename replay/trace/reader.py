"""The trace reader: open once, then stream chunks of whole windows in bounded memory.

Everything that the format refuses is refused here, with one line, by the same checks that ``replay validate``
runs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from replay.argument import PATH, TRUTH, expect
from replay.errors import InputError, nearest
from replay.schema.trace import TRACE
from replay.trace.check import Frame, Report, Reports
from replay.trace.chunk import Chunk, Windows, ranges
from replay.trace.cover import check_windows
from replay.trace.failure import refuse
from replay.trace.file import TableInfo
from replay.trace.gather import fill
from replay.trace.meta import Meta, read_meta
from replay.trace.opening import (
    check_classes,
    check_hashes,
    frame_of,
    open_tables,
    read_sizes,
    read_windows,
)
from replay.trace.stream import TableStream

_WHOLE = ("windows", "experts")


@dataclass(repr=False)
class Trace:
    """An opened trace.

    Attributes
    ----------
    path : Path
        Its folder.
    meta : Meta
        What trace.json says.
    tables : dict of TableInfo
        The tables that are there.
    windows : Windows
        The table ``windows``.
    sizes : numpy.ndarray of int64, [layers, experts]
        Bytes of each expert.
    classes : numpy.ndarray of uint8, [layers, experts]
        Size class of each expert.
    """

    path: Path
    meta: Meta
    tables: dict[str, TableInfo]
    windows: Windows
    sizes: np.ndarray
    classes: np.ndarray

    def __repr__(self) -> str:
        return f"Trace({self.path.name}: {self._shape})"

    def _repr_html_(self) -> str:
        from replay.markup import html_table

        rows = [[name, table.rows, ", ".join(table.columns)] for name, table in self.tables.items()]
        return html_table(f"{self.path.name}: {self._shape}", ["table", "rows", "columns"], rows)

    @property
    def _shape(self) -> str:
        meta = self.meta
        return (
            f"{meta.name}, {meta.layers} layers x {meta.experts} experts, top-{meta.top_k}; "
            f"{len(self.windows)} windows"
        )

    @property
    def sized(self) -> bool:
        """Whether the trace says how large an expert is: where it does not, 1 byte stands for each."""
        return int(self.sizes.max()) > 1

    def has(self, table: str) -> bool:
        """Say whether the trace has a table."""
        return table in self.tables

    @property
    def sparse(self) -> set[str]:
        """Tables of scores whose lists name their experts, so that they need not be complete."""
        return {
            name
            for name in ("candidates", "router_scores")
            if name in self.tables and "experts" in self.tables[name].columns
        }

    @cached_property
    def frame(self) -> Frame:
        """What the rows of the trace's tables are checked against."""
        return frame_of(self.meta, self.windows, self.classes)

    def chunks(
        self,
        tables: Collection[str],
        columns: Mapping[str, Collection[str]] | None = None,
        max_rows: int = 4096,
        max_windows: int | None = None,
        decode_only: Collection[str] = (),
        halves: bool = False,
    ) -> Iterator[Chunk]:
        """Stream the named tables once, in chunks of whole windows.

        Parameters
        ----------
        tables : collection of str
            The tables to read; each has to be there. ``windows`` and ``experts`` are held whole (``windows``,
            ``sizes``, ``classes``) and left out here.
        columns : mapping of str to collection of str, optional
            Optional columns to read besides the required ones: ``{"selections": ("weights",)}``. Those that
            the trace lacks are left out. Of every other table all declared columns are read.
        max_rows, max_windows : int, optional
            Most window rows, and windows, of a chunk; at least one window is in it. Score tables lower both.
        decode_only : collection of str
            Tables whose prefill rows are checked and then left out.
        halves : bool
            Leave scores that are stored as float16 as they are.

        Yields
        ------
        Chunk
            The windows in order.

        Raises
        ------
        InputError
            A table is not there, or something in it is refused.
        """
        for name in tables:
            self.need(name)
        streams = {}
        for name in (each for each in TRACE if each in tables and each not in _WHOLE):
            skip = self.windows.prefill if name in decode_only else None
            report = Report(str(self.tables[name].path), name, refuse)
            names = self._columns(name, columns)
            streams[name] = TableStream(self.tables[name], names, self.frame, report, skip)
        cells = self.meta.layers * self.meta.experts
        try:
            for first, stop in ranges(self.windows.rows, streams, cells, max_rows, max_windows):
                chunk = Chunk(first, stop, np.concatenate([[0], np.cumsum(self.windows.rows[first:stop])]))
                for name, stream in streams.items():
                    parts = stream.take(stop)
                    check_windows(parts, name, self.frame, first, stop, stream.report)
                    fill(chunk, name, parts, stream.names, halves)
                yield chunk
        finally:
            for stream in streams.values():
                stream.close()

    def need(self, table: str) -> None:
        """Refuse to go on without a table.

        Parameters
        ----------
        table : str
            Its name.

        Raises
        ------
        InputError
            The trace lacks it, or no such table is declared.
        """
        if table not in TRACE:
            raise InputError(f"no table is called {table!r}; {nearest(table, TRACE)}")
        if table not in self.tables:
            raise InputError(f"{self.path}: the trace has no table {table}; it has {', '.join(self.tables)}")

    def _columns(self, name: str, columns: Mapping[str, Collection[str]] | None) -> list[str]:
        asked = set((columns or {}).get(name, ()))
        return [
            each
            for each in self.tables[name].columns
            if name != "selections" or TRACE[name].column(each).required or each in asked
        ]


def open_trace(path: str | os.PathLike[str], verify: bool = True) -> Trace:
    """Open a trace: trace.json, every table's footer and hash, windows and sizes.

    Parameters
    ----------
    path : path
        The trace's folder.
    verify : bool
        Whether to compare the files with their hashes.

    Returns
    -------
    Trace
        Ready to stream.

    Raises
    ------
    InputError
        Something is refused: the first thing that is.
    """
    expect(locals(), {"path": PATH, "verify": TRUTH})
    root = Path(path)
    reports = Reports(refuse)
    meta = read_meta(root, refuse)
    assert meta is not None
    tables = open_tables(root, meta, reports)
    if verify:
        check_hashes(tables.values(), reports)
    windows = read_windows(tables["windows"], reports)
    sizes = read_sizes(meta, tables.get("experts"), reports)
    assert windows is not None and sizes is not None
    check_classes(root, meta, sizes[1], reports)
    return Trace(root, meta, tables, windows, *sizes)
