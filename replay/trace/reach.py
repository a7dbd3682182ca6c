"""How far sparse score rows reach: whether a policy might have looked past a row's end."""

from __future__ import annotations

import numpy as np

from replay.trace.chunk import Scores


def best_scores(scores: Scores, count: int) -> np.ndarray:
    """Take the best scores of each row.

    Parameters
    ----------
    scores : Scores
        n rows, dense or sparse.
    count : int
        How many of each.

    Returns
    -------
    numpy.ndarray of float32, [n, at most count]
        Ascending; -inf where a row has fewer.
    """
    lengths = np.diff(scores.offsets)
    width = max(int(lengths.max(initial=0)), 1)
    if (lengths == width).all():
        table = scores.scores.reshape(-1, width)
    else:
        table = np.full((len(lengths), width), -np.inf, np.float32)
        table[np.arange(width) < lengths[:, None]] = scores.scores
    if width > count:
        table = np.partition(table, width - count, axis=1)[:, width - count :]
    return np.sort(table, axis=1)


def past_end(scores: Scores, experts: int, k: int, margin: float | np.ndarray) -> np.ndarray:
    """Find the rows whose unrecorded experts might be picked.

    A row holds its experts in descending order of score as far as it goes, so what it leaves out scores no higher
    than its last. It is exact when it holds every expert, or k of them and, with a bonus, all within the bonus
    of the k-th best.

    Parameters
    ----------
    scores : Scores
        n rows.
    experts : int
        Experts of a layer.
    k : int
        Picks of the policy.
    margin : float or numpy.ndarray of float, [n]
        What residency may add to a score: max(b, r1); twice b on draft rows.

    Returns
    -------
    numpy.ndarray of bool, [n]
        False for every dense row.
    """
    lengths = np.diff(scores.offsets)
    short = lengths < experts
    if not short.any():
        return short
    best = best_scores(scores, k)
    kth = best[:, 0].astype(np.float64) if best.shape[1] == k else np.full(len(lengths), -np.inf)
    last = np.full(len(lengths), -np.inf)
    filled = np.flatnonzero(lengths)
    if len(filled):
        last[filled] = np.minimum.reduceat(scores.scores, scores.offsets[filled])
    bonus = np.broadcast_to(margin, lengths.shape)
    return short & ((lengths < k) | ((bonus > 0) & (last + bonus >= kth)))
