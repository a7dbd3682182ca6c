"""Draft retention one draft at a time, as an engine would run it (semantics 9). No numpy, no cleverness."""

import math


def kept(ps, min_p=None, append=False, schedule=(), min_cum_p=None):
    """Return (drafts kept, draft steps run) of one round."""
    guarded = bool(schedule) or bool(min_cum_p)
    product = 1.0
    count = 0
    for step, p in enumerate(ps):
        if guarded and (not math.isfinite(p) or p < 0.0 or p > 1.0):
            return count, step + 1
        product *= p
        if min_cum_p and not product >= min_cum_p:
            return count, step + 1
        floor = schedule[min(step, len(schedule) - 1)] if schedule else min_p
        if floor is not None and not p >= floor:
            return count + (1 if append else 0), step + 1
        count += 1
    return count, len(ps)


def round_cost(k, ran, verify, fixed, draft_step):
    """Return the cost of a round that keeps k drafts after running the drafter ``ran`` times."""
    if k < len(verify):
        v = verify[k]
    else:
        v = verify[-1] + (k - len(verify) + 1) * (verify[-1] - verify[-2])
    return fixed + v + draft_step * ran


def totals(rounds, policy, verify, fixed, draft_step):
    """Return (kept, committed, wasted, cost) over rounds of (ps, matched)."""
    keep = commit = waste = 0
    cost = 0.0
    for ps, matched in rounds:
        k, ran = kept(ps, **policy)
        keep += k
        commit += 1 + min(k, matched)
        waste += k - min(k, matched)
        cost += round_cost(k, ran, verify, fixed, draft_step)
    return keep, commit, waste, cost


def wanted_bytes(picks, k, sizes):
    """Return the bytes of rows 0..k of ``picks[row][layer]``, expert lists: each expert once a layer."""
    total = 0
    for layer in range(len(sizes)):
        union = set()
        for row in picks[: k + 1]:
            union |= set(row[layer])
        total += sum(sizes[layer][expert] for expert in union)
    return total


def best_ratio(rounds, verify, fixed):
    """Return the largest sum(R_k) / sum(C_k) over every choice of k; rounds are lists of A_i."""
    sums = {(0.0, 0.0)}
    for accept in rounds:
        sums = {
            (tokens + 1 + sum(accept[:k]), cost + round_cost(k, 0, verify, fixed, 0.0))
            for tokens, cost in sums
            for k in range(len(accept) + 1)
        }
    return max(tokens / cost for tokens, cost in sums)
