"""The store of probability maps that ``finemoe`` matches windows against (:mod:`replay.predict.finemoe`).

What it guesses depends on the recorded scores alone, so it is made outside the event loop, chunk by chunk, and lanes
with the same settings share it. Maps stand in a ring with a window's number modulo its size as place, the ring
innermost: a row's products with all maps run along memory, each sum still in the order of layers and experts, so that
its rounding does not depend on the machine. Some windows at a time share one pass over the store.
"""

from __future__ import annotations

from math import exp
from threading import Lock
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import kernel
from replay.predict.similar import match

BLOCK = 16
"""Windows that share a pass over the store."""

_F64_2D, _F64_3D = types.float64[:, ::1], types.float64[:, :, ::1]


class Lists(NamedTuple):
    """Guesses of a chunk.

    Attributes
    ----------
    at : int64[W * (L + 1) + 1]
        As in :class:`replay.engine.frame.Guesses`.
    target : int64[G]
    offsets, ids : int64[G + 1], int32[n]
        Experts of each prediction, best first.
    """

    at: NDArray[np.int64]
    target: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]


@kernel(types.void(types.float32[:, ::1], _F64_2D))
def softmax_rows(scores, out):
    """Softmax of rows, in double; a row that is masked throughout has no mass.

    Parameters
    ----------
    scores, out : float32[n, E], float64[n, E]
    """
    for i in range(len(scores)):
        row = scores[i]
        best = row[0]
        for e in range(len(row)):
            best = max(best, row[e])
        total = 0.0
        for e in range(len(row)):
            out[i, e] = exp(np.float64(row[e]) - np.float64(best)) if row[e] > -np.inf else 0.0
            total += out[i, e]
        if total > 0.0:
            for e in range(len(row)):
                out[i, e] /= total


@kernel(types.void(_F64_3D, types.int64[::1], types.int64, _F64_3D, _F64_2D))
def enter_maps(rows, first_row, number, maps, masses):
    """Write the maps of some windows into the ring, and their running squared lengths.

    Parameters
    ----------
    rows : float64[R, L, E]
        Probabilities of the windows' rows.
    first_row : int64[B + 1]
    number : int
        Maps before these.
    maps, masses : float64[L, E, ring], float64[L, ring]
    """
    layers, experts, ring = maps.shape
    for b in range(len(first_row) - 1):
        c = (number + b) % ring
        count = first_row[b + 1] - first_row[b]
        mass = 0.0
        for layer in range(layers):
            for e in range(experts):
                total = 0.0
                for r in range(first_row[b], first_row[b + 1]):
                    total += rows[r, layer, e]
                mean = total / count
                maps[layer, e, c] = mean
                mass += mean * mean
            masses[layer, c] = mass


class Maps:
    """The store, and the guesses of the chunks that it saw last.

    Parameters
    ----------
    layers, experts, top_k : int
    size : int
        Windows that are kept.
    distance : int
        Layers between a guess and its target.
    kept : int
        Chunks whose guesses are kept: so many at once may be played by the lanes that share the store.
    """

    def __init__(self, layers: int, experts: int, top_k: int, size: int, distance: int, kept: int) -> None:
        self.layers, self.experts, self.least = layers, experts, top_k
        self.size, self.distance, self.kept = size, distance, kept
        self.number = 0
        self._maps, self._masses = np.zeros((layers, experts, 0)), np.zeros((layers, 0))
        self._lock = Lock()
        self._lists: dict[int, Lists] = {}

    def lists(
        self, first: int, scores: NDArray[np.floating], start: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Lists:
        """Guesses of a chunk; every chunk once, in order; asked again for one of the last ones it repeats itself.

        Parameters
        ----------
        first : int
            The chunk's first window.
        scores : float16[n, E] or float32[n, E]
            Dense router scores, by window, row and layer.
        start : int64[W]
            Where in ``scores`` each window begins; -1: it is not to be matched.
        rows : int64[W]
            Rows of each window that count.
        """
        with self._lock:
            if first not in self._lists:
                self._lists[first] = self._step(scores, start, rows)
            for old in sorted(self._lists)[: -self.kept]:
                del self._lists[old]
            return self._lists[first]

    def _step(self, scores: NDArray[np.floating], start: NDArray[np.int64], rows: NDArray[np.int64]) -> Lists:
        layers, ahead = self.layers, max(self.layers - self.distance, 0)
        counts = np.zeros((len(start), layers + 1), np.int64)
        windows = np.flatnonzero(start >= 0)
        counts[windows[int(self.number == 0) :], 1 : 1 + ahead] = 1
        lengths, ids = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for i in range(0, len(windows), BLOCK):
            offsets, found = self._block(scores, start, rows, windows[i : i + BLOCK])
            lengths.append(np.diff(offsets))
            ids.append(found)
        target = np.tile(np.arange(self.distance, self.distance + ahead, dtype=np.int64), int(counts.sum()))
        at = np.concatenate(([0], np.cumsum(counts.ravel()))).astype(np.int64)
        offsets = np.cumsum(np.concatenate(lengths))
        return Lists(at, target[: at[-1]], offsets, np.concatenate(ids))

    def _block(
        self,
        scores: NDArray[np.floating],
        start: NDArray[np.int64],
        rows: NDArray[np.int64],
        windows: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Match some windows, and enter them."""
        self._make_room(len(windows))
        chosen = np.concatenate([start[w] + np.arange(rows[w] * self.layers) for w in windows])
        chances = np.empty((len(chosen), self.experts))
        softmax_rows(scores[chosen].astype(np.float32, copy=False), chances)
        each = chances.reshape(-1, self.layers, self.experts)
        first_row = np.concatenate(([0], np.cumsum(rows[windows]))).astype(np.int64)
        enter_maps(each, first_row, self.number, self._maps, self._masses)
        found: tuple[NDArray[np.int64], NDArray[np.int32]] = match(
            each, first_row, self.number, self._maps, self._masses, self.size, self.distance, self.least
        )
        self.number += len(windows)
        return found

    def _make_room(self, more: int) -> None:
        """Widen the ring, up to what the store and a block need; before it is that wide nothing has been replaced."""
        most, now = self.size + BLOCK, self._masses.shape[1]
        if now == most or self.number + more <= now:
            return
        ring = min(most, max(2 * now, 4 * BLOCK))
        maps, masses = np.zeros((self.layers, self.experts, ring)), np.zeros((self.layers, ring))
        maps[:, :, :now], masses[:, :now] = self._maps, self._masses
        self._maps, self._masses = maps, masses
