"""S3-FIFO (Yang and others, SOSP 2023): a small, a main and a ghost queue."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .queue import Queues, draw_size, last, size


class S3Fifo(Queues):
    """S, M and G, and a counter of hits; `fill=lcs` is libCacheSim's way to fill M, with its ghost size."""

    options = ("small", "ghost", "promote", "fill")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        slots, options = context.slots or 0, context.options
        self.lcs = options.get("fill") == "lcs"
        self.small_size = max(1, min(size(options.get("small", "10%"), context), slots - 1))
        if "ghost" in options:
            self.ghost_size = size(options["ghost"], context)
        elif self.lcs:
            self.ghost_size = max(1, int(slots * 0.9))
        else:
            self.ghost_size = max(1, slots - self.small_size)
        self.promote = options.get("promote", 2)
        self.evicted = False
        self.small: list[Key] = []
        self.main: list[Key] = []
        self.ghost: list[Key] = []
        self.freq: dict[Key, int] = {}
        self.known: set[Key] = set()

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Any of the options, or none."""
        drawn: dict[str, Any] = {}
        if rng.random() < 0.6:
            drawn["small"] = draw_size(rng)
        if rng.random() < 0.3:
            drawn["ghost"] = draw_size(rng)
        if rng.random() < 0.3:
            drawn["promote"] = rng.randint(1, 3)
        if rng.random() < 0.4:
            drawn["fill"] = "lcs"
        return drawn

    def meet(self, key: Key) -> None:
        """Take a missed id out of the ghosts."""
        if key in self.ghost:
            self.ghost.remove(key)
            self.known.add(key)

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """Evict from S where it has its size, else from M; a queue with nobody eligible yields."""
        if incoming is not None:
            self.meet(incoming)
        if not any(eligible(key) for key in self.small + self.main):
            return None
        turns = [self.evict_small, self.evict_main]
        if len(self.small) < self.small_size:
            turns.reverse()
        found = None
        while found is None:
            found = turns[0](eligible)
            turns.reverse()
        self.evicted = True
        return found

    def evict_small(self, eligible: Eligible) -> Key | None:
        """The tail of S; those that were hit often enough go to M on the way."""
        while (key := last(self.small, eligible)) is not None:
            if self.freq[key] < self.promote:
                return key
            self.small.remove(key)
            self.main.insert(0, key)
            self.freq[key] = 0
        return None

    def evict_main(self, eligible: Eligible) -> Key | None:
        """The tail of M; those that were hit go round again."""
        while (key := last(self.main, eligible)) is not None:
            if self.freq[key] == 0:
                return key
            self.main.remove(key)
            self.main.insert(0, key)
            self.freq[key] = min(self.freq[key], 3) - 1
        return None

    def leave(self, key: Key) -> None:
        """Only what leaves S is remembered."""
        del self.freq[key]
        if key in self.main:
            self.main.remove(key)
            return
        self.small.remove(key)
        self.ghost.insert(0, key)
        del self.ghost[self.ghost_size :]

    def enter(self, key: Key) -> None:
        """M where the ghosts knew it, else S."""
        self.meet(key)
        self.freq[key] = 0
        overflow = self.lcs and not self.evicted and len(self.small) >= self.small_size
        if key in self.known or overflow:
            self.known.discard(key)
            self.main.insert(0, key)
        else:
            self.small.insert(0, key)

    def claim(self, key: Key) -> None:
        """Count a hit; libCacheSim sets no bound here."""
        self.freq[key] = self.freq[key] + 1 if self.lcs else min(self.freq[key] + 1, 3)
