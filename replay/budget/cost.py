"""What every layer costs with every number of slots: one policy replayed over a grid of layer arenas.

With scope ``layer`` the layers' arenas do not touch each other, so one replay gives a point of every layer's curve.
Each size class has curves of its own: the other classes then hold all of their experts, which adds the same to every
point of a layer. Between the points of a grid costs are taken to lie on a straight line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.clock.timing import ClockParams
from replay.comparison.candidate import Builder, Candidate, refusal
from replay.comparison.play import Entry, Progress, play, prepared_chunks
from replay.declare.semantics import RECORDED_ROUTES, Semantics
from replay.errors import InputError
from replay.ledger.ledger import Tally
from replay.prepare.chunk import Demand
from replay.spec.grammar import PolicySpec
from replay.trace import Trace

FIGURES: dict[str, Callable[[Tally], NDArray[np.float64]]] = {
    "misses": lambda tally: tally.by_layer["misses"].sum(axis=0).astype(np.float64),
    "bytes": lambda tally: (
        (tally.by_layer["demand_bytes"] + tally.by_layer["issued_bytes"]).sum(axis=0).astype(np.float64)
    ),
    "wait": lambda tally: tally.by_layer["wait_ns"].sum(axis=0) / 1000.0,
}
"""A layer's cost: its misses, the bytes that are asked for there (demand and read-ahead), the microseconds that its
events wait for reads."""


@dataclass(frozen=True)
class Ways:
    """How a policy is replayed.

    Attributes
    ----------
    spec : PolicySpec
    semantics : Semantics
        Its scope is not read.
    clock : ClockParams or None
    """

    spec: PolicySpec
    semantics: Semantics
    clock: ClockParams | None

    def scoped(self, scope: str) -> Semantics:
        """The semantics with a scope."""
        from dataclasses import replace

        return replace(self.semantics, scope=scope)


def members(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Experts of each size class in each layer: int64[C, L]."""
    return np.stack([(classes == c).sum(axis=1) for c in range(int(classes.max()) + 1)]).astype(np.int64)


def widest(traces: Sequence[Trace], ways: Ways) -> NDArray[np.int64]:
    """Most experts that one event wants of each size class in each layer: int64[C, L]; 1 where events are sequential.

    Parameters
    ----------
    traces : sequence of Trace
        Traces of one shape.
    ways : Ways
        Draft retention and cell matter.
    """
    count, layers = members(traces[0].classes).shape
    found = np.minimum(members(traces[0].classes), 1)
    if ways.semantics.cell == "sequential":
        return found
    for trace in traces:
        bound = Bound((1,) * count, None, "")
        used = (
            Builder(trace, bound, ways.semantics, None).candidate(ways.spec, RECORDED_ROUTES, ()).entry.lane
        )
        for prepared, _ in prepared_chunks(trace, Demand(), False):
            events = used.view(prepared)
            event = np.repeat(np.arange(len(events.want_offsets) - 1), np.diff(events.want_offsets))
            of_class = trace.classes[event % layers, events.wants].astype(np.int64)
            wants = np.bincount(event * count + of_class, minlength=(len(events.want_offsets) - 1) * count)
            found = np.maximum(found, wants.reshape(-1, layers, count).max(axis=0, initial=0).T)
    return found


def build(trace: Trace, ways: Ways, bound: Bound, scope: str, timed: bool) -> tuple[Builder, Candidate]:
    """A policy at one bound on one trace.

    Raises
    ------
    InputError
        The trace lacks what the policy needs.
    """
    reason = refusal(ways.spec, RECORDED_ROUTES, trace, bound)
    if reason is not None:
        raise InputError(f"policy {ways.spec.text}: {reason}")
    builder = Builder(trace, bound, ways.scoped(scope), ways.clock if timed else None)
    return builder, builder.candidate(ways.spec, RECORDED_ROUTES, ())


def _places(low: NDArray[np.int64], high: NDArray[np.int64], points: int) -> NDArray[np.int64]:
    """Slots to replay: from the fewest to the most of each layer, evenly; int64[points, L]."""
    points = min(points, int((high - low).max(initial=0)) + 1)
    steps = np.linspace(0.0, 1.0, points)[:, None]
    return np.rint(low + steps * (high - low)).astype(np.int64)


def curves(
    trace: Trace,
    ways: Ways,
    low: NDArray[np.int64],
    figure: str,
    points: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[list[NDArray[np.float64]]]:
    """Replay a policy over a grid of slots by layer.

    Parameters
    ----------
    trace : Trace
        The training windows.
    ways : Ways
    low : int64[C, L]
        Fewest slots of each class in each layer.
    figure : str
        One of ``FIGURES``.
    points : int
        Most capacities of each layer and class to replay.
    threads : int, optional
    progress : callable, optional

    Returns
    -------
    list of list of float64[n]
        By class and layer: cost with 0, 1, .. slots, infinite below ``low``.

    Raises
    ------
    InputError
        The policy cannot run.
    """
    high = members(trace.classes)
    timed = figure == "wait"
    builder, first = build(trace, ways, Bound.of_layers(high.tolist(), "all experts"), "layer", timed)
    grids = [_places(low[c], high[c], points) for c in range(len(high))]
    lanes: list[list[Entry]] = []
    for c, grid in enumerate(grids):
        row = []
        for slots in grid:
            table = high.copy()
            table[c] = slots
            at = Bound.of_layers(table.tolist(), "a point of the curves")
            row.append(
                builder.entry(first.policy, RECORDED_ROUTES, first.entry.lane.rows_used, at, main=timed)
            )
        lanes.append(row)
    entries = {id(each): each for row in lanes for each in row}
    play(trace, list(entries.values()), threads=threads, progress=progress)
    for each in entries.values():
        if each.lane.failure is not None:
            raise InputError(f"policy {ways.spec.text}: {each.lane.failure}")
    found = []
    for c, grid in enumerate(grids):
        costs = np.stack([FIGURES[figure](each.tally) for each in lanes[c]])
        found.append([_between(grid[:, layer], costs[:, layer]) for layer in range(costs.shape[1])])
    return found


def _between(slots: NDArray[np.int64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Costs with 0, 1, .. slots from those at some, on straight lines; infinite below the first."""
    out: NDArray[np.float64] = np.interp(np.arange(slots[-1] + 1), slots, costs)
    out[: slots[0]] = np.inf
    return out
