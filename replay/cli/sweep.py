"""``replay sweep``: traces x policies x bounds x clocks x seeds, on this machine or on a Dask cluster."""

import shlex
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags
from replay.errors import InputError, ReplayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replay.cli.meter import Meter
    from replay.sweep.cell import Cell
    from replay.sweep.plan import Pass, Plan
    from replay.sweep.study import Study


def sweep(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="What to cross with what; see below.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The sweep's folder; a sweep that is there goes on.")
    ],
    policy_file: flags.PolicyFiles = None,
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
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=1, max=1e6, metavar="SECONDS", help="How long workers may be missing altogether."
        ),
    ] = 60,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out policies that cannot run on a trace, and say so.")
    ] = False,
    quiet: flags.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Replay a grid of traces, policies, bounds, routes, clocks and seeds; finished cells are kept.

    GRID.toml has lists: traces (folders, or URLs that fsspec reads), policies, slots, bytes, budget (files, with scope
    layer), routes, clocks ("trace", "none", a file, or a table with a name), seeds; and a table semantics with the
    flags of compare. Only traces and policies must be there. Every finished cell is a Parquet file in DIR/cells, named
    by a hash of all that it depends on, files of policies included; the same command after an interruption goes on
    where it stopped. `replay query DIR` reads the folder at any time. --workers and --cluster need the extra sweep;
    workers get the content of a policy's files.

    Examples
    --------
    replay sweep grid.toml --out study
    replay sweep grid.toml --out study --workers 2
    replay sweep grid.toml --out study --cluster tcp://127.0.0.1:8786
    replay sweep grid.toml --out study --policy-file mine.py
    replay query study "SELECT trace, policy, bound, misses_per_token FROM cells ORDER BY ALL"
    """
    from replay.sweep.study import read_study
    from replay.trace.scratch import scratch

    if cluster is not None and workers is not None:
        raise InputError("--cluster and --workers are both given; give one")
    if threads is not None and (cluster or workers):
        raise InputError(
            "--threads is for a sweep in this process; workers play one lane at a time, give more of them"
        )
    flags.add_policies(policy_file)
    study = read_study(grid)
    if cluster is not None or workers is not None:
        from replay.sweep.cluster import need_distributed

        need_distributed("--cluster" if cluster is not None else "--workers")
    with scratch("sweep") as folder:
        from replay.sweep.plan import plan_study

        plan = plan_study(study, folder, skip, by_url=cluster is not None)
        counts = _run(study, plan, out, Players(cluster, workers, threads, wait), quiet)
    _print(counts, plan, out, quiet, as_json)


@dataclass(frozen=True)
class Players:
    """Who plays: a cluster, so many worker processes, or this process with so many threads."""

    cluster: str | None
    workers: int | None
    threads: int | None
    wait_s: float

    @contextmanager
    def client(self) -> "Iterator[Any]":
        """A client of the workers; None where this process plays."""
        from replay.sweep.cluster import cluster_at, local_cluster

        if self.cluster is None and self.workers is None:
            yield None
            return
        with (
            cluster_at(self.cluster)
            if self.cluster is not None
            else local_cluster(self.workers or 1) as client
        ):
            yield client

    def play(
        self, client: Any, plan: "Plan", todo: "list[Cell]", done: "Callable[[str, Any], None]", meter: "Meter",
        say: "Callable[[str], None]",
    ) -> None:  # fmt: skip
        """Hand the passes to whoever plays them."""
        from replay.sweep import drive
        from replay.sweep.cluster import some_threads
        from replay.sweep.plan import passes

        if client is None:

            def progress(each: "Pass", windows: int) -> None:
                share = windows / max(plan.shapes[each.cells[0].trace][0], 1)
                meter.move(meter.kept + share * sum(map(plan.work, each.cells)))

            drive.play_here(passes(plan, todo), self.threads, done, progress)
            return
        workers = some_threads(client, self.wait_s, say)
        parts = passes(plan, todo, workers)
        meter.settled = sum(plan.work(cell) for each in parts[:workers] for cell in each.cells)
        drive.play_there(client, parts, done, self.wait_s, say)


def _run(study: "Study", plan: "Plan", out: Path, players: Players, quiet: bool) -> dict[str, int]:
    """Play what is not finished; returns how many rows and cells are planned, and what became of the cells.

    Each of them is counted once: replayed, there before, or failed (no figures, whether played now or before).
    """
    from replay.cli.meter import Meter, say, shown
    from replay.sweep.folder import begin, failures, finished, keep, refuse_other, unfinished

    cells = plan.cells
    refuse_other(out)
    todo = unfinished(out, cells)
    before = {cell.name for cell in cells} - {cell.name for cell in todo}
    there_failed = failures(out, sorted(before))
    work = {cell.name: plan.work(cell) for cell in todo}
    with players.client() if todo else nullcontext() as client:
        begin(out, _about(study, plan), (each.as_dict() for each in plan.named))
        meter = Meter(len(cells), len(before), sum(work.values()))

        def done(name: str, rows: Any) -> None:
            keep(out, name, rows)
            meter.finish(work[name], rows.column("failure").null_count == 0)

        try:
            with shown(meter, quiet) as beside:
                if todo:
                    players.play(client, plan, todo, done, meter, beside)
        except BaseException as problem:
            if not quiet:
                on = "" if isinstance(problem, ReplayError) else "; the same command goes on"
                there = len(finished(out) & {cell.name for cell in cells})
                say(f"{there:,} of {meter.total:,} cells are finished{on}")
            raise
    return {
        "rows": len(plan.named), "cells": len(cells), "replayed": meter.done - meter.failed,
        "there": len(before) - there_failed, "failed": meter.failed + there_failed,
    }  # fmt: skip


def _about(study: "Study", plan: "Plan") -> dict[str, Any]:
    """What sweep.json says beside the cells."""
    from replay.origin import command_line, versions
    from replay.sweep.cell import package_version

    return {
        "command": command_line(),
        "package": package_version(),
        "versions": versions(),
        "study": study.document,
        "traces": {each.trace: each.cell.trace for each in plan.named},
        "files": [
            {"name": each.name, "sha256": each.sha256, "policy_file": each.policy}
            for each in plan.files.values()
        ],
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
        place = shlex.quote(str(out))
        typer.echo(f'next: replay query {place} "select * from cells"', err=True)  # noqa: S608 (shown, not run)
