"""``replay diff``: what changed between two runs of the same trace."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from replay.difference import Difference

SHOWN = 40
"""Most lines of figures that a terminal gets; ``--json`` has them all."""

_RUN = "A folder that `replay compare --out` wrote."


def diff(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help=_RUN)],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another of the same trace.")],
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="P%", help="Change of a figure up to which all is well.")
    ] = "0%",
    per: Annotated[
        str, typer.Option("--per", help="How fine: total, layer or window (each with those before).")
    ] = "layer",
    as_json: Annotated[bool, typer.Option("--json", help="Print every difference as JSON.")] = False,
) -> None:
    """Show what changed between two runs of the same trace: versions, settings, every figure, per layer.

    For regression checks: exit code 1 where a figure changed by more than the tolerance, or is in one run only; 0
    otherwise, whatever versions and settings say. Without --tolerance whole numbers are exact. A change is relative
    to RUN_A; of figures that are ratios it is the difference. Runs of different traces are refused.

    Examples
    --------
    replay diff run-before run-after
    replay diff run-before run-after --tolerance 0.5% --per total
    """
    from replay.difference import TABLES, difference
    from replay.errors import nearest
    from replay.run import load
    from replay.units import parse_share

    if per not in TABLES:
        raise InputError(f"--per {per}: no such level; {nearest(per, TABLES)}")
    limit = parse_share(tolerance)
    found = difference(load(run_a, older=True), load(run_b, older=True), tolerance=limit, level=per)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1, allow_nan=False))
    else:
        _show(found)
    if found.beyond:
        by = f" by more than {tolerance}" if limit else ""
        raise CheckFailed(
            f"{found.beyond} of {found.compared} figures of {run_b} differ from those of {run_a}{by}"
        )


def _show(found: "Difference") -> None:
    """Print what is not the same: versions and settings, then a line a policy and figure."""
    from replay.cli.table import aligned

    for what, changed in (("version", found.versions), ("setting", found.settings)):
        if changed:
            typer.echo(
                aligned((what, "A", "B"), [[name, _text(a), _text(b)] for name, a, b in changed]) + "\n"
            )
    if not len(found.figures):
        typer.echo(f"{found.trace}: all {found.compared} figures are the same")
        return
    lines = found.by_figure()
    several = lines["routes"].n_unique() > 1
    rows = [_line(row, several) for row in lines.head(SHOWN).iter_rows(named=True)]
    headers = ("table", "policy", "figure", "differ", "beyond", "most at", "A", "B", "change")
    typer.echo(aligned(headers, rows))
    if len(lines) > SHOWN:
        typer.echo(f".. and {len(lines) - SHOWN} more lines; --json has every figure")
    typer.echo(
        f"\n{found.trace}: {len(found.figures)} of {found.compared} figures differ, {found.beyond} beyond"
    )


def _line(row: dict[str, Any], several: bool) -> list[Any]:
    from replay.difference import shown

    where = [f"{name} {row[name]}" for name in ("layer", "window", "capacity") if row[name] is not None]
    place = ", ".join([*([row["phase"]] if row["phase"] else []), *where])
    policy = f"{row['policy']} ({row['routes']})" if several else row["policy"]
    change = None if row["change_ratio"] is None else f"{row['change_ratio']:+.3%}"
    sides = shown(row)
    counts = [row["differ"], row["beyond"]]
    return [row["table"], policy, row["figure"], *counts, place or None, sides["a"], sides["b"], change]


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else json.dumps(value)
