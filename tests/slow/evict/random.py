"""random: any eligible resident, by the generator that the program states (xorshift64 seeded by splitmix64)."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible, Eviction

WORD = 1 << 64


def splitmix(number: int) -> int:
    """The first output of splitmix64 from this seed."""
    z = (number + 1) * 0x9E3779B97F4A7C15 % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


class RandomChoice(Eviction):
    """Residents in a list in which the last one fills a gap; 8 draws, then one among the eligible."""

    options = ("seed",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.state = splitmix(context.options.get("seed", 0) * 2**20 + context.number) or 1
        self.members: list[Key] = []

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """A seed."""
        return rng.choice([{}, {"seed": rng.randint(0, 99)}])

    def below(self, count: int) -> int:
        """Next number from 0 to count - 1: the upper half of a xorshift64 word, scaled."""
        x = self.state
        x ^= x << 13 & (WORD - 1)
        x ^= x >> 7
        x ^= x << 17 & (WORD - 1)
        self.state = x
        return (x >> 32) * count >> 32

    def enter(self, key: Key) -> None:
        """Join at the end."""
        self.members.append(key)

    def claim(self, key: Key) -> None:
        """Change nothing."""

    def touch(self, key: Key) -> bool:
        """Change nothing."""
        return False

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """Draw."""
        allowed = [key for key in self.members if eligible(key)]
        if not allowed:
            return None
        for _ in range(8):
            drawn = self.members[self.below(len(self.members))]
            if drawn in allowed:
                return drawn
        return allowed[self.below(len(allowed))]

    def leave(self, key: Key) -> None:
        """The last one takes its place."""
        last = self.members.pop()
        if last != key:
            self.members[self.members.index(key)] = last
