"""The router of semantics 2, one pick at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

WEIGHT_FLOOR = 2.0**-14


def route(
    scores: Mapping[int, float],
    resident: Collection[int],
    count: int,
    protect: int,
    bonus: float,
    r1_bonus: float = 0.0,
) -> list[int]:
    """Pick `count` experts in rank order (semantics 2).

    A row with fewer than `count` experts above -inf gives fewer picks.

    Parameters
    ----------
    scores
        Score of each expert; experts that are not named are never picked.
    resident
        Published residents of the layer.
    count, protect, bonus, r1_bonus
        Picks asked for, `p`, `b` and `r1`.

    Examples
    --------
    >>> route({e: -0.1 * e for e in range(20)}, range(6, 20), 10, 3, 0.85)
    [0, 1, 2, 6, 7, 8, 9, 10, 11, 3]
    """
    open_experts = {e: float(z) for e, z in scores.items() if z != -math.inf}
    uses_r1 = r1_bonus > 0 and protect > 1
    picks: list[int] = []
    while len(picks) < count and open_experts:
        rank = len(picks)
        if rank < protect:
            boost = r1_bonus if uses_r1 and rank >= 1 else 0.0
        elif bonus > 0:
            boost = bonus
        else:
            boost = r1_bonus if uses_r1 else 0.0
        best = max(open_experts, key=lambda e: (open_experts[e] + boost * (e in resident), -e))
        picks.append(best)
        del open_experts[best]
    return picks


def route_draft(
    scores: Mapping[int, float], resident: Collection[int], count: int, bonus: float
) -> list[int]:
    """Pick for a draft row under `draft_moce`: twice the bonus, one protected rank, no r1 (semantics 2)."""
    return route(scores, resident, count, 1, 2 * bonus, 0.0)


def weights(scores: Mapping[int, float], picks: Collection[int]) -> list[float]:
    """Unboosted softmax probabilities of the picks, renormalised, the sum floored at 2^-14."""
    if not picks:
        return []
    top = max(scores.values())
    exps = {e: math.exp(z - top) for e, z in scores.items()}
    total = math.fsum(exps.values())
    chosen = [exps[e] / total for e in picks]
    floor = max(math.fsum(chosen), WEIGHT_FLOOR)
    return [c / floor for c in chosen]
