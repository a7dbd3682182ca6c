"""``replay verdict``: the paired test of a candidate against a baseline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from replay.amount import Amount
    from replay.verdict import Figure, Verdict


def verdict(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE ...", help="Traces; two with --recorded.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="SPEC", help="What the candidate is held against.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="SPEC", help="What may be better.")
    ] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Two recordings of the same windows: TRACE_A the baseline.")
    ] = False,
    policy_file: flags.PolicyFiles = None,
    slots: flags.Slots = None,
    bytes: flags.Bytes = None,
    budget: flags.Budget = None,
    scope: flags.Scope = "global",
    split: flags.Split = True,
    order: flags.Order = "id",
    cell: flags.Cell = "atomic",
    start: flags.Start = "cold",
    prefill: flags.Prefill = "demand",
    prompt_hot: flags.PromptHot = None,
    routes: Annotated[
        str | None,
        typer.Option(
            "--routes",
            help="recorded, rerouted, predicted or cacheprior:0.2,2.",
            show_default="rerouted where a bonus was recorded with router scores, else recorded",
        ),
    ] = None,
    clock: flags.ClockFile = None,
    mixed_models: Annotated[
        bool, typer.Option("--mixed-models", help="Pool traces of different models.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the intervals.")] = 0,
    threads: flags.Threads = None,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Test a candidate against a baseline, session by session: passed, rejected or inconclusive.

    Paired differences per committed token with 95% studentised bootstrap intervals over sessions. Rejected:
    demand misses rise beyond noise, lower traffic only turned timely hits into exposed waits, or (recorded runs
    with bonus 0) routes or output hashes differ. Inconclusive: an interval spans zero, or fewer than 8 sessions.
    Else the screen is passed; that is never "faster". Exit code 0 passed, 1 otherwise.

    Examples
    --------
    replay verdict TRACE --baseline none+lru --candidate unpert1+lru
    replay verdict TRACE_1 TRACE_2 --baseline unpert1+lru --candidate unpert1+decode2q --slots 320
    replay verdict --recorded TRACE_A TRACE_B
    """
    from replay.trace import open_trace
    from replay.verdict import verdict_recorded, verdict_replayed

    if recorded:
        if len(traces) != 2 or baseline is not None or candidate is not None:
            raise InputError("--recorded: expected two traces, and neither --baseline nor --candidate")
        found = verdict_recorded(open_trace(traces[0]), open_trace(traces[1]), seed=seed)
    else:
        if baseline is None or candidate is None:
            raise InputError("expected --baseline SPEC and --candidate SPEC, or --recorded TRACE_A TRACE_B")
        flags.add_policies(policy_file)
        semantics = flags.semantics_of(scope, split, order, cell, start, prefill, prompt_hot)
        kinds = flags.routes_of([routes]) if routes is not None else [None]
        if len(kinds) != 1:
            raise InputError(f"--routes {routes}: expected one kind")
        opened = [open_trace(each) for each in traces]
        params = flags.clock_of(opened[0], clock, False) if clock is not None else None
        with flags.progress(sum(len(each.windows) for each in opened), quiet) as progress:
            found = verdict_replayed(
                opened, baseline, candidate, slots=slots, bytes=bytes, budget=budget, semantics=semantics,
                routes=kinds[0], clock=params, mixed=mixed_models, seed=seed, threads=threads, progress=progress,
            )  # fmt: skip
    if as_json:
        import json

        typer.echo(json.dumps(found.as_dict(), indent=1, allow_nan=False))
    else:
        _print(found, quiet)
    if not found.passed:
        raise CheckFailed(f"{found.outcome}: {'; '.join(found.reasons)}")


def _print(found: "Verdict", quiet: bool) -> None:
    from replay.amount import amount
    from replay.cli.table import aligned

    unit = amount(found.info["sized"])
    if not quiet:
        for line in _heading(found):
            typer.echo(line, err=True)
    headers = (
        "per committed token",
        "baseline",
        "candidate",
        "difference",
        "95% low",
        "high",
        "beyond noise",
    )
    typer.echo(aligned(headers, [_row(each, unit) for each in found.figures]))
    typer.echo("")
    typer.echo(aligned(("sessions", "count", *_SHOWN), [_group(each, unit) for each in found.groups]))
    if found.ladder:
        typer.echo("")
        rows = [[each.change, *_figures(each.figures, unit), each.outcome] for each in found.ladder]
        typer.echo(aligned(("one part at a time", *_SHOWN, "on its own"), rows))
    typer.echo("")
    typer.echo(f"{found.outcome}: {'; '.join(found.reasons)}")


_SHOWN = ("misses", "disk_bytes", "wait_us")


def _heading(found: "Verdict") -> list[str]:
    info = found.info
    lines = [f"baseline   {found.baseline}", f"candidate  {found.candidate}"]
    if found.kind == "replayed":
        lines.append(
            f"replayed   routes {info['routes']}; {', '.join(each['origin'] for each in info['bounds'])}"
        )
    traces = "1 trace" if len(found.traces) == 1 else f"{len(found.traces)} traces"
    lines.append(f"sessions   {found.sessions} from {traces}; seed {info['seed']}")
    return [*lines, *(f"note       {each}" for each in found.notes), ""]


def _number(value: float | None, name: str, unit_of: "Amount", signed: bool = False) -> str | None:
    """A figure as a person reads it: bytes in MB, or experts where their sizes are not known."""
    if value is None:
        return None
    scaled, unit = (value / unit_of.size, f" {unit_of.unit}") if name.endswith("_bytes") else (value, "")
    form = ("+" if signed else "") + (",.4g" if abs(scaled) < 1e4 else ",.0f")
    return f"{scaled:{form}}{unit}"


def _row(figure: "Figure", unit: "Amount") -> list[Any]:
    says = "rises" if figure.rises else "falls" if figure.falls else "no"
    return [
        figure.name,
        _number(figure.baseline, figure.name, unit),
        _number(figure.candidate, figure.name, unit),
        *(_number(each, figure.name, unit, True) for each in (figure.difference, figure.low, figure.high)),
        says,
    ]


def _figures(figures: "list[Figure]", unit: "Amount") -> list[str | None]:
    """The difference of the figures that are shown, with its interval."""
    by_name = {each.name: each for each in figures}
    cells: list[str | None] = []
    for name in _SHOWN:
        each = by_name.get(name)
        if each is None:
            cells.append(None)
            continue
        ends = [_number(end, name, unit, True) for end in (each.low, each.high)]
        interval = "" if ends == [None, None] else f" ({ends[0] or '-inf'} to {ends[1] or 'inf'})"
        cells.append(f"{_number(each.difference, name, unit, True)}{interval}")
    return cells


def _group(group: Any, unit: "Amount") -> list[Any]:
    return [group.name, group.sessions, *_figures(group.figures, unit)]
