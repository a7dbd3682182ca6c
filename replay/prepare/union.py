"""Unions: the unique experts of every event of a chunk, over its rows that count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import inline, kernel

if TYPE_CHECKING:
    from replay.trace import Chunk

_I64, _I32 = types.Array(types.int64, 1, "C", readonly=True), types.Array(types.int32, 1, "C", readonly=True)


@inline
def _sort_few(values, low, high, out, at):
    """Sort a few distinct values into ``out``: each goes where as many are smaller (no branch to mispredict)."""
    for i in range(low, high):
        x = values[i]
        smaller = np.int32(0)
        for j in range(low, high):
            smaller += np.int32(values[j] < x)
        out[at + smaller] = x


@kernel(
    types.Tuple((types.int64[::1], types.int32[::1]))(_I64, _I64, _I64, _I32, types.int64, types.int64)
)  # fmt: skip
def unions(row_start, rows_used, pick_offsets, picks, layers, experts):
    """Unique experts of every event over its first ``rows_used`` rows, ascending.

    Parameters
    ----------
    row_start, rows_used : int64[W + 1], int64[W]
    pick_offsets, picks : int64[rows * L + 1], int32[n]
    layers, experts : int

    Returns
    -------
    offsets : int64[W * L + 1]
    wants : int32[m]
    """
    windows = len(rows_used)
    offsets = np.zeros(windows * layers + 1, np.int64)
    wants = np.empty(len(picks), np.int32)
    found = np.empty(experts, np.int32)
    mark = np.full(experts, -1, np.int64)
    at = np.int64(0)
    for w in range(windows):
        for layer in range(layers):
            event = w * layers + layer
            n = 0
            for r in range(rows_used[w]):
                row = (row_start[w] + r) * layers + layer
                for i in range(pick_offsets[row], pick_offsets[row + 1]):
                    e = picks[i]
                    if mark[e] != event:
                        mark[e] = event
                        found[n] = e
                        n += 1
            if n <= 48:
                _sort_few(found, 0, n, wants, at)
                at += n
            else:
                for e in range(experts):
                    if mark[e] == event:
                        wants[at] = e
                        at += 1
            offsets[event + 1] = at
    return offsets, wants[:at].copy()


def wanted(
    chunk: Chunk, rows_used: NDArray[np.int64], layers: int, experts: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Unique experts of every event of a chunk; see :func:`unions`."""
    lists = chunk.selections
    assert lists is not None, "the pass reads the selections"
    found: tuple[NDArray[np.int64], NDArray[np.int32]] = unions(
        chunk.row_start, rows_used, lists.offsets, lists.values, layers, experts
    )
    return found
