"""How well probabilities tell what happens: Brier score, log loss, AUC, expected calibration error, reliability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.calibration.fit import Floats

BINS = 10
"""Bins of equal width that the reliability diagram and the expected calibration error have."""

LEAST = 1e-6
"""What log loss takes for a probability nearer to 0 or 1."""

DECIMALS = 6


def brier(p: Floats, y: NDArray[np.bool_]) -> float:
    """Mean squared error."""
    return float(((p - y) ** 2).mean())


def log_loss(p: Floats, y: NDArray[np.bool_]) -> float:
    """Mean negative log likelihood, in nats."""
    sure = np.clip(p, LEAST, 1.0 - LEAST)
    return float(-np.where(y, np.log(sure), np.log1p(-sure)).mean())


def auc(p: Floats, y: NDArray[np.bool_]) -> float | None:
    """Share of (selected, other) pairs that are in order, ties half; None where one kind is missing.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
    0.875
    """
    positive = int(y.sum())
    negative = len(y) - positive
    if not positive or not negative:
        return None
    _, place, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    return float((rank[place][y].sum() - positive * (positive + 1) / 2.0) / (positive * negative))


def reliability(p: Floats, y: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The reliability diagram: by bin of equal width its ``low`` end, ``count``, mean ``p``, share ``selected``.

    Bins without examples have None for both.
    """
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    sums = (np.bincount(place, p, BINS), np.bincount(place, y, BINS))
    return [
        {
            "low": i / BINS,
            "count": int(n),
            "p": round(float(sums[0][i] / n), DECIMALS) if n else None,
            "selected": round(float(sums[1][i] / n), DECIMALS) if n else None,
        }
        for i, n in enumerate(count.tolist())
    ]


def calibration_error(p: Floats, y: NDArray[np.bool_]) -> float:
    """Expected calibration error: mean distance of share and probability over the diagram's bins, by count.

    Examples
    --------
    >>> calibration_error(np.array([0.25, 0.25, 0.75, 0.75]), np.array([False, True, True, True]))
    0.25
    """
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    apart = np.bincount(place, p, BINS) - np.bincount(place, y, BINS)
    return float(np.abs(apart).sum() / len(p))


def metrics(p: Floats, y: NDArray[np.bool_]) -> dict[str, Any]:
    """All figures of some examples, rounded; None of them where there is none."""
    if not len(p):
        return {"count": 0, **dict.fromkeys(("brier", "log_loss", "auc", "ece"))}
    area = auc(p, y)
    return {
        "count": len(p),
        "brier": round(brier(p, y), DECIMALS),
        "log_loss": round(log_loss(p, y), DECIMALS),
        "auc": None if area is None else round(area, DECIMALS),
        "ece": round(calibration_error(p, y), DECIMALS),
    }
