"""The router's rule (semantics 2): which experts a row picks, and with what weights.

One kernel, :func:`pick`, serves selection (rerouted routes, audits) and read-ahead ranking (semantics 3).
It works on a *shortlist*: the row's candidates sorted by descending score, ties by ascending id. A
shortlist that holds every expert whose boosted score reaches the K-th best raw score is exact (see
:mod:`replay.router.shortlist`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.jit import inline
from replay.router.shortlist import shortlist_dense

WEIGHT_FLOOR = 2.0**-14


@inline
def pick(scores, ids, low, high, resident, taken, count, protect, bonus, rank1, out):
    """Pick up to ``count`` experts of one row from its shortlist ``[low, high)``.

    Ranks 0 .. protect-1 take the best raw score (ranks 1.. boosted by ``rank1`` where rank1 > 0 and
    protect > 1); later ranks the best score boosted by ``bonus`` for residents, or by ``rank1`` where
    bonus <= 0. Sums are in double, ties go to the lowest id.

    Parameters
    ----------
    scores, ids : float32[m], int32[m]
        Shortlists of many rows: descending score, then ascending id.
    resident : uint8[n]
        Whether entry ``low + i`` is resident; read only where a boost may apply.
    taken : uint8[n]
        Work space.
    out : int64[count]
        Receives the picked positions (indices into ``scores``), in rank order.

    Returns
    -------
    int
        Picks made: fewer than ``count`` where the shortlist is shorter.
    """
    n = high - low
    count = min(count, n)
    late = rank1 if rank1 > 0.0 and protect > 1 else 0.0
    boost = bonus if bonus > 0.0 else late
    if late == 0.0 and (boost == 0.0 or protect >= count):
        for i in range(count):
            out[i] = low + i
        return count
    for i in range(n):
        taken[i] = 0
    first, held = np.int64(0), np.int64(0)  # the best left, and the best resident left
    for rank in range(count):
        extra = (late if rank > 0 else 0.0) if rank < protect else boost
        while taken[first]:
            first += 1
        best = first
        if extra > 0.0:
            while held < n and (taken[held] or not resident[held]):
                held += 1
            best_score = np.float64(scores[low + first]) + (extra if held == first else 0.0)
            for i in range(max(held, first + 1), n):
                score = np.float64(scores[low + i]) + extra
                if score < best_score:
                    break
                if resident[i] and not taken[i] and (score > best_score or ids[low + i] < ids[low + best]):
                    best, best_score = np.int64(i), score
        taken[best] = 1
        out[rank] = low + best
    return count


def route(
    scores: NDArray[np.floating],
    resident: NDArray[np.bool_],
    count: int,
    protect: int = 0,
    bonus: float = 0.0,
    rank1: float = 0.0,
    draft: bool = False,
) -> NDArray[np.int64]:
    """Experts that the router picks for each row (semantics 2).

    Parameters
    ----------
    scores : float[n, E]
        Router scores before any bonus.
    resident : bool[n, E]
        Published residents just before routing.
    count : int
        Picks of each row.
    protect, bonus, rank1 : int, float, float
        Protected width p, resident bonus b, rank-1 bonus r1.
    draft : bool
        Rows are draft rows under ``draft_moce``: 2b, p = 1, r1 ignored.

    Returns
    -------
    int64[n, count]
        Expert ids in rank order; -1 where no finite score is left.

    Examples
    --------
    >>> z = -0.1 * np.arange(512)[None, :]
    >>> held = np.zeros((1, 512), bool)
    >>> held[0, 6:20] = True
    >>> route(z, held, 10, protect=3, bonus=0.85)[0].tolist()
    [0, 1, 2, 6, 7, 8, 9, 10, 11, 3]
    """
    from replay.router.rows import pick_rows  # compiled only where rows are routed outside the event loop

    if draft:
        protect, bonus, rank1 = 1, 2 * bonus, 0.0
    dense = np.ascontiguousarray(scores, np.float32)
    offsets, ids, short = shortlist_dense(dense, count, max(bonus, rank1, 0.0))
    flags = np.ascontiguousarray(resident, np.uint8)
    return pick_rows(offsets, ids, short, flags, count, protect, float(bonus), float(rank1))


def weights(scores: NDArray[np.floating], picks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights of picked experts: unboosted softmax, renormalised over the chosen set (semantics 2).

    Parameters
    ----------
    scores : float[n, E]
        Router scores before any bonus.
    picks : int64[n, k]
        Chosen experts; -1 gets weight 0.

    Returns
    -------
    float64[n, k]
        The sum over the chosen set is floored at 2^-14 before the division.
    """
    z = np.asarray(scores, np.float64)
    exp = np.exp(z - z.max(axis=1, keepdims=True))
    probability = exp / exp.sum(axis=1, keepdims=True)
    chosen = np.take_along_axis(probability, np.maximum(picks, 0), axis=1) * (picks >= 0)
    return chosen / np.maximum(chosen.sum(axis=1, keepdims=True), WEIGHT_FLOOR)
