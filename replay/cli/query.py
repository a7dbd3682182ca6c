"""``replay query``: SQL over the tables of a run, which it can read and nothing else."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# in this order: the last line makes the others final
_LOCK = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def query(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that `replay compare --out` wrote.")
    ],
    sql: Annotated[
        str, typer.Argument(metavar="[SQL]", help="One SELECT; without it, list the tables.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of rows.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Ask a run's tables with SQL (DuckDB), read-only.

    Every Parquet file of the folder is a table of its name: layers, windows, curves. The query can read
    these and no other file, writes nothing and loads no extension. WINDOW is a word of SQL: the column of
    that name is written "window".

    Examples
    --------
    replay query out "SELECT policy, sum(misses) AS misses FROM layers GROUP BY policy ORDER BY misses"
    replay query out "SELECT layer, misses FROM layers WHERE policy = 'unpert1'" --csv
    """
    if as_json and as_csv:
        raise InputError("--json and --csv are both given; give one")
    connection = connect(folder)
    columns, rows = fetch(connection, sql) if sql.strip() else _list_tables(connection)
    if as_json:
        _print_json(columns, rows)
    elif as_csv:
        _print_csv(columns, rows)
    else:
        from replay.cli.table import aligned

        typer.echo(aligned(columns, rows))


def connect(folder: Path) -> "duckdb.DuckDBPyConnection":
    """Open a locked DuckDB connection over a folder's Parquet files.

    Parameters
    ----------
    folder : Path
        A folder that ``replay compare --out`` wrote.

    Returns
    -------
    duckdb.DuckDBPyConnection
        In memory; one view a file, named by the file; no way out to other files, extensions or settings.

    Raises
    ------
    InputError
        No such folder, no tables in it, or one that is not a whole Parquet file.
    """
    import duckdb
    import pyarrow.parquet as pq
    from pyarrow import ArrowInvalid

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that `replay compare --out` wrote")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no tables (*.parquet); give a folder that `replay compare --out` wrote")
    connection = duckdb.connect(":memory:")
    for file in files:
        try:
            with file.open("rb") as handle:  # by handle: a name with * or [ is no pattern
                connection.register(file.stem, _widened(pq.read_table(handle)))
        except (ArrowInvalid, duckdb.Error):
            raise InputError(f"{file}: not a Parquet file that can be read; write it again") from None
    for statement in _LOCK:
        connection.execute(statement)
    return connection


def _widened(table: "pa.Table") -> "pa.Table":
    """Make half-precision columns, which DuckDB lacks, single precision: no value changes."""
    import pyarrow as pa

    def single(kind: "pa.DataType") -> "pa.DataType":
        if pa.types.is_list(kind):
            return pa.list_(single(kind.value_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(single(kind.value_type), kind.list_size)
        return pa.float32() if pa.types.is_float16(kind) else kind

    return table.cast(pa.schema([field.with_type(single(field.type)) for field in table.schema]))


def fetch(connection: "duckdb.DuckDBPyConnection", sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run one SELECT.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Of ``connect``.
    sql : str
        One statement that only reads.

    Returns
    -------
    list of str, list of tuple
        The columns' names, and the rows.

    Raises
    ------
    InputError
        Not one SELECT, or DuckDB refuses it; the first line of its reason is given.
    """
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError("query: expected one SELECT; tables of a run are read-only")
        result = connection.execute(statements[0])
        return [each[0] for each in result.description or []], result.fetchall()
    except duckdb.Error as problem:
        reason = str(problem).strip().splitlines()[0]
        bare = isinstance(problem, duckdb.ParserException) and re.search(r'(?<!")\bwindow\b(?!")', sql, re.I)
        hint = '; the column is written "window", in quotes' if bare else ""
        tables = ", ".join(dict.fromkeys(row[0] for row in _tables(connection)))
        raise InputError(f"query: {reason}{hint}; tables: {tables}") from None


def _tables(connection: "duckdb.DuckDBPyConnection") -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
        "ORDER BY table_name, column_index"
    ).fetchall()


def _list_tables(connection: "duckdb.DuckDBPyConnection") -> tuple[list[str], list[tuple[Any, ...]]]:
    return ["table", "column", "type"], _tables(connection)


def _plain(value: Any) -> Any:
    """Return a value that JSON has: numbers as numbers, no NaN, the rest as text."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        return None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _objects(columns: list[str], rows: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    if len(set(columns)) < len(columns):
        raise InputError("query: two columns have one name; name each with AS for --json")
    for row in rows:
        yield dict(zip(columns, map(_plain, row), strict=True))


def _print_json(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    import json

    typer.echo(json.dumps(list(_objects(columns, rows)), indent=1, allow_nan=False))


def _print_csv(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
