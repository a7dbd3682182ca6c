"""A calibration: sessions dealt into training and held-out ones, a fit on the former, figures on the latter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.calibration.example import Examples
from replay.calibration.fit import Floats, boosted, one_thread
from replay.calibration.metric import metrics, reliability
from replay.calibration.table import Table, tabulate
from replay.errors import InputError

SHARE = 0.3
"""Share of the sessions that is held out."""

NAMES = ("q", "boosting", "base_rate", "softmax")
"""What is scored: the published table; gradient boosting over all features; and two baselines, the base rate of each
rank and the router's softmax value taken as a probability."""


@dataclass
class Calibration:
    """What a calibration found.

    Attributes
    ----------
    table : Table
        Fitted on the training sessions.
    train, held_out : int64[..]
        Sessions, by their numbers in the examples.
    scores : dict of str to dict
        For each of ``NAMES`` its figures on the held-out sessions, over all examples.
    asked : dict of str to dict
        The same over those that were not resident, which is what a gate is asked about; of q, their own table's.
    by_layer : list of dict
        The figures of q on the held-out sessions, by layer, layers without examples left out.
    diagrams : dict of str to list of dict
        Reliability diagrams of q and softmax on the held-out sessions.
    """

    table: Table
    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    scores: dict[str, dict[str, Any]]
    asked: dict[str, dict[str, Any]]
    by_layer: list[dict[str, Any]]
    diagrams: dict[str, list[dict[str, Any]]]

    def metrics(self) -> Mapping[str, Any]:
        """All figures as a q file holds them."""
        return {
            "held_out": self.scores,
            "held_out_not_resident": self.asked,
            "held_out_by_layer": self.by_layer,
            "reliability": self.diagrams,
        }


def deal(
    sessions: NDArray[np.int64], seed: int, share: float = SHARE
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Deal sessions into training and held-out ones, at least one each.

    Parameters
    ----------
    sessions : int64[n]
        Distinct.
    seed : int
    share : float
        Held out, of all.

    Returns
    -------
    train, held_out : int64[..]
        Ascending.

    Raises
    ------
    InputError
        There are fewer than two sessions.

    Examples
    --------
    >>> train, held_out = deal(np.arange(10), 0)
    >>> len(train), len(held_out)
    (7, 3)
    """
    if len(sessions) < 2:
        raise InputError(
            "calibrate splits by session and needs at least 2 with candidates; give a trace with more sessions"
        )
    mixed = np.random.Generator(np.random.PCG64(seed)).permutation(np.sort(sessions))
    count = min(max(1, round(share * len(mixed))), len(mixed) - 1)
    return np.sort(mixed[count:]), np.sort(mixed[:count])


def calibrate(
    examples: Examples, layers: int, ranks: int, seed: int = 0, train: NDArray[np.int64] | None = None
) -> Calibration:
    """Fit q on some sessions and score it on the others.

    Parameters
    ----------
    examples : Examples
    layers, ranks : int
        Layers of the model, picks of a row.
    seed : int
        Of the dealing and of the richer model.
    train : int64[..], optional
        Sessions to learn from instead of those dealt; the others are held out.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        Nothing is left to learn from or to score on, or scikit-learn is not there.
    """
    sessions = np.unique(examples.session)
    if train is None:
        train, held_out = deal(sessions, seed)
    else:
        train = sessions[np.isin(sessions, train)]
        held_out = np.setdiff1d(sessions, train)
        if not len(train) or not len(held_out):
            raise InputError(
                "--train: expected some sessions with candidates, and some left over to score on; name others"
            )
    learn, test = (examples.where(np.isin(examples.session, each)) for each in (train, held_out))
    with one_thread():
        table = tabulate(learn, layers, ranks)
        p = {
            "q": table.of(test),
            "boosting": boosted(learn, test, seed),
            "base_rate": _base_rate(learn, test, ranks),
            "softmax": test.softmax,
        }
    absent = ~test.resident
    asked = {**p, "q": table.of(test, absent=True)}
    return Calibration(
        table,
        train,
        held_out,
        {name: metrics(p[name], test.selected) for name in NAMES},
        {name: metrics(asked[name][absent], test.selected[absent]) for name in NAMES},
        [
            {"layer": each, **metrics(p["q"][test.layer == each], test.selected[test.layer == each])}
            for each in np.unique(test.layer).tolist()
        ],
        {name: reliability(p[name], test.selected) for name in ("q", "softmax")},
    )


def _base_rate(learn: Examples, test: Examples, ranks: int) -> Floats:
    """Selected share of every rank on the training sessions."""
    count = np.bincount(learn.rank, minlength=ranks)
    rate = np.bincount(learn.rank, learn.selected, ranks) / np.maximum(count, 1)
    return np.asarray(rate[test.rank])
