"""A lane that plays every capacity at once, where its policy has the stack property (:mod:`replay.stack`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import replay.engine.frame as fr
from replay.bound import Bound
from replay.chunk import Demand, Prepared
from replay.evict import load as load_eviction
from replay.grouping import FIGURES, Grouping
from replay.lane import Failure, Lane, Shape
from replay.lookahead import Future, occurrences
from replay.resolve import Resolved
from replay.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.spec import PolicySpec, declaration
from replay.stack.count import Cells, Lookups, count_depths
from replay.stack.line import line_of, lru_depths, lru_start
from replay.stack.pile import belady_depths, belady_start, pile_of

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
        self.looks_ahead = declaration(policy.spec.evict.name).looks_ahead
        self.failure: Failure | None = None
        self._future: Future | None = None
        plans = [each.plan(shape.classes, semantics.scope == "layer") for each in bounds]
        self.capacity = np.array([plan.capacity for plan in plans], np.int64)
        part_of, parts = plans[0].part_of, len(plans[0].capacity)
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
        self._line = None if self.looks_ahead else line_of(self._part_of, parts)
        self._pile = pile_of(self._part_of, parts) if self.looks_ahead else None

    def demand(self) -> Demand:
        """Nothing of the scores."""
        return Demand()

    def notes(self) -> list[str]:
        """Nothing to remark."""
        return []

    def foresee(self, future: Future) -> None:
        """Take the future of the rows that count for this lane."""
        self._future = future

    def start(self, snapshots: Mapping[int, NDArray[np.int32]]) -> None:
        """Insert the first resident snapshot of each layer (start ``recorded``)."""
        for layer in sorted(snapshots):
            numbers = (snapshots[layer] + layer * self.shape.experts).astype(np.int32)
            if self._line is not None:
                lru_start(numbers, self._line, self._part_of)
            elif self._pile is not None and self._future is not None:
                belady_start(numbers, self._pile, self._part_of, self._future.first)

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
            assert self._pile is not None and self._future is not None, "foresee comes first"
            lookups, next_use = Lookups(where, picks, depth), self._future.between(first, last)[0]
            belady_depths(
                lookups, next_use, self._pile, self._part_of, width, self.widest, layers, experts, sequential
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

    def sums(self) -> NDArray[np.int64]:
        """int64[C, G + 2]: lookups by cell and bucket; cell 0 then holds those of every window."""
        self._count()
        found = self.counts[:-1].copy()
        found[0] += found[1 : 1 + 2 * self.shape.layers].sum(axis=0)
        return found

    def cells(self) -> NDArray[np.int64]:
        """int64[G, len(FIGURES), C]: what each capacity counts, to be asked after the last chunk."""
        counts = self.sums()
        lookups, hits = counts.sum(axis=1), np.cumsum(counts[:, :-2], axis=1).T
        demand = (lookups - hits) * int(self._sizes[0])
        if len(self.weights):
            held = np.cumsum(self.weights[:-1, :-2], axis=1).T
            demand = self.weights[:-1].sum(axis=1) - held
        of = {
            "lookups": np.broadcast_to(lookups, hits.shape),
            "hits": hits,
            "prefetch_hits": np.zeros_like(hits),
        }
        of |= {"misses": lookups - hits, "demand_bytes": demand}
        return np.stack([of[name] for name in FIGURES], axis=1)

    def first_uses(self) -> NDArray[np.int64]:
        """int64[C]: lookups of experts that were never used before, misses at any capacity."""
        return self.sums()[:, -1]
