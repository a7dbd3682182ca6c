"""Read-ahead that learns from the past (policies.md): `previous`, `stmoe` and `finemoe`, in plain Python.

Choices where the page is silent
--------------------------------
- They act after layer l-1, for l >= 1, whether or not there are candidates; layer 0 is never guessed.
- Decode windows alone teach, warm ones included; what was learned outlives a session.
- `finemoe`: layers below d are not guessed; of equally similar maps the latest; a window's map is the mean of its
  rows that count; a masked expert is not guessed; what lacks scores is neither matched nor stored.
- `stmoe`: a free place before a dead successor's; a live successor is never replaced.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from .trace import SlowTrace

Moments = dict[int, list[tuple[int, list[int]]]]


class Previous:
    """The same layer's experts of the previous window, ascending."""

    def __init__(self, trace: SlowTrace) -> None:
        self.trace = trace
        self.last: dict[int, set[int]] = {}

    def moments(self, window: int, rows: int) -> Moments:
        """Where it guesses what in a decode window: after layer l-1, for l >= 1."""
        return {layer - 1: [(layer, list(range(rows)))] for layer in range(1, self.trace.layers)}

    def learn(self, layer: int, wanted: set[int]) -> None:
        """See what a decode window's event wants."""
        self.last[layer] = wanted

    def propose(self, window: int, rows: int, target: int) -> list[int]:
        """Say what to read ahead."""
        return sorted(self.last.get(target, ()))

    def end_window(self, window: int, rows: int) -> None:
        """A decode window is over."""

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """No options."""
        return {}


class Successors(Previous):
    """Successors of the layer before's experts, with a 2-bit confidence, and the previous window's experts."""

    def __init__(self, trace: SlowTrace, successors: int = 8, new: int = 1) -> None:
        super().__init__(trace)
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

    def propose(self, window: int, rows: int, target: int) -> list[int]:
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


class Maps(Previous):
    """The most similar window's probabilities, as many as hold its dissimilarity."""

    def __init__(self, trace: SlowTrace, d: int = 6, store: int = 1000) -> None:
        super().__init__(trace)
        self.distance, self.size = d, store
        self.store: list[list[list[float]]] = []

    def covered(self, window: int, rows: int) -> bool:
        """Whether the window has router scores."""
        return all(
            self.trace.router_scores.get((window, row, layer)) is not None
            for row in range(rows)
            for layer in range(self.trace.layers)
        )

    def chances(self, window: int, row: int, layer: int) -> list[float]:
        """Softmax of a row's scores; none where all are masked."""
        scores = self.trace.router_scores[window, row, layer]
        assert scores is not None
        every = [scores.get(e, -math.inf) for e in range(self.trace.experts)]
        best = max(every)
        raised = [math.exp(z - best) if z > -math.inf else 0.0 for z in every]
        total = added(raised)
        return [x / total for x in raised] if total > 0 else raised

    def moments(self, window: int, rows: int) -> Moments:
        """After layer l-d, for l >= d, once there is something to match."""
        if not self.store or not self.covered(window, rows):
            return {}
        targets = range(self.distance, self.trace.layers)
        return {layer - self.distance: [(layer, list(range(rows)))] for layer in targets}

    def propose(self, window: int, rows: int, target: int) -> list[int]:
        """Every row's guesses, united: best place, then highest probability, then lowest id."""
        place: dict[int, tuple[int, float]] = {}
        seen = range(target - self.distance + 1)
        for row in range(rows):
            mine = [p for layer in seen for p in self.chances(window, row, layer)]
            best, like = self.store[0], -1.0
            for map_ in self.store:
                other = [p for layer in seen for p in map_[layer]]
                scale = math.sqrt(added(x * x for x in mine) * added(x * x for x in other))
                found = added(x * y for x, y in zip(mine, other, strict=True)) / scale if scale > 0 else 0.0
                if found >= like:
                    best, like = map_, found
            delta = min(max(1.0 - like, 0.0), 1.0)
            order = sorted(range(self.trace.experts), key=lambda e: (-best[target][e], e))
            below = sum(added(best[target][e] for e in order[: i + 1]) < delta for i in range(len(order)))
            for rank, e in enumerate(order[: min(max(below + 1, self.trace.top_k), len(order))]):
                if best[target][e] > 0:
                    mine_there = (rank, -best[target][e])
                    place[e] = min(place.get(e, mine_there), mine_there)
        return sorted(place, key=lambda e: (*place[e], e))

    def end_window(self, window: int, rows: int) -> None:
        """Store its map: the mean of its rows; the oldest goes."""
        if not self.covered(window, rows):
            return
        every = [
            [self.chances(window, row, layer) for row in range(rows)] for layer in range(self.trace.layers)
        ]
        self.store.append([[added(each) / rows for each in zip(*layer, strict=True)] for layer in every])
        del self.store[: -self.size]

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Short distances, and stores that run over."""
        drawn = {"d": rng.randint(1, 3), "store": rng.choice([1, 2, 5, 1000])}
        return {name: value for name, value in drawn.items() if name == "d" or rng.random() < 0.7}


def added(values: Iterable[float]) -> float:
    """Sum from left to right, each partial sum rounded."""
    total = 0.0
    for value in values:
        total += value
    return total


PREDICTORS: dict[str, type[Previous]] = {"previous": Previous, "stmoe": Successors, "finemoe": Maps}
