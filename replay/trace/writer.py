"""The trace writer for recorders and importers: declared types, small row groups, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replay.argument import MAPPING, PATH, TEXT, TRUTH, either, expect, instance
from replay.errors import InputError, nearest
from replay.schema.arrow import arrow_type
from replay.schema.table import Column
from replay.schema.trace import TRACE
from replay.text import all_text
from replay.trace.fields import FILE, FORMAT, VERSION
from replay.trace.reader import open_trace
from replay.trace.staging import staged_folder

GROUP_WINDOWS = 64  # windows in a row group of a score table
_GROUP_ROWS = 2**16  # most rows of a row group
_TRANSPARENT = ("scores", "weights")  # columns that a dictionary only makes slower


class TraceWriter:
    """Writes a trace as its rows come, in bounded memory.

    Parameters
    ----------
    path : path
        The trace's folder, made when the writer closes.
    meta : mapping
        The content of trace.json; ``format``, ``version`` and ``tables`` are written by the writer.
    force : bool
        Whether an old trace there is replaced, once the new one is whole.
    check : bool
        Whether to read the whole trace back, with every check, before it takes its place.

    Raises
    ------
    InputError
        The path is taken.

    Notes
    -----
    Use it as a context manager: a block that fails leaves nothing behind.
    """

    def __init__(
        self, path: str | os.PathLike[str], meta: Mapping[str, Any], force: bool = False, check: bool = True
    ):
        expect(locals(), {"path": PATH, "meta": MAPPING, "force": TRUTH, "check": TRUTH})
        self.path = Path(path)
        self.meta = dict(meta)
        self.check = check
        self._stage = staged_folder(self.path, FILE, force)
        self.folder = self._stage.__enter__()
        self._tables: dict[str, _TableWriter] = {}
        self._open = True

    def append(self, name: str, rows: pa.Table) -> None:
        """Write rows of a table, after those written before.

        Parameters
        ----------
        name : str
            The table.
        rows : pyarrow.Table
            Rows, sorted by the key; cast to the declared types.

        Raises
        ------
        InputError
            The table is not declared, a column is missing, or a value does not fit.
        """
        expect(locals(), {"name": TEXT, "rows": instance(pa.Table, "a pyarrow.Table")})
        if name not in TRACE:
            raise InputError(f"no table is called {name!r}; {nearest(name, TRACE)}")
        if name not in self._tables:
            self._tables[name] = _TableWriter(self.folder / f"{name}.parquet", name)
        self._tables[name].append(rows)

    def close(self) -> None:
        """Finish the tables, write trace.json, check the trace and put it in its place.

        Raises
        ------
        InputError
            The trace would not be read: nothing is left then.
        """
        if not self._open:
            return
        try:
            entries = {name: self._tables[name].close() for name in TRACE if name in self._tables}
            document = {"format": FORMAT, "version": VERSION} | self.meta | {"tables": entries}
            text = json.dumps(all_text(document), indent=1, ensure_ascii=False, allow_nan=False)
            (self.folder / FILE).write_text(text + "\n", encoding="utf-8")
            if self.check:
                self._read_back()
        except BaseException as problem:
            self._abandon(type(problem), problem, problem.__traceback__)
            raise
        self._open = False
        self._stage.__exit__(None, None, None)

    def _read_back(self) -> None:
        try:
            trace = open_trace(self.folder, verify=False)
            columns = {"selections": ("weights", "outcome")}
            for _ in trace.chunks(
                [name for name in trace.tables if name not in ("windows", "experts")], columns
            ):
                pass
        except InputError as problem:
            text = str(problem).replace(str(self.folder), str(self.path))
            raise InputError(f"not written: {text}") from None

    def _abandon(
        self, kind: type[BaseException], problem: BaseException, trace: TracebackType | None
    ) -> None:
        self._open = False
        for table in self._tables.values():
            table.abandon()
        try:
            self._stage.__exit__(kind, problem, trace)
        except BaseException as raised:
            if raised is not problem:
                raise

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if problem is None:
            self.close()
        elif self._open and kind is not None:
            self._abandon(kind, problem, trace)


class _TableWriter:
    """One table's file: rows are cast, gathered into row groups and written."""

    def __init__(self, path: Path, name: str):
        self.path = path
        self.table = TRACE[name]
        self.rows = 0
        self._schema: pa.Schema | None = None
        self._file: pq.ParquetWriter | None = None
        self._sink: pa.OSFile | None = None
        self._waiting: list[pa.Table] = []
        self._group_windows = any(column.item == "score" for column in self.table.columns)

    def append(self, rows: pa.Table) -> None:
        rows = self._cast(rows)
        for start, stop in self._cuts(rows):
            self._waiting.append(rows.slice(start, stop - start))
            if stop < rows.num_rows or sum(part.num_rows for part in self._waiting) >= _GROUP_ROWS:
                self._flush()

    def _cuts(self, rows: pa.Table) -> list[tuple[int, int]]:
        """Cut rows where a row group ends: every 64 windows of scores, and before it grows too large."""
        cuts = set(range(0, rows.num_rows, _GROUP_ROWS)) | {rows.num_rows}
        if self._group_windows and rows.num_rows:
            group = rows.column("window").to_numpy() // GROUP_WINDOWS
            cuts |= set((np.flatnonzero(group[1:] != group[:-1]) + 1).tolist())
            if self._waiting and self._waiting[-1].column("window")[-1].as_py() // GROUP_WINDOWS != group[0]:
                self._flush()
        ends = sorted(cuts)
        return list(zip(ends[:-1], ends[1:], strict=True))

    def _cast(self, rows: pa.Table) -> pa.Table:
        if self._schema is None:
            self._schema = self._schema_for(rows.schema)
        try:
            return rows.select(self._schema.names).cast(self._schema)
        except (pa.ArrowException, KeyError, ValueError) as problem:
            text = " ".join(str(problem).split())
            raise InputError(
                f"table {self.table.name}: rows do not fit the declared columns: {text}"
            ) from None

    def _schema_for(self, schema: pa.Schema) -> pa.Schema:
        declared = {column.name: column for column in self.table.columns}
        missing = [name for name, column in declared.items() if column.required and name not in schema.names]
        if missing:
            raise InputError(f"table {self.table.name}: expected column {missing[0]}, found {schema.names}")
        fields = [_field(declared[name], schema.field(name)) for name in declared if name in schema.names]
        return pa.schema(fields + [field for field in schema if field.name not in declared])

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._file is None:
            self._file = self._create()
        self._file.write_table(rows, row_group_size=_GROUP_ROWS)
        self.rows += rows.num_rows

    def _create(self) -> pq.ParquetWriter:
        assert self._schema is not None
        leaves = [
            f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
            for field in self._schema
            if field.name not in _TRANSPARENT
            and not pa.types.is_nested(field.type)
            or pa.types.is_list(field.type)
        ]
        leaves = [leaf for leaf in leaves if leaf.split(".")[0] not in _TRANSPARENT]
        self._sink = pa.OSFile(os.fsencode(self.path), "wb")
        return pq.ParquetWriter(
            self._sink, self._schema, compression="zstd", use_dictionary=leaves, write_statistics=leaves
        )

    def close(self) -> dict[str, Any]:
        """Finish the file and say what trace.json says of it."""
        self._flush()
        if self._file is None:
            self._file = self._create()
        self._file.close()
        assert self._sink is not None
        self._sink.close()
        with self.path.open("rb") as handle:
            sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
        return {"file": self.path.name, "rows": self.rows, "sha256": sha256}

    def abandon(self) -> None:
        """Close what is open, whatever comes of it: the folder goes anyway."""
        for each in (self._file, self._sink):
            if each is not None:
                with contextlib.suppress(pa.ArrowException, OSError):
                    each.close()


def _field(column: Column, field: pa.Field) -> pa.Field:
    half = (
        column.item == "score"
        and pa.types.is_nested(field.type)
        and pa.types.is_float16(field.type.value_type)
    )
    return pa.field(column.name, arrow_type(column.type, "float16" if half else "float32"), column.nullable)


def write_trace(
    path: str | os.PathLike[str],
    meta: Mapping[str, Any],
    tables: Mapping[str, pa.Table | Iterable[pa.Table]],
    force: bool = False,
    check: bool = True,
) -> None:
    """Write a whole trace.

    Parameters
    ----------
    path : path
        The trace's folder.
    meta : mapping
        The content of trace.json without ``format``, ``version`` and ``tables``.
    tables : mapping of str to pyarrow.Table, or to an iterable of them
        The tables, sorted by their keys.
    force : bool
        Whether an old trace there is replaced, once the new one is whole.
    check : bool
        Whether to read the trace back, with every check, before it takes its place.

    Raises
    ------
    InputError
        The path is taken, or the trace would not be read; nothing is left then.
    """
    table = instance(pa.Table, "a pyarrow.Table")
    expect(locals(), {"tables": MAPPING})
    expect(tables, dict.fromkeys(tables, either(table, instance(Iterable, "an iterable of them"))))
    with TraceWriter(path, meta, force, check) as writer:
        for name, rows in tables.items():
            for part in [rows] if isinstance(rows, pa.Table) else rows:
                writer.append(name, part)
