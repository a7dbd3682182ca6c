"""LFUDA by bigrig's rule (policies.md): key = L + min(count, cap), re-anchored on use; counts are kept, halved."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible, Eviction


class Lfuda(Eviction):
    """Counts outlive an eviction; a recorded start enters under its kept count without a use."""

    options = ("cap",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.cap = context.options.get("cap", 12)
        self.age = 0
        self.count: dict[Key, int] = {}
        self.worth: dict[Key, int] = {}
        self.last_use: dict[Key, int] = {}
        self.time = 0

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """A cap that small traces reach."""
        return rng.choice([{}, {"cap": rng.randint(1, 4)}])

    def anchor(self, key: Key) -> None:
        """Give a resident its key, as of now."""
        self.time += 1
        self.last_use[key] = self.time
        self.worth[key] = self.age + min(self.count[key], self.cap)

    def enter(self, key: Key) -> None:
        """Come back with the count that was kept."""
        self.count.setdefault(key, 0)
        self.anchor(key)

    def claim(self, key: Key) -> None:
        """A use."""
        self.count[key] += 1
        self.anchor(key)

    def touch(self, key: Key) -> bool:
        """Change nothing."""
        return False

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The eligible resident with the lowest key, then with the oldest use."""
        every = [key for key in self.worth if eligible(key)]
        return min(every, key=lambda key: (self.worth[key], self.last_use[key]), default=None)

    def leave(self, key: Key) -> None:
        """Age the cache to the victim's key, and halve its count."""
        self.age = max(self.age, self.worth.pop(key))
        self.count[key] //= 2
        del self.last_use[key]
