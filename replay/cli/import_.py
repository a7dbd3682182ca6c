"""``replay import``: turn what an engine already writes into a trace."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from replay.errors import InputError
from replay.importers import IMPORTERS, Request, importer, refuse_unread


def import_(
    format: Annotated[str, typer.Argument(help=f"What wrote the file: {', '.join(IMPORTERS)}.")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The file, or folder.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="The trace's folder, made here.")],
    budget: Annotated[
        str | None,
        typer.Option("--bytes", help="The byte budget that the engine ran with, such as 4000MiB."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model's name.")] = None,
    experts: Annotated[
        int | None, typer.Option("--experts", min=1, max=2**16, help="Experts of a layer.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, max=2**16, help="Experts that a token picks.")
    ] = None,
    expert_bytes: Annotated[
        str | None, typer.Option("--expert-bytes", metavar="SIZE", help="Size of an expert, such as 1.77MB.")
    ] = None,
    prompt: Annotated[
        int | None,
        typer.Option(
            "--prompt",
            min=1,
            max=2**31 - 1,
            help="Tokens of each session's prompt, where the file does not say.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="WHAT=COLUMN,..", help="Which column holds what (table), such as token=pos."
        ),
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
    replay import table routes.csv mine --map token=pos,layer=l,expert=ids --expert-bytes 1.77MB
    """
    from replay.units import parse_bytes

    convert = importer(format)
    request = Request(
        bytes=None if budget is None else parse_bytes(budget),
        licence=licence,
        note=note,
        force=force,
        model=model,
        experts=experts,
        top_k=top_k,
        expert_bytes=None if expert_bytes is None else parse_bytes(expert_bytes),
        prompt=prompt,
        columns=_columns(columns or []),
    )
    refuse_unread(format, request)
    result = convert(source, destination, request)
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=1))
    else:
        typer.echo(f"{result.path}: {result.windows} windows, {result.rows} rows, {result.lookups} lookups")
        typer.echo(f"{result.unit} removed: {result.removed_text()}")
    if not quiet:
        for each in result.notes:
            typer.echo(f"replay: note: {each}", err=True)
        typer.echo(f"next: replay info {shlex.quote(str(result.path))}", err=True)


def _columns(texts: list[str]) -> dict[str, str]:
    """Read ``what=column,..``, repeatable."""
    found: dict[str, str] = {}
    for text in (part for each in texts for part in each.split(",")):
        what, equals, column = (part.strip() for part in text.partition("="))
        if not (what and equals and column):
            raise InputError(f"--map {text!r}: expected WHAT=COLUMN, such as token=pos")
        if what in found:
            raise InputError(f"--map gives {what} twice; give it once")
        found[what] = column
    return found
