"""Shortlists: the experts of a row that any policy of a run could pick, by descending score, ties by ascending id."""

from __future__ import annotations

import numpy as np
from numba import types

from replay.jit import inline, kernel

I32, I64, F32, F64 = types.int32, types.int64, types.float32, types.float64
SCORES_2D = types.Array(F32, 2, "C", readonly=True)
SCORES_1D = types.Array(F32, 1, "C", readonly=True)
IDS = types.Array(I32, 1, "C", readonly=True)
OFFSETS = types.Array(I64, 1, "C", readonly=True)

LANES = 32
"""Maxima of a row that are taken side by side: the processor compares several scores at once."""
_KEPT = np.int32(np.uint32(0x8FFFE000).astype(np.int32))  # sign, exponent and mantissa of a half, 13 bits up
_SCALE = np.float32(2.0**112)  # from a half's exponent to that of a float
_MASKED = np.int16(np.uint16(0xFC00).astype(np.int16))  # -inf as a half


@inline
def _put_in_order(scores, ids, n, out, out_ids, at):
    """Sort ``n`` entries into ``out``: descending score, ascending id.

    Each goes where as many are ahead of it: no branch to mispredict, and several compared at once.
    """
    for i in range(n):
        score, expert = scores[i], ids[i]
        ahead = np.int32(0)
        for j in range(n):
            ahead += np.int32(scores[j] > score)
            ahead += np.int32(scores[j] == score) & np.int32(ids[j] < expert)
        out[at + ahead] = score
        out_ids[at + ahead] = expert


@inline
def _kth(values, n, count, top):
    """The ``count``-th largest of ``n`` values, -inf where there are fewer."""
    top[:count] = -np.inf
    floor = np.float32(-np.inf)
    for j in range(n):
        x = values[j]
        if x > floor:
            i = count - 1
            while i > 0 and top[i - 1] < x:
                top[i] = top[i - 1]
                i -= 1
            top[i] = x
            floor = top[count - 1]
    return floor


@inline
def _floor_of(row, count, best, top):
    """A score that at least ``count`` of a row reach, and close to the best such one.

    It is the count-th best of the maxima of disjoint parts of the row.
    """
    experts = len(row)
    if count > LANES:
        return _kth(row, experts, count, top)
    whole = experts // LANES * LANES
    best[:] = -np.inf
    for start in range(0, whole, LANES):
        for j in range(LANES):
            x, held = row[start + j], best[j]
            best[j] = x if x > held else held
    for j in range(whole, experts):
        x, held = row[j], best[j - whole]
        best[j - whole] = x if x > held else held
    return _kth(best, LANES, count, top)


@inline
def _shortlist(row, count, reach, work, out, out_ids, at):
    """Shortlist of one dense row, from ``at`` on; returns its length.

    What no boost can lift that far is left out before anything is sorted.
    """
    best, top, scores, ids = work
    floor = np.float64(_floor_of(row, count, best, top))
    low = np.float32(-np.inf)
    if floor > -np.inf:
        reached = floor - reach
        low = np.float32(reached - abs(reached) * 2e-7 - 1e-40)  # below it, whatever the rounding
    n = np.int64(0)
    for e in range(len(row)):
        scores[n] = row[e]
        ids[n] = e
        n += np.int64(row[e] >= low)
    _put_in_order(scores, ids, n, out, out_ids, at)
    kth = np.float64(out[at + count - 1]) if n >= count else -np.inf
    kept = np.int64(0)
    while kept < n and out[at + kept] > -np.inf and np.float64(out[at + kept]) + reach >= kth:
        kept += 1
    return kept


@inline
def _work_for(experts, count):
    """Work space of :func:`_shortlist`."""
    best, top = np.empty(LANES, np.float32), np.empty(count, np.float32)
    return best, top, np.empty(experts + 1, np.float32), np.empty(experts + 1, np.int32)


@inline
def _room_for(more, at, ids, out):
    """Two arrays, the same or wider, with room for ``more`` entries from ``at`` on."""
    if at + more <= len(ids):
        return ids, out
    room = max(2 * len(ids), at + more)
    wider_ids, wider_out = np.empty(room, np.int32), np.empty(room, np.float32)
    wider_ids[:at], wider_out[:at] = ids[:at], out[:at]
    return wider_ids, wider_out


_SHORTLISTS = types.Tuple((I64[::1], I32[::1], F32[::1]))


@kernel(_SHORTLISTS(SCORES_2D, I64, F64))
def shortlist_dense(scores, count, reach):
    """Shortlists of dense rows: every expert that a boost up to ``reach`` could bring among the best.

    Parameters
    ----------
    scores : float32[n, E]
        One score an expert; -inf is never listed.
    count : int
        Most picks that any policy makes of a row.
    reach : float
        Largest boost that any policy gives.

    Returns
    -------
    offsets : int64[n + 1]
    ids : int32[m]
    scores : float32[m]
        Row i is ``offsets[i]:offsets[i + 1]``, sorted for :func:`replay.router.rule.pick`.
    """
    n, experts = scores.shape
    count = max(min(count, experts), 1)
    offsets, at = np.zeros(n + 1, np.int64), np.int64(0)
    room = max(n * min(experts, 2 * count + 8), experts)
    ids, out = np.empty(room, np.int32), np.empty(room, np.float32)
    work = _work_for(experts, count)
    for row in range(n):
        ids, out = _room_for(experts, at, ids, out)
        at += _shortlist(scores[row], count, reach, work, out, ids, at)
        offsets[row + 1] = at
    return offsets, ids[:at].copy(), out[:at].copy()


@kernel(_SHORTLISTS(types.Array(types.int16, 2, "C", readonly=True), I64, F64))
def shortlist_halves(halves, count, reach):
    """:func:`shortlist_dense` of float16 rows, given as their bits: what is not listed is never written as float32.

    A row is widened in the nearest cache, as :mod:`replay.trace.half` does.
    """
    n, experts = halves.shape
    count = max(min(count, experts), 1)
    offsets, at = np.zeros(n + 1, np.int64), np.int64(0)
    room = max(n * min(experts, 2 * count + 8), experts)
    ids, out = np.empty(room, np.int32), np.empty(room, np.float32)
    work = _work_for(experts, count)
    bits = np.empty(experts, np.int32)
    wide = bits.view(np.float32)
    for row in range(n):
        for e in range(experts):
            bits[e] = (np.int32(halves[row, e]) << 13) & _KEPT
        for e in range(experts):
            wide[e] = wide[e] * _SCALE if halves[row, e] != _MASKED else np.float32(-np.inf)
        ids, out = _room_for(experts, at, ids, out)
        at += _shortlist(wide, count, reach, work, out, ids, at)
        offsets[row + 1] = at
    return offsets, ids[:at].copy(), out[:at].copy()


@kernel(_SHORTLISTS(OFFSETS, IDS, SCORES_1D))
def shortlist_sparse(offsets, experts, scores):
    """Shortlists of sparse rows: each row's entries sorted for :func:`replay.router.rule.pick`, -inf left out."""
    n = offsets.shape[0] - 1
    out_offsets = np.zeros(n + 1, np.int64)
    ids, out = np.empty(len(scores), np.int32), np.empty(len(scores), np.float32)
    widest = np.int64(0)
    for row in range(n):
        widest = max(widest, offsets[row + 1] - offsets[row])
    some, some_ids = np.empty(widest, np.float32), np.empty(widest, np.int32)
    at = np.int64(0)
    for row in range(n):
        found = np.int64(0)
        for i in range(offsets[row], offsets[row + 1]):
            if scores[i] > -np.inf:
                some[found], some_ids[found] = scores[i], experts[i]
                found += 1
        _put_in_order(some, some_ids, found, out, ids, at)
        at += found
        out_offsets[row + 1] = at
    return out_offsets, ids[:at].copy(), out[:at].copy()
