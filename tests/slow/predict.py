"""Read-ahead of semantics 3: which predictions a window holds, and the list each of them walks."""

from __future__ import annotations

from collections.abc import Collection

from .router import route
from .spec import Ranking
from .trace import SlowTrace


def groups(trace: SlowTrace, window: int, rows: int, oracle: bool) -> dict[int, list[tuple[int, list[int]]]]:
    """Predictions of one decode window, by the layer after which they are acted on.

    Rows that draft retention dropped are ignored, and with them a group that has no other row. The oracle of
    a trace without the candidates table acts after layer l-1 for l >= 1; under a table, a window or layer
    that it does not cover has no prediction, the oracle's included.

    Returns
    -------
    dict of issued_after to its (target layer, rows of the group), ascending target.
    """
    found: dict[int, list[tuple[int, list[int]]]] = {}
    if oracle and not trace.has_candidates:
        return {layer - 1: [(layer, list(range(rows)))] for layer in range(1, trace.layers)}
    for target in range(trace.layers):
        by_moment: dict[int, list[int]] = {}
        for row in range(rows):
            entry = trace.candidates.get((window, row, target))
            if entry is not None:
                by_moment.setdefault(entry[0], []).append(row)
        for moment, members in by_moment.items():
            assert -1 <= moment < target
            found.setdefault(moment, []).append((target, members))
    return found


def merged(
    trace: SlowTrace, window: int, target: int, rows: list[int], resident: Collection[int], how: Ranking
) -> list[int]:
    """Rank every row alike and merge: an expert's place is its lowest rank, then highest raw score, then id.

    Each expert's score is that of the row that gave it its lowest rank (the highest of several such rows).
    """
    place: dict[int, tuple[int, float]] = {}
    for row in rows:
        scores = trace.candidates[window, row, target][1]
        picks = route(scores, resident, how.count, how.protect, how.bonus, how.r1_bonus)
        for rank, expert in enumerate(picks):
            mine = (rank, -scores[expert])
            place[expert] = min(place.get(expert, mine), mine)
    return sorted(place, key=lambda e: (*place[e], e))
