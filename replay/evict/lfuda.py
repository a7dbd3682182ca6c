"""``lfuda``: least frequently used with dynamic aging, by bigrig's rule (policies.md).

An expert's key is L + min(count, ``cap``), fixed at its last use; the victim has the lowest key, ties by the
oldest use. An eviction raises L to the victim's key where that is higher and halves the victim's count
(rounded down), which is kept: an expert that returns counts on from there. A load's own claim is a use; an
expert of a recorded start enters with key L + min(kept count, cap) without one. L belongs to a part.

Uses lie in buckets of equal keys (:mod:`replay.evict.bucket`): at most ``cap`` of them above L, so that every
step is O(cap).
"""

import numpy as np

from replay.arena.record import GHOST, KEY, OWN, PART, PART_COUNT, PARTS, WORK, B
from replay.declare.policy import Option, Policy
from replay.evict.bucket import (
    HOLDER,
    WORTH,
    bucket_words,
    lay_buckets,
    lowest_eligible,
    put_from_bottom,
    put_from_top,
    take_out,
)
from replay.evict.plain import stay
from replay.jit import step

POLICY = Policy(
    name="lfuda",
    kind="evict",
    summary="least frequently used with aging; counts survive an eviction, halved",
    options={"cap": Option("int", 12, low=1, high=1000)},
    needs="S",
    source="bigrig, a public engine; after Arlitt and others, 2000",
)

COUNT = B
AGE, CAP = WORK + 2, WORK + 3

words = bucket_words


def setup(m, options):
    """No bucket is in use; write the cap into every part."""
    lay_buckets(m)
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + CAP] = options["cap"]


@step
def enter(m, p, s):
    """A load counts on from what was kept."""
    count = m[m[s + KEY] + GHOST] + m[OWN]
    m[s + COUNT] = count
    put_from_bottom(m, p, s, m[p + AGE] + min(count, m[p + CAP]))
    return 0


@step
def claim(m, p, s):
    """A hit counts one more and is anchored anew."""
    count = m[s + COUNT] + 1
    m[s + COUNT] = count
    take_out(m, p, s)
    put_from_top(m, p, s, m[p + AGE] + min(count, m[p + CAP]))
    return 0


@step
def victim(m, p, key):
    """Lowest key, oldest use first; its count is halved and kept, and L rises to its key."""
    s = lowest_eligible(m, p)
    if s >= 0:
        m[p + AGE] = max(m[p + AGE], m[m[s + HOLDER] + WORTH])
        m[m[s + KEY] + GHOST] = m[s + COUNT] // 2
        take_out(m, p, s)
    return s


touch = stay  # a guess is no use
