"""heat (semantics 5): LRU that lets residents with few uses go first."""

from __future__ import annotations

from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .lru import Lru


class Heat(Lru):
    """Uses are claims while resident, a load's own included; a touch moves and is no use."""

    options = ("h",)
    with_bytes = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.few = context.options.get("h", 4)
        self.uses: dict[Key, int] = {}

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Thresholds that small traces pass."""
        return rng.choice([{}, {"h": rng.randint(0, 3)}])

    def enter(self, key: Key) -> None:
        """Insert at the head, not used yet."""
        super().enter(key)
        self.uses[key] = 0

    def claim(self, key: Key) -> None:
        """Count, and move to the head."""
        super().claim(key)
        self.uses[key] += 1

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """From the tail the first eligible with few uses, else the first eligible."""
        cool = super().victim(lambda key: eligible(key) and self.uses[key] <= self.few, incoming)
        return super().victim(eligible, incoming) if cool is None else cool

    def leave(self, key: Key) -> None:
        """Forget the uses."""
        super().leave(key)
        del self.uses[key]
