"""``replay budget``: slots by layer from one policy's hit curves, scored on other sessions."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from replay.budget.study import Study


def budget(
    trace: flags.TracePath,
    train: Annotated[
        str, typer.Option("--train", metavar="SESSIONS", help="Sessions to learn from: 0-9 or 0,3,5-7.")
    ],
    score: Annotated[str, typer.Option("--score", metavar="SESSIONS", help="Other sessions to score on.")],
    slots: flags.Slots = None,
    policy: Annotated[str, typer.Option("-p", "--policy", metavar="SPEC", help="The policy.")] = "none+lru",
    policy_file: flags.PolicyFiles = None,
    figure: Annotated[
        str, typer.Option("--figure", help="What to make small: misses, bytes or wait.")
    ] = "misses",
    phase: Annotated[
        str, typer.Option("--phase", help="Windows: all, or decode (prefill may want whole layers).")
    ] = "all",
    points: Annotated[
        int, typer.Option("--points", metavar="N", help="Most capacities of each layer to replay.")
    ] = 64,
    out: flags.Out = None,
    split: flags.Split = True,
    order: flags.Order = "id",
    cell: flags.Cell = "atomic",
    prefill: flags.Prefill = "demand",
    clock: flags.ClockFile = None,
    no_clock: flags.NoClock = False,
    threads: flags.Threads = None,
    force: flags.Force = False,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Split an arena's slots over the layers, and score the splits on other sessions.

    The policy is replayed over a grid of slots for each layer, on the training sessions. Marginal transfer
    (MoE-CORE) and the exact optimum (AdapMoE) split --slots by those curves, each size class apart; both are
    replayed on the scoring sessions beside the equal split and one global arena. Without --slots: what the trace
    recorded, else 17.6%. --out writes budget files for `replay compare --scope layer --budget`.

    Examples
    --------
    replay budget traces/e64-spec --slots 50% --train 0-5 --score 6-11 --phase decode
    replay budget TRACE --slots 4326 --train 0-9 --score 10-15 -p unpert1+decode2q --figure wait --out budget
    replay compare TRACE --scope layer --budget budget/transfer.toml
    """
    from replay.budget.cost import Ways
    from replay.budget.study import study
    from replay.run import RUN_FILE
    from replay.spec.grammar import parse_all
    from replay.trace import open_trace
    from replay.trace.staging import refuse_taken

    flags.add_policies(policy_file)
    specs = parse_all([policy])
    if len(specs) != 1:
        raise InputError(f"-p {policy}: a budget is for one policy; give one")
    semantics = flags.semantics_of("layer", split, order, cell, "cold", prefill, None)
    opened = open_trace(trace)
    ways = Ways(specs[0], semantics, flags.clock_of(opened, clock, no_clock))
    if out is not None:
        refuse_taken(out, RUN_FILE, force)
    with flags.progress(len(opened.windows), quiet) as progress:
        found = study(
            opened, ways, slots=slots, train=train, score=score, figure=figure, phase=phase, points=points,
            threads=threads, progress=progress,
        )  # fmt: skip
    if out is not None:
        _write(found, out, force)
    _print(found, trace, out, quiet, as_json)


def _write(found: "Study", out: Path, force: bool) -> None:
    """Write the study's folder, its charts with it."""
    from replay.plot import save
    from replay.plot.layer_slots import plot_layer_slots
    from replay.run import RUN_FILE
    from replay.trace.staging import staged_folder

    classes = found.layers["class"].unique().sort().to_list()
    with staged_folder(out, RUN_FILE, force) as staged:
        found.write(staged)
        for c in classes:
            name = "layer_slots.svg" if len(classes) == 1 else f"layer_slots_class{c}.svg"
            axes = plot_layer_slots(found.layers, size_class=c, figure_of_cost=found.info["figure"])
            save(axes, staged / name)


def _print(found: "Study", trace: Path, out: Path | None, quiet: bool, as_json: bool) -> None:
    from replay.cli.table import aligned

    if as_json:
        import json

        body = {"layers": found.layers.to_dicts(), "scores": found.scores.to_dicts(), "run": found.info}
        typer.echo(json.dumps(body, indent=1, allow_nan=False))
        return
    if not quiet:
        for line in _heading(found):
            typer.echo(line, err=True)
    typer.echo(aligned(*_scores(found)))
    typer.echo("")
    typer.echo(aligned(*_layers(found)))
    if not quiet:
        typer.echo("", err=True)
        if out is None:
            typer.echo("next: --out DIR writes the budget files and the chart", err=True)
        elif not found.info["playable"]:
            typer.echo(f"written to {out}", err=True)
        else:
            files = [shlex.quote(str(each)) for each in (trace, out / "transfer.toml")]
            command = f"replay compare {files[0]} --scope layer --budget {files[1]}"
            typer.echo(f"next: {command} -p {shlex.quote(found.info['policy'])}", err=True)


def _heading(found: "Study") -> list[str]:
    info = found.info
    cost = {name: f"{value:,.0f}" for name, value in info["cost"].items()}
    gain = info["cost"]["equal"] - info["cost"]["optimum"]
    got = info["cost"]["equal"] - info["cost"]["transfer"]
    share = f", {got / gain:.1%} of the optimum's gain" if gain > 0 else ""
    return [
        f"budget     {'+'.join(map(str, info['slots']))} slots ({info['origin']}), policy {info['policy']}, "
        f"{info['phase']} windows",
        f"curves     {info['figure']} of sessions {info['train']}: {info['points']}",
        f"by curves  equal {cost['equal']}, transfer {cost['transfer']}, optimum {cost['optimum']} "
        f"{info['figure']}{share}",
        *(f"note       {text}" for text in info["notes"]),
        "",
    ]


def _scores(found: "Study") -> tuple[list[str], list[list[Any]]]:
    """One line an arena: per token on the scoring sessions, and the change against the equal split on both parts."""
    from replay.amount import amount

    sized = found.info["sized"]
    unit = amount(sized)
    column = {"misses": "misses", "bytes": "read_bytes", "wait": "wait_us"}[found.info["figure"]]
    rows = {(each["part"], each["arena"]): _read(each) for each in found.scores.to_dicts()}
    table = []
    for arena in ("global", "equal", "transfer", "optimum"):
        one = rows["score", arena]
        table.append(
            [
                arena,
                _per_token(one, "misses", 1, 3),
                _per_token(one, "read_bytes", unit.size, 2),
                _per_token(one, "wait_us", 1, 1) if sized else None,
                _change(one, rows["score", "equal"], column),
                _change(rows["train", arena], rows["train", "equal"], column),
            ]
        )
    what = found.info["figure"]
    return [
        "arena",
        "misses/tok",
        f"{unit.unit} read/tok",
        "wait us/tok",
        f"{what} vs equal",
        "in training",
    ], table


def _read(row: dict[str, Any]) -> dict[str, Any]:
    known = row["demand_bytes"] is not None
    return {**row, "read_bytes": row["demand_bytes"] + row["issued_bytes"] if known else None}


def _per_token(row: dict[str, Any], column: str, unit: float, digits: int) -> float | None:
    if row[column] is None or not row["tokens"]:
        return None
    return round(row[column] / row["tokens"] / unit, digits)


def _change(row: dict[str, Any], base: dict[str, Any], column: str) -> str | None:
    if row[column] is None or not base[column]:
        return None
    return f"{row[column] / base[column] - 1:+.2%}"


def _layers(found: "Study") -> tuple[list[str], list[list[Any]]]:
    """The layers that the optimum changes most, at most eight."""
    moved = sorted(
        found.layers.to_dicts(),
        key=lambda row: (-abs(row["optimum_slots"] - row["equal_slots"]), row["layer"]),
    )
    rows = [
        [row["layer"], row["class"], row["widest"], row["equal_slots"], row["transfer_slots"], row["optimum_slots"],
         round(row["equal_cost"] - row["optimum_cost"], 1)]
        for row in moved[:8]
    ]  # fmt: skip
    what = found.info["figure"]
    return ["most moved: layer", "class", "widest", "equal", "transfer", "optimum", f"{what} saved"], rows
