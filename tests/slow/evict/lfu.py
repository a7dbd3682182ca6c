"""LFU, counted in the cache: a count a resident, and when it got there."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible, Eviction


class Lfu(Eviction):
    """The resident with the lowest count leaves; of several the one that has had that count the longest."""

    options = ("keep",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.count: dict[Key, int] = {}
        self.since: dict[Key, int] = {}
        self.time = 0
        self.past: dict[Key, int] = {}

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Counts kept in half of the cases."""
        return rng.choice([{}, {"keep": True}])

    def stamp(self, key: Key) -> None:
        """Note that a resident has its count from now on."""
        self.time += 1
        self.since[key] = self.time

    def enter(self, key: Key) -> None:
        """Start at 0, or where the count stood (`keep`): a load's own claim is a use."""
        self.count[key] = self.past.get(key, 0)
        self.stamp(key)

    def claim(self, key: Key) -> None:
        """Count."""
        self.count[key] += 1
        self.stamp(key)

    def touch(self, key: Key) -> bool:
        """Change nothing."""
        return False

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The eligible resident of the lowest count, then of the longest standing."""
        every = [key for key in self.count if eligible(key)]
        return min(every, key=lambda key: (self.count[key], self.since[key]), default=None)

    def leave(self, key: Key) -> None:
        """Forget the count, unless it is kept."""
        if self.context.options.get("keep"):
            self.past[key] = self.count[key]
        del self.count[key], self.since[key]
