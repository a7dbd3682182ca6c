"""Fitting P(selected | features): a ridge logistic a stratum, shrunk to the pooled one, then isotonic (policies.md).

A stratum is a (layer, adjusted rank). Choices where the text is silent: a stratum's decision function is the mean of
its own and the pooled one, weighted by its n examples and ``SHRINK``; one with a single outcome takes the pooled one.
The isotonic curve is a layer's, over the decision functions of all its training examples. Nothing is drawn by
chance but the rows of the richer model, which has a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.calibration.example import Examples
from replay.errors import InputError

SHRINK = 500.0
"""Examples that the pooled fit counts as, in every stratum."""

PENALTY = 1.0
"""Weight of the examples against the ridge (scikit-learn's C), features at unit variance."""

POOLED_ROWS, BOOSTED_ROWS = 200_000, 200_000
"""Most rows that the pooled fit and the richer model learn from; evenly taken, and drawn."""

Floats = NDArray[np.float64]


def features(examples: Examples) -> Floats:
    """What a stratum's logistic sees: float64[n, 6].

    Margin, its part above 0, raw rank less adjusted rank, rows, recent precision, queue.
    """
    e = examples
    columns = (e.margin, np.maximum(e.margin, 0.0), e.raw_rank - e.rank, e.rows, e.precision, e.queue)
    return np.stack([np.asarray(each, np.float64) for each in columns], axis=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra run in one thread, so that sums do not depend on the machine's cores.

    Raises
    ------
    InputError
        scikit-learn is not there.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise InputError(
            "calibrate needs scikit-learn, which is not installed; run pip install 'moe-replay[calibrate]'"
        ) from None
    with threadpool_limits(1):
        yield


@dataclass(frozen=True)
class _Scale:
    """Means and spreads that bring features to unit variance."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats) -> _Scale:
        spread = values.std(axis=0)
        return cls(values.mean(axis=0), np.where(spread > 0, spread, 1.0))

    def __call__(self, values: Floats) -> Floats:
        scaled: Floats = (values - self.mean) / self.spread
        return scaled


class Model:
    """Probabilities of examples, learned from some of them.

    Parameters
    ----------
    examples : Examples
        To learn from.
    layers, ranks : int
    """

    def __init__(self, examples: Examples, layers: int, ranks: int) -> None:
        self.layers, self.ranks = layers, ranks
        values = features(examples)
        self.scale = _Scale.of(values)
        self._pooled = self._pool(examples, values)
        self._own = self._strata(examples, values)
        score = self.decision(examples.layer, examples.rank, values)
        self._curves = [
            _isotonic(score[examples.layer == each], examples.selected[examples.layer == each])
            for each in range(layers)
        ]

    def _pool(self, examples: Examples, values: Floats) -> tuple[Floats, float]:
        """One fit of all strata; the rank joins as a feature."""
        step = max(1, len(values) // POOLED_ROWS)
        joined = np.concatenate([self.scale(values), examples.rank[:, None] / self.ranks], axis=1)
        return _logistic(joined[::step], examples.selected[::step])

    def _strata(self, examples: Examples, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, intercept and share of the own fit of every stratum."""
        count = self.layers * self.ranks
        weights, base, own = np.zeros((count, values.shape[1])), np.zeros(count), np.zeros(count)
        stratum = examples.layer * self.ranks + examples.rank
        order = np.argsort(stratum, kind="stable")
        ends = np.searchsorted(stratum[order], np.arange(count + 1))
        for each in range(count):
            mine = order[ends[each] : ends[each + 1]]
            y = examples.selected[mine]
            if 0 < y.sum() < len(y):
                weights[each], base[each] = _logistic(self.scale(values[mine]), y)
                own[each] = len(mine) / (len(mine) + SHRINK)
        return weights, base, own

    def decision(self, layer: NDArray[np.int64], rank: NDArray[np.int64], values: Floats) -> Floats:
        """Log odds before the isotonic curve."""
        weights, base, own = self._own
        stratum, scaled = layer * self.ranks + rank, self.scale(values)
        pooled = scaled @ self._pooled[0][:-1] + self._pooled[0][-1] * rank / self.ranks + self._pooled[1]
        mine = (scaled * weights[stratum]).sum(axis=1) + base[stratum]
        found: Floats = own[stratum] * mine + (1.0 - own[stratum]) * pooled
        return found

    def probability(self, layer: NDArray[np.int64], rank: NDArray[np.int64], values: Floats) -> Floats:
        """Calibrated probabilities: float64[n]."""
        score, found = self.decision(layer, rank, values), np.zeros(len(layer))
        for each, curve in enumerate(self._curves):
            mine = layer == each
            found[mine] = curve(score[mine])
        return found


def _logistic(values: Floats, selected: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Weights and intercept of a ridge-regularised logistic; the base rate alone where there is one outcome."""
    from sklearn.linear_model import LogisticRegression

    if selected.all() or not selected.any():
        return np.zeros(values.shape[1]), 10.0 if selected.any() else -10.0
    fitted = LogisticRegression(C=PENALTY, solver="newton-cholesky", max_iter=200).fit(values, selected)
    return np.asarray(fitted.coef_[0], np.float64), float(fitted.intercept_[0])


def _isotonic(score: Floats, selected: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """A rising curve from log odds to probabilities; the logistic's own where a layer has no example."""
    from sklearn.isotonic import IsotonicRegression

    if not len(score):
        return lambda x: np.asarray(1.0 / (1.0 + np.exp(-x)))
    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, selected)
    return lambda x: np.asarray(curve.predict(x), np.float64) if len(x) else np.zeros(0)


def boosted(train: Examples, test: Examples, seed: int) -> Floats:
    """Probabilities of gradient boosting over all features, layer and rank among them: what a richer model reaches.

    Parameters
    ----------
    train, test : Examples
        To learn from, and to tell.
    seed : int
        Of the rows that are drawn where there are more than ``BOOSTED_ROWS``.

    Returns
    -------
    float64[len(test)]
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    def table(examples: Examples) -> Any:
        own = np.stack([examples.layer, examples.rank, examples.resident], axis=1)
        return np.concatenate([features(examples), own], axis=1)

    rows = np.arange(len(train))
    if len(rows) > BOOSTED_ROWS:
        rows = np.sort(np.random.Generator(np.random.PCG64(seed)).permutation(len(rows))[:BOOSTED_ROWS])
    if len(np.unique(train.selected[rows])) < 2:
        return np.full(len(test), float(train.selected.mean()))
    model = HistGradientBoostingClassifier(random_state=seed, early_stopping=False)
    return np.asarray(model.fit(table(train)[rows], train.selected[rows]).predict_proba(table(test))[:, 1])
