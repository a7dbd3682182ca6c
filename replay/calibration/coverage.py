"""APEX's coverage (policies.md): how many candidates beyond top_k hold all that an event wants.

The model is ``P(top_k + d suffice) = sigmoid(theta_d - w . q)`` with theta not falling, fitted by summed binary cross
entropy over all predictions and all d. q are the features of :mod:`replay.calibration.file`; they are *assumed*, as
the paper's are not public. A ridge of ``RIDGE`` a prediction on w keeps a separable trace finite. Of several rows,
"the best top_k + d" are every row's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.calibration.example import Examples
from replay.calibration.fit import Floats
from replay.errors import InputError

RIDGE = 1e-4
FARTHEST = 12.0
"""Largest distance of a theta from 0, and between two: a sigmoid there is within 1e-5 of 0 or 1."""


def described(examples: Examples, top_k: int) -> tuple[NDArray[np.int64], Floats]:
    """Features of every prediction that has an example.

    Parameters
    ----------
    examples : Examples
    top_k : int

    Returns
    -------
    prediction : int64[m]
        Ascending.
    q : float64[m, 4]
        ``lead``, ``tail``, ``held``, ``rows``.
    """
    prediction, first, place = np.unique(examples.prediction, return_index=True, return_inverse=True)
    count, early = len(prediction), examples.rank < top_k

    def mean(values: NDArray[np.float64], mask: NDArray[np.bool_]) -> Floats:
        total = np.bincount(place[mask], values[mask], count)
        return np.asarray(total / np.maximum(np.bincount(place[mask], minlength=count), 1))

    held = mean(examples.resident.astype(np.float64), early)
    q = [mean(examples.margin, early), mean(examples.margin, ~early), held, examples.rows[first] - 1.0]
    return prediction, np.stack(q, axis=1)


def suffices(examples: Examples, top_k: int, ranks: int) -> NDArray[np.bool_]:
    """Whether every prediction's candidates below rank top_k + d hold all that its event wants: bool[m, D].

    Parameters
    ----------
    examples : Examples
    top_k, ranks : int
        d runs from 0 to ``ranks - top_k``.
    """
    prediction, place = np.unique(examples.prediction, return_inverse=True)
    wanted = examples.wanted[prediction]
    found = []
    for d in range(ranks - top_k + 1):
        mine = examples.selected & (examples.rank < top_k + d)
        found.append(np.bincount(place[mine], minlength=len(prediction)) == wanted)
    return np.stack(found, axis=1)


def loss(theta: Floats, w: Floats, q: Floats, y: NDArray[np.bool_]) -> float:
    """Binary cross entropy of all predictions, summed over d, a prediction."""
    z = theta[None, :] - (q @ w)[:, None]
    return float(np.where(y, np.logaddexp(0.0, -z), np.logaddexp(0.0, z)).sum() / len(q))


def fit_coverage(examples: Examples, top_k: int, ranks: int) -> tuple[Floats, Floats]:
    """Fit theta and w.

    Parameters
    ----------
    examples : Examples
        To learn from.
    top_k, ranks : int

    Returns
    -------
    theta : float64[ranks - top_k + 1]
        Not falling.
    w : float64[4]

    Raises
    ------
    InputError
        The ranking has fewer than top_k picks.
    """
    from scipy.optimize import minimize

    if ranks < top_k:
        raise InputError(
            f"--coverage: the ranking has k={ranks} picks, fewer than the model's top-{top_k}; give k={top_k} or more"
        )
    _, q = described(examples, top_k)
    y = suffices(examples, top_k, ranks)
    mean, spread = q.mean(axis=0), q.std(axis=0)
    spread[spread == 0] = 1.0
    scaled, steps = (q - mean) / spread, y.shape[1]

    def value(x: Floats) -> tuple[float, Floats]:
        theta, w = np.cumsum(x[:steps]), x[steps:]
        z = theta[None, :] - (scaled @ w)[:, None]
        apart = (1.0 / (1.0 + np.exp(-z)) - y) / len(q)
        slope = apart.sum(axis=0)
        gradient = np.concatenate(
            [np.cumsum(slope[::-1])[::-1], -(apart.sum(axis=1) @ scaled) + 2 * RIDGE * w]
        )
        return loss(theta, w, scaled, y) + RIDGE * float(w @ w), gradient

    start = np.zeros(steps + q.shape[1])
    bounds = [(-FARTHEST, FARTHEST), *[(0.0, FARTHEST)] * (steps - 1), *[(None, None)] * q.shape[1]]
    x = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 1000}).x
    w = np.round(x[steps:] / spread, 9)
    return np.round(np.cumsum(x[:steps]) + float(w @ mean), 9), w


def score_coverage(theta: Floats, w: Floats, examples: Examples, top_k: int, ranks: int) -> dict[str, object]:
    """How well theta and w tell what suffices, on examples that they were not fitted on.

    Parameters
    ----------
    theta, w : float64[D], float64[4]
    examples : Examples
    top_k, ranks : int

    Returns
    -------
    dict
        ``predictions``; ``loss`` (summed over d, a prediction); by d the mean ``told`` and the share that ``suffices``.
    """
    q, y = described(examples, top_k)[1], suffices(examples, top_k, ranks)
    told = 1.0 / (1.0 + np.exp(-(theta[None, :] - (q @ w)[:, None])))
    return {
        "predictions": len(q),
        "loss": round(loss(theta, w, q, y), 6),
        "told": np.round(told.mean(axis=0), 6).tolist(),
        "suffices": np.round(y.mean(axis=0), 6).tolist(),
    }
