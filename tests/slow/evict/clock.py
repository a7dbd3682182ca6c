"""Clock (Corbato 1968) as FIFO with reinsertion: a queue, newest first, and one bit a resident."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible
from .fifo import Fifo


class Clock(Fifo):
    """Residents with their bit set go through the queue once more instead of leaving it."""

    with_bytes = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.used: set[Key] = set()

    def claim(self, key: Key) -> None:
        """Set the bit."""
        self.used.add(key)

    def own_claim(self, key: Key) -> None:
        """A load is no hit."""

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """Reinsert, without their bit, those with it set; residents that are not eligible keep place and bit."""
        if not any(eligible(key) for key in self.queue):
            return None
        while True:
            oldest = next(key for key in reversed(self.queue) if eligible(key))
            if oldest not in self.used:
                return oldest
            self.used.remove(oldest)
            self.queue.remove(oldest)
            self.queue.insert(0, oldest)
