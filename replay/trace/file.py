"""One table's file: whole, inside the trace, of the stated rows, with columns of types that hold what they should."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from replay.schema.table import Column, Table
from replay.schema.trace import TRACE
from replay.trace.check import Report
from replay.trace.columns import fits
from replay.trace.meta import TableEntry, table_path

_MAGIC = b"PAR1"
_BUFFER = 2**20  # bytes read ahead of each column
_PROBE = 1024  # rows at once of a column that may be all null


@dataclass(frozen=True)
class TableInfo:
    """A table that is there and can be read.

    Attributes
    ----------
    name : str
        The table's name.
    path : Path
        Its file.
    rows : int
        Its rows.
    sha256 : str
        Hash of the file, as trace.json has it.
    bytes : int
        Size of the file.
    row_groups : int
        Row groups of the file.
    columns : tuple of str
        The declared columns that it has; all-null optional ones, where the footer shows that, are not listed.
    extra : tuple of str
        Columns that the format does not name: kept, ignored.
    metadata : pyarrow.parquet.FileMetaData
        The footer.
    """

    name: str
    path: Path
    rows: int
    sha256: str
    bytes: int
    row_groups: int
    columns: tuple[str, ...]
    extra: tuple[str, ...]
    metadata: pq.FileMetaData

    @property
    def table(self) -> Table:
        """The declaration."""
        return TRACE[self.name]


def open_table(root: Path, entry: TableEntry, report: Report) -> TableInfo | None:
    """Open a table's file and check that it is whole, of the stated rows, with the declared columns.

    Parameters
    ----------
    root : Path
        The trace's folder.
    entry : TableEntry
        What trace.json says.
    report : Report
        Told what is wrong.

    Returns
    -------
    TableInfo or None
        None where the table cannot be read.
    """
    path = table_path(root, entry.file)
    if path is None:
        report.one(
            "path",
            "",
            "a file inside the trace's folder",
            "a name that leads out of it",
            "move the file there",
        )
        return None
    if not _whole(path, report):
        return None
    try:
        file = open_parquet(path)
        metadata, schema = file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as problem:
        report.one("not-parquet", "", "a Parquet footer", brief(problem), "copy or record the table again")
        return None
    if metadata.num_rows != entry.rows:
        report.one(
            "rows",
            "",
            f"{entry.rows} rows as trace.json says",
            f"{metadata.num_rows}",
            "record the trace again",
        )
    if metadata.num_rows == 0:
        report.one("empty", "", "rows", "none", "leave the table out of trace.json, or record it again")
    columns = _columns(path, TRACE[entry.name], schema, metadata, report)
    if columns is None:
        return None
    extra = tuple(
        name for name in schema.names if name not in {each.name for each in TRACE[entry.name].columns}
    )
    size = path.stat().st_size
    return TableInfo(
        entry.name,
        path,
        metadata.num_rows,
        entry.sha256,
        size,
        metadata.num_row_groups,
        columns,
        extra,
        metadata,
    )


def open_parquet(path: Path, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a Parquet file by handle, so that no character of its name means anything.

    Parameters
    ----------
    path : Path
        The file.
    metadata : pyarrow.parquet.FileMetaData, optional
        Its footer, where it has been read.

    Returns
    -------
    pyarrow.parquet.ParquetFile
        Reads column chunks piece by piece, not whole.
    """
    return pq.ParquetFile(
        pa.OSFile(os.fsencode(path)), metadata=metadata, pre_buffer=False, buffer_size=_BUFFER
    )


def brief(problem: BaseException) -> str:
    """Tell a library's error in a few words on one line."""
    text = " ".join(str(problem).split())
    return text if len(text) <= 120 else text[:117] + "..."


def _whole(path: Path, report: Report) -> bool:
    """Check that a file is there and begins and ends as Parquet does."""
    again = "copy or record the table again"
    try:
        if not path.is_file():
            report.one(
                "table-missing", "", "the file that trace.json names", "none", "copy it, or record again"
            )
            return False
        with path.open("rb") as handle:
            head = handle.read(4)
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(size - 4, 0))
            tail = handle.read(4)
    except OSError as problem:
        report.one("unreadable", "", "a readable file", problem.strerror or "", "check the permissions")
        return False
    if size == 0:
        report.one("zero-bytes", "", "a Parquet file", "0 bytes", again)
    elif head != _MAGIC:
        report.one("not-parquet", "", "a Parquet file (PAR1 at both ends)", f"{head!r} at the start", again)
    elif tail != _MAGIC or size < 12:
        report.one("truncated", "", "a whole Parquet file (PAR1 at both ends)", f"{tail!r} at the end", again)
    else:
        return True
    return False


def _columns(
    path: Path, table: Table, schema: pa.Schema, metadata: pq.FileMetaData, report: Report
) -> tuple[str, ...] | None:
    """Match the file's columns with the declared ones."""
    found = []
    sound = True
    for column in table.columns:
        places = schema.get_all_field_indices(column.name)
        if len(places) > 1:
            report.one(
                "column-twice", f"column {column.name}", "one such column", f"{len(places)}", "write it once"
            )
            sound = False
        elif not places:
            if column.required:
                report.one(
                    "column-missing",
                    f"column {column.name}",
                    f"a column of type {column.type}",
                    "none",
                    "write it",
                )
                sound = False
        elif pa.types.is_null(schema.field(places[0]).type) and not column.required:
            continue
        elif not fits(column, schema.field(places[0]).type):
            report.one(
                "column-type",
                f"column {column.name}",
                _accepted(column),
                str(schema.field(places[0]).type),
                "cast it when writing",
            )
            sound = False
        elif column.required or not _all_null(path, metadata, column.name):
            found.append(column.name)
    return tuple(found) if sound else None


def _accepted(column: Column) -> str:
    text = column.type.replace("score", "float16 or float32")
    wide = any(part in text for part in ("uint", "int16"))
    return text + (" (any integer type)" if wide else "")


def _all_null(path: Path, metadata: pq.FileMetaData, name: str) -> bool:
    """Say whether a column holds no value at all; reads it up to the first value."""
    try:
        for batch in open_parquet(path, metadata).iter_batches(_PROBE, columns=[name], use_threads=False):
            column = batch.column(name)
            if column.null_count < len(column):
                return False
    except (pa.ArrowException, OSError):
        return False  # told when the table is read
    return True
