"""What the slow arena asks of an eviction policy (semantics 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ..trace import Key, SlowTrace

Eligible = Callable[[Key], bool]
"""Says whether a resident expert may be the victim now (not pinned, not avoided, not hot)."""


@dataclass
class Context:
    """What a policy may know beside its calls.

    Attributes
    ----------
    slots
        Slots of this part of the arena, None with a byte budget.
    budget
        Bytes of this part, None with a slots bound.
    sizes
        Bytes of every expert.
    events
        Under recorded routes, every event of the replay in order as its layer and its wanted ids in
        ascending order, or under `cell=sequential` every lookup as its layer and its one id; empty under
        rerouted routes. For look-ahead policies.
    numbers
        Number of the event, window x layers + layer, to which each entry of `events` belongs.
    now
        Index in `events` of the one that runs or ran last, -1 before the first. The arena keeps it.
    event
        Number of the event that runs or ran last, -1 before the first. The arena keeps it.
    hot
        Experts that are victims only when nothing else is. The arena keeps it.
    prefill
        Whether the current window is a prefill window. The arena keeps it.
    options
        The spec's options of this policy.
    number
        This part's number: its class, or layer x classes + class with scope `layer`.
    keys
        Every expert that this part may hold.
    trace
        The whole trace, for policies that learn from it before the replay.
    token
        Experts that one row wants of this part's arena: layers x top_k, or top_k with scope `layer`.
    """

    slots: int | None
    budget: int | None
    sizes: Mapping[Key, int]
    events: Sequence[tuple[int, Sequence[int]]] = ()
    numbers: Sequence[int] = ()
    now: int = -1
    event: int = -1
    hot: set[Key] = field(default_factory=set)
    prefill: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    keys: frozenset[Key] = frozenset()
    trace: SlowTrace | None = None
    token: int = 0


class Eviction:
    """Order and victims of one part (a class, of one layer with scope `layer`): residents only.

    Subclasses say in `options` which options they read. `victim` only chooses; the arena then calls
    `leave`. When it returns None it must have changed nothing.
    """

    options: tuple[str, ...] = ()
    with_bytes = True
    looks_ahead = False

    def __init__(self, context: Context) -> None:
        unknown = set(context.options) - set(self.options)
        if unknown:
            raise ValueError(
                f"{type(self).__name__} does not read {sorted(unknown)}; it reads {self.options}"
            )
        if context.slots is None and not self.with_bytes:
            raise ValueError(f"{type(self).__name__} needs a slots bound")
        self.context = context

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Draw some of the policy's options for a random case."""
        return {}

    def enter(self, key: Key) -> None:
        """Insert a fresh load, or a guess that is just being published; its own claim follows apart."""
        raise NotImplementedError

    def claim(self, key: Key) -> None:
        """Count a real selection of a resident expert."""
        raise NotImplementedError

    def own_claim(self, key: Key) -> None:
        """Count a load's own claim, right after `enter`: a claim as any other, unless a policy says not."""
        self.claim(key)

    def touch(self, key: Key) -> bool:
        """Move a resident guess to the head without a claim (`touch=1`); say whether it moved."""
        raise NotImplementedError

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """Choose the resident that goes, among the eligible ones; None when there is none.

        `incoming` is the miss that needs the room, None for a guess and where a byte budget is trimmed.
        """
        raise NotImplementedError

    def pushed_out(self, key: Key, eligible: Eligible) -> Key | None:
        """Name the resident that a hit of `key` evicts at once, before the hit is counted; none by default."""
        return None

    def leave(self, key: Key) -> None:
        """Forget an expert that was chosen and now goes (a policy with ghosts remembers it there)."""
        raise NotImplementedError

    def declines(self, key: Key, eligible: Eligible) -> bool:
        """Say whether a miss that found no free slot is better not kept (semantics 5); never by default."""
        return False
