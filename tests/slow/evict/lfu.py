"""LFU, counted in the cache: a count a resident, and when it got there."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible, Eviction


class Lfu(Eviction):
    """The resident with the lowest count leaves; of several the one that has had that count the longest."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.count: dict[Key, int] = {}
        self.since: dict[Key, int] = {}
        self.time = 0

    def stamp(self, key: Key) -> None:
        """Note that a resident has its count from now on."""
        self.time += 1
        self.since[key] = self.time

    def enter(self, key: Key) -> None:
        """Start at 0: a load's own claim is its first use."""
        self.count[key] = 0
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
        """Forget the count."""
        del self.count[key], self.since[key]
