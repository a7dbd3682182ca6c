"""Sizes of queues, and what the policies with several queues share: a load's own claim is no hit."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ..trace import Key
from .base import Context, Eligible, Eviction


def size(text: str, context: Context) -> int:
    """Slots of a queue written as a fraction, a number of slots, or tokens; at least one."""
    slots = context.slots or 0
    if text.endswith("tok"):
        return max(1, int(float(text[:-3]) * context.token))
    if text.endswith("%"):
        return max(1, int(slots * (float(text[:-1]) / 100)))
    return max(1, int(slots * float(text)) if "." in text else int(text))


def draw_size(rng: Random) -> str:
    """One of the ways to write a size."""
    return rng.choice(
        [f"{rng.uniform(0, 0.99):.3f}", f"{rng.randint(1, 99)}%", str(rng.randint(1, 20)), "1tok", "0.5tok"]
    )


class Queues(Eviction):
    """A policy with several queues, each a list with its head first."""

    with_bytes = False

    def own_claim(self, key: Key) -> None:
        """A load's own claim is part of its insertion."""

    def touch(self, key: Key) -> bool:
        """Nothing moves, unless a policy says so."""
        return False


def last(queue: Iterable[Key], eligible: Eligible) -> Key | None:
    """First eligible from the tail of a list whose head comes first."""
    return next((key for key in reversed(list(queue)) if eligible(key)), None)
