"""``replay frontier``: what families of guesses read ahead against what they spare."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags

if TYPE_CHECKING:
    from replay.frontier.study import Frontier


def frontier(
    trace: flags.TracePath,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--policy", metavar="SPEC", help="A family: one option may be a range a..b (repeatable)."
        ),
    ] = None,
    out: flags.Out = None,
    sessions: Annotated[
        str | None,
        typer.Option("--sessions", metavar="4-11", help="Sessions to score, cold and in order; else all."),
    ] = None,
    points: Annotated[int, typer.Option("--points", metavar="N", help="Points of a range.")] = 9,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="Play the families on shuffled windows too.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the shuffling and the intervals.")] = 0,
    slots: flags.Slots = None,
    bytes: flags.Bytes = None,
    scope: flags.Scope = "global",
    split: flags.Split = True,
    order: flags.Order = "id",
    cell: flags.Cell = "atomic",
    start: flags.Start = "cold",
    prefill: flags.Prefill = "demand",
    prompt_hot: flags.PromptHot = None,
    routes: Annotated[
        str, typer.Option("--routes", help="recorded, rerouted, predicted or cacheprior:0.2,2; one.")
    ] = "recorded",
    clock: flags.ClockFile = None,
    no_clock: flags.NoClock = False,
    threads: flags.Threads = None,
    force: flags.Force = False,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Set what families of guesses read ahead against the misses (and exposed wait) that they leave.

    A family is a policy with one option as a range: route:k=1..16, or route:k=16+margin:-2..2. All points of all
    families play in one pass, beside no read-ahead, the oracle, the recorded policy, and with --sessions a pinned set
    learned on the others. Families are compared at equal bytes, session by session, with intervals. Then all play on
    windows in random order within each session: a gain that survives is flagged, as it did not use time.

    Examples
    --------
    replay frontier traces/e256-moce --out frontier
    replay frontier traces/e64-spec -p route:k=1..16 -p route:k=16+margin:-2..2 --points 13
    """
    from replay.frontier.study import frontier as run_frontier
    from replay.trace import open_trace

    semantics = flags.semantics_of(scope, split, order, cell, start, prefill, prompt_hot)
    (kind,) = _one_kind(routes)
    opened = open_trace(trace)
    params = flags.clock_of(opened, clock, no_clock)
    if out is not None:
        from replay.run import RUN_FILE
        from replay.trace.staging import refuse_taken

        refuse_taken(out, RUN_FILE, force)
    with flags.progress((1 + controls) * len(opened.windows), quiet) as progress:
        found = run_frontier(
            opened, policy or (), sessions=sessions, slots=slots, bytes=bytes, semantics=semantics, routes=kind,
            clock=params, points=points, controls=controls, seed=seed, threads=threads, progress=progress,
        )  # fmt: skip
    if out is not None:
        _write(found, out, force)
    if as_json:
        import json

        body = {"points": found.points.to_dicts(), "against": found.against.to_dicts()}
        typer.echo(
            json.dumps({**body, "controls": found.controls, "run": found.info}, indent=1, allow_nan=False)
        )
        return
    _print(found, out, quiet)


def _one_kind(routes: str) -> Any:
    from replay.errors import InputError

    kinds = flags.routes_of([routes])
    if len(kinds) != 1:
        raise InputError(f"--routes {routes}: a frontier follows one kind; give one")
    return kinds


def _write(found: "Frontier", out: Any, force: bool) -> None:
    from replay.plot import save
    from replay.plot.thresholds import plot_thresholds
    from replay.run import RUN_FILE
    from replay.trace.staging import staged_folder

    with staged_folder(out, RUN_FILE, force) as staged:
        found.write(staged)
        save(plot_thresholds(found.drawable(), sized=found.info["trace"]["sized"]), staged / "frontier.svg")


def _print(found: "Frontier", out: Any, quiet: bool) -> None:
    from replay.cli.table import aligned

    if not quiet:
        for line in _heading(found):
            typer.echo(line, err=True)
    typer.echo(aligned(*_points(found)))
    typer.echo("")
    if len(found.against):
        headers, rows = _against(found)
        typer.echo(aligned(headers, rows))
        typer.echo("")
        if not quiet and any(_UNBOUNDED in row[-2:] for row in rows):
            typer.echo("unbounded: too few sessions differ to bound that end of the interval\n", err=True)
    if found.controls:
        typer.echo(aligned(*_controls(found)))
    if not quiet:
        said = (
            f"\nwritten to {out}" if out is not None else "\nnext: --out DIR keeps the tables and the chart"
        )
        typer.echo(said, err=True)


def _heading(found: "Frontier") -> list[str]:
    info = found.info
    trace, bound, ways = info["trace"], info["bound"], info["semantics"]
    held = f"{'+'.join(map(str, bound['slots']))} slots" if bound["slots"] else f"{bound['bytes']} bytes"
    scored = f"{info['scored']['windows']} windows, {info['scored']['sessions']} sessions"
    return [
        f"trace      {trace['name']}: {trace['model']}; scored {scored}"
        + (f" ({info['sessions']})" if info["sessions"] else ""),
        f"arena      {held} ({bound['origin']}), scope {ways['scope']}; routes {info['routes']}",
        *(f"note       {text}" for text in info["left_out"]),
        *(f"warning    {text}" for text in info["warnings"]),
        "",
    ]


def _points(found: "Frontier") -> tuple[list[str], list[list[Any]]]:
    """One line a point on recorded windows."""
    import polars as pl

    from replay.amount import amount

    def fixed(value: float | None, digits: int, unit: float = 1.0) -> str | None:
        return None if value is None else f"{value / unit:,.{digits}f}"

    def share(value: float | None) -> str | None:
        return None if value is None else f"{value:.1%}"

    sized = found.info["trace"]["sized"]
    timed, unit = sized and found.info["clock"] is not None, amount(sized)
    headers = [
        "policy",
        f"{unit.unit} ahead/tok",
        "misses/tok",
        "precision",
        "coverage",
        f"{unit.unit} a miss avoided",
        "pollution",
    ]
    rows = []
    for row in found.points.filter(pl.col("windows") == "recorded").iter_rows(named=True):
        name = (
            row["policy"]
            if row["kind"] in ("family", "none", "oracle")
            else f"{row['policy']} ({row['kind']})"
        )
        cells: list[Any] = [
            name,
            fixed(row["read_ahead_bytes_per_token"], 2, unit.size),
            fixed(row["misses_per_token"], 2),
            share(row["precision_ratio"]),
            share(row["coverage_ratio"]),
            fixed(row["bytes_per_miss_avoided"], 2, unit.size),
            share(row["pollution"] / row["misses"] if row["misses"] else None),
        ]
        rows.append([*cells, *([fixed(row["wait_us_per_token"], 0)] if timed else [])])
    return [*headers, *(["wait us/tok"] if timed else [])], rows


_UNBOUNDED = "unbounded"
"""An end of an interval that too few sessions, or too few that differ, leave open."""


def _against(found: "Frontier") -> tuple[list[str], list[list[Any]]]:
    """One line a pair of families and figure: points beyond noise, and the worst one."""
    headers = [
        "family",
        "against",
        "per token",
        "points",
        "better",
        "worse",
        "worst difference",
        "95% low",
        "high",
    ]
    rows = []
    for (family, other, figure), part in found.against.group_by(
        ["family", "against", "figure"], maintain_order=True
    ):
        worst = part.sort("difference", descending=True, maintain_order=True).row(0, named=True)
        better, worse = int((part["high"] < 0).sum()), int((part["low"] > 0).sum())
        ends = [
            _UNBOUNDED if each is None else float(f"{each:.4g}") for each in (worst["low"], worst["high"])
        ]
        rows.append(
            [family, other, figure, len(part), better, worse, float(f"{worst['difference']:.4g}"), *ends]
        )
    return headers, rows


def _controls(found: "Frontier") -> tuple[list[str], list[list[Any]]]:
    headers = ["family: misses spared at its best", "at", "recorded order", "shuffled", "left", ""]
    rows = []
    for each in found.controls:
        left = None if each["left"] is None else f"{each['left']:.0%}"
        flag = "survives shuffling: did not use time" if each["flagged"] else ""
        rows.append(
            [each["family"], each["policy"], f"{each['gain']:.1%}", f"{each['shuffled']:.1%}", left, flag]
        )
    return headers, rows
