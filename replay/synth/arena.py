"""The arena that runs along: an LRU over all layers, cold at first, event by event (semantics 4, order ``id``)."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from replay.errors import InputError


class Arena:
    """Slots that hold experts.

    Parameters
    ----------
    slots, layers : int
    """

    def __init__(self, slots: int, layers: int):
        self._slots = slots
        self._order: OrderedDict[tuple[int, int], None] = OrderedDict()  # the least recent first
        self._held: list[set[int]] = [set() for _ in range(layers)]

    def residents(self, layer: int) -> list[int]:
        """Experts of a layer that are there, ascending."""
        return sorted(self._held[layer])

    def event(self, layer: int, picks: np.ndarray) -> tuple[int, int]:
        """Serve an event.

        Parameters
        ----------
        layer : int
        picks : numpy.ndarray of int64
            Of all rows.

        Returns
        -------
        tuple of int and int
            Hits and misses.

        Raises
        ------
        InputError
            The arena cannot hold the event.
        """
        wanted = np.unique(picks).tolist()
        if len(wanted) > self._slots:
            raise InputError(f"--slots {self._slots}: an event wants {len(wanted)} experts; give more slots")
        missing = [expert for expert in wanted if expert not in self._held[layer]]
        absent = set(missing)
        for expert in wanted:
            if expert not in absent:
                self._order.move_to_end((layer, expert))
        for expert in missing:
            if len(self._order) == self._slots:
                self._evict(layer, set(wanted))
            self._order[layer, expert] = None
            self._held[layer].add(expert)
        return len(wanted) - len(missing), len(missing)

    def _evict(self, layer: int, pinned: set[int]) -> None:
        victim = next(key for key in self._order if key[0] != layer or key[1] not in pinned)
        del self._order[victim]
        self._held[victim[0]].discard(victim[1])
