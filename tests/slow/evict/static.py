"""static: residents of a set learned from sessions of the trace never leave; lru among the others."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from ..trace import Key, SlowTrace
from .base import Context, Eligible
from .lru import Lru


def runs_of(train: str) -> list[set[int]]:
    """Sessions of every run of ``sessions/A-B/C/..``."""
    runs = []
    for run in train.removeprefix("sessions/").split("/"):
        first, _, last = run.partition("-")
        runs.append(set(range(int(first), int(last or first) + 1)))
    return runs


def wanted_counts(trace: SlowTrace, train: str) -> Counter[Key]:
    """Events of the sessions of ``sessions/A-B/C/..`` that wanted each expert, over all rows as recorded."""
    taught = set().union(*runs_of(train))
    counts: Counter[Key] = Counter()
    for index, window in enumerate(trace.windows):
        if window.session in taught:
            for layer in range(trace.layers):
                counts.update(
                    {(layer, e) for row in range(window.rows) for e in trace.picks[index, row, layer]}
                )
    return counts


class Static(Lru):
    """Pinned are a part's most wanted experts, ties by layer and id, as many as it has slots."""

    options = ("train",)
    with_bytes = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert context.trace is not None
        counts = wanted_counts(context.trace, context.options["train"])
        ranked = sorted(context.keys & counts.keys(), key=lambda key: (-counts[key], key))
        self.pinned = set(ranked[: context.slots])

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Some of the sessions."""
        first = rng.randint(0, max(w.session for w in trace.windows))
        runs = [
            f"sessions/{first}",
            f"sessions/{first}-{first + rng.randint(0, 3)}",
            f"sessions/{first}/0-{first}",
        ]
        return {"train": rng.choice(runs)}

    def touch(self, key: Key) -> bool:
        """Move to the head, unless pinned."""
        return key not in self.pinned and super().touch(key)

    def victim(self, eligible: Eligible, incoming: Key | None) -> Key | None:
        """First eligible from the tail that is not pinned."""
        return super().victim(lambda key: key not in self.pinned and eligible(key), incoming)

    def declines(self, key: Key, eligible: Eligible) -> bool:
        """Decline a miss where no resident can go for it."""
        return self.victim(eligible, key) is None
