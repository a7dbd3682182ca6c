"""Which windows a fit is made on, and how far it is off on the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.trace import Trace

BLOCK = 16


@dataclass(frozen=True)
class HeldOut:
    """Relative errors of a fit on held-out windows.

    Attributes
    ----------
    windows : int
        Windows that have the figure.
    median_ratio, p90_ratio : float or None
        Of ``|fitted / recorded - 1|``; None without windows.
    bias_ratio : float or None
        Sum of the fitted over the sum of the recorded figures, less 1.
    """

    windows: int
    median_ratio: float | None
    p90_ratio: float | None
    bias_ratio: float | None


def error(fitted: NDArray[np.float64], recorded: NDArray[np.float64]) -> HeldOut:
    """Compare fitted with recorded figures, one a window; those that are 0 in the record are left out.

    Examples
    --------
    >>> error(np.array([11.0, 9.0, 5.0]), np.array([10.0, 10.0, 0.0])).windows
    2
    """
    some = recorded > 0
    if not some.any():
        return HeldOut(0, None, None, None)
    off = np.abs(fitted[some] / recorded[some] - 1.0)
    bias = float(fitted[some].sum() / recorded[some].sum() - 1.0)
    return HeldOut(int(some.sum()), float(np.median(off)), float(np.quantile(off, 0.9)), bias)


def training_windows(trace: Trace) -> NDArray[np.bool_]:
    """Windows that a fit may look at: every other session, or every other block of 16 where there is one session.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    bool[windows]
        The others are held out.
    """
    session = trace.windows.session
    ids, first, place = np.unique(session, return_index=True, return_inverse=True)
    if len(ids) == 1:
        return np.asarray(np.arange(len(session)) // BLOCK % 2 == 0)
    rank = np.empty(len(ids), np.int64)
    rank[np.argsort(first)] = np.arange(len(ids))
    return np.asarray(rank[place] % 2 == 0)
