"""Sessions as the units of a paired test: their tokens and figures under two policies, and what kind they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.trace.chunk import Windows

FIGURES: dict[str, tuple[tuple[str, ...], float]] = {
    "misses": (("misses",), 1.0),
    "late": (("late",), 1.0),
    "unused_bytes": (("unused_bytes",), 1.0),
    "disk_bytes": (("disk_bytes",), 1.0),
    "wait_us": (("wait_ns", "limbo_wait_ns"), 1000.0),
    "timely": (("timely",), 1.0),
}
"""Figures of a verdict: the counters that each is the sum of, and what that is divided by."""


@dataclass
class Sessions:
    """The sessions of one or more traces, under a baseline and a candidate.

    Attributes
    ----------
    cold, shifted : bool[n]
        First of its trace; of another domain than the session before.
    tokens : float64[2, n]
        Committed tokens under the baseline and the candidate.
    figures : dict of str to float64[2, n]
        Sums over a session's decode windows.
    """

    cold: NDArray[np.bool_]
    shifted: NDArray[np.bool_]
    tokens: NDArray[np.float64]
    figures: dict[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.cold)

    def differences(self, name: str) -> NDArray[np.float64]:
        """Candidate less baseline per token, of each session."""
        per_token = self.figures[name] / self.tokens
        return np.asarray(per_token[1] - per_token[0])

    def per_token(self, name: str, side: int) -> float:
        """Mean over the sessions of a figure per token, of one side."""
        return float((self.figures[name][side] / self.tokens[side]).mean())


def gather(
    windows: Windows,
    counted: NDArray[np.bool_],
    tokens: Sequence[NDArray[np.int64]],
    columns: Sequence[Mapping[str, NDArray[np.float64]]],
) -> Sessions:
    """Sum the windows of one trace by session.

    Parameters
    ----------
    windows : Windows
        The trace's.
    counted : bool[W]
        Decode windows that are counted.
    tokens : two of int64[W]
        Committed tokens of each window, of both sides.
    columns : two of dict of str to float64[W]
        Figures of each window, of both sides; those that both have are kept.

    Returns
    -------
    Sessions
        In order of their first window; those without a counted token on either side are left out.
    """
    ids, first, place = np.unique(windows.session, return_index=True, return_inverse=True)
    order = np.argsort(first)
    domain = [_domain(windows, place == i) for i in order]
    shifted = np.zeros(len(ids), bool)
    for i in range(1, len(order)):
        shifted[i] = domain[i] is not None and domain[i - 1] is not None and domain[i] != domain[i - 1]
    cold = np.arange(len(order)) == 0

    def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(place, values * counted, len(ids))[order], np.float64)

    both = np.stack([summed(each.astype(np.float64)) for each in tokens])
    keep = (both > 0).all(axis=0)
    names = [name for name in FIGURES if all(name in side for side in columns)]
    figures = {name: np.stack([summed(side[name]) for side in columns])[:, keep] for name in names}
    return Sessions(cold[keep], shifted[keep], both[:, keep], figures)


def _domain(windows: Windows, mine: NDArray[np.bool_]) -> str | None:
    """The domain of a session: its first one that is told."""
    if windows.domain is None:
        return None
    return next((windows.domain[i] for i in np.flatnonzero(mine) if windows.domain[i] is not None), None)


def join(parts: Sequence[Sessions]) -> Sessions:
    """The sessions of several traces; only figures that all of them have."""
    names = [name for name in parts[0].figures if all(name in part.figures for part in parts)]
    return Sessions(
        np.concatenate([part.cold for part in parts]),
        np.concatenate([part.shifted for part in parts]),
        np.concatenate([part.tokens for part in parts], axis=1),
        {name: np.concatenate([part.figures[name] for part in parts], axis=1) for name in names},
    )
