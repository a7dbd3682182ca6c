"""``replay drafts``: what each draft retention policy keeps, commits and costs on a trace's rounds."""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from replay.retain import Account, Cost, Retention, Sweep

_SETTING = re.compile(r"STRATA_\w+=")
_ANY_SETTING = re.compile(r"[A-Z][A-Z0-9_]*=")  # with --env: a name that is none of ours is a slip, no trace
_SETTING_GAP = re.compile(r"\s+(?=STRATA_\w+=)")  # a schedule may hold blanks: only these end a value
SUMMARY = (
    "policy", "rounds", "kept", "kept/round", "committed", "wasted rows", "tokens/round", "expected/round",
    "tokens/cost",
)  # fmt: skip
STEPS = (
    "policy", "step", "kept", "accepted", "acceptance", "conditional", "gain", "rate", "keeping it",
    "stopped here", "one more",
)  # fmt: skip


def drafts(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="TRACE | SETTING=VALUE", help="The trace; settings for --env."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help="Retention parts, such as flat:0.35,append=1. Repeatable."),
    ] = None,
    min_p: Annotated[list[str] | None, typer.Option("--min-p", help="A flat floor. Repeatable.")] = None,
    schedule: Annotated[
        list[str] | None,
        typer.Option("--schedule", help="1 to 8 thresholds, such as 0.10,0.35,0.55. Repeatable."),
    ] = None,
    min_cum_p: Annotated[
        list[str] | None,
        typer.Option(
            "--min-cum-p", help="A floor of the product, alone and with each of the others. Repeatable."
        ),
    ] = None,
    env: Annotated[
        bool,
        typer.Option(
            "--env", help="Read the engine's two settings as it does: the SETTING=VALUE given, else ours."
        ),
    ] = False,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost", help="V: the cost of verifying 0, 1, 2.. drafts.", show_default="1,1.02,1.25,1.60"
        ),
    ] = None,
    fixed: Annotated[
        float | None, typer.Option("--fixed", help="What every round costs besides.", show_default="0.15")
    ] = None,
    clock: Annotated[
        Path | None, typer.Option("--clock", metavar="FILE", help="V and fixed from what fit-clock wrote.")
    ] = None,
    draft_step: Annotated[
        float, typer.Option("--draft-step", help="What each step of a drafter that is not chained costs.")
    ] = 0.0,
    grid: Annotated[
        bool, typer.Option("--grid", help="No trace: 1,000 synthetic triples, acceptance = confidence.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Every floor and schedule; the best of each family, held out.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the sweep's table and heat map here.")
    ] = None,
    force: flags.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
) -> None:
    """Compare draft retention policies: what they keep, commit, waste and cost.

    One row a policy: each floor and schedule, each cumulative floor, and each pair of the two; without any,
    the four of the synthetic table. A trace adds what was recorded; the last rows are the offline optimum,
    where acceptance is the confidence and (of a trace) in hindsight. A trace also tells what drafts are worth by an
    acceptance curve that other sessions calibrated.

    Examples
    --------
    replay drafts --grid
    replay drafts TRACE --schedule 0.10,0.35,0.55 --min-cum-p 0.2 --cost 1,1.02,1.25,1.60 --fixed 0.15
    replay drafts TRACE --sweep --clock clock.toml --out sweep
    replay drafts TRACE --env STRATA_METAL_SPEC_MIN_P_SCHEDULE=0.10,0.35,0.55
    """
    from replay import retain

    paths, settings = _split(arguments or [], env)
    if len(paths) != (0 if grid else 1):
        raise InputError("drafts: expected one TRACE, or --grid and no trace")
    policies = _policies(policy or [], min_p or [], schedule or [], min_cum_p or [])
    report: dict[str, Any] = {"trace": None if grid else paths[0], "sized": True, "settings": None}
    if env:
        policies.append(_from_settings(settings, min_p or [], report))
    policies = list(dict.fromkeys(policies))
    prices = _prices(cost, fixed, draft_step, clock)
    report["cost"] = {"verify": list(prices.verify), "fixed": prices.fixed, "draft_step": draft_step}
    figures = ",".join(f"{each:g}" for each in prices.verify)
    priced = f"cost: V {figures}, fixed {prices.fixed:g}, draft step {draft_step:g}"
    report["notes"] = [f"{priced}; expected: R_k where acceptance = confidence"]
    if (sweep and grid) or (out is not None and not sweep):
        raise InputError("drafts: --sweep needs a TRACE, and --out needs --sweep")
    lines: list[str] = []
    if grid:
        accounts = retain.grid(policies, prices)
    else:
        accounts = _replay(paths[0], policies, prices, report, lines, _Swept(sweep, out, force))
    _show(accounts, report, lines, as_json, quiet)


def _split(arguments: Sequence[str], env: bool) -> tuple[list[str], dict[str, str]]:
    """Tell the trace from the engine settings; without any given, they are the process's."""
    from replay.errors import nearest
    from replay.retain import SETTINGS

    meant = _ANY_SETTING if env else _SETTING
    paths = [each for each in arguments if not meant.match(each)]
    words = [word for each in arguments if each not in paths for word in _SETTING_GAP.split(each)]
    given = dict(word.split("=", 1) for word in words)
    for name in given:
        if name not in SETTINGS:
            raise InputError(f"drafts: {name} is not a setting of draft retention; {nearest(name, SETTINGS)}")
    if given and not env:
        raise InputError(f"drafts: {next(iter(given))} is read with --env only; add --env")
    return paths, given or dict(os.environ)


def _policies(
    specs: Sequence[str], min_p: Sequence[str], schedules: Sequence[str], cumulative: Sequence[str]
) -> "list[Retention]":
    """Make every policy that the options name: the floors, each alone and with each cumulative one."""
    from replay.retain import Retention, parse_probability, parse_retention, parse_schedule

    floors = [Retention(min_p=parse_probability(each, "--min-p")) for each in min_p]
    floors += [Retention(schedule=parse_schedule(each, "--schedule")) for each in schedules]
    products = [parse_probability(each, "--min-cum-p") for each in cumulative]
    pairs = [
        Retention(floor.min_p, floor.append, floor.schedule, product)
        for product in products
        for floor in (Retention(), *floors)
    ]
    return [parse_retention(each) for each in specs] + floors + pairs


def _from_settings(settings: dict[str, str], min_p: Sequence[str], report: dict[str, Any]) -> "Retention":
    """Read the engine's settings; say on stderr what the engine would have said."""
    from replay.retain import parse_probability, read_settings

    if len(min_p) > 1:
        raise InputError("drafts: --env falls back to one --min-p; give at most one")
    floor = parse_probability(min_p[0], "--min-p") if min_p else 0.0
    policy, diagnostic = read_settings(settings, floor)
    if diagnostic:
        print(f"replay: warning: {diagnostic}", file=sys.stderr)
    report["settings"] = {"policy": policy.name, "diagnostic": diagnostic}
    return policy


def _prices(cost: str | None, fixed: float | None, draft_step: float, clock: Path | None) -> "Cost":
    """The cost model: from the options, or from a clock's file."""
    from replay.clock.timing import load_verify
    from replay.retain import Cost

    if clock is None:
        return Cost(
            _figures("1,1.02,1.25,1.60" if cost is None else cost),
            0.15 if fixed is None else fixed,
            draft_step,
        )
    if cost is not None or fixed is not None:
        raise InputError("--clock and --cost or --fixed are both given; give one")
    return Cost(*load_verify(clock), draft_step)


def _figures(text: str) -> tuple[float, ...]:
    """Read V."""
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(
            f"--cost: {text!r} is not a list of numbers; write it like 1,1.02,1.25,1.60"
        ) from None


class _Swept(NamedTuple):
    """Whether a sweep is asked for, and where its files go."""

    asked: bool
    out: Path | None
    force: bool


def _replay(
    path: str,
    policies: "Sequence[Retention]",
    cost: "Cost",
    report: dict[str, Any],
    lines: list[str],
    swept: _Swept,
) -> "list[Account]":
    """Account for what was recorded, the policies and the optima on a trace, and for what drafts are worth."""
    from replay import retain
    from replay.cli.economy import economy_lines, sweep_lines
    from replay.trace import open_trace

    trace = open_trace(path)
    report["sized"] = trace.sized
    data = retain.read_recorded(trace)
    found = retain.survey(trace, policies, cost, data=data)
    report["recorded"] = found.recorded.name if found.recorded else None
    report["notes"] += found.notes
    if len(data.rounds.window):
        worth = retain.economy(trace, data, policies or retain.default_policies(), cost)
        report["economy"] = worth.as_dict()
        lines += ["", *economy_lines(worth, trace.sized)]
        if swept.asked:
            points = retain.sweep(trace, data, cost)
            report["sweep"] = points.as_dict()
            lines += ["", *sweep_lines(points)]
            if swept.out is not None:
                _write(points, report, swept.out, swept.force)
    return found.accounts


def _write(points: "Sweep", report: dict[str, Any], out: Path, force: bool) -> None:
    """Write the sweep's table, its heat map and the report into a folder."""
    from replay.plot import save
    from replay.plot.draft_sweep import plot_draft_sweep
    from replay.run import write_table
    from replay.trace.staging import staged_folder

    with staged_folder(out, "drafts.json", force) as folder:
        table = points.frame()
        write_table(table, folder / "draft_sweep.parquet")
        save(plot_draft_sweep(table), folder / "draft_sweep.svg")
        (folder / "drafts.json").write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")


def _show(
    accounts: "Sequence[Account]", report: dict[str, Any], lines: list[str], as_json: bool, quiet: bool
) -> None:
    """Print the result on stdout and the notes on stderr."""
    from dataclasses import asdict

    from replay.cli.economy import moved, per_token
    from replay.cli.table import aligned

    if as_json:
        result = report | {"policies": [asdict(each) for each in accounts]}
        typer.echo(json.dumps(result, indent=1, allow_nan=False))
    else:
        sized = report["sized"]
        rows = [[*_summary(each), moved(each.expert_bytes_per_token, sized)] for each in accounts]
        typer.echo(aligned((*SUMMARY, per_token(sized)), rows))
        typer.echo()
        typer.echo(aligned(STEPS, [line for each in accounts for line in _steps(each)]))
        for line in lines:
            typer.echo(line)
    if not quiet:
        for note in report["notes"]:
            typer.echo(f"replay: note: {note}", err=True)


def _fixed(value: float | None, digits: int = 3) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _summary(row: "Account") -> list[object]:
    """Make a policy's line of the first table."""
    tokens = row.expected_tokens if row.committed is None else row.committed
    each = row.rounds or 1
    return [
        row.policy,
        row.rounds,
        row.kept,
        _fixed(row.mean_kept),
        row.committed,
        row.wasted_rows,
        _fixed(tokens / each),
        _fixed(row.expected_tokens / each),
        _fixed(row.tokens_per_cost, 6),
    ]


def _steps(row: "Account") -> list[list[object]]:
    """Make a policy's lines of the second table: acceptance by step, and the marginal rule both ways."""
    says = {None: None, True: "pays", False: "does not"}
    return [
        [
            row.policy,
            step.step,
            step.kept,
            round(step.accepted),
            _fixed(step.acceptance_ratio),
            _fixed(step.conditional_ratio),
            _fixed(step.kept_margin.gain),
            _fixed(step.kept_margin.rate),
            says[step.kept_margin.pays],
            step.next_margin.rounds,
            says[step.next_margin.pays],
        ]
        for step in row.steps
    ]
