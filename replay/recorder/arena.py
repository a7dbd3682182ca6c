"""An emulated arena beside the model: what would be resident, and with a bonus, what is routed.

Semantics 4 with demand reads only, LRU, one class, one arena for all layers, ``order=id``: replaying the recorded
policy gives the recorded counters, outcomes and residents back.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from replay.argument import NUMBER, WHOLE, expect
from replay.errors import InputError

UNKNOWN = 255  # outcome of a repeat; else whether the expert was resident


@dataclass(frozen=True)
class Arena:
    """An arena to emulate while recording.

    Attributes
    ----------
    slots : int
        Experts that it holds, over all layers.
    bonus : float
        Resident bonus b of the router (semantics 2), in the loop: above 0 the model computes with the picks that
        the residents change.
    protect : int
        Protected ranks p.
    r1 : float
        Rank-1 bonus, in the loop as well.
    """

    slots: int
    bonus: float = 0.0
    protect: int = 3
    r1: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.slots, int) and self.slots >= 1):
            raise InputError(f"arena: slots is {self.slots!r}; expected a whole number of at least 1")
        expect(vars(self), {"bonus": NUMBER, "protect": WHOLE, "r1": NUMBER})
        if self.protect < 0 or not (np.isfinite(self.bonus) and np.isfinite(self.r1)):
            raise InputError(
                f"arena: expected protect of at least 0 and finite bonuses, found protect {self.protect}, bonus "
                f"{self.bonus}, r1 {self.r1}"
            )
        if self.bonus < 0 or self.r1 < 0:
            raise InputError(f"arena: expected bonuses of at least 0, found bonus {self.bonus}, r1 {self.r1}")

    @property
    def steers(self) -> bool:
        """Whether residents change what is routed (closed loop)."""
        return self.bonus > 0 or (self.r1 > 0 and self.protect > 1)


@dataclass
class Event:
    """What one event found and did.

    Attributes
    ----------
    residents : int64[m]
        Residents of the layer before it, ascending.
    hits, misses : int
        Unique wanted experts that were resident, and that were not.
    outcome : uint8[rows, k]
        0 miss, 1 hit, 255 a repeat inside the event.
    """

    residents: NDArray[np.int64]
    hits: int
    misses: int
    outcome: NDArray[np.uint8]


@dataclass
class Emulation:
    """The arena's state.

    Attributes
    ----------
    arena : Arena
    layers, experts : int
    resident : bool[layers, experts]
        What is in the arena now.
    """

    arena: Arena
    layers: int
    experts: int
    resident: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.resident = np.zeros((self.layers, self.experts), bool)
        self._recency: OrderedDict[int, None] = OrderedDict()  # keys layer * E + expert, the LRU end first

    def route(self, layer: int, scores: NDArray[np.floating], count: int) -> NDArray[np.int64]:
        """Route rows with the bonus for what is resident now.

        Parameters
        ----------
        layer : int
        scores : float[n, E]
            Router scores as they are recorded.
        count : int
            Picks a row.

        Returns
        -------
        int64[n, count]
            In rank order.
        """
        from replay.router.rule import route

        held = np.broadcast_to(self.resident[layer], scores.shape)
        return route(scores, held, count, self.arena.protect, self.arena.bonus, self.arena.r1)

    def event(self, window: int, layer: int, picks: NDArray[np.int64]) -> Event:
        """Run one event: claims ascending, then loads ascending.

        Parameters
        ----------
        window, layer : int
        picks : int64[rows, k]

        Returns
        -------
        Event

        Raises
        ------
        InputError
            The arena cannot hold the event.
        """
        flat = picks.ravel()
        held = self.resident[layer]
        before = np.flatnonzero(held)
        if len(picks) == 1:  # a row has each expert once
            wanted = np.sort(flat)
            outcome = held[flat].astype(np.uint8)
        else:
            wanted, first = np.unique(flat, return_index=True)
            outcome = np.full(len(flat), UNKNOWN, np.uint8)
            outcome[first] = held[wanted]
        hit = held[wanted]
        keys = wanted + layer * self.experts
        hits, misses = keys[hit].tolist(), keys[~hit].tolist()
        pinned = set(hits)
        for key in hits:
            self._recency.move_to_end(key)
        for key in misses:
            if len(self._recency) >= self.arena.slots:
                self._evict(window, layer, len(wanted), pinned)
            self._recency[key] = None
            pinned.add(key)
            held[key - layer * self.experts] = True
        return Event(before, len(hits), len(misses), outcome.reshape(picks.shape))

    def _evict(self, window: int, layer: int, needed: int, pinned: set[int]) -> None:
        victim = next((key for key in self._recency if key not in pinned), None)
        if victim is None:
            raise InputError(
                f"window {window}, layer {layer}: the event wants {needed} experts at once and the arena has "
                f"{self.arena.slots} slots; give it more, or feed the prompt in shorter pieces"
            )
        del self._recency[victim]
        self.resident[divmod(victim, self.experts)] = False
