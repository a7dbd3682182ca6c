"""FIFO: a list, newest first."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible, Eviction


class Fifo(Eviction):
    """Residents leave in the order in which they came; hits and guesses change nothing."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.queue: list[Key] = []

    def enter(self, key: Key) -> None:
        """Join the queue."""
        self.queue.insert(0, key)

    def claim(self, key: Key) -> None:
        """Change nothing."""

    def touch(self, key: Key) -> bool:
        """Change nothing."""
        return False

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The eligible resident that came first."""
        return next((key for key in reversed(self.queue) if eligible(key)), None)

    def leave(self, key: Key) -> None:
        """Leave the queue."""
        self.queue.remove(key)
