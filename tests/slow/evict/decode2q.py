"""decode2q (semantics 5): fresh loads at the tail, a second claim protects; lru in prefill windows."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .lru import Lru


class Decode2q(Lru):
    """The engine's policy, with its options `quota` (a share of the part's slots) and `head`.

    The quota is floor(q x slots of the part, in double), and is not read with a byte budget. It is checked
    whenever a claim raises reuse to 2, after that expert has moved to the head; an expert at once over a
    quota of 0 falls back itself. In prefill windows a fresh load enters at the head with reuse 0, and reuse
    stays as it is under claims.
    """

    options = ("quota", "head")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.reuse: dict[Key, int] = {}
        quota = context.options.get("quota")
        self.most = None if quota is None or context.slots is None else math.floor(quota * context.slots)

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Neither option in half of the cases."""
        return rng.choice([{}, {}, {"head": True}, {"quota": rng.random()}])

    def enter(self, key: Key) -> None:
        """Insert with reuse 0: at the tail, or at the head in prefill windows and with `head`."""
        self.reuse[key] = 0
        if self.context.prefill or self.context.options.get("head"):
            self.order.insert(0, key)
        else:
            self.order.append(key)

    def claim(self, key: Key) -> None:
        """Raise reuse to 1 in place, then to 2 at the head; beyond that move to the head."""
        if self.context.prefill:
            self.to_head(key)
        elif self.reuse[key] == 0:
            self.reuse[key] = 1
        else:
            self.reuse[key] = 2
            self.to_head(key)
            self.hold_quota()

    def hold_quota(self) -> None:
        """Let the least recent protected experts fall back to reuse 1 where they stand."""
        if self.most is None:
            return
        protected = [key for key in self.order if self.reuse[key] == 2]
        for key in protected[self.most :]:
            self.reuse[key] = 1

    def touch(self, key: Key) -> bool:
        """Move to the head only where reuse is 2."""
        if self.reuse[key] < 2:
            return False
        self.to_head(key)
        return True

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """First eligible from the tail with reuse below 2, else the first eligible; plain lru in prefill."""
        if not self.context.prefill:
            fresh = super().victim(lambda key: self.reuse[key] < 2 and eligible(key), incoming)
            if fresh is not None:
                return fresh
        return super().victim(eligible, incoming)

    def leave(self, key: Key) -> None:
        """Take out of the order and forget its reuse."""
        super().leave(key)
        del self.reuse[key]
