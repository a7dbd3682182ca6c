"""``replay cut``: a small trace out of a large one."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.flags import Json, TracePath


def cut(
    path: TracePath,
    destination: Annotated[Path, typer.Argument(metavar="DST", help="The new trace's folder, made here.")],
    windows: Annotated[
        int, typer.Option("--windows", min=1, help="Keep so many windows, from the first on.")
    ],
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            help="Tables to keep besides windows, selections and experts, such as candidates,counters.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an old trace.")] = False,
    as_json: Json = False,
) -> None:
    """Cut the first windows of a trace into a trace of its own.

    Its trace.json says what it was cut from. Without --tables all are kept; --tables "" keeps none but the
    needed ones.

    Examples
    --------
    replay cut TRACE small --windows 256 --tables candidates,counters,residents
    """
    from replay.trace import open_trace
    from replay.trace.cut import cut as cut_trace
    from replay.units import counted

    names = None if tables is None else [each.strip() for each in tables.split(",") if each.strip()]
    result = cut_trace(open_trace(path), destination, windows, names, force)
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=1))
        return
    sessions = counted(result.sessions, "session") + (
        "" if result.whole else " (the last one not to its end)"
    )
    typer.echo(
        f"{result.path}: {result.windows} of {counted(result.of_windows, 'window')}, {sessions}, {result.bytes} bytes"
    )
    typer.echo("rows: " + ", ".join(f"{name} {rows}" for name, rows in result.rows.items()))
    typer.echo("left out: " + (", ".join(result.left_out) or "no table"))
