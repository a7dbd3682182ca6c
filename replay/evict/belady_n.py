"""``belady-n``: only the next n windows are known (policies.md; SeqMoE 2609.12978 with a perfect predictor).

An expert's worth is the sum of ``gamma ** d`` over its uses in the next n windows, d windows ahead, rounded up:
what a probabilistic Belady expects of it when its n-step predictor is certain. (Up to gamma = 1/2 the nearest use
decides, as in Belady's rule; beyond it several later uses can outweigh a near one.) The victim is the eligible
resident of the least worth, ties (and so all that no known window wants) by least recent use.

Chosen, as the source is silent: the next n windows are the n * layers events after the one that runs, so each
expert has exactly n events in sight; its uses in the event that runs (``cell=sequential``) have d = 0, and several
lookups of one event are one use; worths are sums of whole numbers of 2^-40, ``round(gamma ** d * 2^40)``, so that
no order of summation matters; n is at most 62. The search walks up from the least recent and stops at the first
that is wanted in no known window.
"""

import numpy as np

from replay.arena.record import (
    EVENT,
    EVENT_TIMES,
    EXTRA,
    FAR,
    HORIZON,
    KEY,
    LATER,
    LAYER,
    NEXT_USE,
    PART,
    PART_COUNT,
    PARTS,
    PREV,
    WINDOW_TIMES,
    WORK,
    A,
    B,
    eligible,
    link_head,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.evict.plain import move_to_head
from replay.evict.plain import to_head as touch
from replay.jit import inline, step

__all__ = ["POLICY", "claim", "enter", "setup", "touch", "victim", "words"]

POLICY = Policy(
    name="belady-n",
    kind="evict",
    summary="the least wanted in the next n windows goes, discounted by gamma; lru among the unknown",
    needs="S",
    source="SeqMoE, arXiv 2609.12978: its limit",
    options={
        "n": Option("int", 8, main=True, low=1, high=HORIZON),
        "gamma": Option("float", 0.9, low=0.0, high=1.0),
    },
    by_bytes=False,
    looks_ahead="later",
)

UNIT = 1 << 40
WINDOWS = WORK
NEXT_WINDOW, USES_AFTER = A, B
WHOLE = 10  # n up to which the worth of every pattern of uses is written down


def words(plan, shape, options):
    """Words for the worths: of each pattern of uses in sight, or (a large n) of a use at each distance.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]
    """
    n = options["n"]
    return np.full(len(plan.capacity), 2 << n if n <= WHOLE else n + 1)


def setup(m, options):
    """Write n and the worths into every part."""
    n, gamma = options["n"], options["gamma"]
    single = np.array([round(gamma**d * UNIT) for d in range(n + 1)], np.int64)
    table = single
    if n <= WHOLE:
        table = np.zeros(2 << n, np.int64)
        for d in range(n + 1):
            bits = np.arange(1 << (n - d))
            held = (bits[:, None] >> np.arange(n - d)) & 1
            table[(1 << (n - d)) + bits] = single[d] + held @ single[d + 1 :]
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + WINDOWS] = n
        m[m[p + EXTRA] : m[p + EXTRA] + len(table)] = table


@inline
def note_uses(m, s):
    """Write a slot's next window and the uses after it, as they are known now."""
    key = m[s + KEY]
    following = m[key + NEXT_USE]
    m[s + NEXT_WINDOW] = FAR if following == FAR else following // m[WINDOW_TIMES]
    m[s + USES_AFTER] = m[key + LATER]


@inline
def worth(n, worths, m, d, bits):
    """What uses in sight are worth: one d windows ahead, and those after it."""
    bits &= (np.int64(1) << (n - d)) - 1
    if n <= WHOLE:
        return m[worths + (np.int64(1) << (n - d)) + bits]
    total = m[worths + d]
    while bits != 0:
        d += 1
        if bits & 1:
            total += m[worths + d]
        bits >>= 1
    return total


@step
def enter(m, p, s):
    """A load, or a claimed guess, goes to the head."""
    note_uses(m, s)
    link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit moves to the head."""
    note_uses(m, s)
    move_to_head(m, p, s)
    return 0


@step
def victim(m, p, key):
    """The eligible resident of the least worth, from the least recent on, taken out of the order."""
    layers = m[WINDOW_TIMES] // m[EVENT_TIMES]
    window, layer = (m[EVENT] - 1) // layers, (m[EVENT] - 1) % layers
    n, worths = m[p + WINDOWS], m[p + EXTRA]
    found, least = np.int64(-1), FAR
    s = m[p + PREV]
    while s != p:
        if eligible(m, s):
            d = m[s + NEXT_WINDOW] - window + (m[s + LAYER] > layer)
            value = np.int64(0) if d > n else worth(n, worths, m, d, m[s + USES_AFTER])
            if value < least:
                found, least = s, value
                if value == 0:
                    break
        s = m[s + PREV]
    if found >= 0:
        unlink(m, found)
    return found
