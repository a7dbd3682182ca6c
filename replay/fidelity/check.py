"""The check: every event of the recorded policy's replay against its record.

An event is equal when everything that the trace records of it agrees: the outcome of each lookup, its counters,
the residents before it. Prefill windows count like the others. What depends on time (``late``, ``cancelled``,
``wait_us``) is not compared: residency never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.comparison.play import tables_for
from replay.engine.frame import Output
from replay.errors import CheckFailed, InputError
from replay.fidelity.policy import recorded_lane, recorded_things
from replay.fidelity.sides import UNKNOWN, Difference, Sides
from replay.lane.lane import Lane
from replay.prepare.chunk import Prepared, prepare
from replay.trace import Trace


@dataclass(frozen=True)
class Total:
    """A figure summed over the events that record it.

    Attributes
    ----------
    name : str
        ``hits``, ``prefetch_hits``, ``misses``, ``issued``, ``demand_bytes``, ``residents`` (summed over the
        snapshots).
    source : str
        ``outcome``, ``counters`` or ``residents``.
    recorded, replayed : int
    """

    name: str
    source: str
    recorded: int
    replayed: int


@dataclass
class Fidelity:
    """What a replay of the recorded policy came to.

    Attributes
    ----------
    trace : str
    policy : str
        The recorded policy as a spec.
    bound : str
    semantics : dict
        Options of the replay, as the trace records them.
    compared : tuple of str
        What the trace records: of ``outcome``, ``counters``, ``residents``.
    events, equal : int
        Events of which anything is recorded, and those of them that agree in all of it.
    lookups, lookups_equal : int
        Lookups with a recorded outcome, and those that agree.
    first : Difference or None
    totals : list of Total
    """

    trace: str
    policy: str
    bound: str
    semantics: dict[str, Any]
    compared: tuple[str, ...]
    events: int = 0
    equal: int = 0
    lookups: int = 0
    lookups_equal: int = 0
    first: Difference | None = None
    totals: list[Total] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every event agrees."""
        return self.equal == self.events


def check_fidelity(trace: Trace) -> Fidelity:
    """Replay a trace's recorded policy with its recorded routes, and compare.

    Parameters
    ----------
    trace : Trace
        An open trace.

    Returns
    -------
    Fidelity
        Equal events, the first that differs, totals.

    Raises
    ------
    InputError
        The policy or its bound is not recorded, cannot be replayed, or nothing is recorded to compare with.
    CheckFailed
        The recorded arena cannot hold one of the events.
    """
    compared = recorded_things(trace)
    lane, bound = recorded_lane(trace)
    policy = lane.policy.spec.text
    result = Fidelity(str(trace.path), policy, bound.describe(), lane.semantics.describe(), compared)
    totals = _Totals()
    for prepared, out in _played(trace, lane, compared):
        sides = Sides(trace, prepared, out, lane)
        _add(result, sides, totals, lane.semantics.warm)
    if not result.events:
        raise InputError(f"{trace.path}: none of {', '.join(compared)} covers a window; nothing to compare")
    result.totals = totals.listed()
    return result


def _played(trace: Trace, lane: Lane, compared: tuple[str, ...]) -> Iterator[tuple[Prepared, Output]]:
    """Play the lane over the trace."""
    meta, demand = trace.meta, lane.demand()
    tables = tables_for(trace, demand, timing=False) | set(compared) - {"outcome"}
    for chunk in trace.chunks(tables, {"selections": ("outcome",)}):
        prefill = trace.windows.prefill[chunk.w0 : chunk.w1]
        ready = prepare(chunk, meta.layers, meta.experts, prefill, demand, trace.has("candidates"))
        out = lane.step(ready)
        if out is None:
            raise CheckFailed(
                f"{trace.path}: {lane.failure}: not the policy and bound that this was recorded under"
            )
        yield ready, out


class _Totals:
    """Sums of both sides, by figure and where it was recorded."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], list[int]] = {}

    def add(self, name: str, source: str, recorded: Any, replayed: Any) -> None:
        """Add to a figure."""
        pair = self.sums.setdefault((name, source), [0, 0])
        pair[0] += int(recorded)
        pair[1] += int(replayed)

    def listed(self) -> list[Total]:
        """Give the figures, those of one source together."""
        return [Total(name, source, *pair) for (name, source), pair in self.sums.items()]


def _add(result: Fidelity, sides: Sides, totals: _Totals, warm: int) -> None:
    """Compare a chunk's events."""
    told, differs = sides.verdict()
    skip = max(warm - sides.chunk.w0, 0) * sides.layers
    told[:skip] = differs[:skip] = False
    result.events += int(told.sum())
    result.equal += int((told & ~differs).sum())
    known = (sides.recorded != UNKNOWN) & told[sides.event]
    result.lookups += int(known.sum())
    result.lookups_equal += int((known & ~sides.wrong_lookups()).sum())
    if result.first is None and differs.any():
        result.first = sides.difference(int(np.argmax(differs)))
    _sum(totals, sides, told, known)


def _sum(totals: _Totals, sides: Sides, told: NDArray[np.bool_], known: NDArray[np.bool_]) -> None:
    """Add a chunk to the totals."""
    got = sides.out.got[: len(sides.recorded)]
    size = sides.sizes[sides.event % sides.layers, sides.expert]
    if known.any():
        for value, name in ((1, "hits"), (2, "prefetch_hits"), (0, "misses")):
            pair = (known & (sides.recorded == value)).sum(), (known & (got == value)).sum()
            totals.add(name, "outcome", *pair)
        misses = (size[known & (side == 0)].sum() for side in (sides.recorded, got))
        totals.add("demand_bytes", "outcome", *misses)
    if sides.counters is not None:
        event, columns = sides.counters
        event = event[told[event]]
        for name, values in columns.items():
            totals.add(
                name, "counters", values[told[sides.counters[0]]].sum(), sides.replayed(name)[event].sum()
            )
    if sides.residents is not None:
        event, bits = sides.residents
        mine = told[event]
        totals.add("residents", "residents", bits[mine].sum(), sides.out.residents[event[mine]].sum())
