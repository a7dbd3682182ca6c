"""``replay import``: turn what an engine already writes into a trace."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from replay.importers import IMPORTERS, Request, importer


def import_(
    format: Annotated[str, typer.Argument(help=f"What wrote the file: {', '.join(IMPORTERS)}.")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The file.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="The trace's folder, made here.")],
    budget: Annotated[
        str | None,
        typer.Option("--bytes", help="The byte budget that the engine ran with, such as 4000MiB."),
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", help="The source's licence.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Where the source is from.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an old trace.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
) -> None:
    """Import a recording of another engine as a trace.

    Columns are read by name. What the file does not say stays unknown, and every line that is not in the trace
    is counted by reason, here and in trace.json. A file that cannot be kept as it is, is refused; the trace is
    written whole or not at all.

    Examples
    --------
    replay import bigmoeonedge gemma.route.csv gemma --bytes 4000MiB --licence Apache-2.0
    replay fidelity gemma
    """
    from replay.units import parse_bytes

    convert = importer(format)
    size = None if budget is None else parse_bytes(budget)
    result = convert(source, destination, Request(size, licence, note, force))
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=1))
    else:
        typer.echo(f"{result.path}: {result.windows} windows, {result.rows} rows, {result.lookups} lookups")
        typer.echo(f"lines removed: {result.removed_text()}")
    if not quiet:
        for each in result.notes:
            typer.echo(f"replay: note: {each}", err=True)
