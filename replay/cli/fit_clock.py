"""``replay fit-clock``: clock parameters from what a trace recorded of time."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.flags import Force, Json, Quiet, TracePath

if TYPE_CHECKING:
    from replay.fit import ClockFit, HeldOut


def fit_clock(
    path: TracePath,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the clock here (TOML).")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a clock on recorded compute times and reads, with its error on held-out windows.

    Compute times and the cost of verifying drafts (V) come from the table timing; latency and rates of the disk
    from bursts in the table reads. Every other session is held out. The file is what `replay compare --clock`
    and `replay drafts --clock` take. Without such tables use `replay compare --clock-grid`.

    Examples
    --------
    replay fit-clock TRACE --out clock.toml
    replay compare TRACE --clock clock.toml
    """
    from replay.fit import fit_clock as run_fit
    from replay.trace import open_trace
    from replay.trace.staging import write_text

    found = run_fit(open_trace(path))
    if out is not None:
        write_text(out, found.to_toml(), force)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1, allow_nan=False))
    else:
        _print(found)
    if not quiet:
        for note in found.notes:
            typer.echo(f"replay: note: {note}", err=True)
        if out is not None:
            files = [shlex.quote(str(each)) for each in (path, out)]
            typer.echo(f"\nwritten to {out}\nnext: replay compare {files[0]} --clock {files[1]}", err=True)


def _print(found: "ClockFit") -> None:
    from replay.cli.table import aligned

    rows: list[list[object]] = []
    compute, disk = found.compute, found.disk
    values = found.parameters()
    if compute is not None:
        for name in ("pre_us", "post_us"):
            rows.append([name, values[name], "timing", *_error(compute.error, "compute time of a window")])
        for k, value in enumerate(compute.verify or ()):
            windows = compute.verify_windows[k]
            source = f"timing, {windows} windows" if windows else "interpolated"
            rows.append(
                [f"V[{k}]", round(value, 4), source, *_error(compute.verify_error, "compute time, V applied")]
            )
    if disk is not None:
        for name in ("latency_us", "device_gbps", "stream_gbps"):
            source = "not visible" if name in disk.hidden else f"reads, {disk.bursts} bursts"
            rows.append([name, values[name], source, *_error(disk.error, "time of a window's bursts")])
    rows += [[name, value, "trace.json", None, None, None, None] for name, value in found.recorded.items()]
    headers = ("parameter", "fitted", "from", "held-out error of", "median", "p90", "bias")
    typer.echo(aligned(headers, rows))
    typer.echo("")
    typer.echo(f"fitted on {found.training} windows, {found.held_out} held out")


def _error(error: "HeldOut | None", what: str) -> list[object]:
    if error is None or error.median_ratio is None or error.p90_ratio is None or error.bias_ratio is None:
        return [what, None, None, None]
    return [what, f"{error.median_ratio:.1%}", f"{error.p90_ratio:.1%}", f"{error.bias_ratio:+.1%}"]
