"""The router audit of semantics 8, one row at a time; and recordings by an engine that follows the rule, or not."""

from __future__ import annotations

import math
from dataclasses import replace

from .router import WEIGHT_FLOOR, route, route_draft, weights
from .trace import SlowTrace

TOLERANCE = 2e-7 + 2.0**-23


def engine_row(
    trace: SlowTrace, key: tuple[int, int, int], tail_defect: bool = False
) -> tuple[list[int], list[float]]:
    """Picks and weights that an engine with the trace's settings records for a row.

    With ``tail_defect`` it boosts probabilities, and forgets to divide r1 out of the tail's residents.
    """
    window, row, layer = key
    scores, resident = trace.router_scores[key] or {}, trace.residents.get((window, layer), [])
    p, b, r1 = trace.protect or 0, trace.bonus or 0.0, trace.r1_bonus or 0.0
    draft = bool(trace.draft_moce) and row > 0 and not trace.windows[window].prefill
    picks = (
        route_draft(scores, resident, trace.top_k, b)
        if draft
        else route(scores, resident, trace.top_k, p, b, r1)
    )
    right = weights(scores, picks)
    if not tail_defect or draft or not (r1 > 0 and p > 1 and b <= 0):
        return picks, right
    top = max(scores.values())
    total = math.fsum(math.exp(z - top) for z in scores.values())
    raw = [math.exp(scores[e] - top) / total for e in picks]
    left = [x * math.exp(r1) if i >= p and picks[i] in resident else x for i, x in enumerate(raw)]
    return picks, [x / max(math.fsum(left), WEIGHT_FLOOR) for x in left]


def recorded_by_engine(trace: SlowTrace, tail_defect: bool = False) -> SlowTrace:
    """The trace as an engine would have recorded it, wherever it has router scores; other picks stay."""
    made = replace(trace, picks=dict(trace.picks), weights={})
    for key, scores in trace.router_scores.items():
        if scores is not None:
            made.picks[key], made.weights[key] = engine_row(trace, key, tail_defect)
    return made


def audit_slow(trace: SlowTrace) -> dict[str, int]:
    """Rows that differ from the rule, by kind; rows without a needed resident snapshot are left out."""
    p, b, r1 = trace.protect or 0, trace.bonus or 0.0, trace.r1_bonus or 0.0
    found = dict.fromkeys(("rows", "without_residents", "short", "ids", "order", "weighed", "weights"), 0)
    for key, scores in trace.router_scores.items():
        if scores is None:
            continue
        if (b > 0 or (r1 > 0 and p > 1)) and (key[0], key[2]) not in trace.residents:
            found["without_residents"] += 1
            continue
        found["rows"] += 1
        recorded, expected = trace.picks[key], engine_row(trace, key)[0]
        found["short"] += len(recorded) < trace.top_k
        if not set(recorded) <= set(expected):
            found["ids"] += 1
        else:
            places = [expected.index(e) for e in recorded]
            found["order"] += places != sorted(places)
        given = trace.weights.get(key)
        if given and len(recorded) == trace.top_k:
            found["weighed"] += 1
            right = weights({**dict.fromkeys(recorded, -math.inf), **scores}, recorded)
            found["weights"] += any(
                abs(a - c) > TOLERANCE * max(c, 1e-30) for a, c in zip(given, right, strict=True)
            )
    return found
