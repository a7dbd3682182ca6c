"""What a pass over depths counts: lookups by cell, at every capacity of a list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import inline, loop


class Cells(NamedTuple):
    """What a pass counts: lookups by cell and by bucket, the first capacity of a list at which they hit.

    Attributes
    ----------
    bucket, bucket_at : int32[n], int64[P]
        Bucket of depth d in part p at ``bucket_at[p] + d``: the first capacity that holds it; G beyond the last,
        G + 1 for depth 0.
    counts : int64[C, G + 2]
        By cell and bucket; bucket G + 1 are first uses, which hit nowhere.
    weights : int64[C, G + 2] or int64[0, 0]
        Their bytes; empty where all experts have one size.
    groups : int32[J, W]
        Cell of each of the chunk's windows in each grouping; a window's layers have cells of their own.
    layers : int32[W]
        Cell of the window's layer 0, its other layers behind it; -1: the window is not counted, but in cell 0.
    sizes : int64[L * E]
    part_of : int64[L * E]
    """

    bucket: NDArray[np.int32]
    bucket_at: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: NDArray[np.int64]
    groups: NDArray[np.int32]
    layers: NDArray[np.int32]
    sizes: NDArray[np.int64]
    part_of: NDArray[np.int64]


class Lookups(NamedTuple):
    """A chunk's lookups and their depths, event after event.

    Attributes
    ----------
    offsets : int64[W * L + 1]
        Lookups of each event: its unique experts, or (sequential) its occurrences.
    ids, depth : int32[n]
        Expert and depth, filled by the pass; depth 0: the expert was never used before.
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    depth: NDArray[np.int32]


_I64, _I32 = (types.Array(t, 1, "C") for t in (types.int64, types.int32))
_T64, _T32 = types.Array(types.int64, 2, "C"), types.Array(types.int32, 2, "C")
CELLS = types.NamedTuple((_I32, _I64, _T64, _T64, _T32, _I32, _I64, _I64), Cells)
LOOKUPS = types.NamedTuple((_I64, _I32, _I32), Lookups)


@inline
def add_row(row, base, ids, depth, bucket, bucket_at, part_of, sizes, weigh):
    """Count some lookups of one layer into a row of cells: each one, or its bytes."""
    sole = len(bucket_at) == 1
    for i in range(len(depth)):
        at = np.int64(depth[i])
        if not sole:
            at += bucket_at[part_of[base + ids[i]]]
        row[bucket[at]] += sizes[base + ids[i]] if weigh else 1


@loop(types.void(LOOKUPS, CELLS, types.int64, types.int64))
def count_depths(lookups, cells, layers, experts):
    """Count a chunk's lookups: layer after layer, since a layer's row of cells is long.

    Parameters
    ----------
    lookups : Lookups
    cells : Cells
        Counted into.
    layers, experts : int
    """
    offsets, ids, depth = lookups
    bucket, bucket_at, counts, weights, groups, first_cell, sizes, part_of = cells
    weigh = weights.shape[0] > 0
    for layer in range(layers):
        base = layer * experts
        for w in range(len(first_cell)):
            low, high = offsets[w * layers + layer], offsets[w * layers + layer + 1]
            at = first_cell[w] + layer if first_cell[w] >= 0 else 0
            few, deep = ids[low:high], depth[low:high]
            add_row(counts[at], base, few, deep, bucket, bucket_at, part_of, sizes, False)
            if weigh:
                add_row(weights[at], base, few, deep, bucket, bucket_at, part_of, sizes, True)
    for j in range(groups.shape[0]):
        for w in range(len(first_cell)):
            if first_cell[w] < 0:
                continue
            at = groups[j, w]
            for layer in range(layers):
                base, low, high = (
                    layer * experts,
                    offsets[w * layers + layer],
                    offsets[w * layers + layer + 1],
                )
                few, deep = ids[low:high], depth[low:high]
                add_row(counts[at], base, few, deep, bucket, bucket_at, part_of, sizes, False)
                if weigh:
                    add_row(weights[at], base, few, deep, bucket, bucket_at, part_of, sizes, True)


@inline
def raise_widest(widest, width, part_of, base, ids, low, high):
    """Raise each part's widest event by one that wants ``ids[low:high]``."""
    if len(widest) == 1:
        widest[0] = max(widest[0], high - low)
        return
    for i in range(low, high):
        p = part_of[base + ids[i]]
        width[p] += 1
        widest[p] = max(widest[p], width[p])
    for i in range(low, high):
        width[part_of[base + ids[i]]] = 0
