"""LIRS (Jiang and Zhang, SIGMETRICS 2002): a stack of recency S and a queue Q of resident HIR experts."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .queue import Queues, draw_size, last, size


class Lirs(Queues):
    """S has its top first, Q its end (the latest) first; who is resident is LIR or in Q."""

    options = ("hir", "stack", "demote")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        slots, options = context.slots or 0, context.options
        self.demotes = bool(options.get("demote"))
        hir = size(options["hir"], context) if "hir" in options else max(2 - self.demotes, int(slots * 0.01))
        self.hir_size = max(1, min(hir, slots - 1))
        self.lir_size = max(1, slots - self.hir_size)
        stack = options.get("stack")
        self.stack_size = None if stack is None else math.floor(stack * slots)
        self.stack: list[Key] = []
        self.queue: list[Key] = []
        self.lir: set[Key] = set()
        self.gone: list[Key] = []
        self.known: set[Key] = set()

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Any of the options, or none."""
        drawn: dict[str, Any] = {}
        if rng.random() < 0.6:
            drawn["hir"] = draw_size(rng)
        if rng.random() < 0.5:
            drawn["stack"] = rng.choice([1.0, 1.25, 2.0, 3.0])
        if rng.random() < 0.5:
            drawn["demote"] = True
        return drawn

    def prune(self) -> None:
        """The bottom of S is LIR."""
        while self.stack and self.stack[-1] not in self.lir:
            self.drop(self.stack[-1])

    def drop(self, key: Key) -> None:
        """Take an expert out of S."""
        self.stack.remove(key)
        if key in self.gone:
            self.gone.remove(key)

    def fall(self) -> None:
        """The LIR expert at the bottom of S goes to the end of Q."""
        key = self.stack.pop()
        self.lir.remove(key)
        self.queue.insert(0, key)
        self.prune()

    def limit(self) -> None:
        """S forgets who is non-resident for longest."""
        while self.stack_size is not None and len(self.stack) > self.stack_size and self.gone:
            self.drop(self.gone[-1])

    def meet(self, key: Key) -> None:
        """A missed expert leaves S, which knew it."""
        if key in self.gone:
            self.drop(key)
            self.known.add(key)

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """The front of Q, else the lowest LIR expert."""
        if incoming is not None:
            self.meet(incoming)
        found = last(self.queue, eligible)
        return found if found is not None else last([k for k in self.stack if k in self.lir], eligible)

    def leave(self, key: Key) -> None:
        """An HIR expert that is in S stays there as non-resident."""
        if key in self.lir:
            self.lir.remove(key)
            self.stack.remove(key)
            self.prune()
            return
        self.queue.remove(key)
        if key in self.stack:
            self.gone.insert(0, key)

    def enter(self, key: Key) -> None:
        """LIR where S knew it, or while there are too few."""
        self.meet(key)
        self.stack.insert(0, key)
        if key in self.known or len(self.lir) < self.lir_size:
            self.known.discard(key)
            self.rise(key)
        else:
            self.queue.insert(0, key)
        self.limit()

    def rise(self, key: Key) -> None:
        """Become LIR; the bottom makes room."""
        self.lir.add(key)
        if len(self.lir) > self.lir_size:
            self.fall()

    def claim(self, key: Key) -> None:
        """To the top of S; an HIR expert that was in S becomes LIR."""
        was_in_stack = key in self.stack
        if was_in_stack:
            self.stack.remove(key)
        if key in self.lir:
            self.stack.insert(0, key)
            self.prune()
            return
        self.queue.remove(key)
        if was_in_stack:
            self.stack.insert(0, key)
            self.rise(key)
            return
        self.queue.insert(0, key)
        if self.demotes and len(self.lir) >= self.lir_size:
            self.fall()
        if self.lir:
            self.stack.insert(0, key)
        self.limit()

    def pushed_out(self, key: Key, eligible: Eligible) -> Key | None:
        """Under `demote`, the front of a Q that a hit of an expert that is only in Q would make too long."""
        alone = key not in self.lir and key not in self.stack
        if not (
            self.demotes and alone and len(self.lir) >= self.lir_size and len(self.queue) >= self.hir_size
        ):
            return None
        return last(self.queue, lambda k: k != key and eligible(k))
