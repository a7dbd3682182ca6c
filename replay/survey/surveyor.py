"""The lanes of a survey: one for all capacities where a policy has a stack, else one a capacity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.comparison.candidate import Builder
from replay.comparison.offline import Played
from replay.comparison.play import Entry
from replay.declare.semantics import Routes, Semantics
from replay.lane.lane import Lane
from replay.ledger.grouping import GroupTally, group_windows
from replay.spec.grammar import parse
from replay.spec.resolve import Resolved, identity, resolve
from replay.survey.depth import StackLane, has_stack
from replay.survey.grid import Grid
from replay.trace import Trace


@dataclass
class Curve:
    """One policy over all capacities.

    Attributes
    ----------
    text, routes : str
    policy : Resolved
    rows_used : int64[windows] or None
    entries : list of Entry
        One a capacity, or one for all of them.
    tokens : int
        Counted committed tokens.
    """

    text: str
    routes: str
    policy: Resolved
    rows_used: NDArray[np.int64] | None
    entries: list[Entry]
    tokens: int

    @property
    def stack(self) -> StackLane | None:
        """The lane that played all capacities at once, or None."""
        lane = self.entries[0].lane
        return lane if isinstance(lane, StackLane) else None

    def cells(self) -> NDArray[np.int64]:
        """int64[G, len(FIGURES), C]: what each capacity counted."""
        if self.stack is not None:
            return self.stack.cells()
        return np.stack([each.tally.cells() for each in self.entries if isinstance(each.tally, GroupTally)])

    def fails(self) -> NDArray[np.bool_]:
        """bool[G]: the capacities that cannot hold some event."""
        if self.stack is not None:
            return self.stack.fails()
        return np.array([each.lane.failure is not None for each in self.entries])

    def played(self, bounds: Sequence[Bound]) -> list[Played]:
        """Rows of the bound check."""
        if self.stack is None:
            rows = zip(bounds, self.entries, strict=True)
            return [Played(each.lane, bound, each.tally.misses_in_all) for bound, each in rows]
        points = zip(bounds, self.stack.misses().tolist(), self.stack.fails().tolist(), strict=True)
        return [Played(self.stack, bound, missed) for bound, missed, failed in points if not failed]


class Surveyor(Builder):
    """Makes the lanes of a survey; policies that must give the same counts share them."""

    def __init__(self, trace: Trace, grid: Grid, semantics: Semantics) -> None:
        super().__init__(trace, grid.bounds[-1], semantics, None)
        self.grid = grid
        self.grouping = group_windows(trace.meta.layers, trace.windows, semantics.warm)
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._census: dict[int, StackLane] = {}
        self._alone: list[StackLane] = []

    def curve(self, text: str, policy: Resolved, routes: Routes) -> Curve:
        """A policy's lanes over the grid."""
        used, tokens = self.rows(policy.spec)
        key = (identity(policy, routes.kind, self.shape.top_k), routes, id(used))
        if key not in self._lanes:
            self._lanes[key] = self._entries(policy, routes, used)
        counted = int(tokens[self.semantics.warm :].sum())
        return Curve(text, routes.text, policy, used, self._lanes[key], counted)

    def _entries(self, policy: Resolved, routes: Routes, used: NDArray[np.int64] | None) -> list[Entry]:
        name, warm = f"{policy.spec.text} ({routes.text})", self.semantics.warm
        by_slots, prefill = self.grid.unit != "bytes", bool(self.trace.windows.prefill.any())
        if has_stack(policy.spec, routes, self.semantics, by_slots, prefill):
            lane = self._stack(policy, used)
            self._census.setdefault(id(used), lane)
            return [Entry(lane, GroupTally(name, self.grouping, warm))]
        by_layer, classes = self.semantics.scope == "layer", self.trace.classes
        return [
            Entry(
                Lane(
                    self.shape,
                    at.plan(classes, by_layer),
                    policy,
                    self.semantics,
                    routes,
                    used,
                    clock=self.nominal,
                ),
                GroupTally(name, self.grouping, warm),
            )
            for at in self.grid.bounds
        ]

    def _stack(self, policy: Resolved, used: NDArray[np.int64] | None) -> StackLane:
        bounds = self.grid.bounds if self.grid.unit != "bytes" else [Bound((1,) * self._classes, None, "")]
        return StackLane(self.shape, bounds, policy, self.semantics, used, self.grouping)

    @property
    def _classes(self) -> int:
        return int(self.trace.classes.max()) + 1

    def census(self, used: NDArray[np.int64] | None) -> StackLane:
        """A lane that counts first uses of the rows that count: a curve's in one pass, else one of its own."""
        if id(used) not in self._census:
            lane = self._stack(resolve(parse("lru"), self.trace.meta), used)
            self._census[id(used)] = lane
            self._alone.append(lane)
        return self._census[id(used)]

    def census_entries(self) -> list[Entry]:
        """What has to be played for the census alone."""
        return [Entry(each, GroupTally("first uses", self.grouping, 0)) for each in self._alone]
