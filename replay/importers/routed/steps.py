"""Forward steps of a source: routed lists cut into steps, checked, and laid out as windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from replay.importers.routed.cells import NOT_KNOWN, PREFILL, UNKNOWN, Cells, join
from replay.importers.routed.rows import Rows
from replay.importers.routed.survey import IDS, Refuse
from replay.importers.routed.window import (
    DENSE,
    MOST_ROWS,
    SILENT,
    TORN,
    UNFINISHED,
    Figures,
    Shape,
    Windows,
)

_MOST_CELLS = 2**25  # lists held at once


class Steps:
    """Cuts lists into forward steps and lays them out.

    Parameters
    ----------
    shape : Shape
        What every window shares.
    refuse : function
        Raises for a line.
    torn : bool
        Whether lists were taken out, so that a row may lack some: it is left out then, else refused.
    whole : bool
        Whether the steps of a source of one layer hold; else each token outside a prompt is a step.

    Attributes
    ----------
    figures : Figures
        What was counted so far.

    Notes
    -----
    A step's rows are one window. Prompt rows that come one by one, step after step of a session, are one window
    too. Held at a time are one block of lists, and one prompt.
    """

    def __init__(self, shape: Shape, refuse: Refuse, torn: bool = False, whole: bool = False):
        self.shape = shape
        self.torn = torn
        self.whole = whole
        self.figures = Figures()
        self._refuse = refuse
        self._place = np.full(IDS, -1)
        self._place[list(shape.layer_ids)] = np.arange(shape.layers)
        self._parts: list[Cells] = []  # of the group of steps that is not over
        self._held = 0
        self._begun = False

    def add(self, cells: Cells) -> Iterator[Windows]:
        """Take cleaned lists; give the windows that they end."""
        cells = self._routed(cells)
        if len(cells) == 0:
            return
        before = self._parts[-1].take(slice(-1, None)) if self._parts else None
        ends = np.flatnonzero(self._groups(cells if before is None else join([before, cells]))[1:])
        if before is None:
            ends += 1
        if len(ends):
            cut = int(ends[-1])
            yield from self._lay_out(join([*self._parts, cells.take(slice(0, cut))]), last=False)
            self._parts, self._held = [], 0
            cells = cells.take(slice(cut, None))
        self._parts.append(cells)
        self._held += len(cells)
        if self._held > _MOST_CELLS:
            self._refuse(
                cells.line,
                np.ones(len(cells), bool),
                lambda at: (
                    f"one forward step has more than {_MOST_CELLS} lists; are the rows in the order of time?"
                ),
            )

    def finish(self) -> Iterator[Windows]:
        """Give the last windows."""
        if self._parts:
            yield from self._lay_out(join(self._parts), last=True)
            self._parts = []

    def _routed(self, cells: Cells) -> Cells:
        """Number the layers from 0, leave out those that never route, and check the ids."""
        cells.layer = self._place[cells.layer]
        dense = cells.layer < 0
        if dense.any():
            self.figures.removed[DENSE] += int(dense.sum())
            cells = cells.take(~dense)
        above = cells.experts >= self.shape.experts
        if above.any():
            self._refuse(
                cells.line[cells.owner],
                above,
                lambda at: (
                    f"expected expert ids from 0 to {self.shape.experts - 1}, found {cells.experts[at]}; "
                    "correct it, or the number of experts"
                ),
            )
        return cells

    def _begins(self, cells: Cells) -> np.ndarray:
        """Say which lists begin a step, as seen from the list before each; the first list does."""
        begins = np.append(True, np.diff(cells.step) != 0)
        if (
            self.shape.layers == 1 and not self.whole
        ):  # nothing else tells its tokens apart: each outside a prompt is a step
            again = (np.diff(cells.token) != 0) | (cells.token[1:] < 0)
            begins[1:] |= again & (cells.phase[1:] != PREFILL)
        return begins

    def _groups(self, cells: Cells) -> np.ndarray:
        """Say which lists begin a step that is no piece of the prompt before it."""
        begins = self._begins(cells)
        prompt = cells.phase == PREFILL
        same = prompt[1:] & prompt[:-1] & (cells.session[1:] == cells.session[:-1])
        begins[1:] &= ~same
        return begins

    def _lay_out(self, cells: Cells, last: bool) -> Iterator[Windows]:
        """Lay whole steps out as windows."""
        begins = self._begins(cells)
        number = np.cumsum(begins) - 1
        rows = Rows(cells, number, self.shape.layers)
        self._check_twice(cells, rows)
        kept = self._kept(cells, rows, first=not self._begun, last=last)
        self._begun = True
        if not kept.all():
            chosen = kept[rows.row]
            cells, number = cells.take(chosen), number[chosen]
            if len(cells) == 0:
                return
            rows = Rows(cells, number, self.shape.layers)
        window = self._merged(cells, rows)
        self._count_empty(rows)
        yield self._windows(cells, rows, window)

    def _check_twice(self, cells: Cells, rows: Rows) -> None:
        order = np.argsort(rows.cell, kind="stable")
        again = np.zeros(len(cells), bool)
        again[order[1:]] = rows.cell[order][1:] == rows.cell[order][:-1]
        self._refuse(
            cells.line,
            again,
            lambda at: (
                f"{_row(cells, at)} has layer {self.shape.layer_ids[cells.layer[at]]} twice in one step; write it once"
            ),
        )

    def _kept(self, cells: Cells, rows: Rows, first: bool, last: bool) -> np.ndarray:
        """Say which rows are whole and hold a pick; count the others, or refuse the first."""
        there = rows.there(self.shape.layers)
        several = rows.per_step[rows.step] > 1
        prompt = (rows.phase == PREFILL) | ((rows.phase == UNKNOWN) & several)
        covered = np.zeros((len(rows.per_step), self.shape.layers), bool)
        np.logical_or.at(covered, rows.step, there)
        # a prompt's row may lack the last layers, if other rows of the step have them; any other row needs them all
        every = np.logical_and.reduce
        tail = there[:, 0] & every(there[:, 1:] <= there[:, :-1], axis=1) & every(covered, axis=1)[rows.step]
        broken = np.where(prompt, ~tail, ~every(there, axis=1))
        at_edge = np.zeros(rows.count, bool)
        if first:
            at_edge |= rows.step == 0
        if last:
            at_edge |= rows.step == len(rows.per_step) - 1
        silent = np.bincount(rows.row, cells.lengths, minlength=rows.count) == 0
        removed = at_edge | np.full(rows.count, self.torn)
        kept = np.ones(rows.count, bool)
        for reason, chosen in (
            (TORN if self.torn else UNFINISHED, broken & removed),
            (SILENT, silent & ~broken),
        ):
            self.figures.removed[reason] += int(chosen[rows.row].sum())
            kept &= ~chosen
        self._refuse_gap(cells, rows, there, broken & kept)
        return kept

    def _refuse_gap(self, cells: Cells, rows: Rows, there: np.ndarray, broken: np.ndarray) -> None:
        if not broken.any():
            return
        row = int(np.argmax(broken))
        layer = self.shape.layer_ids[int(np.argmin(there[row]))]
        at = int(np.argmax(rows.row == row))
        self._refuse(
            cells.line[at : at + 1],
            np.ones(1, bool),
            lambda _: f"{_row(cells, at)} has no list of layer {layer}; every layer of a step is needed",
        )

    def _merged(self, cells: Cells, rows: Rows) -> np.ndarray:
        """Number the window of each row: prompt rows one by one make one window, at most 65,535 rows each."""
        size = rows.per_step[rows.step]
        session = rows.session
        begins = np.append(True, np.diff(rows.step) != 0)
        single = (rows.phase == PREFILL) & (size == 1)
        joins = single[1:] & single[:-1] & (session[1:] == session[:-1])
        begins[1:] &= ~joins
        self.figures.merged += int(joins.sum())
        starts = np.flatnonzero(begins)
        ordinal = np.arange(rows.count) - np.repeat(starts, np.diff(np.append(starts, rows.count)))
        cuts = (ordinal > 0) & (ordinal % MOST_ROWS == 0)
        self.figures.split += int(cuts.sum())
        return np.cumsum(begins | cuts) - 1

    def _count_empty(self, rows: Rows) -> None:
        missing = (~rows.there(self.shape.layers)).sum(axis=0)
        for layer in np.flatnonzero(missing):
            self.figures.empty[int(layer)] += int(missing[layer])

    def _windows(self, cells: Cells, rows: Rows, window: np.ndarray) -> Windows:
        layers, experts, figures = self.shape.layers, self.shape.experts, self.figures
        order = np.argsort(rows.cell, kind="stable")
        cells, cell = cells.take(order), rows.cell[order]
        lengths = np.zeros(rows.count * layers, np.int64)
        lengths[cell] = cells.lengths
        self._check_picks(cells)
        heads = np.flatnonzero(np.append(True, np.diff(window) != 0))
        event = (
            np.repeat(window[cell // layers] * layers + cells.layer, cells.lengths) * experts + cells.experts
        )
        first = np.unique(event, return_index=True)[1]
        outcome = None
        if cells.outcome is not None:
            outcome = np.full(len(cells.experts), NOT_KNOWN)
            outcome[first] = cells.outcome[first]
        per_window = np.diff(np.append(heads, rows.count))
        phase = rows.phase[heads]
        figures.windows += len(heads)
        figures.rows += rows.count
        figures.lookups += len(first)
        figures.short += int(((cells.lengths > 0) & (cells.lengths < self.shape.top_k)).sum())
        figures.several += int(((phase == UNKNOWN) & (per_window > 1)).sum())
        return Windows(
            rows.session[heads],
            phase,
            per_window,
            np.append(0, np.cumsum(lengths)),
            cells.experts,
            cells.weights,
            outcome,
            None if rows.domain is None else rows.domain[heads],
        )

    def _check_picks(self, cells: Cells) -> None:
        """Check that no list is too long or picks an expert twice."""
        long = cells.lengths > self.shape.top_k
        self._refuse(
            cells.line,
            long,
            lambda at: f"expected at most {self.shape.top_k} picks, found {cells.lengths[at]}",
        )
        owner = cells.owner
        keys = owner * self.shape.experts + cells.experts
        order = np.argsort(keys, kind="stable")
        again = np.zeros(len(keys), bool)
        again[order[1:]] = keys[order][1:] == keys[order][:-1]
        self._refuse(
            cells.line[owner],
            again,
            lambda at: f"expert {cells.experts[at]} is picked twice in one list; correct it",
        )


def _row(cells: Cells, at: int) -> str:
    """Name the row of a list."""
    name = f"token {cells.token[at]}" if cells.token[at] >= 0 else "a row"
    return f"{name} of session {cells.session[at]}"
