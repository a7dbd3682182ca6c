"""A trace of many short sessions of equal length, for what is counted by session."""

from __future__ import annotations

from random import Random

from .trace import SlowTrace, Window


def sessions_trace(count: int = 10, length: int = 6, seed: int = 3, drafts: int = 0) -> SlowTrace:
    """Decode windows of 1 to 1 + drafts rows over 3 layers of 12 experts, top 3, with popular experts.

    Candidates are the next layer's scores, so that read-ahead is right mostly.
    """
    rng = Random(seed)
    layers, experts, top_k = 3, 12, 3
    taste = [[rng.random() ** 3 for _ in range(experts)] for _ in range(layers)]
    keys = [(la, e) for la in range(layers) for e in range(experts)]
    windows = [Window(w // length, False, 1 + rng.randint(0, drafts)) for w in range(count * length)]
    made = SlowTrace(
        layers=layers, experts=experts, top_k=top_k, sizes=dict.fromkeys(keys, 1_000_000),
        classes=dict.fromkeys(keys, 0), windows=windows, picks={}, has_candidates=True, protect=1, bonus=0.0,
        r1_bonus=0.0, draft_moce=False,
    )  # fmt: skip
    for w, window in enumerate(windows):
        for row in range(window.rows):
            for la in range(layers):
                z = {e: round(4 * (taste[la][e] + rng.gauss(0, 0.2))) / 4 for e in range(experts)}
                made.picks[w, row, la] = sorted(z, key=lambda e, z=z: (-z[e], e))[:top_k]  # type: ignore[misc]
                made.candidates[w, row, la] = (la - 1, z)
                made.router_scores[w, row, la] = dict(z)
    return made
