"""``replay query``: SQL over the tables of a run and its trace, which it can read and nothing else."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.errors import InputError

if TYPE_CHECKING:
    from replay.query.desk import Answer


def query(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run's folder (`replay compare --out`), or a sweep's.")
    ],
    sql: Annotated[
        str, typer.Argument(metavar="[SQL]", help="One SELECT; without it, list the tables.")
    ] = "",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="TRACE", help="The run's trace: its tables too, as trace.NAME."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of rows.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write a Parquet file instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --parquet.")] = False,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="What a query may hold.")] = "2GiB",
) -> None:
    """Ask a run's tables with SQL (DuckDB), read-only.

    Every Parquet file of the folder is a table of its name (layers, windows, curves), and so is the summary. With
    --trace the trace's tables are there too, read only where the query needs them: trace.windows, trace.selections,
    or selections alone where the run has no such table. A sweep's folder has cells, layers and plan, also while it
    runs. The query can read these and no other file, writes nothing
    and loads no extension. WINDOW is a word of SQL: the column of that name is written "window".

    Examples
    --------
    replay query run "SELECT policy, sum(misses) AS misses FROM layers GROUP BY policy ORDER BY misses"
    replay query run "SELECT layer, misses FROM layers WHERE policy = 'unpert1+lru'" --csv
    replay query run "SELECT layer, len(experts) FROM selections" --trace traces/e256-moce --parquet picks.parquet
    """
    from replay.query.connect import connect
    from replay.units import parse_bytes

    if sum((as_json, as_csv, parquet is not None)) > 1:
        raise InputError("--json, --csv, --parquet: give one")
    if parquet is not None and not sql.strip():
        raise InputError("--parquet: needs a query to write the rows of; give one SELECT")
    desk = connect(folder, trace, parse_bytes(memory))
    if not sql.strip():
        _print(["table", "column", "type"], iter(desk.columns()), as_json, as_csv)
        return
    answer = desk.ask(sql)
    if parquet is not None:
        _write_parquet(answer, parquet, force)
        return
    if as_json:
        answer.refuse_twins("--json")
    _print(answer.columns, answer.rows(), as_json, as_csv)


def _print(columns: list[str], rows: Iterator[tuple[Any, ...]], as_json: bool, as_csv: bool) -> None:
    if as_json:
        _print_json(columns, rows)
    elif as_csv:
        _print_csv(columns, rows)
    else:
        from replay.cli.table import aligned

        typer.echo(aligned(columns, list(rows)))


def _write_parquet(answer: "Answer", path: Path, force: bool) -> None:
    """Write the file whole or not at all."""
    from replay.trace.staging import staged_file

    with staged_file(path, force) as staged:
        rows = answer.write_parquet(staged)
    typer.echo(f"{path}: {rows} rows", err=True)


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


def _print_json(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Print a list of objects, one a line, as they are fetched."""
    import json

    before = "["
    for row in rows:
        found = dict(zip(columns, map(_plain, row), strict=True))
        print(f"{before}\n {json.dumps(found, allow_nan=False)}", end="")
        before = ","
    print("[]" if before == "[" else "\n]")


def _print_csv(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    import csv
    import sys

    from replay.text import no_formula

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(no_formula, columns))
    writer.writerows(map(no_formula, row) for row in rows)
