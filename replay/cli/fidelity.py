"""``replay fidelity``: replay the recorded policy and hold it against the record."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from replay.cli.flags import Json, TracePath
from replay.errors import CheckFailed

if TYPE_CHECKING:
    from replay.fidelity import Difference, Fidelity

_OUTCOMES = {0: "miss", 1: "hit", 2: "read ahead", 255: "unknown"}


def fidelity(path: TracePath, as_json: Json = False) -> None:
    """Replay the recorded policy and compare it with the record, event by event.

    The policy, its bound and its options are those of trace.json. Compared is what the trace has: the outcome
    of each lookup, the counters of each event, the residents before it; prefill included. Exit code 1 where
    something differs, 2 where there is nothing to replay or to compare with.

    Examples
    --------
    replay fidelity TRACE
    replay fidelity TRACE --json
    """
    from replay.fidelity import check_fidelity
    from replay.trace import open_trace

    result = check_fidelity(open_trace(path))
    if as_json:
        typer.echo(json.dumps(asdict(result) | {"holds": result.holds}, indent=1))
    else:
        _show(result)
    if result.first is not None:
        first = result.first
        raise CheckFailed(
            f"{path}: {result.events - result.equal} of {result.events} events differ from the record; the first is "
            f"window {first.window}, layer {first.layer}"
        )


def _show(result: "Fidelity") -> None:
    """Print what was replayed, how much of it agrees, and the first event that does not."""
    from replay.cli.table import aligned

    options = ", ".join(
        f"{name} {_word(value)}" for name, value in result.semantics.items() if value is not None
    )
    typer.echo(f"replayed {result.policy}, {result.bound}: {options}")
    typer.echo(f"compared with the recorded {', '.join(result.compared)}\n")
    rows: list[list[object]] = [["events", "", result.events, result.equal]]
    if result.lookups:
        rows.append(["lookups", "outcome", result.lookups, result.lookups_equal])
    typer.echo(aligned(("what", "from", "compared", "equal"), rows))
    typer.echo()
    totals = [[each.name, each.source, each.recorded, each.replayed] for each in result.totals]
    typer.echo(aligned(("total", "from", "recorded", "replayed"), totals))
    if result.first is not None:
        typer.echo("\n" + _first(result.first))


def _word(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _first(first: "Difference") -> str:
    """Lay out the first event that differs, both sides."""
    lines = [f"first event that differs: window {first.window}, layer {first.layer}"]
    if first.experts:
        lines.append(f"  experts   {_ids(first.experts)}")
    for name, side in (("recorded", first.recorded), ("replayed", first.replayed)):
        parts = []
        for key, value in side.items():
            if key == "outcome":
                value = " ".join(f"{expert}:{_OUTCOMES[outcome]}" for expert, outcome in value)
            elif key == "residents":
                key, value = "residents before", _ids(value)
            parts.append(f"{key} {value}")
        lines.append(f"  {name}  {'; '.join(parts)}")
    return "\n".join(lines)


def _ids(ids: list[int]) -> str:
    return " ".join(map(str, ids)) or "none"
