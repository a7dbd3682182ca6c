"""A lane that plays every capacity at once, where its policy has the stack property (:mod:`replay.stack`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import replay.engine.frame as fr
from replay.arena.bound import Bound, part_slots
from replay.declare.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.evict import load as load_eviction
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.ledger.grouping import FIGURES, Grouping
from replay.prepare.chunk import Demand, Prepared
from replay.prepare.lookahead import occurrences
from replay.spec.grammar import PolicySpec
from replay.spec.resolve import Resolved
from replay.stack.count import Cells, Lookups, count_depths
from replay.stack.line import line_of, lru_depths, lru_start
from replay.stack.optimum import belady_depths, belady_start
from replay.stack.vacancy import vacancies_of

AT_ONCE = 1 << 19
"""Lookups that wait to be counted."""


def has_stack(spec: PolicySpec, routes: Routes, semantics: Semantics, by_slots: bool, prefill: bool) -> bool:
    """Whether a policy keeps at each capacity all that it keeps at a smaller one (semantics 5).

    So do ``lru`` with ``order=rows`` or ``cell=sequential`` and ``belady``, on recorded routes, with a bound in
    slots, without read-ahead and where prefill windows neither stream nor spare.

    Parameters
    ----------
    spec : PolicySpec
    routes : Routes
    semantics : Semantics
    by_slots : bool
        The bound is in slots.
    prefill : bool
        The trace has prefill windows.
    """
    plain = routes.kind == "recorded" and spec.read_ahead.name == "none" and not spec.gates and by_slots
    if prefill and (semantics.stream is not None or semantics.prompt_hot is not None):
        return False
    ordered = semantics.order == "rows" or semantics.cell == "sequential"
    return plain and (spec.evict.name == "belady" or (spec.evict.name == "lru" and ordered))


class StackLane(Lane):
    """One policy at every capacity of a list.

    Parameters
    ----------
    shape : Shape
    bounds : sequence of Bound
        Capacities in slots, ascending.
    policy : Resolved
        One for which :func:`has_stack` holds.
    semantics : Semantics
    rows_used : int64[windows], optional
    grouping : Grouping
        What is counted apart.
    """

    def __init__(
        self,
        shape: Shape,
        bounds: Sequence[Bound],
        policy: Resolved,
        semantics: Semantics,
        rows_used: NDArray[np.int64] | None,
        grouping: Grouping,
    ) -> None:
        self.shape, self.policy, self.semantics, self.rows_used = shape, policy, semantics, rows_used
        self.routes, self.grouping = RECORDED_ROUTES, grouping
        self.steps = load_eviction(policy.spec.evict.name)
        self.looks_ahead, self.failure = "", None
        by_layer = semantics.scope == "layer"
        self.capacity = part_slots(bounds, shape.layers, by_layer)
        part_of, parts = bounds[0].plan(shape.classes, by_layer).part_of, self.capacity.shape[1]
        keys = np.bincount(part_of, minlength=parts)
        bucket = [np.searchsorted(self.capacity[:, p], np.arange(keys[p] + 1)) for p in range(parts)]
        uneven = bool((shape.sizes != shape.sizes.flat[0]).any())
        self.counts = np.zeros((grouping.size + 1, len(bounds) + 2), np.int64)
        self.weights = np.zeros(self.counts.shape if uneven else (0, 0), np.int64)
        self._bucket = np.concatenate(bucket).astype(np.int32)
        self._bucket_at = np.concatenate(([0], np.cumsum(keys + 1)[:-1])).astype(np.int64)
        self._bucket[self._bucket_at] = len(bounds) + 1
        self._part_of = part_of.astype(np.int64)
        self._sizes = np.ascontiguousarray(shape.sizes, np.int64).ravel()
        self.widest = np.zeros(parts, np.int64)
        self._waiting: list[tuple[Lookups, NDArray[np.int32], NDArray[np.int32]]] = []
        self._scratch = np.zeros(2 * shape.experts + 1, np.int64), np.zeros(parts, np.int64)
        lru = policy.spec.evict.name == "lru"
        self._line = line_of(self._part_of, parts) if lru else None
        self._vacancies = None if lru else vacancies_of(self._part_of, parts)

    def demand(self) -> Demand:
        """Nothing of the scores."""
        return Demand()

    def notes(self) -> list[str]:
        """Nothing to remark."""
        return []

    def start(self, snapshots: Mapping[int, NDArray[np.int32]]) -> None:
        """Insert the first resident snapshot of each layer (start ``recorded``)."""
        for layer in sorted(snapshots):
            numbers = (snapshots[layer] + layer * self.shape.experts).astype(np.int32)
            if self._line is not None:
                lru_start(numbers, self._line, self._part_of)
            elif self._vacancies is not None:
                belady_start(numbers, self._vacancies, self._part_of)

    def step(self, prepared: Prepared, timing: Mapping[str, NDArray[Any]] | None = None) -> fr.Output | None:
        """Count a chunk's lookups by depth; there is no output beside the counts."""
        view, layers, experts = self.view(prepared), self.shape.layers, self.shape.experts
        first, last = prepared.first_window, prepared.first_window + len(prepared.prefill)
        sequential, (order, width) = self.semantics.cell == "sequential", self._scratch
        offsets, picks = view.want_offsets, view.wants
        if self._line is not None or sequential:
            offsets, picks = occurrences(
                view.row_start, view.rows_used, view.pick_offsets, view.picks, layers
            )
        count = int(offsets[-1] if sequential else view.want_offsets[-1])
        where, depth = offsets if sequential else view.want_offsets, np.empty(count, np.int32)
        if self._line is not None:
            lookups = Lookups(where, np.empty(count, np.int32), depth)
            lru_depths(
                offsets, picks, lookups, self._line, self._part_of, order, width, self.widest, layers, experts,
                sequential,
            )  # fmt: skip
        else:
            lookups = Lookups(where, picks, depth)
            belady_depths(
                lookups, self._vacancies, self._part_of, width, self.widest, layers, experts, sequential
            )
        self._waiting.append((lookups, *self.grouping.cells_of(first, last)))
        if sum(len(each.depth) for each, *_ in self._waiting) > AT_ONCE:
            self._count()
        return None

    def _count(self) -> None:
        """Count the lookups that wait for it: many at once, since a layer's row of cells is long."""
        if not self._waiting:
            return
        found, groups, layers = zip(*self._waiting, strict=True)
        self._waiting = []
        lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(each.offsets) for each in found)])
        lookups = Lookups(
            np.cumsum(lengths),
            np.concatenate([each.ids for each in found]),
            np.concatenate([each.depth for each in found]),
        )
        cells = Cells(
            self._bucket, self._bucket_at, self.counts, self.weights, np.concatenate(groups, axis=1),
            np.concatenate(layers), self._sizes, self._part_of,
        )  # fmt: skip
        count_depths(lookups, cells, self.shape.layers, self.shape.experts)

    def fails(self) -> NDArray[np.bool_]:
        """bool[G]: the capacities that cannot hold some event, to be asked after the last chunk."""
        return np.asarray((self.capacity < self.widest).any(axis=1))

    def _in_all(self) -> NDArray[np.int64]:
        """int64[G + 2]: lookups of every window by bucket."""
        self._count()
        return np.asarray(self.counts[: 1 + 2 * self.shape.layers].sum(axis=0))

    def misses(self) -> NDArray[np.int64]:
        """int64[G]: misses of every window, uncounted warm ones included; to be asked after the last chunk."""
        found = self._in_all()
        return np.asarray(found.sum() - np.cumsum(found[:-2]))

    def cells(self) -> NDArray[np.int64]:
        """int64[G, len(FIGURES), C]: what each capacity counts, to be asked after the last chunk."""
        whole = self._in_all()
        cells, buckets = self.counts.shape[0] - 1, self.counts.shape[1]
        found = np.zeros((len(FIGURES), cells, buckets - 2), np.int64)
        of = dict(zip(FIGURES, found, strict=True))
        np.cumsum(self.counts[:-1, :-2], axis=1, out=of["hits"])
        np.cumsum(whole[:-2], out=of["hits"][0])
        of["lookups"][:] = self.counts[:-1].sum(axis=1)[:, None]
        of["lookups"][0] = whole.sum()
        np.subtract(of["lookups"], of["hits"], out=of["misses"])
        if len(self.weights):
            np.cumsum(self.weights[:-1, :-2], axis=1, out=of["demand_bytes"])
            np.subtract(self.weights[:-1].sum(axis=1)[:, None], of["demand_bytes"], out=of["demand_bytes"])
        else:
            np.multiply(of["misses"], int(self._sizes[0]), out=of["demand_bytes"])
        return found.transpose(2, 0, 1)

    def first_uses(self) -> NDArray[np.int64]:
        """int64[C]: lookups of experts that were never used before, misses at any capacity."""
        whole = self._in_all()
        return np.concatenate([whole[-1:], self.counts[1:-1, -1]])
