"""What a chunk's cells add up to, by layer and by window, and whether the identities hold in every one of them.

A cell is one event: a (window, layer). Its values stand in one order: the event loop's counters, the pending reads of a
recording, and what a clock made of the reads.
"""

from __future__ import annotations

import numpy as np
from numba import types

from replay.jit import loop

_I64 = types.Array(types.int64, 1, "C", readonly=True)
_TABLE = types.Array(types.int64, 2, "C", readonly=True)


@loop(
    types.boolean(
        _TABLE, _TABLE, _TABLE, types.int64, types.Array(types.uint8, 1, "C", readonly=True), _I64, _I64, _I64,
        types.int64[::1], types.int64[:, :, ::1], types.int64[:, ::1],
    )
)  # fmt: skip
def add_cells(counts, pending, account, first, prefill, sums, ends, parts, values, by_layer, by_window):
    """Add a chunk's cells up, as long as every identity holds.

    Parameters
    ----------
    counts : int64[W * L, C]
        The event loop's counters.
    pending, account : int64[W * L, P] or int64[0, P], int64[W * L, A] or int64[0, A]
        Pending reads, and what a clock made of the reads; without rows they are 0.
    first : int
        First window that counts.
    prefill : uint8[W]
    sums, ends, parts : int64[k], int64[k], int64[p]
        Identities: value ``sums[i]`` is the sum of the values ``parts[ends[i - 1]:ends[i]]``.
    values : int64[C + P + A]
        Work space, 0 where a table has no rows.
    by_layer : int64[2, L, C + P + A]
        Added to, by phase.
    by_window : int64[W - first, >= C + P + A] or int64[0, ..]
        Added to; with no rows not written.

    Returns
    -------
    bool
        False where an identity breaks; the sums are then worth nothing.
    """
    layers, own, others, timed = by_layer.shape[1], counts.shape[1], pending.shape[1], account.shape[1]
    for w in range(first, len(prefill)):
        phase = 1 if prefill[w] else 0
        for layer in range(layers):
            cell = w * layers + layer
            for i in range(own):
                values[i] = counts[cell, i]
            if pending.shape[0] > 0:
                for i in range(others):
                    values[own + i] = pending[cell, i]
            if account.shape[0] > 0:
                for i in range(timed):
                    values[own + others + i] = account[cell, i]
            start = np.int64(0)
            for k in range(len(sums)):
                total = np.int64(0)
                for j in range(start, ends[k]):
                    total += values[parts[j]]
                start = ends[k]
                if values[sums[k]] != total:
                    return False
            for i in range(own + others + timed):
                by_layer[phase, layer, i] += values[i]
            if by_window.shape[0] > 0:
                for i in range(own + others + timed):
                    by_window[w - first, i] += values[i]
    return True
