"""The published table: q by (layer, adjusted rank, margin bin), which the event loop looks up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.calibration.example import Examples
from replay.calibration.fit import Floats, Model, features

BINS = 32
"""Margin bins, of about equally many training examples."""

SHRINK = 20.0
"""Examples that a bin's middle counts as, in its mean."""

DECIMALS = 6


@dataclass(frozen=True)
class Table:
    """A table of probabilities.

    Attributes
    ----------
    edges : float64[B - 1]
        Ascending; a margin's bin is the number of edges that are at most it.
    q, q_absent : float64[L, K, B]
        Of all candidates, and of those that are not resident.
    counts, counts_absent : int64[L, K, B]
        Training examples of each cell.
    """

    edges: Floats
    q: Floats
    counts: NDArray[np.int64]
    q_absent: Floats
    counts_absent: NDArray[np.int64]

    def of(self, examples: Examples, absent: bool = False) -> Floats:
        """Probabilities of examples, by either table."""
        q = self.q_absent if absent else self.q
        found: Floats = q[examples.layer, examples.rank, bins(self.edges, examples.margin)]
        return found


def bins(edges: Floats, margin: Floats) -> NDArray[np.int64]:
    """Bin of each margin: the number of edges that are at most it.

    Examples
    --------
    >>> bins(np.array([0.0, 1.0]), np.array([-0.1, 0.0, 0.5, 1.0])).tolist()
    [0, 1, 1, 2]
    """
    return np.searchsorted(edges, margin, side="right")


def tabulate(examples: Examples, layers: int, ranks: int) -> Table:
    """Fit all candidates, and those that are not resident, and average both fits over the cells of a table.

    Parameters
    ----------
    examples : Examples
        To learn from.
    layers, ranks : int

    Returns
    -------
    Table
    """
    steps = np.arange(1, BINS) / BINS
    edges = np.unique(np.round(np.quantile(examples.margin, steps), DECIMALS))
    absent = examples.where(~examples.resident)
    every = _averaged(Model(examples, layers, ranks), examples, edges)
    if not len(absent):
        return Table(edges, *every, every[0], np.zeros_like(every[1]))
    return Table(edges, *every, *_averaged(Model(absent, layers, ranks), absent, edges))


def _averaged(model: Model, examples: Examples, edges: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Mean of a fit over the examples of every cell, and how many those are.

    A cell's mean counts ``SHRINK`` examples more at the bin's mean margin, other features at their stratum's mean (that
    of all, where a stratum has none): what an empty cell holds.
    """
    width, strata = len(edges) + 1, model.layers * model.ranks
    place, values = bins(edges, examples.margin), features(examples)
    p = model.probability(examples.layer, examples.rank, values)
    stratum = examples.layer * model.ranks + examples.rank
    cell = stratum * width + place
    counts = np.bincount(cell, minlength=strata * width)
    layer, rank = np.divmod(np.repeat(np.arange(strata), width), model.ranks)
    centre = np.repeat(_typical(values, stratum, strata), width, axis=0)
    centre[:, 0] = np.tile(_middles(edges, examples.margin, place), strata)
    centre[:, 1] = np.maximum(centre[:, 0], 0.0)
    guess = model.probability(layer, rank, centre)
    q = (np.bincount(cell, p, strata * width) + SHRINK * guess) / (counts + SHRINK)
    sizes = (model.layers, model.ranks, width)
    return np.round(np.clip(q, 0.0, 1.0), DECIMALS).reshape(sizes), counts.reshape(sizes)


def _middles(edges: Floats, margin: Floats, place: NDArray[np.int64]) -> Floats:
    """Mean margin of each bin; an edge of it where it is empty."""
    width = len(edges) + 1
    count = np.bincount(place, minlength=width)
    edge = np.append(edges, edges[-1]) if len(edges) else np.zeros(1)
    return np.where(count > 0, np.bincount(place, margin, width) / np.maximum(count, 1), edge)


def _typical(values: Floats, stratum: NDArray[np.int64], strata: int) -> Floats:
    """Mean features of every stratum; those of all examples where it has none."""
    count = np.bincount(stratum, minlength=strata)
    means = [np.bincount(stratum, column, strata) / np.maximum(count, 1) for column in values.T]
    return np.where(count[:, None] > 0, np.stack(means, axis=1), values.mean(axis=0))
