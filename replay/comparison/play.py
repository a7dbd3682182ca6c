"""One pass over a trace for many lanes: read and prepared once, chunk by chunk, lanes in threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future as Doing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.clock.clock import Clock
from replay.comparison.sensitivity import Under
from replay.engine.frame import Guesses
from replay.errors import InputError
from replay.fate import Reads
from replay.lane.lane import Lane, combine
from replay.ledger.agreement import GivenUp
from replay.ledger.ledger import Tally
from replay.ledger.outcome import Outcomes
from replay.prepare.chunk import IN_PLAY, Demand, Prepared, prepare
from replay.prepare.lookahead import Future
from replay.prepare.training import teach
from replay.trace import Trace

Progress = Callable[[int], None]
"""Called with the number of windows done."""


@dataclass
class Entry:
    """A lane with what is kept of it.

    Attributes
    ----------
    lane : Lane
    tally : Tally
    clock : Clock or None
        The clock that is laid over the lane's event log.
    keep_reads : bool
        Keep every read.
    reads : list of Reads
        Reads of each chunk, where they are kept.
    given_up : GivenUp or None
        Softmax mass that rerouted picks give up, where it is kept.
    others : list of Under
        Further clocks over the same event log.
    outcomes : Outcomes or None
        What gates made of their candidates, where it is kept.
    """

    lane: Lane
    tally: Tally
    clock: Clock | None = None
    keep_reads: bool = False
    reads: list[Reads] = field(default_factory=list)
    given_up: GivenUp | None = None
    others: list[Under] = field(default_factory=list)
    outcomes: Outcomes | None = None

    def step(
        self, prepared: Prepared, timing: Mapping[str, NDArray[Any]] | None, before: Doing[None] | None = None
    ) -> None:
        """Play a chunk, clock it, add it up; once the chunk ``before`` is done."""
        if before is not None:
            before.result()
        out = self.lane.step(prepared, timing)
        if out is None:
            return
        account = None
        first, last = prepared.first_window, prepared.first_window + len(prepared.prefill)
        for each in self.others:
            more = each.clock.step(out.log, first, last, timing)
            each.tally.add(first, prepared.prefill, out.counts, out.peaks, more)
        if self.clock is not None:
            account = self.clock.step(out.log, first, last, timing, reads=self.keep_reads)
            if account.reads is not None:
                self.reads.append(account.reads)
        self.tally.add(first, prepared.prefill, out.counts, out.peaks, account)
        if self.outcomes is not None:
            self.outcomes.add(first, out.outcomes)
        if self.given_up is not None:
            self.given_up.add(first, prepared.chunk.row_start, prepared.prefill, out.given_up)


@dataclass
class Coverage:
    """What the optional tables covered, as a pass saw them.

    Attributes
    ----------
    candidates, router_scores : bool[windows]
        Windows with rows in that table.
    past : dict of (int, float) to int
        By picks K and reach: sparse candidate rows in which a policy might have looked past the row's end.
    """

    candidates: NDArray[np.bool_]
    router_scores: NDArray[np.bool_]
    past: dict[tuple[int, float], int]

    def add(self, prepared: Prepared, experts: int) -> None:
        """Note a chunk."""
        chunk = prepared.chunk
        for name in ("candidates", "router_scores"):
            raw = getattr(chunk, name)
            if raw is not None:
                getattr(self, name)[raw.window] = True
        if (
            chunk.candidates is not None
            and chunk.candidates.experts is not None
            and len(prepared.guesses.scores)
        ):
            for count, reach in self.past:
                self.past[count, reach] += looks_past(prepared.guesses, count, reach, experts)


def looks_past(guesses: Guesses, count: int, reach: float, experts: int) -> int:
    """Sparse rows that may lack an expert within ``reach`` of their ``count``-th best score."""
    lengths = np.diff(guesses.offsets)
    whole = lengths == experts
    short = lengths < count
    enough = np.flatnonzero(~short & ~whole)
    kth = guesses.scores[guesses.offsets[enough] + count - 1].astype(np.float64)
    lowest = guesses.scores[guesses.offsets[enough + 1] - 1].astype(np.float64)
    return int((short & ~whole).sum() + (lowest + reach >= kth).sum())


def tables_for(trace: Trace, demand: Demand, timing: bool) -> set[str]:
    """Tables that a pass reads."""
    tables = {"selections"}
    if (demand.guesses or demand.moments) and trace.has("candidates"):
        tables.add("candidates")
    if (demand.router or demand.rows) and trace.has("router_scores"):
        tables.add("router_scores")
    if timing and trace.has("timing"):
        tables.add("timing")
    return tables


def first_snapshots(trace: Trace) -> dict[int, NDArray[np.int32]]:
    """The first resident snapshot of each layer (start ``recorded``).

    Raises
    ------
    InputError
        The trace has no table ``residents``.
    """
    if not trace.has("residents"):
        raise InputError(
            f"{trace.path}: --start recorded needs the table residents, which this trace lacks; use --start cold"
        )
    found: dict[int, NDArray[np.int32]] = {}
    for chunk in trace.chunks({"residents"}):
        rows = chunk.residents
        if rows is None:
            continue
        for i, layer in enumerate(rows.layer.tolist()):
            if layer not in found:
                lists = rows.experts
                found[layer] = np.array(lists.values[lists.offsets[i] : lists.offsets[i + 1]], np.int32)
        if len(found) == trace.meta.layers:
            break
    return found


def prepared_chunks(trace: Trace, demand: Demand, timing: bool) -> Iterator[tuple[Prepared, Any]]:
    """Read and prepare a trace chunk by chunk, one chunk ahead of its use."""
    meta, prefill = trace.meta, trace.windows.prefill
    tables = tables_for(trace, demand, timing)
    source = trace.chunks(tables, decode_only={"candidates"} & tables, halves=True)
    table = trace.has("candidates")

    widest = 0.0

    def ahead() -> tuple[Prepared, Any] | None:
        nonlocal widest
        chunk = next(source, None)
        if chunk is None:
            return None
        ready = prepare(chunk, meta.layers, meta.experts, prefill[chunk.w0 : chunk.w1], demand, table, widest)
        widest = ready.widest
        return ready, chunk.tables.get("timing")

    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(ahead)
        while (found := waiting.result()) is not None:
            waiting = reader.submit(ahead)
            yield found


def foresee(trace: Trace, lanes: Sequence[Lane]) -> None:
    """Give the lanes that look ahead their future, from one pass over the selections; none looks: no pass."""
    looking = [lane for lane in lanes if lane.looks_ahead]
    if not looking:
        return
    groups: dict[tuple[int, bool], list[Lane]] = {}
    for lane in looking:
        groups.setdefault((id(lane.rows_used), lane.semantics.cell == "sequential"), []).append(lane)
    shape = looking[0].shape
    futures = {
        key: Future(shape.layers, shape.experts, key[1], any(lane.looks_ahead == "later" for lane in group))
        for key, group in groups.items()
    }
    for prepared, _ in prepared_chunks(trace, Demand(), False):
        for key, group in groups.items():
            futures[key].add(group[0].view(prepared))
    for key, group in groups.items():
        future = futures[key].close()
        for lane in group:
            lane.foresee(future)


def share_maps(lanes: Sequence[Lane]) -> None:
    """Let the lanes whose read-ahead matches the same windows in the same way do so once."""
    first: dict[Hashable, Lane] = {}
    for lane in lanes:
        if lane.maps is not None:
            key = (id(lane.rows_used), lane.maps.size, lane.maps.distance)
            lane.maps = first.setdefault(key, lane).maps


def play(
    trace: Trace, entries: Sequence[Entry], *, threads: int | None = None, progress: Progress | None = None
) -> Coverage:
    """Play every lane over the whole trace.

    Parameters
    ----------
    trace : Trace
    entries : sequence of Entry
        Changed in place; a lane whose arena cannot hold an event stops and says so in ``lane.failure``.
    threads : int, optional
        Lanes that run at once; the machine's cores where None. Results do not depend on it.
    progress : callable, optional
        Called with the number of windows done.

    Returns
    -------
    Coverage
        What the optional tables covered.
    """
    demand = combine([each.lane for each in entries])
    teach(trace, [each.lane for each in entries])
    foresee(trace, [each.lane for each in entries])
    share_maps([each.lane for each in entries])
    if any(each.lane.semantics.start == "recorded" for each in entries):
        snapshots = first_snapshots(trace)
        for each in entries:
            if each.lane.semantics.start == "recorded":
                each.lane.start(snapshots)
    timed = any(each.clock is not None or each.lane.planned for each in entries)
    windows = len(trace.windows)
    asked = {(d.picks, d.reach): 0 for d in (each.lane.demand() for each in entries) if d.guesses and d.picks}
    coverage = Coverage(np.zeros(windows, bool), np.zeros(windows, bool), asked)
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        begun: deque[tuple[Prepared, list[Doing[None]]]] = deque()
        last: list[Doing[None] | None] = [None] * len(entries)

        def finish(most: int) -> None:
            while len(begun) > most:
                prepared, steps = begun.popleft()
                for step in steps:
                    step.result()
                if progress is not None:
                    progress(prepared.first_window + len(prepared.prefill))

        for prepared, timing in prepared_chunks(trace, demand, timed):
            for each in {id(e.lane.rows_used): e for e in entries}.values():
                each.lane.view(prepared)
            steps = [
                pool.submit(each.step, prepared, timing, before)
                for each, before in zip(entries, last, strict=True)
            ]
            begun.append((prepared, steps))
            last = list(steps)
            coverage.add(prepared, trace.meta.experts)
            finish(IN_PLAY - 1)
        finish(0)
    return coverage
