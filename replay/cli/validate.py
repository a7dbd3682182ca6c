"""``replay validate``: every check of the reader over a whole trace, all failures at once."""

import json
from pathlib import Path
from typing import Annotated

import typer


def validate(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a whole trace and tell everything that a reader would refuse.

    One line a failure: file, table, row, what was expected, what is there, what to do. The first ten of each
    kind in a table are told, the rest are counted. Exit code 0: valid; 2: not.

    Examples
    --------
    replay validate traces/e256-moce
    replay validate traces/e256-moce --json
    """
    from replay.cli.table import cell
    from replay.trace.validate import validate as check

    where = cell(str(trace))
    found = check(trace)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1))
    else:
        for failure in found.failures:
            typer.echo(failure.line())
        for (table, reason), count in found.untold().items():
            typer.echo(f"{where}: table {table}: {count} more of reason {reason}")
        rows = ", ".join(f"{name} {count}" for name, count in found.rows.items())
        typer.echo(
            f"{where}: valid; rows: {rows}" if found.valid else f"{where}: not valid; failures: {found.total}"
        )
    raise typer.Exit(0 if found.valid else 2)
