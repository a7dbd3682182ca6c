"""``replay calibrate``: how likely a candidate is to be selected, learned from traces."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from replay.calibration.whole import Calibration
    from replay.learning.lesson import Lesson


def calibrate(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE..", help="Folders of traces of one model.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write q here (JSON), for the gate calibrated."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "-p", "--policy", metavar="SPEC", help="The ranking: route, unpert0 or unpert1, with options."
        ),
    ] = "route",
    coverage: Annotated[
        Path | None,
        typer.Option("--coverage", metavar="FILE", help="Fit APEX's coverage too, for the gate coverage."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", metavar="0-9", help="Sessions of each trace to learn from; the rest is held out."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the split by session.")] = 0,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Draw the reliability diagram (.svg, .png)."),
    ] = None,
    slots: flags.Slots = None,
    bytes: flags.Bytes = None,
    force: flags.Force = False,
    quiet: flags.Quiet = False,
    as_json: flags.Json = False,
) -> None:
    """Fit the probability that a candidate of a ranking is selected, and say how well it holds on held-out sessions.

    Learns from every candidate of every decode window, withheld or not; three sessions in ten are held out (by --seed,
    or by --train). Where a trace has no snapshots of residents, a replay of none+lru gives them, in the recorded arena
    or that of --slots or --bytes. The files are for the gates `calibrated:q=FILE` and `coverage:q=FILE`.
    Needs scikit-learn (pip install 'moe-replay[calibrate]').

    Examples
    --------
    replay calibrate traces/e64-spec --policy route:k=16 --out q.json
    replay calibrate traces/e64-moce --policy route:k=16 --train 0 --out q.json --coverage coverage.json
    """
    from replay.learning.lesson import lesson, spec_of
    from replay.trace import open_trace

    spec = spec_of(policy)
    _refuse_files(out, coverage, chart, force)
    found = lesson(
        [open_trace(each) for each in traces],
        spec,
        seed,
        train,
        coverage is not None,
        slots=slots,
        bytes=bytes,
    )
    _write(found, out, coverage, chart, force)
    if as_json:
        import json

        typer.echo(json.dumps({**found.about(), "metrics": found.calibration.metrics()}, indent=1))
        return
    _print(found)
    if not quiet:
        for line in _next(found, traces[0], out):
            typer.echo(line, err=True)


def _refuse_files(out: Path | None, coverage: Path | None, chart: Path | None, force: bool) -> None:
    """Refuse files that cannot be written, before the fit."""
    from replay.trace.staging import refuse_file

    files = [each for each in (out, coverage, chart) if each is not None]
    for i, file in enumerate(files):
        refuse_file(file, force)
        if file.resolve() in [each.resolve() for each in files[:i]]:
            raise InputError(f"{file}: is named twice; name a file each for --out, --coverage and --chart")
    if chart is not None:
        from replay.plot import kind_of

        kind_of(chart)


def _write(found: "Lesson", out: Path | None, coverage: Path | None, chart: Path | None, force: bool) -> None:
    """Write the files; the chart takes its place once the others have theirs."""
    from replay.plot import kind_of
    from replay.trace.staging import staged_file

    if chart is None:
        found.write(out, coverage, force)
        return
    drawing = _drawn(found.calibration, kind_of(chart))
    with staged_file(chart, force) as staged:
        staged.write_bytes(drawing)
        found.write(out, coverage, force)


def _drawn(found: "Calibration", kind: str) -> bytes:
    import polars as pl

    from replay.plot import drawn
    from replay.plot.reliability import plot_reliability

    tables = [
        pl.DataFrame(rows, schema_overrides={"p": pl.Float64, "selected": pl.Float64}).with_columns(
            series=pl.lit(name)
        )
        for name, rows in found.diagrams.items()
    ]
    return drawn(plot_reliability(pl.concat(tables)), kind)


SAID = {
    "q": "q",
    "boosting": "gradient boosting",
    "base_rate": "base rate of the rank",
    "softmax": "router's softmax",
}
"""What each of the scored probabilities is called."""


def _print(found: "Lesson") -> None:
    from replay.cli.table import aligned

    one = found.calibration
    headers = ("held-out sessions", "Brier", "log loss", "AUC", "ECE", "not resident: Brier", "AUC", "ECE")
    rows: list[list[Any]] = []
    for name, said in SAID.items():
        every, asked = one.scores[name], one.asked[name]
        cells = [every[each] for each in ("brier", "log_loss", "auc", "ece")]
        rows.append([said, *cells, *(asked[each] for each in ("brier", "auc", "ece"))])
    typer.echo(aligned(headers, rows))
    typer.echo("")
    names = ("count", "brier", "log_loss", "auc", "ece")
    typer.echo(
        aligned(
            ("layer", "candidates", "Brier", "log loss", "AUC", "ECE"),
            [[each["layer"], *(each[name] for name in names)] for each in one.by_layer],
        )
    )
    typer.echo("")
    bins: list[list[Any]] = []
    for mine, other in zip(one.diagrams["q"], one.diagrams["softmax"], strict=True):
        told = f"{mine['low']:.1f} to {mine['low'] + 0.1:.1f}"
        bins.append([told, *(side[name] for side in (mine, other) for name in ("count", "p", "selected"))])
    typer.echo(
        aligned(
            ("told", "q: candidates", "mean", "selected", "softmax: candidates", "mean", "selected"), bins
        )
    )


def _next(found: "Lesson", trace: Path, out: Path | None) -> list[str]:
    lines = ["", *(f"learned    {each}" for each in found.sessions("train"))]
    lines += [f"held out   {each}" for each in found.sessions("held_out")]
    lines += [f"note       {each}" for each in found.notes]
    if out is None:
        return [*lines, "\nnext: --out FILE keeps q for the gate calibrated"]
    held, spec = found.held_out_of(0), found.spec.text
    only = f" --sessions {held}" if held else ""
    learned = (
        f"replay frontier {shlex.quote(str(trace))} -p {shlex.quote(f'{spec}+calibrated:q={out}')}{only}"
    )
    return [*lines, f"\nwritten to {out}\nnext: {learned} --out DIR"]
