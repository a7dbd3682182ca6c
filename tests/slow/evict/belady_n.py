"""belady-n (policies.md): the uses of the next n windows are known, and worth less the farther they are."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .lru import Lru

UNIT = 2**40


class BeladyN(Lru):
    """The least worth goes, and of those the least recently used."""

    options = ("n", "gamma")
    with_bytes = False
    looks_ahead = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert context.trace is not None
        self.layers = context.trace.layers
        self.n = context.options.get("n", 8)
        self.gamma = context.options.get("gamma", 0.9)

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Few windows, or more than the trace has."""
        return {"n": rng.choice([1, 2, 3, 8, 62]), "gamma": rng.choice([0.0, 0.3, 0.5, 0.9, 1.0])}

    def worth(self, key: Key) -> int:
        """Discounted uses of the expert in the events ahead, each event counted once."""
        numbers = set()
        for i in range(self.context.now + 1, len(self.context.events)):
            layer, ids = self.context.events[i]
            if layer == key[0] and key[1] in ids:
                numbers.add(self.context.numbers[i])
        windows = (math.ceil((number - self.context.event) / self.layers) for number in numbers)
        return sum(round(self.gamma**d * UNIT) for d in windows if d <= self.n)

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The eligible resident of the least worth, from the tail."""
        return min((key for key in reversed(self.order) if eligible(key)), key=self.worth, default=None)
