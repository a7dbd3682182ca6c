"""Picks of many rows at once, outside the event loop: audits and tests (semantics 2)."""

from __future__ import annotations

import numpy as np
from numba import types

from replay.jit import kernel
from replay.router.rule import pick
from replay.router.shortlist import F64, I64, IDS, OFFSETS, SCORES_1D


@kernel(
    I64[:, ::1](OFFSETS, IDS, SCORES_1D, types.Array(types.uint8, 2, "C", readonly=True), I64, I64, F64, F64)
)
def pick_rows(offsets, ids, scores, resident, count, protect, bonus, rank1):
    """Experts picked for each row of shortlists; see :func:`replay.router.rule.route`."""
    n, experts = resident.shape
    out = np.full((n, max(count, 1)), -1, np.int64)
    flags, taken = np.empty(experts, np.uint8), np.empty(experts, np.uint8)
    places = np.empty(max(count, 1), np.int64)
    for row in range(n):
        low, high = offsets[row], offsets[row + 1]
        for i in range(low, high):
            flags[i - low] = resident[row, ids[i]]
        got = pick(scores, ids, low, high, flags, taken, count, protect, bonus, rank1, places)
        for i in range(got):
            out[row, i] = ids[places[i]]
    return out
