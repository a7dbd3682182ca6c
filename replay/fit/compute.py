"""Compute times, and what it costs to verify drafts, from the table ``timing``.

``pre_us`` and ``post_us`` are means over the events of decode windows: the constants with the least squared
error. V is the mean compute time of decode windows with k drafts (k + 1 rows) over that of windows with none,
made non-decreasing (isotonic, weighted by windows); a k that never came up is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from replay.fit.heldout import HeldOut, error
from replay.trace import Trace


@dataclass(frozen=True)
class ComputeFit:
    """Fitted compute times.

    Attributes
    ----------
    pre_us, post_us : float
        Of one event.
    error : HeldOut
        Of a window's compute time, all decode windows alike.
    verify : tuple of float or None
        V by drafts kept, from 1.0 at none; None where rows never vary or no window has one row.
    verify_windows : tuple of int
        Windows that each entry of V was fitted on.
    verify_error : HeldOut or None
        Of a window's compute time, V applied.
    """

    pre_us: float
    post_us: float
    error: HeldOut
    verify: tuple[float, ...] | None
    verify_windows: tuple[int, ...]
    verify_error: HeldOut | None


def fit_compute(trace: Trace, training: NDArray[np.bool_]) -> ComputeFit | None:
    """Fit compute times.

    Parameters
    ----------
    trace : Trace
        With the table ``timing``.
    training : bool[windows]
        Windows to fit on; the error is over the others.

    Returns
    -------
    ComputeFit or None
        None where no training window is timed in all layers.
    """
    pre, post = _sums(trace)
    total = pre + post
    timed = ~np.isnan(total) & ~trace.windows.prefill
    mine, others = timed & training, timed & ~training
    if not mine.any():
        return None
    layers = trace.meta.layers
    constants = [float(each[mine].mean()) / layers for each in (pre, post)]
    fitted = np.full(len(total), sum(constants) * layers)
    drafts = trace.windows.rows - 1
    verify, counts, base = _verify(total[mine], drafts[mine])
    verify_error = None
    if verify is not None:
        known = others & (drafts < len(verify))
        verify_error = error(base * np.array(verify)[drafts[known]], total[known])
    return ComputeFit(
        constants[0], constants[1], error(fitted[others], total[others]), verify, counts, verify_error
    )


def _sums(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute time of each window before and after its events ask, in microseconds; NaN where a layer lacks one."""
    count, layers = len(trace.windows), trace.meta.layers
    sums = np.zeros((2, count))
    rows = np.zeros((2, count), np.int64)
    for chunk in trace.chunks({"timing"}):
        table = chunk.tables["timing"]
        for i, name in enumerate(("pre_us", "post_us")):
            values = table[name].astype(np.float64)
            told = ~np.isnan(values)
            np.add.at(sums[i], table["window"][told], values[told])
            np.add.at(rows[i], table["window"][told], 1)
    sums[rows < layers] = np.nan
    return sums[0], sums[1]


def _verify(
    total: NDArray[np.float64], drafts: NDArray[np.int64]
) -> tuple[tuple[float, ...] | None, tuple[int, ...], float]:
    """V, the windows behind each entry, and the compute time of a window without drafts."""
    counts = np.bincount(drafts)
    if len(counts) < 2 or counts[0] == 0:
        return None, tuple(counts.tolist()), 0.0
    seen = np.flatnonzero(counts)
    means = np.bincount(drafts, total)[seen] / counts[seen]
    smooth = isotonic_regression(means, weights=counts[seen]).x
    every = np.interp(np.arange(len(counts)), seen, smooth)
    return tuple((every / every[0]).tolist()), tuple(counts.tolist()), float(every[0])
