"""ARC (Megiddo and Modha, FAST 2003), by the cases of its figure 4."""

from __future__ import annotations

from ..trace import Key
from .base import Context, Eligible
from .queue import Queues, last


class Arc(Queues):
    """T1, T2, B1, B2 and the target p of |T1|."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.t1: list[Key] = []
        self.t2: list[Key] = []
        self.b1: list[Key] = []
        self.b2: list[Key] = []
        self.p = 0.0
        self.met: dict[Key, str] = {}

    @property
    def c(self) -> int:
        """Slots of the part."""
        assert self.context.slots is not None
        return self.context.slots

    def meet(self, key: Key) -> None:
        """Adapt p, once, for a miss whose ghost is known, and take the ghost out."""
        if key in self.b1:
            self.p = min(self.p + max(len(self.b2) / len(self.b1), 1), self.c)
            self.b1.remove(key)
            self.met[key] = "B1"
        elif key in self.b2:
            self.p = max(self.p - max(len(self.b1) / len(self.b2), 1), 0)
            self.b2.remove(key)
            self.met[key] = "B2"

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """REPLACE; a list with nobody eligible yields to the other."""
        if incoming is not None:
            self.meet(incoming)
        in_b2 = incoming is not None and self.met.get(incoming) == "B2"
        if self.t1 and (len(self.t1) > self.p or (in_b2 and len(self.t1) == self.p)):
            order = self.t1, self.t2
        else:
            order = self.t2, self.t1
        first = last(order[0], eligible)
        return first if first is not None else last(order[1], eligible)

    def leave(self, key: Key) -> None:
        """The ghost goes to the list of the one that it left."""
        for resident, ghosts in ((self.t1, self.b1), (self.t2, self.b2)):
            if key in resident:
                resident.remove(key)
                ghosts.insert(0, key)

    def enter(self, key: Key) -> None:
        """T2 for a known ghost, else T1 within |T1| + |B1| <= c and 2c in all."""
        self.meet(key)
        if self.met.pop(key, None):
            self.t2.insert(0, key)
            return
        self.t1.insert(0, key)
        while self.b1 and len(self.t1) + len(self.b1) > self.c:
            self.b1.pop()
        while self.b2 and sum(map(len, (self.t1, self.t2, self.b1, self.b2))) > 2 * self.c:
            self.b2.pop()

    def claim(self, key: Key) -> None:
        """A hit goes to the head of T2."""
        (self.t1 if key in self.t1 else self.t2).remove(key)
        self.t2.insert(0, key)

    def touch(self, key: Key) -> bool:
        """To the head of the list where it is."""
        where = self.t1 if key in self.t1 else self.t2
        where.remove(key)
        where.insert(0, key)
        return True
