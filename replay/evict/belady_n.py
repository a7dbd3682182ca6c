"""``belady-n``: only the next n windows are known (policies.md; SeqMoE 2609.12978 with a perfect predictor).

An expert's worth is the sum of ``gamma ** d`` over its uses in the next n windows, d windows ahead, rounded up:
what a probabilistic Belady expects of it when its n-step predictor is certain. The victim is the eligible
resident of the least worth, ties (and so all that no known window wants) by least recent use.

Chosen, as the source is silent: the next n windows are the n * layers events after the one that runs, so each
expert has exactly n events in sight; its uses in the event that runs (``cell=sequential``) have d = 0; worths
are sums of whole numbers of 2^-40, ``round(gamma ** d * 2^40)``, so that no order of summation matters; n is at
most 62. The search walks up from the least recent and stops at the first that is wanted in no known window.
"""

import numpy as np

from replay.arena import (
    EVENT,
    EVENT_TIMES,
    EXTRA,
    FAR,
    HORIZON,
    KEY,
    LATER,
    NEXT_USE,
    PART,
    PART_COUNT,
    PARTS,
    PREV,
    WINDOW_TIMES,
    WORK,
    eligible,
    unlink,
)
from replay.evict.lru import claim, enter, touch
from replay.jit import inline, step
from replay.policy import Option, Policy

__all__ = ["POLICY", "claim", "enter", "setup", "touch", "victim", "words"]

POLICY = Policy(
    name="belady-n",
    kind="evict",
    summary="the least wanted in the next n windows goes, discounted by gamma; lru among the unknown",
    needs="S",
    source="SeqMoE 2609.12978, its limit",
    options={
        "n": Option("int", 8, main=True, low=1, high=HORIZON),
        "gamma": Option("float", 0.9, low=0.0, high=1.0),
    },
    by_bytes=False,
    looks_ahead="later",
)

UNIT = 1 << 40
WINDOWS = WORK


def words(plan, shape, options):
    """One word for the worth of a use at each distance, 0 included.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]
    """
    return np.full(len(plan.capacity), options["n"] + 1)


def setup(m, options):
    """Write n and the worths into every part."""
    n, gamma = options["n"], options["gamma"]
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + WINDOWS] = n
        m[m[p + EXTRA] : m[p + EXTRA] + n + 1] = [round(gamma**d * UNIT) for d in range(n + 1)]


@inline
def worth(m, p, key):
    """What an expert's known uses are worth."""
    if m[key + NEXT_USE] == FAR:
        return np.int64(0)
    layers = m[WINDOW_TIMES] // m[EVENT_TIMES]
    ahead = m[key + NEXT_USE] // m[EVENT_TIMES] - (m[EVENT] - 1)
    d = (ahead + layers - 1) // layers
    n, worths = m[p + WINDOWS], m[p + EXTRA]
    if d > n:
        return np.int64(0)
    total = m[worths + d]
    bits = m[key + LATER] & ((np.int64(1) << (n - d)) - 1)
    while bits != 0:
        d += 1
        if bits & 1:
            total += m[worths + d]
        bits >>= 1
    return total


@step
def victim(m, p, key):
    """The eligible resident of the least worth, from the least recent on, taken out of the order."""
    found, least = np.int64(-1), FAR
    s = m[p + PREV]
    while s != p:
        if eligible(m, s):
            value = worth(m, p, m[s + KEY])
            if value < least:
                found, least = s, value
                if value == 0:
                    break
        s = m[s + PREV]
    if found >= 0:
        unlink(m, found)
    return found
