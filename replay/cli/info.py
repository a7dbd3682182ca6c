"""``replay info``: what a trace holds, what can be replayed with it, and how it looks."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.units import counted, format_bytes

if TYPE_CHECKING:
    from replay.trace import Trace


def info(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a trace holds, what can be replayed with it, and how it looks.

    The look: tied scores, lost ranks, start-up rows, uniform weights, picks without popularity or reuse; each is
    a warning with its share. The picks of the first 20,000 windows and the scores of the first 2,000 are looked
    at; `replay validate` checks every row.

    Examples
    --------
    replay info traces/e256-moce
    replay info traces/e256-moce --json
    """
    from replay.spec.resolve import unknown_recorded
    from replay.trace import open_trace
    from replay.trace.info import describe

    opened = open_trace(trace)
    found = describe(opened)
    found["policies"] = _policies(opened)
    found["warnings"] += [text for text in (unknown_recorded(opened.meta),) if text is not None]
    if as_json:
        typer.echo(json.dumps(found, indent=1, allow_nan=False, default=str))
    else:
        typer.echo("\n".join(_lines(found)))


def _policies(trace: "Trace") -> dict[str, str | None]:
    """For each policy, what the trace lacks for it; None: it runs."""
    from replay.declare.policy import lacking
    from replay.spec.grammar import declaration, names

    return {name: lacking(declaration(name), trace.tables, trace.sparse) for name in names()}


def _lines(found: dict[str, Any]) -> list[str]:
    """Lay the description out for a terminal."""
    from replay.cli.table import aligned, cell

    model, windows, sizes = found["model"], found["windows"], found["sizes"]
    token = model["layers"] * model["top_k"]
    lines = [
        f"{cell(found['trace'])}: {cell(model['name'])}",
        f"model     {counted(model['layers'], 'layer')} of {counted(model['experts'], 'expert')}, top {model['top_k']}",
        f"windows   {windows['count']}: decode {windows['decode']} ({windows['decode_rows']} rows), prefill "
        f"{windows['prefill']} ({windows['prefill_rows']} rows); sessions {windows['sessions']}",
        f"experts   {sizes['experts']} of {_span(sizes)}; "
        f"size classes {len(sizes['classes'])}; a token wants {token}",
        f"router    {_settings(found['router'])}",
        f"policy    {_settings(found['policy'])}",
    ]
    if windows["domains"]:
        lines.insert(3, f"domains   {', '.join(cell(name) for name in windows['domains'])}")
    rows = [
        (
            name,
            table["rows"],
            format_bytes(table["bytes"]),
            table["row_groups"],
            table.get("windows"),
            _kind(table),
        )
        for name, table in found["tables"].items()
    ]
    lines += ["", aligned(("table", "rows", "size", "row groups", "windows", "columns"), rows), ""]
    lines += _replayable(found["policies"])
    lines += ["", "warnings:" if found["warnings"] else "no warnings"]
    lines += [f"  {warning}" for warning in found["warnings"]]
    return [*lines, "", f"next: replay compare {cell(shlex.quote(found['trace']))}"]


def _span(sizes: dict[str, Any]) -> str:
    if not sizes["known"]:
        return "a size that is not known"
    low, high = format_bytes(sizes["smallest_bytes"]), format_bytes(sizes["largest_bytes"])
    return f"{low if low == high else f'{low} to {high}'}, {format_bytes(sizes['bytes'])} in all"


def _settings(values: dict[str, Any] | None) -> str:
    return "not known" if values is None else json.dumps(values).strip("{}").replace('"', "")


def _kind(table: dict[str, Any]) -> str:
    scores = f" ({table['scores']})" if "scores" in table else ""
    ignored = f"; ignored: {', '.join(table['ignored'])}" if table["ignored"] else ""
    return ", ".join(table["columns"]) + scores + ignored


def _replayable(policies: dict[str, str | None]) -> list[str]:
    """Group the policies by what is lacking."""
    lines = [f"replays   {', '.join(name for name, reason in policies.items() if reason is None)}"]
    for reason in sorted({reason for reason in policies.values() if reason is not None}):
        names = ", ".join(name for name, each in policies.items() if each == reason)
        lines.append(f"not       {names}: {reason}")
    return lines
