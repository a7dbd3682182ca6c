"""``replay compare``: policies side by side on one trace."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from replay.run import Run
    from replay.trace import Trace


def compare(
    trace: flags.TracePath,
    policy: flags.Specs = None,
    out: flags.Out = None,
    policy_file: flags.PolicyFiles = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="'NAME=V ..'", help="A policy as the engine's switches (repeatable)."),
    ] = None,
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
    routes: flags.RouteKinds = None,
    grid: Annotated[
        str, typer.Option("--grid", help="Capacities of the curves, as factors of the bound.")
    ] = ("0.25,0.5,0.75,1,1.5,2"),
    no_curves: Annotated[
        bool, typer.Option("--no-curves", help="No curves: only the bound is replayed.")
    ] = False,
    clock: flags.ClockFile = None,
    clock_grid: flags.ClockGrid = None,
    no_clock: flags.NoClock = False,
    reads: Annotated[
        bool, typer.Option("--reads", help="Write every read of every policy (reads.parquet).")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="SPEC", help="Changes are against this one; else the first."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            "--control", metavar="shuffled", help="Play windows in random order within each session."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the control.")] = 0,
    skip: flags.Skip = False,
    threads: flags.Threads = None,
    force: flags.Force = False,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Replay a trace through policies and compare hits, misses, read-ahead and bytes per layer.

    Without -p: none+lru, and unpert1, unpert0 and route:p=1, each with lru and decode2q; on a trace without
    candidates none with lru, decode2q, lfu, sieve and belady. Without --slots or --bytes: what the trace recorded,
    else 17.6% of the experts. Without --out it only prints.

    Examples
    --------
    replay compare traces/e256-moce
    replay compare traces/e256-moce -p none+lru -p unpert1:k=8+lru --slots 17.6% --out run
    replay compare traces/e64-spec -p unpert1+cumulative:0.25 --clock disk.toml --json
    """
    from replay.comparison.comparison import compare as run_compare
    from replay.spec.switches import spec_from_switches
    from replay.trace import open_trace

    flags.add_policies(policy_file)
    texts = [*(policy or ()), *(spec_from_switches(each) for each in env or ())]
    semantics = flags.semantics_of(scope, split, order, cell, start, prefill, prompt_hot)
    factors = () if no_curves else flags.grid_of(grid)
    kinds = flags.routes_of(routes)
    if reads and (no_clock or out is None):
        raise InputError("--reads: needs a clock and --out; leave out --no-clock, give --out DIR")
    opened = open_trace(trace)
    params = flags.clock_of(opened, clock, no_clock)
    clocks = flags.clocks_of(clock_grid, params)
    if out is not None:
        from replay.run import RUN_FILE
        from replay.trace.staging import refuse_taken

        refuse_taken(out, RUN_FILE, force)
    with flags.progress(len(opened.windows), quiet) as progress:
        run = run_compare(
            opened, texts, slots=slots, bytes=bytes, budget=budget, semantics=semantics, routes=kinds, grid=factors,
            clock=params, clock_grid=clocks, baseline=baseline, skip=skip, reads=reads, part=routes is None, check=True,
            control=flags.control_of(control, seed),
            threads=threads, progress=progress,
        )  # fmt: skip
    if out is not None:
        from replay.report import write_run

        write_run(run, out, force)
    if as_json:
        _print_json(run)
    else:
        _print(run, opened, out, quiet)


def _print_json(run: "Run") -> None:
    import json

    typer.echo(json.dumps({"summary": run.summary, "run": run.info}, indent=1, allow_nan=False))


def _print(run: "Run", trace: "Trace", out: Any, quiet: bool) -> None:
    from replay.cli.table import aligned, shown

    if not quiet:
        for line in _heading(run):
            typer.echo(shown(line), err=True)
    sized = run.info["trace"]["sized"]
    typer.echo(aligned(*_table(run.summary, sized and run.info["clock"] is not None, sized)))
    typer.echo("")
    if any(row["picks_made"] for row in run.summary):
        typer.echo(aligned(*_agreement(run)))
        typer.echo("")
    if run.sensitivity is not None and sized:
        typer.echo(aligned(*_moves(run)))
        typer.echo("")
    typer.echo(_worst(run))
    if not quiet:
        for line in _next(run, trace, out):
            typer.echo(line, err=True)


def _heading(run: "Run") -> list[str]:
    """What was replayed, and what to know of it."""
    from replay.plot.style import is_bound
    from replay.units import counted

    info = run.info
    trace, bound, ways = info["trace"], info["bound"], info["semantics"]
    held = f"{'+'.join(map(str, bound['slots']))} slots" if bound["slots"] else f"{bound['bytes']} bytes"
    lines = [
        f"trace      {trace['name']}: {trace['model']}, {counted(trace['layers'], 'layer')} x "
        f"{counted(trace['experts'], 'expert')}, top-{trace['top_k']}; {counted(trace['windows'], 'window')}, "
        f"{counted(trace['sessions'], 'session')}",
        f"arena      {held} ({bound['origin']}), scope {ways['scope']}",
        f"semantics  routes {', '.join(info['routes'])}; order {ways['order']}, cell {ways['cell']}, "
        f"split {'on' if ways['split'] else 'off'}, start {ways['start']}, prefill {ways['prefill']}"
        + (f", prompt-hot {ways['prompt_hot']}" if ways["prompt_hot"] else ""),
    ]
    resolved = {each["policy"]: each["resolved"] for each in info["policies"]}
    lines += [f"policy     {name}: {text}" for name, text in resolved.items()]
    lines += [f"same       by construction: {' = '.join(group)}" for group in info["same_by_construction"]]
    if bounds := [name for name in resolved if is_bound(name)]:
        lines.append(f"bound      no engine runs it, it looks into the future: {', '.join(bounds)}")
    lines += [f"note       {text}" for text in (*info["left_out"], *info["notes"])]
    lines += [f"warning    {text}" for text in info["warnings"]]
    return [*lines, ""]


def _table(summary: list[dict[str, Any]], timed: bool, sized: bool) -> tuple[list[str], list[list[Any]]]:
    """One line a policy, per token; where the experts' sizes are not known, experts for bytes and no times."""
    from replay.amount import amount, asked

    unit = amount(sized)
    read = f"{unit.unit} read/tok"
    headers = ["policy", "misses/tok", "change", "prefetch hits/tok", "issued/tok", "unused", read]
    several = len({row["routes"] for row in summary}) > 1
    headers = [
        headers[0],
        *(["routes"] if several else []),
        *headers[1:],
        *(["late", "wait us/tok"] if timed else []),
    ]
    rows = []
    for row in summary if sized else map(asked, summary):
        unused = None
        if row["issued"]:
            unused = f"{row['retired'] / row['issued']:.1%}"
        change = row["misses_change_ratio"]
        cells: list[Any] = [
            row["policy"],
            *([row["routes"]] if several else []),
            _fixed(row["misses_per_token"], 2),
            None if change is None else f"{change:+.1%}",
            _fixed(row["prefetch_hits_per_token"], 2),
            _fixed(row["issued_per_token"], 2),
            unused,
            None if row["read_bytes_per_token"] is None else unit.text(row["read_bytes_per_token"]),
        ]
        if timed:
            claimed = row["timely"] + row["late"]
            cells += [
                f"{row['late'] / claimed:.1%}" if claimed else None,
                _fixed(row["wait_us_per_token"], 0),
            ]
        rows.append(cells)
    return headers, rows


def _agreement(run: "Run") -> tuple[list[str], list[list[Any]]]:
    """One line a policy under routes that are not the recorded ones: what they change about the picks."""
    headers = [
        "policy",
        "routes",
        "picks changed",
        "first tenth",
        "last tenth",
        "mass given up",
        "p99",
        "most at",
    ]
    rows = []
    for row in run.summary:
        if not row["picks_made"]:
            continue
        changed = [row[f"picks_kept{each}_ratio"] for each in ("", "_first", "_last")]
        rows.append(
            [
                row["policy"],
                row["routes"],
                *(None if each is None else f"{1 - each:.1%}" for each in changed),
                *(None if row[name] is None else f"{row[name]:.2%}" for name in _GIVEN_UP),
                _most_changed(run, row),
            ]
        )
    return headers, rows


_GIVEN_UP = ("given_up_mean_ratio", "given_up_p99_ratio")


def _most_changed(run: "Run", row: dict[str, Any]) -> str:
    """The layer where most picks changed."""
    import polars as pl

    assert run.routes is not None
    mine = run.routes.filter((pl.col("policy") == row["policy"]) & (pl.col("routes") == row["routes"]))
    by_layer = (
        mine.group_by("layer").agg(pl.col("picks_made", "picks_kept").sum()).filter(pl.col("picks_made") > 0)
    )
    changed = by_layer.with_columns(changed=1 - pl.col("picks_kept") / pl.col("picks_made"))
    worst = changed.sort(["changed", "layer"], descending=[True, False]).row(0, named=True)
    return f"layer {worst['layer']} ({worst['changed']:.1%})"


def _moves(run: "Run") -> tuple[list[str], list[list[Any]]]:
    """One line a policy: how far the fates of its reads, and its waits, move over the grid of clocks."""
    from replay.comparison.sensitivity import FATES, moves

    assert run.sensitivity is not None
    found = moves(run.sensitivity)
    clocks = len(run.sensitivity) // max(len(found), 1)
    several = len({each.routes for each in found}) > 1
    rows = []
    for each in found:
        shares = [
            None if ends is None else f"{ends[0]:.0%} to {ends[1]:.0%}"
            for ends in map(each.shares.get, FATES)
        ]
        wait = each.wait_us_per_token
        rows.append(
            [
                each.policy,
                *([each.routes] if several else []),
                *shares,
                None if wait is None else f"{wait[0]:,.0f} to {wait[1]:,.0f}",
                f"{each.least} of {clocks}",
                ", ".join(each.moving) or "none",
            ]
        )
    headers = ["policy", *(["routes"] if several else []), *FATES, "wait us/tok", "least wait", "moving"]
    return headers, rows


def _fixed(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:,.{digits}f}"


def _worst(run: "Run") -> str:
    """The five layers whose decode windows miss most under the baseline, as the report names them."""
    import polars as pl

    base = run.info["baseline"]
    mine = (pl.col("policy") == base) & (pl.col("routes") == run.info["routes"][0])
    rows = run.layers.filter(mine & (pl.col("phase") == "decode"))
    if rows.is_empty():
        return "no decode window is counted: no layer misses anything per token"
    by_layer = rows.group_by("layer").agg(pl.col("misses").sum(), pl.col("lookups").sum())
    worst = by_layer.sort(["misses", "layer"], descending=[True, False]).head(5)
    total = max(int(by_layer["misses"].sum()), 1)
    parts = [
        f"layer {row['layer']} ({row['misses'] / total:.1%} of misses)" for row in worst.iter_rows(named=True)
    ]
    return f"most misses under {base}: {', '.join(parts)}"


def _next(run: "Run", trace: "Trace", out: Any) -> list[str]:
    """What to run next."""
    import shlex

    if out is not None:
        return [
            f"\nwritten to {out}; open {out}/report.html",
            f'next: replay query {shlex.quote(str(out))} "select policy, misses_per_token from summary order by 2"',  # noqa: S608 (shown, not run)
        ]
    return [
        f"\nnext: replay compare {shlex.quote(str(trace.path))} --out DIR keeps the tables and charts; "
        "replay policies lists policies"
    ]
