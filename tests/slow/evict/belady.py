"""belady (semantics 5): the resident whose next event is the farthest goes; every miss is kept."""

from __future__ import annotations

import math

from ..trace import Key
from .base import Context, Eligible, Eviction


class Belady(Eviction):
    """Looks the next event (sequential: lookup) up in the list of all; ties go to the lowest (layer, id)."""

    looks_ahead = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.keys: set[Key] = set()
        self.uses: dict[Key, list[int]] = {}
        for index, (layer, ids) in enumerate(context.events):
            for e in ids:
                self.uses.setdefault((layer, e), []).append(index)

    def next_use(self, key: Key) -> float:
        """Index of the first entry after the one that runs which wants the expert; infinite where none does."""
        return min((i for i in self.uses.get(key, ()) if i > self.context.now), default=math.inf)

    def enter(self, key: Key) -> None:
        """Insert."""
        self.keys.add(key)

    def claim(self, key: Key) -> None:
        """Count nothing: the future is known."""

    def touch(self, key: Key) -> bool:
        """Move nothing."""
        return False

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The eligible resident whose next use is the farthest."""
        candidates = sorted(key for key in self.keys if eligible(key))
        return max(candidates, key=self.next_use, default=None)

    def leave(self, key: Key) -> None:
        """Take out."""
        self.keys.remove(key)
