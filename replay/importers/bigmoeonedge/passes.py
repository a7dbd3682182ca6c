"""Forward steps of a route trace: lines cut into passes, and laid out as windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from replay.importers.bigmoeonedge.lines import (
    DECODE,
    DROPPED,
    MISS,
    NO_EXPERT,
    NO_STEP,
    PREFILL,
    READ_AHEAD,
    UNFINISHED,
    UNKNOWN,
    Figures,
    Lines,
)
from replay.importers.bigmoeonedge.preamble import Static
from replay.importers.text_rows import Batch, TextRows

_MOST_ROWS = 2**16 - 1  # of a window


@dataclass
class Windows:
    """Whole passes as a trace has them.

    Attributes
    ----------
    session, phase, rows : numpy.ndarray of int64, [n]
        Of each window.
    offsets : numpy.ndarray of int64, [rows * layers + 1]
        Where the picks of each row and layer begin.
    experts, outcome : numpy.ndarray of int64, [m]
        Picks in rank order, and the outcome of each.
    weights : numpy.ndarray of float64, [m]
        NaN where not recorded.
    """

    session: np.ndarray
    phase: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    experts: np.ndarray
    outcome: np.ndarray
    weights: np.ndarray


class Passes:
    """Cuts lines into passes and lays them out.

    Parameters
    ----------
    static : Static
        What the preamble says.
    source : TextRows
        Where the lines are from; names them in errors.

    Attributes
    ----------
    figures : Figures
        What was counted so far.

    Notes
    -----
    Only one turn's prompt, or one block of lines, is held at a time.
    """

    def __init__(self, static: Static, source: TextRows):
        self.static = static
        self.source = source
        self.figures = Figures()
        self._lines = Lines(static, source, self.figures)
        self._refuse = self._lines.refuse
        self._parts: list[Batch] = []  # of the pass that is not over
        self._before: tuple[int, int, int] | None = None  # turn, phase, first step of the last whole pass
        self._width = 0  # most picks of a row of one layer

    def add(self, batch: Batch) -> Iterator[Windows]:
        """Take lines; give the passes that they end."""
        batch = self._lines.checked(batch)
        if len(batch) == 0:
            return
        if self._parts:
            ends = np.flatnonzero(self._begins(self._parts[-1].take(slice(-1, None)).then(batch))[1:])
        else:
            ends = np.flatnonzero(self._begins(batch)[1:]) + 1
        cut = int(ends[-1]) if len(ends) else None
        if cut is not None:
            yield self._lay_out(_join([*self._parts, batch.take(slice(0, cut))]))
            self._parts = []
        self._parts.append(batch.take(slice(cut, None)))

    def finish(self) -> Iterator[Windows]:
        """Give the last pass, unless the file's end cuts it."""
        if not self._parts:
            return
        last = _join(self._parts)
        step, layer = last["step"], last["layer"]
        width = int(((layer == layer[-1]) & (step == step[-1])).sum())
        if layer[-1] == self.static.layers - 1 and width >= self._width:
            yield self._lay_out(last)
        else:
            self.figures.removed[UNFINISHED] += len(last)

    def _begins(self, batch: Batch) -> np.ndarray:
        """Say which lines begin a pass, as seen from the line before each; the first line does."""
        turn, phase, layer, step = (batch[name] for name in ("turn", "phase", "layer", "step"))
        begins = np.ones(len(batch), bool)
        begins[1:] = (turn[1:] != turn[:-1]) | (phase[1:] != phase[:-1]) | (layer[1:] < layer[:-1])
        if self.static.layers == 1:  # its number cannot fall
            begins[1:] |= (phase[1:] == DECODE) & (step[1:] != step[:-1])
        return begins

    def _lay_out(self, batch: Batch) -> Windows:
        """Lay whole passes out as windows."""
        layers, top_k = self.static.layers, self.static.top_k
        begins = self._begins(batch)
        number = np.cumsum(begins) - 1
        heads = batch.take(begins)
        self._check_sequence(batch, heads, number)
        keys, row = np.unique((number << 32) | batch["step"], return_inverse=True)
        rows = np.bincount(keys >> 32)
        self._refuse(heads, rows > _MOST_ROWS, lambda at: f"expected at most {_MOST_ROWS} rows in one step")
        cell = row * layers + batch["layer"]
        self._width = max(self._width, int(np.bincount(cell).max()))
        self._check_cells(batch, cell, np.repeat(heads["phase"], rows))
        order = np.argsort(cell * top_k + batch["slot"], kind="stable")
        batch, cell, number = batch.take(order), cell[order], number[order]
        twice = np.append(False, (cell[1:] == cell[:-1]) & (batch["slot"][1:] == batch["slot"][:-1]))
        self._refuse(
            batch,
            twice,
            lambda at: (
                f"slot {batch['slot'][at]} of this turn, step and layer stands in the file twice; write it once"
            ),
        )
        kept = self._kept(batch)
        batch, cell, number = batch.take(kept), cell[kept], number[kept]
        self._check_repeats(batch, cell)
        counts = np.bincount(cell, minlength=len(keys) * layers)
        self._count(batch, counts.reshape(-1, layers), heads, rows, cell)
        return Windows(
            heads["turn"],
            heads["phase"],
            rows,
            np.append(0, np.cumsum(counts)),
            batch["expert"],
            self._outcomes(batch, number),
            batch.columns.get("weight", np.full(len(batch), np.nan)),
        )

    def _check_sequence(self, batch: Batch, heads: Batch, number: np.ndarray) -> None:
        """Check that turns, phases and positions go on as one run's do, and that each layer's steps rise."""
        falls = np.append(
            False,
            (number[1:] == number[:-1])
            & (batch["layer"][1:] == batch["layer"][:-1])
            & (batch["step"][1:] < batch["step"][:-1]),
        )
        self._refuse(batch, falls, lambda at: f"step {batch['step'][at]} after a later one; sort the lines")
        turn, phase, step = (heads[name] for name in ("turn", "phase", "step"))
        if self._before is None:
            self._before = (int(turn[0]), int(phase[0]), -1)
            self.figures.first_step = int(step[0])
        turns, phases, steps = (
            np.append(self._before[i], each) for i, each in enumerate((turn, phase, step))
        )
        back = np.diff(turns) < 0
        same = np.diff(turns) == 0
        back |= same & ((np.diff(phases) < 0) | (np.diff(steps) <= 0))
        self._refuse(
            heads,
            back,
            lambda at: (
                f"turn {turn[at]}, phase {phase[at]}, step {step[at]} comes after turn {turns[at]}, phase "
                f"{phases[at]}, step {steps[at]}: lines of several runs, or not in the order they were written; "
                "import each run by itself"
            ),
        )
        self._before = (int(turn[-1]), int(phase[-1]), int(step[-1]))

    def _check_cells(self, batch: Batch, cell: np.ndarray, phase: np.ndarray) -> None:
        """Count rows without lines at some layer; a decode row has them all, unless lines were taken out."""
        layers = self.static.layers
        there = np.zeros(len(phase) * layers, bool)
        there[cell] = True
        missing = ~there.reshape(-1, layers)
        for kind in (PREFILL, DECODE):
            for layer in np.flatnonzero(missing[phase == kind].any(axis=0)):
                self.figures.empty[kind, int(layer)] += int(missing[phase == kind, layer].sum())
        gaps = np.argwhere(missing & (phase == DECODE)[:, None])
        if len(gaps) and not self.figures.removed[NO_STEP]:
            row, layer = gaps[0]
            at = int(np.argmax(cell // layers == row))
            raise self.source.wrong(
                int(batch.line[at]),
                f"turn {batch['turn'][at]}, step {batch['step'][at]} has no lines of layer "
                f"{self.static.layer_ids[layer]}; every layer of a decode step is needed",
            )

    def _kept(self, batch: Batch) -> np.ndarray:
        """Say which lines are picks that the engine served."""
        null = batch["expert"] < 0
        kept = ~null
        self.figures.removed[NO_EXPERT] += int(null.sum())
        if "dropped" in batch.columns:
            dropped = kept & (batch["dropped"] == 1)
            self.figures.removed[DROPPED] += int(dropped.sum())
            kept &= ~dropped
        return kept

    def _check_repeats(self, batch: Batch, cell: np.ndarray) -> None:
        keys = cell * self.static.experts + batch["expert"]
        order = np.argsort(keys, kind="stable")
        again = np.zeros(len(batch), bool)
        again[order[1:]] = keys[order][1:] == keys[order][:-1]
        self._refuse(
            batch, again, lambda at: f"expert {batch['expert'][at]} is picked twice in one row; correct it"
        )

    def _outcomes(self, batch: Batch, number: np.ndarray) -> np.ndarray:
        """Give the recorded outcome at an expert's first place in its event; elsewhere unknown."""
        layers, experts, figures = self.static.layers, self.static.experts, self.figures
        outcome = np.full(len(batch), UNKNOWN)
        event = (number * layers + batch["layer"]) * experts + batch["expert"]  # rows ascend inside each
        first = np.unique(event, return_index=True)[1]
        figures.lookups += len(first)
        if "residency" in batch.columns:
            outcome[first] = batch["residency"][first]
            missed = first[outcome[first] == MISS]
            figures.misses += len(missed)
            figures.miss_bytes += int(np.array(self.static.sizes)[batch["layer"][missed]].sum())
            figures.read_aheads += int((outcome[first] == READ_AHEAD).sum())
        return outcome

    def _count(
        self, batch: Batch, picks: np.ndarray, heads: Batch, rows: np.ndarray, cell: np.ndarray
    ) -> None:
        figures = self.figures
        figures.windows += len(rows)
        figures.rows += len(picks)
        figures.short += int(((picks > 0) & (picks < self.static.top_k)).sum())
        figures.prompts.update(heads["turn"][heads["phase"] == PREFILL].tolist())
        if "weight" in batch.columns:
            figures.unweighted += len(np.unique(cell[~np.isfinite(batch["weight"])]))


def _join(parts: list[Batch]) -> Batch:
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns}
    return Batch(np.concatenate([part.line for part in parts]), columns)
