"""Read-ahead that learns from past events (policies.md): `previous` and `stmoe`, in plain Python.

Choices where the page is silent
--------------------------------
- They act after layer l-1, for l >= 1, whether or not there are candidates; layer 0 is never guessed.
- Decode windows alone teach, warm ones included; what was learned outlives a session.
- `stmoe`: a free place before a dead successor's; a live successor is never replaced.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Protocol


class Predictor(Protocol):
    """What a read-ahead policy with a past does."""

    def learn(self, layer: int, wanted: set[int]) -> None:
        """See what a decode window's event wants."""

    def propose(self, target: int) -> list[int]:
        """Say what to read ahead, after layer `target - 1`."""


class Previous:
    """The same layer's experts of the previous window, ascending."""

    def __init__(self) -> None:
        self.last: dict[int, set[int]] = {}

    def learn(self, layer: int, wanted: set[int]) -> None:
        """Remember."""
        self.last[layer] = wanted

    def propose(self, target: int) -> list[int]:
        """Repeat."""
        return sorted(self.last.get(target, ()))

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """No options."""
        return {}


class Successors(Previous):
    """Successors of the layer before's experts, with a 2-bit confidence, and the previous window's experts."""

    def __init__(self, successors: int = 8, new: int = 1) -> None:
        super().__init__()
        self.successors, self.new = successors, new
        self.tables: dict[tuple[int, int], list[list[int]]] = {}

    def learn(self, layer: int, wanted: set[int]) -> None:
        """Every source of the layer before: raise what came, lower what did not, then enter what is not listed."""
        for source in self.last.get(layer - 1, ()):
            table = self.tables.setdefault((layer, source), [])  # [expert, confidence], oldest first
            for entry in table:
                came = entry[0] in wanted
                entry[1] = min(entry[1] + 1, 3) if came else max(entry[1] - 1, 0)
            for expert in sorted(wanted - {e for e, _ in table}):
                dead = [entry for entry in table if entry[1] == 0]
                if len(table) == self.successors:
                    if not dead:
                        break
                    table.remove(dead[0])
                table.append([expert, self.new])
        super().learn(layer, wanted)

    def propose(self, target: int) -> list[int]:
        """Largest sum first, ties by lowest id."""
        total = Counter(dict.fromkeys(self.last.get(target, ()), 2))
        for source in self.last[target - 1]:
            for expert, confidence in self.tables.get((target, source), ()):
                total[expert] += confidence
        return sorted((e for e in total if total[e] >= 2), key=lambda e: (-total[e], e))

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Few places, so that successors are replaced."""
        drawn = {"successors": rng.randint(1, 5), "new": rng.randint(1, 3)}
        return {name: value for name, value in drawn.items() if rng.random() < 0.7}


PREDICTORS: dict[str, type[Previous]] = {"previous": Previous, "stmoe": Successors}
