"""``replay export``: write a trace in a format that another program reads."""

from pathlib import Path
from typing import Annotated

import typer

from replay.cli import flags


def export(
    format: Annotated[str, typer.Argument(help="jsonl, or llamacpp (CSV, the picks only).")],
    trace: flags.TracePath,
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="The file, made here.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an old file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
) -> None:
    """Export a trace; what the format does not hold is said.

    Importing the file again gives the same windows and tables, as far as the format holds them.

    Examples
    --------
    replay export jsonl traces/e64-spec spec.jsonl
    replay import jsonl spec.jsonl again
    """
    from replay.exporters import export_trace
    from replay.trace import open_trace

    notes = export_trace(format, open_trace(trace), destination, force)
    typer.echo(f"{destination}: {destination.stat().st_size} bytes")
    if not quiet:
        for each in notes:
            typer.echo(f"replay: note: {each}", err=True)
