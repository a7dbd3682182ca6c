"""Whose selections a slow replay follows (semantics 2): recorded, rerouted, predicted or cacheprior.

Choices where the semantics are silent
--------------------------------------
- Rerouted rows pick top_k, whatever the recorded row's length.
- `predicted`: a row's selection is fixed when its prediction is acted on: the top_k best candidates against
  the residency of that moment (fewer where the row holds fewer). The reads issued for it are those of its
  first min(K, top_k) ranks. A row without a prediction, and every row of a prefill window, keeps its recorded
  picks.
- `cacheprior`: Delta of a layer starts as the spread of the first row it sees and is updated with each row
  before that row is routed, in order of window and row, warm windows and prefill rows included; the spread is
  that of the finite scores, 0 where there is none. Draft rows are routed like the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from .router import route, route_draft
from .spec import Ranking, SlowOptions
from .trace import SlowTrace

KEPT = 0.99


class SlowRoutes:
    """New picks of each row, with the state that they need.

    Attributes
    ----------
    how
        The router's settings (rerouted).
    guess
        The read-ahead policy's ranking (predicted).
    predicted
        (row, layer) to the picks of the window that is played.
    spread
        Delta of each layer (cacheprior).
    """

    def __init__(self, trace: SlowTrace, options: SlowOptions, how: Ranking, guess: Ranking) -> None:
        self.trace, self.options, self.how, self.guess = trace, options, how, guess
        self.predicted: dict[tuple[int, int], list[int]] = {}
        self.spread: dict[int, float] = {}

    def begin_window(self) -> None:
        """Forget the predictions of the window before."""
        self.predicted.clear()

    def predict(self, window: int, target: int, rows: Collection[int], resident: Collection[int]) -> Ranking:
        """Fix the selections of a prediction's rows; returns the ranking whose picks are read ahead."""
        if self.options.kind != "predicted":
            return self.guess
        for row in rows:
            scores = self.trace.candidates[window, row, target][1]
            self.predicted[row, target] = self._best(scores, resident)
        return Ranking(min(self.guess.count, self.trace.top_k), *self._boosts())

    def _best(self, scores: Mapping[int, float], resident: Collection[int]) -> list[int]:
        return route(scores, resident, self.trace.top_k, *self._boosts())

    def _boosts(self) -> tuple[int, float, float]:
        return self.guess.protect, self.guess.bonus, self.guess.r1_bonus

    def picks(self, window: int, row: int, layer: int, resident: Collection[int]) -> list[int] | None:
        """New picks of one row, or None where it keeps its recorded ones."""
        if self.options.kind == "recorded":
            return None
        if self.options.kind == "predicted":
            return self.predicted.get((row, layer))
        scores = self.trace.router_scores.get((window, row, layer))
        if scores is None:
            return None
        if self.options.kind == "cacheprior":
            bonus = self.options.prior * self._spread(layer, scores)
            return route(scores, resident, self.trace.top_k, self.options.prior_protect, bonus)
        if self.trace.draft_moce and row > 0 and not self.trace.windows[window].prefill:
            return route_draft(scores, resident, self.how.count, self.how.bonus)
        return route(scores, resident, self.how.count, self.how.protect, self.how.bonus, self.how.r1_bonus)

    def _spread(self, layer: int, scores: Mapping[int, float]) -> float:
        """The layer's Delta, this row included."""
        finite = [z for z in scores.values() if z != -math.inf]
        span = max(finite) - min(finite) if finite else 0.0
        before = self.spread.get(layer)
        self.spread[layer] = span if before is None else KEPT * before + (1.0 - KEPT) * span
        return self.spread[layer]


def mass_given_up(scores: Mapping[int, float], picks: Collection[int]) -> float:
    """Share of the softmax mass of the raw best len(picks) experts that the picks lack."""
    best = sorted(scores.values(), reverse=True)[: len(picks)]
    raw = math.fsum(math.exp(z - best[0]) for z in best)
    kept = math.fsum(math.exp(scores[e] - best[0]) for e in picks)
    return max(0.0, 1.0 - kept / raw)
