"""Picks brought in rank order by their scores, and scores that say exactly what was picked.

A model's ``topk`` breaks ties as it likes, and a softmax in low precision makes ties where the logits had none.
Stored scores are float32; where a pick loses a tie (semantics 2: the lowest id wins), its score is raised by the
smallest step that makes it win. Such rows are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TIE = 2.0**-6  # differences up to this (of scores up to 1, relative above) may be a tie of low precision


@dataclass
class Ranking:
    """Counts of rows (of a window and layer).

    Attributes
    ----------
    rows : int
        All that had scores.
    unsorted : int
        Picks that did not come in the order of their scores.
    raised : int
        A score was raised so that a pick wins its tie.
    unexplained : int
        The scores do not say what was picked; left as they are.
    """

    rows: int = 0
    unsorted: int = 0
    raised: int = 0
    unexplained: int = 0


def settle(picks: NDArray[np.int64], scores: NDArray[np.float32], counts: Ranking) -> NDArray[np.int64]:
    """Bring picks in rank order and raise scores where a pick loses a tie.

    Parameters
    ----------
    picks : int64[n, k]
        Picked experts, changed in place: descending score, then ascending id.
    scores : float32[n, E]
        Scores of the rows, changed in place.
    counts : Ranking
        Counts to add to.

    Returns
    -------
    int64[n, k]
        Where each pick stood before: brings the weights in the same order.

    Examples
    --------
    >>> picks = np.array([[2, 1]])
    >>> scores = np.array([[1.0, 1.0, 3.0]], np.float32)
    >>> settle(picks, scores, Ranking()).tolist(), scores[0].tolist()
    ([[0, 1]], [1.0, 1.0000001192092896, 3.0])
    """
    score = np.take_along_axis(scores, picks, axis=1)
    counts.rows += len(picks)
    counts.unsorted += int((score[:, 1:] > score[:, :-1]).any(axis=1).sum())
    order = np.lexsort((picks, -score), axis=1)
    picks[:] = np.take_along_axis(picks, order, axis=1)
    lowest = np.take_along_axis(score, order[:, -1:], axis=1)[:, 0]
    rest = scores.copy()
    np.put_along_axis(rest, picks, -np.inf, axis=1)
    best_id = rest.argmax(axis=1)
    best = np.take_along_axis(rest, best_id[:, None], axis=1)[:, 0]
    loses = (best > lowest) | ((best == lowest) & (best_id < picks[:, -1]))
    for row in np.flatnonzero(loses):
        if _raise(picks[row], scores[row], best[row], int(best_id[row])):
            counts.raised += 1
        else:
            counts.unexplained += 1
    return order


def _raise(picks: NDArray[np.int64], scores: NDArray[np.float32], best: np.float32, best_id: int) -> bool:
    """Raise a row's picks above ``best`` and keep their order; False, and nothing changed, where it is no tie."""
    raised = scores[picks]
    bound, bound_id = best, best_id
    for i in range(len(picks) - 1, -1, -1):
        if raised[i] < bound or (raised[i] == bound and picks[i] > bound_id):
            value = bound if picks[i] < bound_id else np.nextafter(bound, np.float32(np.inf))
            if not value - raised[i] <= _TIE * max(1.0, abs(float(raised[i]))):
                return False
            raised[i] = value
        bound, bound_id = raised[i], int(picks[i])
    scores[picks] = raised
    return True
