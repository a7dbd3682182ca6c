"""Flags that several commands share, one for each option of the semantics."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.errors import InputError

if TYPE_CHECKING:
    from replay.clock.timing import ClockParams
    from replay.declare.semantics import Routes, Semantics
    from replay.trace import Trace


def _one_of(*words: str) -> Callable[[str], list[str]]:
    """Complete an option's value in a shell: those of some words that begin so."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _specs(incomplete: str) -> list[str]:
    """Complete the last part of a policy spec."""
    from replay.spec.grammar import names

    before, plus, part = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in names() if name.startswith(part)]


TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="The trace's folder.")]
Specs = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--policy",
        metavar="SPEC",
        help="A policy such as unpert1:k=8+decode2q, or @FILE of such (repeatable).",
        autocompletion=_specs,
    ),
]
PolicyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy-file", metavar="FILE", help="A Python file that adds a policy of your own (repeatable)."
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write the run's tables and charts here.")
]
Slots = Annotated[
    str | None,
    typer.Option(
        "--slots", metavar="N|N,N|P%", help="Slots of the arena: 4326, one figure a size class, or 17.6%."
    ),
]
Bytes = Annotated[
    str | None, typer.Option("--bytes", metavar="SIZE", help="A byte budget instead, such as 4000MiB.")
]
Budget = Annotated[
    Path | None,
    typer.Option(
        "--budget", metavar="FILE", help="Slots by layer, as `replay budget` writes; --scope layer."
    ),
]
Scope = Annotated[
    str,
    typer.Option(
        "--scope",
        help="One arena (global), or one a layer (layer).",
        autocompletion=_one_of("global", "layer"),
    ),
]
Split = Annotated[
    bool, typer.Option("--split/--no-split", help="Unwanted speculation waits in limbo, or is freed at once.")
]
Order = Annotated[
    str,
    typer.Option(
        "--order",
        help="Inside an event: id, or rows (last occurrence).",
        autocompletion=_one_of("id", "rows"),
    ),
]
Cell = Annotated[
    str,
    typer.Option(
        "--cell",
        help="An event's experts together (atomic), or one by one (sequential).",
        autocompletion=_one_of("atomic", "sequential"),
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--start",
        help="cold, recorded (first snapshots), or warm:N (N windows uncounted).",
        autocompletion=_one_of("cold", "recorded", "warm:"),
    ),
]
Prefill = Annotated[
    str,
    typer.Option(
        "--prefill",
        help="demand, stream (the engine's caps) or stream:CAP.",
        autocompletion=_one_of("demand", "stream"),
    ),
]
PromptHot = Annotated[
    int | None,
    typer.Option(
        "--prompt-hot",
        min=0,
        max=2**31 - 1,
        metavar="N",
        help="Spare the N most recent residents in prefill.",
    ),
]
RouteKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--routes",
        help="recorded, rerouted, predicted, cacheprior:0.2,2 (repeatable).",
        show_default="recorded",
        autocompletion=_one_of("recorded", "rerouted", "predicted", "cacheprior:"),
    ),
]
ClockFile = Annotated[
    Path | None,
    typer.Option("--clock", metavar="FILE", help="Clock and disk parameters (TOML); see the README."),
]
ClockGrid = Annotated[
    str | None,
    typer.Option(
        "--clock-grid",
        metavar="auto|NAME=V/V,..",
        help="Which fates move with the clock: rate=0.5/1/2,latency_us=80/800, or auto.",
    ),
]
NoClock = Annotated[bool, typer.Option("--no-clock", help="Residency only: columns of time stay null.")]
Skip = Annotated[bool, typer.Option("--skip", help="Leave out policies that cannot run, and say so.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what --out names, once the new run is whole.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no remarks.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, max=1024, metavar="N", help="Policies at once; results do not depend on it."
    ),
]


def add_policies(files: list[Path] | None) -> None:
    """Add the policies of the user's own files, so that specs may name them."""
    if files:
        from replay.evict.own import add_files
        from replay.spec.grammar import names

        add_files(files, names())


def semantics_of(
    scope: str, split: bool, order: str, cell: str, start: str, prefill: str, prompt_hot: int | None
) -> "Semantics":
    """The semantics that the flags ask for."""
    from replay.declare import semantics

    return semantics.semantics_of(scope, split, order, cell, start, prefill, prompt_hot)


def control_of(control: str | None, seed: int) -> int | None:
    """The seed of the control that the flags ask for; None where none is asked for."""
    from replay.trace.shuffle import control_seed

    return control_seed(control, seed)


def routes_of(given: list[str] | None) -> "list[Routes]":
    """The kinds of routes that the flags ask for, each once; commas separate them too."""
    from replay.declare import semantics

    return semantics.routes_of(given)


def clock_of(trace: "Trace", file: Path | None, no_clock: bool) -> "ClockParams | None":
    """The clock that the flags ask for: the file's parameters, else the trace's, else the defaults."""
    from replay.clock.timing import load_clock

    if no_clock:
        if file is not None:
            raise InputError("--clock and --no-clock are both given; give one")
        return None
    return load_clock(file, trace.meta.io)


def clocks_of(grid: str | None, clock: "ClockParams | None") -> "list[ClockParams]":
    """The further clocks that ``--clock-grid`` asks for."""
    from replay.comparison.sensitivity import parse_grid

    if grid is None:
        return []
    if clock is None:
        raise InputError("--clock-grid and --no-clock are both given; give one")
    return parse_grid(grid, clock)


def grid_of(text: str) -> tuple[float, ...]:
    """Read ``--grid``: factors of the bound such as 0.5,1,2."""
    try:
        factors = tuple(float(each) for each in text.split(","))
    except ValueError:
        factors = ()
    if not factors or not all(0 < each < 1e6 for each in factors):
        raise InputError(
            f"--grid {text}: expected factors of the bound above 0 and below 1e6, such as 0.25,0.5,1,2"
        )
    return tuple(dict.fromkeys(factors))


@contextmanager
def progress(total: int, quiet: bool, unit: str = "windows") -> Iterator["Callable[[int], None] | None"]:
    """A progress bar on a terminal; nothing elsewhere, and nothing with ``quiet``."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("replaying"), BarColumn(), TextColumn("{task.completed}/{task.total} " + unit))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying", total=total)
        yield lambda done: bar.update(task, completed=done)
