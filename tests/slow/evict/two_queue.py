"""2Q, full version (Johnson and Shasha, VLDB 1994)."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .queue import Queues, draw_size, last, size


class TwoQueue(Queues):
    """A1in, A1out and Am; `amcap` bounds Am to the slots without Kin."""

    options = ("a1in", "a1out", "amcap")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        slots, options = context.slots or 0, context.options
        self.kin = max(1, min(size(options.get("a1in", "25%"), context), slots - 1))
        self.kout = size(options.get("a1out", "50%"), context)
        self.most = max(1, slots - self.kin) if options.get("amcap") else slots
        self.a1in: list[Key] = []
        self.a1out: list[Key] = []
        self.am: list[Key] = []
        self.known: set[Key] = set()

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Any of the options, or none."""
        drawn: dict[str, Any] = {}
        if rng.random() < 0.6:
            drawn["a1in"] = draw_size(rng)
        if rng.random() < 0.6:
            drawn["a1out"] = draw_size(rng)
        if rng.random() < 0.5:
            drawn["amcap"] = True
        return drawn

    def meet(self, key: Key) -> None:
        """Take a missed id out of A1out."""
        if key in self.a1out:
            self.a1out.remove(key)
            self.known.add(key)

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """A1in's tail where it is longer than Kin, else Am's."""
        if incoming is not None:
            self.meet(incoming)
        first, second = (self.a1in, self.am) if len(self.a1in) > self.kin else (self.am, self.a1in)
        found = last(first, eligible)
        return found if found is not None else last(second, eligible)

    def leave(self, key: Key) -> None:
        """Only what leaves A1in is remembered."""
        if key in self.am:
            self.am.remove(key)
            return
        self.a1in.remove(key)
        self.a1out.insert(0, key)
        del self.a1out[self.kout :]

    def enter(self, key: Key) -> None:
        """Am where A1out knew it, else A1in."""
        self.meet(key)
        if key not in self.known:
            self.a1in.insert(0, key)
            return
        self.known.remove(key)
        self.am.insert(0, key)
        if len(self.am) > self.most:
            self.a1in.append(self.am.pop())

    def claim(self, key: Key) -> None:
        """Am is least recently used first; a hit in A1in does nothing."""
        self.touch(key)

    def touch(self, key: Key) -> bool:
        """To the head of Am, if it is there."""
        if key not in self.am:
            return False
        self.am.remove(key)
        self.am.insert(0, key)
        return True
