"""SQL over the tables of a run, and of its trace: DuckDB that reads these and nothing else.

DuckDB itself has no access to files, extensions or settings: it is handed Arrow datasets, which stream the tables from
their Parquet files, the columns and rows that a query needs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.document import read_json
from replay.errors import InputError
from replay.sweep.table import TABLES as SWEEP
from replay.sweep.table import is_sweep, register

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from replay.trace import Trace

MEMORY = 2 << 30
"""Bytes that a query may hold; there is no disk to spill to."""

BATCH = 10_000
"""Rows that are fetched at once."""

# in this order: the last line makes the others final
_LOCK = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_TRACE = "trace"


@dataclass(frozen=True)
class Desk:
    """A locked connection, and the tables that it can read.

    Attributes
    ----------
    connection : duckdb.DuckDBPyConnection
        In memory; no way out to files, extensions or settings.
    tables : dict of str to str
        Tables as a query names them, such as ``layers`` and ``trace.windows``, and that name in quotes.
    """

    connection: duckdb.DuckDBPyConnection
    tables: dict[str, str]

    def columns(self) -> list[tuple[str, str, str]]:
        """List every table's columns: table, column, type."""
        rows = []
        for name, quoted in self.tables.items():
            described = self.connection.execute(f"DESCRIBE {quoted}").fetchall()
            rows += [(name, each[0], each[1]) for each in described]
        return rows

    def ask(self, sql: str) -> Answer:
        """Run one SELECT.

        Parameters
        ----------
        sql : str
            One statement that only reads.

        Returns
        -------
        Answer

        Raises
        ------
        InputError
            Not one SELECT, or DuckDB refuses it; the first line of its reason is given.
        """
        import duckdb

        try:
            statements = self.connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InputError("query: expected one SELECT; the tables are read-only")
            return Answer(self, sql, self.connection.sql(sql))
        except duckdb.Error as problem:
            raise self.refusal(problem, sql) from None

    def refusal(self, problem: Exception, sql: str) -> InputError:
        """One line on what DuckDB refused."""
        import duckdb

        reason = str(problem).strip().splitlines()[0]
        bare = isinstance(problem, duckdb.ParserException) and re.search(r'(?<!")\bwindow\b(?!")', sql, re.I)
        hint = '; the column is written "window", in quotes' if bare else ""
        if isinstance(problem, duckdb.OutOfMemoryException):
            hint = "; ask for fewer rows or columns, or give more with --memory"
        return InputError(f"query: {reason}{hint}; tables: {', '.join(self.tables)}")


@dataclass(frozen=True)
class Answer:
    """A query that was understood; it runs when its rows are asked for, once.

    Attributes
    ----------
    desk : Desk
    sql : str
    relation : duckdb.DuckDBPyRelation
    """

    desk: Desk
    sql: str
    relation: duckdb.DuckDBPyRelation

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.relation.columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Fetch the rows, a batch at a time."""
        import duckdb

        try:
            result = self.desk.connection.execute(self.sql)
            while batch := result.fetchmany(BATCH):
                yield from batch
        except duckdb.Error as problem:
            raise self.desk.refusal(problem, self.sql) from None

    def write_parquet(self, path: Path) -> int:
        """Write the rows into a Parquet file, a batch at a time, and return how many.

        Raises
        ------
        InputError
            Two columns of one name, a whole number beyond 64 bits, or DuckDB refuses the query.
        """
        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.refuse_twins("--parquet")
        rows = 0
        try:
            named = "to_arrow_reader" if hasattr(self.relation, "to_arrow_reader") else "fetch_arrow_reader"
            reader: Any = getattr(self.relation, named)  # its name before DuckDB 1.4 and since
            batches = reader(BATCH)
            schema = _plain(batches.schema)
            with path.open("wb") as handle, pq.ParquetWriter(handle, schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
                    rows += batch.num_rows
        except duckdb.Error as problem:
            raise self.desk.refusal(problem, self.sql) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise InputError(
                f"query: {str(problem).splitlines()[0]}; CAST the column to DOUBLE or VARCHAR"
            ) from None
        return rows

    def refuse_twins(self, what: str) -> None:
        """Refuse two columns of one name, which some formats cannot tell apart."""
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"query: two columns have one name; name each with AS for {what}")


def connect(folder: Path, trace: Path | None = None, memory: int = MEMORY) -> Desk:
    """Open a locked DuckDB connection over a run's tables, and its trace's.

    Parameters
    ----------
    folder : Path
        A folder that ``replay compare --out`` wrote: each of its Parquet files is a table, ``summary`` one more; or
        a sweep's (:mod:`replay.sweep.table`), also while it runs.
    trace : Path, optional
        The trace's folder. Its tables are ``trace.selections`` and so on, and ``selections`` where the run has no
        table of that name.
    memory : int
        Bytes that a query may hold.

    Returns
    -------
    Desk

    Raises
    ------
    InputError
        No such folder, no tables in it, one that is not a whole Parquet file; a trace that cannot be read, or that
        is not the run's.
    """
    import duckdb

    sweep = is_sweep(folder)
    if sweep and trace is not None:
        raise InputError(f"--trace {trace}: {folder} is a sweep, of any number of traces; leave it out")
    found = {} if sweep else _run_tables(folder)
    opened = None if trace is None else _trace_of(folder, trace)
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{memory}B'")
    for name, table in found.items():
        connection.register(name, table)
    if sweep:
        register(connection, folder)
    tables = {name: _quoted(name) for name in (SWEEP if sweep else found)}
    if opened is not None:
        connection.execute(f"CREATE SCHEMA {_TRACE}")
        for name, info in opened.tables.items():
            connection.register(f"{_TRACE}_{name}", _dataset(info.path))
            tables[f"{_TRACE}.{name}"] = _quoted(_TRACE, name)
            views = [_quoted(_TRACE, name), *([_quoted(name)] if name not in found else [])]
            for view in views:
                connection.execute(f"CREATE VIEW {view} AS FROM {_TRACE}_{name}")
    for statement in _LOCK:
        connection.execute(statement)
    return Desk(connection, tables)


def _quoted(*parts: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _run_tables(folder: Path) -> dict[str, Any]:
    """A run's tables by name: a dataset a Parquet file, and the summary's rows."""
    import pyarrow as pa

    if not folder.is_dir():
        reason = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"{folder}: {reason}; give a folder that `replay compare --out` or `replay sweep` wrote"
        )
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no tables (*.parquet); give a folder that `replay compare --out` wrote")
    for file in (*files, folder / "summary.json", folder / "run.json"):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{file}: a link that leads out of the run's folder; put the file itself there")
    found = {file.stem: _dataset(file) for file in files}
    rows = _json(folder / "summary.json")
    if isinstance(rows, list) and rows and "summary" not in found:
        try:
            columns = dict.fromkeys(name for row in rows for name in row)
            found["summary"] = pa.table({name: [row.get(name) for row in rows] for name in columns})
        except (pa.ArrowException, AttributeError, TypeError, OverflowError):
            raise InputError(f"{folder / 'summary.json'}: not a list of rows; make the run again") from None
    return found


def _json(path: Path) -> Any:
    """What a JSON file of a run holds; None where it is not there."""
    return read_json(path, "a run that is whole: make it again") if path.is_file() else None


def _trace_of(folder: Path, path: Path) -> Trace:
    """The run's trace, opened; another one is refused."""
    from replay.trace import open_trace

    trace = open_trace(path, verify=False)
    info = _json(folder / "run.json")
    hashes = info.get("trace", {}).get("sha256", {}) if isinstance(info, dict) else {}
    for name, sha256 in hashes.items():
        there = trace.tables.get(name)
        if there is None or there.sha256 != sha256:
            raise InputError(
                f"--trace {path}: its table {name} is not the one that the run replayed; give the run's trace"
            )
    return trace


def _dataset(file: Path) -> Any:
    """A Parquet file as a dataset; half-precision columns, which DuckDB lacks, single precision: no value changes."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    def single(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_list(kind):
            return pa.list_(single(kind.value_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(single(kind.value_type), kind.list_size)
        return pa.float32() if pa.types.is_float16(kind) else kind

    try:
        with file.open("rb") as handle:
            schema = pq.read_schema(handle)
        widened = pa.schema([field.with_type(single(field.type)) for field in schema])
        return ds.dataset(
            [_plain_name(file)], schema=widened, format="parquet"
        )  # a list: no pattern in a name
    except (OSError, pa.ArrowInvalid):
        raise InputError(f"{file}: not a Parquet file that can be read; write it again") from None


def _plain_name(file: Path) -> str:
    """A file's name; for one that is no text, which Arrow cannot take, that of a descriptor held open on it."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return f"/dev/fd/{os.open(file, os.O_RDONLY)}"
    return str(file)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Sums of whole numbers, which DuckDB makes 128 bits wide, as 64."""
    import pyarrow as pa

    def narrow(kind: pa.DataType) -> pa.DataType:
        return pa.int64() if pa.types.is_decimal(kind) and kind.scale == 0 else kind

    return pa.schema([field.with_type(narrow(field.type)) for field in schema])
