"""Picks recomputed from scores, and both written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replay.importers.routed.remarks import share
from replay.trace import TraceWriter


class Picks:
    """Picks of scores, as they are written.

    Parameters
    ----------
    top_k : int
        How many a row.

    Attributes
    ----------
    lookups : int
        Unique experts wanted, summed over events.
    """

    def __init__(self, top_k: int):
        self._top_k = top_k
        self.lookups = 0
        self._lists = self._ties = self._short = 0
        self._wanted: set[int] = set()  # of the window that is not over
        self._window = -1

    def append(self, writer: TraceWriter, scores: np.ndarray, window: np.ndarray, row: np.ndarray) -> None:
        """Write the picks and scores of some rows.

        Parameters
        ----------
        writer : TraceWriter
        scores : numpy.ndarray, [rows, layers, experts]
        window, row : numpy.ndarray of int64, [rows]
        """
        rows, layers, experts = scores.shape
        order = np.argsort(-scores, axis=2, kind="stable")[..., : self._top_k + 1]
        best = np.take_along_axis(scores, order, axis=2)
        self._lists += rows * layers
        self._ties += int((best[..., -1] == best[..., -2]).sum())
        kept = best[..., :-1] > -np.inf
        self._short += int((~kept).any(axis=2).sum())
        ids = order[..., :-1]
        self._count(ids, kept, window, experts)
        key = {"window": np.repeat(window, layers), "row": np.repeat(row, layers)}
        key["layer"] = np.tile(np.arange(layers), rows)
        ends = np.append(0, np.cumsum(kept.sum(axis=2).reshape(-1)))
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(ids[kept], pa.uint16()))
        writer.append("selections", pa.table(key | {"experts": lists}))
        offsets = pa.array(np.arange(rows * layers + 1) * experts, pa.int32())
        values = pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(scores).reshape(-1)))
        writer.append("router_scores", pa.table(key | {"scores": values}))

    def _count(self, ids: np.ndarray, kept: np.ndarray, window: np.ndarray, experts: int) -> None:
        """Count unique experts by event; a window may go over blocks."""
        keys = np.arange(ids.shape[1])[:, None] * experts + ids
        for number in np.unique(window).tolist():
            own = window == number
            wanted = set(np.unique(keys[own][kept[own]]).tolist())
            if number != self._window:
                self._window, self._wanted = number, set()
            self.lookups += len(wanted - self._wanted)
            self._wanted |= wanted

    def notes(self, top_k: int) -> list[str]:
        """Say how often the cut was a tie.

        Parameters
        ----------
        top_k : int

        Returns
        -------
        list of str
        """
        notes = []
        if self._ties:
            notes.append(f"{share(self._ties, self._lists)} lists tie at rank {top_k}: the lower id is taken")
        if self._short:
            notes.append(f"{self._short} lists have fewer than {top_k} picks: the others are masked")
        return notes
