"""``replay recover``: a trace out of a recording that was interrupted."""

import json
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.flags import Json


def recover(
    partial: Annotated[
        Path, typer.Argument(metavar="PARTIAL", help="The folder NAME.partial of a recording.")
    ],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="The trace's folder, made here.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an old trace.")] = False,
    as_json: Json = False,
) -> None:
    """Make a trace of what an interrupted recording left: its first windows, as far as they are whole.

    PARTIAL stays as it is. The trace says in its source that it was recovered.

    Examples
    --------
    replay recover olmoe.partial olmoe
    """
    from replay.recorder.spool import recover as recover_trace

    rows = recover_trace(partial, destination, force)
    if as_json:
        typer.echo(json.dumps({"path": str(destination), "rows": rows}, indent=1))
        return
    typer.echo(f"{destination}: {rows['windows']} windows recovered")
    typer.echo("rows: " + ", ".join(f"{name} {count}" for name, count in rows.items()))
