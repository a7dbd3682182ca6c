"""What came of every candidate (policies.md), one prediction at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from .predict import groups, merged
from .router import route
from .spec import Ranking
from .trace import SlowTrace

RECENT = 8


def boost(rank: int, how: Ranking) -> float:
    """What residency adds to a score at a rank (semantics 2)."""
    early = how.r1_bonus if how.r1_bonus > 0 and how.protect > 1 else 0.0
    if rank < how.protect:
        return early if rank >= 1 else 0.0
    return how.bonus if how.bonus > 0 else early


def adjusted(
    rank: int, scores: Mapping[int, float], picks: list[int], held: Collection[int], how: Ranking
) -> float:
    """A pick's score with what residency adds at its rank."""
    expert = picks[rank]
    return scores[expert] + (boost(rank, how) if expert in held else 0.0)


def place_of(
    expert: int, rows: Mapping[int, Mapping[int, float]], picks: Mapping[int, list[int]]
) -> tuple[int, int]:
    """The row that gave an expert its merged place, and its rank there: lowest rank, then highest raw score."""
    own = [(picks[row].index(expert), -rows[row][expert], row) for row in rows if expert in picks[row]]
    rank, _, row = min(own)
    return row, rank


def labels(
    trace: SlowTrace, how: Ranking, residents: Mapping[tuple[int, int], Collection[int]]
) -> list[dict[str, Any]]:
    """Examples of all decode windows whose residents are known."""
    found: list[dict[str, Any]] = []
    history: dict[int, list[tuple[int, int]]] = {}
    wide = Ranking(max(how.count, trace.top_k), how.protect, how.bonus, how.r1_bonus)
    for w, window in enumerate(trace.windows):
        if window.prefill:
            continue
        for _, predictions in sorted(groups(trace, w, window.rows, False).items()):
            for target, members in predictions:
                if (w, target) not in residents:
                    continue
                held = residents[w, target]
                union = {e for row in range(window.rows) for e in trace.picks[w, row, target]}
                rows = {row: trace.candidates[w, row, target][1] for row in members}
                picks = {
                    row: route(rows[row], held, wide.count, wide.protect, wide.bonus, wide.r1_bonus)
                    for row in rows
                }
                listed = {row: each[: how.count] for row, each in picks.items()}
                past = history.setdefault(target, [])
                asked, right = (sum(each[i] for each in past[-RECENT:]) for i in (0, 1))
                queue, mine = 0, []
                for expert in merged(trace, w, target, members, held, how):
                    row, rank = place_of(expert, rows, listed)
                    scores = {e: z for e, z in rows[row].items() if z != -math.inf}

                    order = sorted(scores, key=lambda e, scores=scores: (-scores[e], e))  # type: ignore[misc]
                    top = max(scores.values())
                    mine.append(
                        {
                            "session": window.session,
                            "layer": target,
                            "expert": expert,
                            "rank": rank,
                            "raw_rank": order.index(expert),
                            "margin": adjusted(rank, rows[row], picks[row], held, wide)
                            - adjusted(
                                min(trace.top_k, len(picks[row])) - 1, rows[row], picks[row], held, wide
                            ),
                            "rows": len(members),
                            "resident": expert in held,
                            "queue": queue,
                            "precision": right / asked if asked else 0.5,
                            "softmax": math.exp(scores[expert] - top)
                            / math.fsum(math.exp(z - top) for z in scores.values()),
                            "selected": expert in union,
                            "wanted": len(union),
                        }
                    )
                    queue += expert not in held
                found += mine
                if mine:
                    early = [each["selected"] for each in mine if each["rank"] < trace.top_k]
                    past.append((len(early), sum(early)))
    return found
