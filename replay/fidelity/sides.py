"""Both sides of a chunk's events: what is recorded, and what the replay says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.engine.frame import COUNTERS, Events, Output
from replay.lane.lane import Lane
from replay.prepare.chunk import Prepared
from replay.trace import Chunk, Trace

UNKNOWN = 255
"""Outcome that is not known, or a repeat inside the event."""

COUNTED = ("hits", "prefetch_hits", "misses", "issued")
"""Columns of the table ``counters`` that do not depend on time."""


@dataclass(frozen=True)
class Difference:
    """The first event that differs.

    Attributes
    ----------
    window, layer : int
    experts : list of int
        Experts whose outcome or residency differs, ascending.
    recorded, replayed : dict
        Both sides, as far as recorded: ``outcome`` (expert to outcome, of the wanted ones), counters, and
        ``residents`` before the event (ascending ids).
    """

    window: int
    layer: int
    experts: list[int]
    recorded: dict[str, Any]
    replayed: dict[str, Any]


class Sides:
    """What is recorded of a chunk's events beside what the replay says, event by event (window, layer)."""

    def __init__(self, trace: Trace, prepared: Prepared, out: Output, lane: Lane):
        self.chunk: Chunk = prepared.chunk
        self.layers, self.experts = trace.meta.layers, trace.meta.experts
        self.sizes = trace.sizes
        self.out = out
        self.events: Events = lane.view(prepared)
        self.count = len(prepared.prefill) * self.layers
        self.sequential = lane.semantics.cell == "sequential"
        self.expert, self.event, self.recorded = self._outcomes()
        self.counters = self._counters()
        self.residents = self._residents()

    def _outcomes(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Expert, event and recorded outcome of every lookup, in the order of ``out.got``; 255: not known."""
        lists, outcome = self.chunk.selections, self.chunk.outcome
        assert lists is not None
        row = np.arange(len(lists.offsets) - 1) // self.layers
        window = np.searchsorted(self.chunk.row_start, row, side="right") - 1
        of_list = window * self.layers + np.arange(len(row)) % self.layers
        pick_event = np.repeat(of_list, np.diff(lists.offsets))
        known = np.full(len(lists.values), UNKNOWN, np.uint8) if outcome is None else outcome
        if self.sequential:
            order = np.argsort(pick_event, kind="stable")
            return lists.values[order], pick_event[order], known[order]
        event = np.repeat(np.arange(self.count), np.diff(self.events.want_offsets))
        key = event * self.experts + self.events.wants
        recorded = np.full(len(key), UNKNOWN, np.uint8)
        told = known != UNKNOWN
        first, at = np.unique(
            pick_event[told] * self.experts + lists.values[told], return_index=True
        )  # the first place of each
        recorded[np.searchsorted(key, first)] = known[told][at]
        return self.events.wants, event, recorded

    def _counters(self) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]] | None:
        """Events that have recorded counters, and these."""
        table = self.chunk.tables.get("counters")
        if table is None:
            return None
        event = (table["window"] - self.chunk.w0) * self.layers + table["layer"]
        columns = {name: table[name] for name in COUNTED if name in table and (table[name] >= 0).all()}
        return event, columns

    def _residents(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
        """Events that have a recorded snapshot, and these as bits, [events, experts]."""
        rows = self.chunk.residents
        if rows is None:
            return None
        event = (rows.window - self.chunk.w0) * self.layers + rows.layer
        bits = np.zeros((len(event), self.experts), np.uint8)
        lengths = np.diff(rows.experts.offsets)
        bits[np.repeat(np.arange(len(event)), lengths), rows.experts.values] = 1
        return event, bits

    def wrong_lookups(self) -> NDArray[np.bool_]:
        """Lookups whose recorded outcome is another than the replay's."""
        return (self.recorded != UNKNOWN) & (self.recorded != self.out.got[: len(self.recorded)])

    def verdict(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say of each event whether anything is recorded, and whether something differs."""
        told, differs = np.zeros(self.count, bool), np.zeros(self.count, bool)
        told[self.event[self.recorded != UNKNOWN]] = True
        differs[self.event[self.wrong_lookups()]] = True
        if self.counters is not None:
            event, columns = self.counters
            told[event] = True
            for name, values in columns.items():
                differs[event[values != self.replayed(name)[event]]] = True
        if self.residents is not None:
            event, bits = self.residents
            told[event] = True
            differs[event[(bits != self.out.residents[event]).any(axis=1)]] = True
        return told, differs

    def replayed(self, name: str) -> NDArray[np.int64]:
        """A counter of the replay, one an event."""
        return self.out.counts[:, COUNTERS.index(name)]

    def difference(self, event: int) -> Difference:
        """Both sides of one event."""
        recorded: dict[str, Any] = {}
        replayed: dict[str, Any] = {}
        mine = np.flatnonzero(self.event == event)
        wrong = set(self.expert[mine][self.wrong_lookups()[mine]].tolist())
        if (self.recorded[mine] != UNKNOWN).any():
            pairs = (self.recorded, recorded), (self.out.got, replayed)
            for values, side in pairs:
                side["outcome"] = list(zip(self.expert[mine].tolist(), values[mine].tolist(), strict=True))
        if self.counters is not None:
            for at in np.flatnonzero(self.counters[0] == event):
                for name, values in self.counters[1].items():
                    recorded[name], replayed[name] = int(values[at]), int(self.replayed(name)[event])
        replayed["residents"] = np.flatnonzero(self.out.residents[event]).tolist()
        if self.residents is not None:
            for at in np.flatnonzero(self.residents[0] == event):
                recorded["residents"] = np.flatnonzero(self.residents[1][at]).tolist()
                wrong |= set(recorded["residents"]) ^ set(replayed["residents"])
        window, layer = divmod(event, self.layers)
        return Difference(self.chunk.w0 + window, layer, sorted(wrong), recorded, replayed)
