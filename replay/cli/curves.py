"""``replay curves``: miss curves of policies over a range of capacities."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from replay.survey.survey import Survey

MOST_LINES = 24
"""Capacities that the printed table shows."""


def curves(
    trace: flags.TracePath,
    policy: flags.Specs = None,
    policy_file: flags.PolicyFiles = None,
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            metavar="N,..|A%..B%:N|SIZE,..|all",
            help="Capacities: slots, shares, bytes, ranges of N; or all (curves of one pass only).",
        ),
    ] = "2.5%..100%:40",
    layers: Annotated[
        str, typer.Option("--layers", metavar="all|3,7", help="Layers whose curves are kept apart.")
    ] = "all",
    out: flags.Out = None,
    scope: flags.Scope = "global",
    split: flags.Split = True,
    order: flags.Order = "id",
    cell: flags.Cell = "atomic",
    start: flags.Start = "cold",
    prefill: flags.Prefill = "demand",
    prompt_hot: flags.PromptHot = None,
    routes: flags.RouteKinds = None,
    skip: flags.Skip = False,
    threads: flags.Threads = None,
    force: flags.Force = False,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Draw what policies miss over a range of capacities: in total, by layer, session and domain.

    Without -p: lru and belady, the offline bound. lru with --order rows or --cell sequential, and belady, take
    one pass for all capacities; other policies are replayed at each. A capacity below the widest event gives no
    figures. Writes curves.parquet, worst_layers.csv and charts; without --out it only prints.

    Examples
    --------
    replay curves traces/e256-moce -p lru -p s3fifo -p belady --grid 1%..60%:24 --out curves
    replay curves traces/e64-moce --order rows --grid all --layers 3,7 --out curves
    replay curves traces/e256-moce --policy-file mine.py -p mine -p lru --grid 10%..60%:12
    """
    from replay.survey.grid import parse_grid
    from replay.survey.survey import survey
    from replay.trace import open_trace

    flags.add_policies(policy_file)
    semantics = flags.semantics_of(scope, split, order, cell, start, prefill, prompt_hot)
    kinds = flags.routes_of(routes)
    opened = open_trace(trace)
    capacities = parse_grid(grid, opened.classes)
    chosen = _layers(layers)
    if out is not None:
        from replay.run import RUN_FILE
        from replay.trace.staging import refuse_taken

        refuse_taken(out, RUN_FILE, force)
    with flags.progress(len(opened.windows), quiet) as progress:
        found = survey(
            opened, policy or (), capacities, semantics=semantics, routes=kinds, layers=chosen, skip=skip,
            threads=threads, progress=progress,
        )  # fmt: skip
    if out is not None:
        from replay.report.survey import write_survey

        write_survey(found, out, force)
    if as_json:
        _print_json(found)
    else:
        _print(found, trace, out, quiet)


def _layers(text: str) -> list[int] | None:
    """Read ``--layers``: None for all of them."""
    if text.strip() == "all":
        return None
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdecimal() and len(each) < 6 for each in parts):
        raise InputError(f"--layers {text}: expected all, or layers such as 3,7")
    return [int(each) for each in parts]


def _totals(found: "Survey") -> Any:
    """Rows of all layers, sessions and domains together, of decode where there is any."""
    import polars as pl

    whole = found.curves.filter(pl.all_horizontal(pl.col("layer", "session", "domain").is_null()))
    decode = whole.filter(pl.col("phase") == "decode")
    return decode if len(decode) else whole


def _print_json(found: "Survey") -> None:
    import json

    rows = _totals(found).to_dicts()
    typer.echo(json.dumps({"curves": rows, "run": found.info}, indent=1, allow_nan=False))


def _print(found: "Survey", trace: Any, out: Any, quiet: bool) -> None:
    from replay.cli.table import aligned

    if not quiet:
        for line in _heading(found):
            typer.echo(line, err=True)
    typer.echo(aligned(*_table(found)))
    typer.echo("")
    for line in (*_halving(found), *_worst(found)):
        typer.echo(line)
    if not quiet:
        typer.echo(f"\n{_next(trace, out)}", err=True)


def _heading(found: "Survey") -> list[str]:
    """What was played, and what to know of it."""
    from replay.units import counted

    info = found.info
    trace, ways, token = info["trace"], info["semantics"], info["token"]
    lines = [
        f"trace      {trace['name']}: {trace['model']}, {counted(trace['layers'], 'layer')} x "
        f"{counted(trace['experts'], 'expert')}, top-{trace['top_k']}; {counted(trace['windows'], 'window')}, "
        f"{counted(trace['sessions'], 'session')}",
        f"token      one token wants {counted(token['slots'], 'expert')}"
        + (f", {token['bytes'] / 1e6:,.1f} MB" if trace["sized"] else ""),
        f"semantics  routes {', '.join(info['routes'])}; scope {ways['scope']}, order {ways['order']}, "
        f"cell {ways['cell']}, start {ways['start']}, prefill {ways['prefill']}",
        f"grid       {info['grid']['text']}: {info['grid']['capacities']} capacities; in one pass: "
        f"{', '.join(info['one_pass']) or 'none'}",
    ]
    lines += [f"policy     {each['policy']}: {each['resolved']}" for each in info["policies"]]
    for kind in ("left_out", "notes"):
        lines += [f"note       {text}" for text in info[kind]]
    return [*lines, *(f"warning    {text}" for text in info["warnings"]), ""]


def _table(found: "Survey") -> tuple[list[str], list[list[Any]]]:
    """Hit ratio of each policy, a line a capacity; some of them where there are many."""
    totals = _totals(found)
    by_bytes = totals["capacity_bytes"].is_not_null().any()
    key = "capacity_bytes" if by_bytes else "capacity_slots"
    series: dict[str, dict[int, float | None]] = {}
    several = totals["routes"].n_unique() > 1
    for row in totals.iter_rows(named=True):
        name = f"{row['policy']} ({row['routes']})" if several else row["policy"]
        series.setdefault(name, {})[row[key]] = row["hit_ratio"]
    shares = dict(zip(totals[key], totals["capacity_share"], strict=True))
    places = sorted(shares)
    step = max(1, -(-len(places) // MOST_LINES))
    shown = sorted({*places[::step], places[-1]})
    rows: list[list[Any]] = []
    for place in shown:
        hits = [line.get(place) for line in series.values()]
        cells = [None if hit is None else f"{hit:.2%}" for hit in hits]
        rows.append([place, f"{shares[place]:.1%}", *cells])
    return ["bytes" if by_bytes else "slots", "share", *(f"{name} hits" for name in series)], rows


def _halving(found: "Survey") -> list[str]:
    """How large an arena halves each policy's misses at the reference, straight between the grid's capacities."""
    import polars as pl

    from replay.report.capacity import halving

    at = found.info["reference"]
    unit = "bytes" if at["slots"] is None else "slots"
    key, here = f"capacity_{unit}", at[unit]
    signs = {"<=": "at most", ">": "more than", "~": "about"}
    lines = []
    for (name, routes), rows in _totals(found).group_by(["policy", "routes"], maintain_order=True):
        ordered = rows.sort(key)
        now = rows.filter(pl.col(key) == here)["misses"].to_list()
        size = halving(ordered.select(key, "misses").rows(), now[0] / 2) if now and now[0] else None
        if size is None:
            continue
        said = f"{f'{name} ({routes})' if routes != 'recorded' else name} at {here:,} {unit}"
        last = ordered.row(-1, named=True)
        if size[0] == ">" and (last["capacity_share"] >= 1 or last["misses"] == last["compulsory"]):
            left = (
                "are first uses" if last["misses"] == last["compulsory"] else "are left where all experts fit"
            )
            lines.append(f"no arena halves the misses of {said}: {last['misses']:,} of {now[0]:,} {left}")
        else:
            lines.append(f"half the misses of {said} take {signs[size[0]]} {round(size[1]):,} {unit}")
    return lines


def _worst(found: "Survey") -> list[str]:
    """The five layers that miss most, policy by policy."""
    lines = []
    at = found.info["reference"]
    held = f"{at['bytes']} bytes" if at["slots"] is None else f"{at['slots']} slots"
    for (name, routes), rows in found.worst.group_by(["policy", "routes"], maintain_order=True):
        if rows["misses"].null_count():
            continue
        first = rows.head(5).iter_rows(named=True)
        parts = [f"layer {row['layer']} ({row['misses_share'] or 0:.1%})" for row in first]
        said = f"{name} ({routes})" if routes != "recorded" else name
        lines.append(f"most misses under {said} at {held}: {', '.join(parts)}")
    return lines


def _next(trace: Any, out: Any) -> str:
    import shlex

    if out is None:
        return f"next: replay curves {shlex.quote(str(trace))} --out DIR keeps the tables and charts"
    query = "select policy, layer, capacity_slots, misses from curves where layer is not null"
    return f'written to {out}\nnext: replay query {shlex.quote(str(out))} "{query}"'
