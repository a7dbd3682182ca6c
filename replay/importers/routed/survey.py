"""The first pass over a source: its layers, its widest list, and what is missing from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from replay.errors import InputError
from replay.importers.routed.cells import UNKNOWN, Cells

IDS = 2**16  # layers and expert ids are stored as uint16
NULLS = (-1, 2**16 - 1, 2**32 - 1)  # "no expert", also where -1 was read as an unsigned number

Refuse = Callable[[np.ndarray, np.ndarray, Callable[[int], str]], None]
"""Raises for the first line of a mask: lines, mask, and what to say of its index."""


@dataclass
class Survey:
    """What a source holds.

    Attributes
    ----------
    refuse : function
        Raises for a line.
    zero_filled : bool
        Whether the source has a place for every layer, 0 where nothing was written.
    lists, blank : numpy.ndarray of int64, [65536]
        Lists of each layer, and those that say nothing: every pick -1, or zero-filled.
    nulls : Counter
        Picks that are no expert, by what was written.
    zeros : int
        Lists of two or more picks that are all 0: memory that nobody wrote.
    picks, highest, widest : int
        Picks that are experts, the largest id, and the longest list.
    ascending, several : int
        Lists whose ids ascend, of those with two or more picks.
    weighed, unweighed, unordered : int
        Lists with weights; of those, lists with one that is no number, and lists whose weights rise somewhere.
    outcomes : bool
        Whether any list says what was resident.
    least, most : float
        Smallest and largest sum of a list's weights.
    first : int or None
        Token of the first list.
    unphased : int
        Lists without a phase.
    """

    refuse: Refuse
    zero_filled: bool = False
    lists: np.ndarray = field(default_factory=lambda: np.zeros(IDS, np.int64))
    blank: np.ndarray = field(default_factory=lambda: np.zeros(IDS, np.int64))
    nulls: Counter[int] = field(default_factory=Counter)
    zeros: int = 0
    picks: int = 0
    highest: int = -1
    widest: int = 0
    ascending: int = 0
    several: int = 0
    weighed: int = 0
    unweighed: int = 0
    unordered: int = 0
    outcomes: bool = False
    least: float = np.inf
    most: float = -np.inf
    first: int | None = None
    unphased: int = 0

    def clean(self, cells: Cells) -> Cells:
        """Empty what says nothing: picks that are no expert, and lists that nobody wrote.

        Parameters
        ----------
        cells : Cells

        Returns
        -------
        Cells
            The same lists; some shorter.

        Raises
        ------
        InputError
            A layer or an id that no trace can hold.
        """
        outside = (cells.layer < 0) | (cells.layer >= IDS)
        self.refuse(
            cells.line, outside, lambda at: f"expected a layer from 0 to {IDS - 1}, found {cells.layer[at]}"
        )
        ids = cells.experts
        null = np.isin(ids, NULLS)
        wrong = ~null & ((ids < 0) | (ids >= IDS))
        if wrong.any():
            owner = cells.owner
            self.refuse(
                cells.line[owner],
                wrong,
                lambda at: f"expected expert ids from 0 to {IDS - 1}, or -1 for none, found {ids[at]}",
            )
        if null.any():
            self.nulls.update(ids[null].tolist())
            cells = cells.keep_picks(~null)
        return self._without_zeros(cells)

    def _without_zeros(self, cells: Cells) -> Cells:
        lengths = cells.lengths
        written = np.append(0, np.cumsum(cells.experts != 0))[cells.offsets]
        zeros = (lengths > 1) & (np.diff(written) == 0)
        if not zeros.any():
            return cells
        self.zeros += int(zeros.sum())
        return cells.keep_picks(~np.repeat(zeros, lengths))

    def add(self, cells: Cells) -> None:
        """Count lists.

        Parameters
        ----------
        cells : Cells
            As the source has them.
        """
        if len(cells) == 0:
            return
        if self.first is None:
            self.first = int(cells.token[0])
        cells = self.clean(cells)
        lengths = cells.lengths
        self.lists += np.bincount(cells.layer, minlength=IDS)
        blank = lengths == 0
        if self.zero_filled:  # a layer whose only pick is always 0 was not written either
            ones = lengths == 1
            blank[ones] = cells.experts[cells.offsets[:-1][ones]] == 0
        self.blank += np.bincount(cells.layer[blank], minlength=IDS)
        self.picks += len(cells.experts)
        self.highest = max(self.highest, int(cells.experts.max(initial=-1)))
        self.widest = max(self.widest, int(lengths.max()))
        self.unphased += int((cells.phase == UNKNOWN).sum())
        self.outcomes |= cells.outcome is not None
        self._order(cells, lengths)
        if cells.weights is not None:
            self._weights(cells, cells.weights, lengths)

    def _order(self, cells: Cells, lengths: np.ndarray) -> None:
        falls = _steps(cells.experts, cells.offsets) < 0
        fallen = np.zeros(len(cells), bool)
        fallen[cells.owner[1:][falls]] = True
        self.several += int((lengths > 1).sum())
        self.ascending += int(((lengths > 1) & ~fallen).sum())

    def _weights(self, cells: Cells, weights: np.ndarray, lengths: np.ndarray) -> None:
        owner = cells.owner
        known = np.ones(len(cells), bool)
        known[owner[~np.isfinite(weights)]] = False
        known &= lengths > 0
        self.weighed += int((lengths > 0).sum())
        self.unweighed += int(((lengths > 0) & ~known).sum())
        if known.any():
            sums = np.bincount(owner, np.where(known[owner], weights, 0), minlength=len(cells))[known]
            self.least, self.most = min(self.least, float(sums.min())), max(self.most, float(sums.max()))
        rises = np.zeros(len(cells), bool)
        rises[owner[1:][_steps(weights, cells.offsets) > 0]] = True
        self.unordered += int((rises & known).sum())

    def layer_numbers(self) -> list[int]:
        """Give the layers that route, ascending; a layer whose every list says nothing is dense.

        Raises
        ------
        InputError
            Nothing was recorded at all.
        """
        there = self.lists > 0
        if not there.any():
            raise InputError("no routed list in it; nothing to import")
        routed = np.flatnonzero(there & (self.blank < self.lists))
        if len(routed) == 0:
            raise InputError(
                "every list is zero-filled or -1: the engine wrote no routing; switch its recording on"
            )
        return routed.tolist()

    def dense_layers(self) -> list[int]:
        """Give the layers whose every list says nothing."""
        return np.flatnonzero((self.lists > 0) & (self.blank == self.lists)).tolist()


def _steps(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Differences of neighbours; 0 across the border of two lists."""
    if len(values) == 0:
        return np.empty(0, values.dtype)
    change = np.diff(values)
    borders = offsets[1:-1]
    borders = borders[(borders > 0) & (borders < len(values))]
    change[borders - 1] = 0
    return change
