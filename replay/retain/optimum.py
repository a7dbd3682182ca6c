"""The offline optimum of draft retention under a stated acceptance model (semantics 9, ``best``)."""

import numpy as np

from replay.retain.cost import Cost
from replay.retain.rounds import Floats, Ints


def best(accept: Floats, limit: Ints, cost: Cost) -> Ints:
    """Find the offline optimum of the ratio of sums under an acceptance model.

    Dinkelbach's method (Management Science 13, 1967): for a rate x keep in each round the k with the largest
    ``R_k - x C_k`` (the smallest such k), then set x to the ratio this gives, until it no longer grows.

    Parameters
    ----------
    accept : float64[rounds, steps]
        Acceptance A_i of each draft: the confidence, or the matched prefix (hindsight).
    limit : int64[rounds]
        Most drafts that a round can keep.
    cost : Cost
        The cost model; ``draft_step`` is paid for the kept drafts.

    Returns
    -------
    int64[rounds]
        Drafts kept.
    """
    steps = accept.shape[1]
    reward = np.concatenate([np.ones((len(accept), 1)), 1.0 + np.cumsum(accept, axis=1)], axis=1)
    price = cost.by_kept(steps) + cost.draft_step * np.arange(steps + 1)
    possible = np.arange(steps + 1) <= limit[:, None]
    each, kept, rate = np.arange(len(accept)), np.zeros(len(accept), np.int64), 0.0
    while len(accept):
        better = np.where(possible, reward - rate * price, -np.inf).argmax(axis=1)
        reached = float(reward[each, better].sum() / price[better].sum())
        if reached <= rate:
            break
        kept, rate = better, reached
    return kept
