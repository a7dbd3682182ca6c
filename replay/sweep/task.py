"""What a worker does: play a pass, hand back a table a cell.

The lanes, the loop and the sums are those of ``replay compare`` (:mod:`replay.comparison.candidate`,
:mod:`replay.comparison.play`): a cell has the figures that ``compare`` gives for its policy, bound and clock.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.comparison.candidate import Builder, Candidate
from replay.comparison.play import play
from replay.declare.semantics import parse_routes
from replay.errors import InputError
from replay.spec.grammar import parse
from replay.sweep.cell import Cell, clock_key, failed, package_version, rows_of, trace_hash
from replay.sweep.file import at_places, lay_out
from replay.sweep.plan import Pass
from replay.sweep.source import is_url, local_folder
from replay.trace import Trace, open_trace
from replay.trace.scratch import scratch

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = threading.Lock()
"""Held while lanes are made: a policy file of one pass may have the name of another pass's."""


def play_pass(
    each: Pass, threads: int | None = 1, progress: Callable[[int], None] | None = None
) -> list[Any]:
    """Play a pass's cells over one read of their trace.

    Parameters
    ----------
    each : Pass
    threads : int, optional
        Lanes at once; results do not depend on it.
    progress : callable, optional
        Called with the number of windows done.

    Returns
    -------
    list of (str, pyarrow.Table)
        Each cell's name and its rows, in the order of the cells.

    Raises
    ------
    InputError
        The trace, or a file that a policy plays with, cannot be read or is another one than was planned; or this
        process runs another version.
    """
    first = each.cells[0]
    if first.version != package_version():
        raise InputError(
            f"a worker runs replay {package_version()}, the sweep {first.version}; install the same everywhere"
        )
    trace = _opened(each.place, first.trace)
    lanes: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in each.cells:
        lanes.setdefault(cell.lane, []).append(cell)
    builders: dict[Any, Builder] = {}
    with _NAMES:
        places = lay_out(each.files, _scratch)
        ready = [(cells, _candidate(trace, cells, places, builders)) for cells in lanes.values()]
    entries = {id(one.entry): one.entry for _, one in ready if isinstance(one, Candidate)}
    if entries:
        play(trace, list(entries.values()), threads=threads, progress=progress)
    found = {cell.name: _rows(cell, one) for cells, one in ready for cell in cells}
    return [(cell.name, found[cell.name]) for cell in each.cells]


def _candidate(
    trace: Trace, cells: list[Cell], places: Mapping[str, str], builders: dict[Any, Builder]
) -> Candidate | str:
    """The lane of some cells that differ in clock and seed only, or why there is none."""
    first = cells[0]
    clocks = {clock_key(cell.clock): cell.clock for cell in cells if cell.clock is not None}
    key = (first.slots, first.bytes, first.by_layer, tuple(clocks))
    if key not in builders:
        main, *more = clocks.values() or (None,)
        builders[key] = Builder(
            trace, first.bound, first.semantics, main, clocks=[each for each in more if each], keep_windows=False
        )  # fmt: skip
    spec = at_places(parse(first.policy), places)
    try:
        return builders[key].candidate(spec, parse_routes(first.routes), ())
    except InputError as problem:  # in words that are the same on every machine
        reason = str(problem).replace(str(trace.path), "the trace")
        for name, place in places.items():
            reason = reason.replace(place, name)
        return reason


def _rows(cell: Cell, one: Candidate | str) -> pa.Table:
    """A cell's rows from its lane, under its clock."""
    if isinstance(one, str):
        return failed(cell, one)
    if one.entry.lane.failure is not None:
        return failed(cell, str(one.entry.lane.failure))
    tokens = int(one.tokens[cell.semantics.warm :].sum())
    sides = [(one.entry.clock, one.entry.tally), *((under.clock, under.tally) for under in one.entry.others)]
    for clock, tally in sides:
        if cell.clock is None or (clock is not None and clock_key(clock.params) == clock_key(cell.clock)):
            return rows_of(cell, tally, tokens)
    raise AssertionError("a lane has every clock of its cells")


@lru_cache(4)
def _opened(place: str, name: str) -> Trace:
    """A trace of this process, opened and checked once."""
    folder = local_folder(place, _scratch() / name) if is_url(place) else Path(place)
    trace = open_trace(folder)
    if trace_hash(trace) != name:
        raise InputError(f"{place}: not the trace that the sweep was planned with; it changed meanwhile")
    return trace


def _of_worker() -> str | None:
    """The folder of the worker that this process is, which its cluster clears; None elsewhere."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # no worker
        return None


@lru_cache(1)
def _scratch() -> Path:
    """A folder of this process for what it fetched; gone when it ends, of a worker that is killed too."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(scratch("traces", _of_worker()))
