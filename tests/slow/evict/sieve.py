"""SIEVE (Zhang et al., NSDI 2024): a queue, newest first, a visited bit, and a hand."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible
from .fifo import Fifo


class Sieve(Fifo):
    """The hand points at the resident that it looks at next; None is the oldest."""

    with_bytes = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.visited: set[Key] = set()
        self.hand: Key | None = None

    def claim(self, key: Key) -> None:
        """Mark as visited."""
        self.visited.add(key)

    def own_claim(self, key: Key) -> None:
        """A load is no hit."""

    def newer(self, key: Key) -> Key | None:
        """The resident that came next after this one, None after the newest."""
        place = self.queue.index(key)
        return self.queue[place - 1] if place > 0 else None

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """Move the hand to newer residents, and from the newest to the oldest, until one is not visited."""
        if not any(eligible(key) for key in self.queue):
            return None
        looked_at = self.hand or self.queue[-1]
        while not eligible(looked_at) or looked_at in self.visited:
            if eligible(looked_at):
                self.visited.remove(looked_at)
            looked_at = self.newer(looked_at) or self.queue[-1]
        self.hand = looked_at
        return looked_at

    def leave(self, key: Key) -> None:
        """Leave the queue; the hand rests at the next newer one."""
        assert key == self.hand
        self.hand = self.newer(key)
        super().leave(key)
