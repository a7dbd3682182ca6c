"""The router's rule over recorded rows (semantics 2): picks and weights computed again and held to the record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import inline, kernel
from replay.router.rule import WEIGHT_FLOOR, pick

IDS, ORDER, WEIGHTS, TAIL, SHORT, WEIGHED = 1, 2, 4, 8, 16, 32
"""Flags of a row: what differs; ``TAIL``: its weights are those with r1 left in the tail's residents;
``SHORT``: fewer picks than top_k are recorded; ``WEIGHED``: its weights were compared."""

TAIL_SLACK = 1e-4
"""How far, relatively, weights may be from those of the tail defect and still count as it."""


class Record(NamedTuple):
    """What is recorded of n score rows.

    Attributes
    ----------
    list : int64[n]
        Each row's list of picks.
    draft : uint8[n]
        Whether it is routed as a draft row under ``draft_moce``.
    snapshot : int64[n]
        Each row's list of residents, -1 where no snapshot is needed.
    raw_offsets, raw_ids, raw_scores : int64[n + 1], int32[m] or int32[0], float32[m]
        Scores as recorded; no ids: dense.
    pick_offsets, picks, weights : int64, int32, float32
        Recorded picks and their weights (no weights: not recorded).
    resident_offsets, residents : int64, int32
    """

    list: NDArray[np.int64]
    draft: NDArray[np.uint8]
    snapshot: NDArray[np.int64]
    raw_offsets: NDArray[np.int64]
    raw_ids: NDArray[np.int32]
    raw_scores: NDArray[np.float32]
    pick_offsets: NDArray[np.int64]
    picks: NDArray[np.int32]
    weights: NDArray[np.float32]
    resident_offsets: NDArray[np.int64]
    residents: NDArray[np.int32]


_I64, _I32, _F32, _U8 = (
    types.Array(t, 1, "C") for t in (types.int64, types.int32, types.float32, types.uint8)
)
_F64, _TABLE = types.Array(types.float64, 1, "C"), types.Array(types.int64, 2, "C")
RECORD = types.NamedTuple((_I64, _U8, _I64, _I64, _I32, _F32, _I64, _I32, _F32, _I64, _I32), Record)


@inline
def compare_picks(picks, low, high, out, got, top_k, place):
    """Flags of one row's picks; ``place`` is -1 for every expert before and after."""
    flags = 0
    recorded = high - low
    if recorded < top_k:
        flags |= SHORT
    if recorded > got:
        flags |= IDS
    for i in range(got):
        place[out[i]] = i
    before = np.int64(-1)
    for i in range(low, high):
        at = place[picks[i]]
        if at < 0:
            flags |= IDS
        elif at <= before or (recorded == got and at != i - low):
            flags |= ORDER
        before = max(before, at)
    for i in range(got):
        place[out[i]] = -1
    return flags & ~ORDER if flags & IDS else flags


@inline
def compare_weights(record, row, low, high, z, tolerance, stamp, mark, protect, late):
    """Flags of one row's weights, and the largest relative difference.

    ``z`` holds the score of every expert, ``mark`` the row's residents (``stamp``).
    """
    best = -np.inf
    for i in range(record.raw_offsets[row], record.raw_offsets[row + 1]):
        best = max(best, np.float64(record.raw_scores[i]))
    if best == -np.inf:
        return 0, np.nan
    total = 0.0
    for i in range(record.raw_offsets[row], record.raw_offsets[row + 1]):
        total += np.exp(np.float64(record.raw_scores[i]) - best)
    chosen = 0.0
    for i in range(low, high):
        chosen += np.exp(z[record.picks[i]] - best) / total
    chosen = max(chosen, WEIGHT_FLOOR)
    worst = 0.0
    base = np.nan
    tail = late > 0.0
    boosted = 0
    for i in range(low, high):
        weight = np.float64(record.weights[i])
        expected = np.exp(z[record.picks[i]] - best) / total / chosen
        worst = max(worst, abs(weight - expected) / max(expected, 1e-30))
        ratio = weight / max(expected, 1e-30)
        if i - low >= protect and mark[record.picks[i]] == stamp:
            ratio /= np.exp(late)
            boosted += 1
        if i == low:
            base = ratio
        if abs(ratio - base) > TAIL_SLACK * base:
            tail = False
    flags = WEIGHED
    if worst > tolerance:
        flags |= WEIGHTS
        if tail and boosted > 0:
            flags |= TAIL
    return flags, worst


@kernel(
    types.void(
        RECORD, _I64, _I32, _F32, types.int64, types.int64, types.int64, types.float64, types.float64,
        types.float64, _U8, _F64, _TABLE,
    )
)  # fmt: skip
def again(record, offsets, ids, scores, experts, top_k, protect, bonus, rank1, tolerance, flags, worst, made):
    """Route every row again and compare.

    Parameters
    ----------
    record : Record
    offsets, ids, scores : int64[n + 1], int32[m], float32[m]
        Shortlists, sorted for :func:`replay.router.rule.pick`.
    experts, top_k, protect, bonus, rank1
        The model and the router's settings.
    tolerance : float
        Largest relative difference of a weight.
    flags : uint8[n]
        Receives what differs.
    worst : float64[n]
        Receives the largest relative difference of a row's weights.
    made : int64[n, top_k]
        Receives the picks; -1 where no score is left.
    """
    held, taken = np.zeros(experts, np.uint8), np.zeros(experts, np.uint8)
    place, mark = np.full(experts, -1, np.int64), np.full(experts, -1, np.int64)
    z = np.full(experts, -np.inf)
    positions = np.empty(max(top_k, 1), np.int64)
    for row in range(record.list.shape[0]):
        if record.snapshot[row] >= 0:
            s = record.snapshot[row]
            for i in range(record.resident_offsets[s], record.resident_offsets[s + 1]):
                mark[record.residents[i]] = row
        low, high = offsets[row], offsets[row + 1]
        for i in range(low, high):
            held[i - low] = mark[ids[i]] == row
        p, b, r1 = protect, bonus, rank1
        if record.draft[row]:
            p, b, r1 = np.int64(1), 2.0 * bonus, 0.0
        got = pick(scores, ids, low, high, held, taken, top_k, p, b, r1, positions)
        for i in range(got):
            made[row, i] = ids[positions[i]]
        first, last = record.pick_offsets[record.list[row]], record.pick_offsets[record.list[row] + 1]
        found = compare_picks(record.picks, first, last, made[row], got, top_k, place)
        worst[row] = np.nan
        if record.weights.shape[0] > 0 and last - first == top_k and not np.isnan(record.weights[first]):
            start, stop = record.raw_offsets[row], record.raw_offsets[row + 1]
            for i in range(start, stop):
                z[record.raw_ids[i] if record.raw_ids.shape[0] > 0 else i - start] = record.raw_scores[i]
            late = r1 if r1 > 0.0 and p > 1 and b <= 0.0 else 0.0
            more, worst[row] = compare_weights(record, row, first, last, z, tolerance, row, mark, p, late)
            found |= more
            z[:] = -np.inf
        flags[row] = found
