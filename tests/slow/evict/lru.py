"""LRU (semantics 4): the order is a list, head first."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible, Eviction


class Lru(Eviction):
    """Claims move to the head, fresh loads enter at the head, victims come from the tail."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.order: list[Key] = []

    def to_head(self, key: Key) -> None:
        """Move a resident to the head."""
        self.order.remove(key)
        self.order.insert(0, key)

    def enter(self, key: Key) -> None:
        """Insert at the head."""
        self.order.insert(0, key)

    def claim(self, key: Key) -> None:
        """Move to the head."""
        self.to_head(key)

    def touch(self, key: Key) -> bool:
        """Move to the head."""
        self.to_head(key)
        return True

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """First eligible from the tail."""
        return next((key for key in reversed(self.order) if eligible(key)), None)

    def leave(self, key: Key) -> None:
        """Take out of the order."""
        self.order.remove(key)
