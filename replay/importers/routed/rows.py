"""Rows of forward steps: which lists belong to one token."""

from __future__ import annotations

import numpy as np

from replay.importers.routed.cells import Cells


class Rows:
    """The rows of some steps, step after step, each step's in the order of its tokens.

    Parameters
    ----------
    cells : Cells
        Whole steps.
    number : numpy.ndarray of int64, [n]
        Step of each list; never falls.
    layers : int
        MoE layers.

    Attributes
    ----------
    count : int
        Rows.
    step, phase, session : numpy.ndarray of int64, [count]
        Of each row; steps are numbered from 0 without gaps.
    domain : numpy.ndarray of int64, [count], or None
    per_step : numpy.ndarray of int64
        Rows of each step.
    row, cell : numpy.ndarray of int64, [n]
        Row of each list, and ``row * layers + layer``.
    """

    def __init__(self, cells: Cells, number: np.ndarray, layers: int):
        number = np.cumsum(np.append(False, np.diff(number) != 0))
        token = _ordinals(cells, number, layers)
        place = np.unique(token, return_inverse=True)[1]
        keys, at, self.row = np.unique(
            number * (int(place.max()) + 1) + place, return_index=True, return_inverse=True
        )
        self.count = len(keys)
        self.step = number[at]
        self.per_step = np.bincount(self.step)
        self.phase = cells.phase[at]
        self.session = cells.session[at]
        self.domain = None if cells.domain is None else cells.domain[at]
        self.cell = self.row * layers + cells.layer

    def there(self, layers: int) -> np.ndarray:
        """Say which rows have a list of which layer: bool, [count, layers]."""
        found = np.zeros(self.count * layers, bool)
        found[self.cell] = True
        return found.reshape(-1, layers)


def _ordinals(cells: Cells, number: np.ndarray, layers: int) -> np.ndarray:
    """Number the rows of steps that do not: a layer with fewer lists than others routed the last rows."""
    token = cells.token
    if (token >= 0).all():
        return token
    key = number * layers + cells.layer
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    counts = np.diff(np.append(starts, len(key)))
    ordinal = np.empty(len(key), np.int64)
    ordinal[order] = np.arange(len(key)) - np.repeat(starts, counts)
    lists = np.bincount(key, minlength=(int(number[-1]) + 1) * layers)
    widest = lists.reshape(-1, layers).max(axis=1)
    return np.where(token >= 0, token, widest[number] - lists[key] + ordinal)
