"""``replay sweep``: traces x policies x bounds x clocks x seeds, on this machine or on a Dask cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.sweep.plan import Plan
    from replay.sweep.study import Study


def sweep(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="What to cross with what; see below.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The sweep's folder; a sweep that is there goes on.")
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="ADDRESS", help="A Dask scheduler's, such as tcp://127.0.0.1:8786."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, max=4096, metavar="N", help="Worker processes on this machine."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, metavar="N", help="Without workers: lanes at once; the machine's cores."
        ),
    ] = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out policies that cannot run on a trace, and say so.")
    ] = False,
    quiet: flags.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Replay a grid of traces, policies, bounds, routes, clocks and seeds; finished cells are kept.

    GRID.toml has lists: traces (folders, or URLs that fsspec reads), policies, slots, bytes, routes, clocks ("trace",
    "none", a file, or a table with a name), seeds; and a table semantics with the flags of compare. Only traces and
    policies must be there. Every finished cell is a Parquet file in DIR/cells, named by a hash of all that it depends
    on; the same command after an interruption goes on where it stopped. `replay query DIR` reads the folder at any
    time. --workers and --cluster need the extra sweep.

    Examples
    --------
    replay sweep grid.toml --out study
    replay sweep grid.toml --out study --workers 2
    replay sweep grid.toml --out study --cluster tcp://127.0.0.1:8786
    replay query study "SELECT trace, policy, bound, misses_per_token FROM cells ORDER BY ALL"
    """
    import tempfile

    from replay.sweep.study import read_study

    if cluster is not None and workers is not None:
        raise InputError("--cluster and --workers are both given; give one")
    if threads is not None and (cluster or workers):
        raise InputError(
            "--threads is for a sweep in this process; workers play one lane at a time, give more of them"
        )
    study = read_study(grid)
    if cluster is not None or workers is not None:
        from replay.sweep.drive import need_distributed

        need_distributed("--cluster" if cluster is not None else "--workers")
    with tempfile.TemporaryDirectory(prefix="replay-sweep-", ignore_cleanup_errors=True) as scratch:
        from replay.sweep.plan import plan_study

        plan = plan_study(study, Path(scratch), skip, by_url=cluster is not None)
        counts = _run(study, plan, out, cluster, workers, threads, quiet)
    _print(counts, plan, out, quiet, as_json)


def _run(
    study: "Study", plan: "Plan", out: Path, cluster: str | None, workers: int | None, threads: int | None,
    quiet: bool,
) -> dict[str, int]:  # fmt: skip
    """Play what is not finished; returns how many rows and cells are planned, and what became of the cells.

    Each of them is counted once: replayed, there before, or failed (no figures, whether played now or before).
    """
    from replay.sweep.folder import begin, failures, keep, unfinished

    begin(out, _about(study, plan), (each.as_dict() for each in plan.named))
    cells = plan.cells
    todo = unfinished(out, cells)
    before = {cell.name for cell in cells} - {cell.name for cell in todo}
    there_failed = failures(out, sorted(before))
    failed = 0
    with flags.progress(len(todo), quiet, "cells") as progress:
        played = 0

        def done(name: str, rows: Any) -> None:
            nonlocal played, failed
            keep(out, name, rows)
            played += 1
            failed += rows.column("failure").null_count == 0
            if progress is not None:
                progress(played)

        if todo:
            _play(plan, todo, done, cluster, workers, threads)
    return {
        "rows": len(plan.named), "cells": len(cells), "replayed": played - failed,
        "there": len(before) - there_failed, "failed": failed + there_failed,
    }  # fmt: skip


def _play(
    plan: "Plan", todo: Any, done: "Callable[[str, Any], None]", cluster: str | None, workers: int | None,
    threads: int | None,
) -> None:  # fmt: skip
    """Hand the passes to whoever plays them."""
    from replay.sweep import drive
    from replay.sweep.plan import passes

    if cluster is None and workers is None:
        drive.play_here(passes(plan, todo), threads, done)
        return
    with drive.cluster_at(cluster) if cluster is not None else drive.local_cluster(workers or 1) as client:
        drive.play_there(client, passes(plan, todo, max(len(client.nthreads()), 1)), done)


def _about(study: "Study", plan: "Plan") -> dict[str, Any]:
    """What sweep.json says beside the cells."""
    from replay.run import command_line, versions
    from replay.sweep.cell import package_version

    return {
        "command": command_line(),
        "package": package_version(),
        "versions": versions(),
        "study": study.document,
        "traces": {each.trace: each.cell.trace for each in plan.named},
        "left_out": plan.left,
        "warnings": plan.notes,
    }


def _line(counts: dict[str, int]) -> str:
    """The counts in one line; what is not the case is left out."""
    from replay.units import counted

    text = (
        f"{counted(counts['cells'], 'cell')}: {counts['replayed']:,} replayed, {counts['there']:,} were there"
    )
    if counts["failed"]:
        text += f", {counts['failed']:,} failed"
    if twice := counts["rows"] - counts["cells"]:
        text += f"; {counted(counts['rows'], 'row')} planned, {twice:,} of them the same cell as another"
    return text


def _print(counts: dict[str, int], plan: "Plan", out: Path, quiet: bool, as_json: bool) -> None:
    import json

    from replay.units import counted

    if not quiet:
        for line in plan.left:
            typer.echo(f"note       {line}", err=True)
        for line in plan.notes:
            typer.echo(f"warning    {line}", err=True)
        if counts["failed"]:
            typer.echo(
                f"note       {counted(counts['failed'], 'cell')} without figures; the column failure says why",
                err=True,
            )
    if as_json:
        typer.echo(json.dumps({"out": str(out), **counts}))
    else:
        typer.echo(_line(counts))
    if not quiet:
        typer.echo(f'next: replay query {out} "select * from cells"', err=True)  # noqa: S608 (shown, not run)
