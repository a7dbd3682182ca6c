"""``lfu``: least frequently used (semantics 5, policies.md).

Uses are counted in the cache only, from 1 for a load's own claim (0 for an expert of a recorded start); a
returning expert starts anew. Victim: the lowest count, oldest first within a count, which is the one whose
count was reached first. Buckets of equal counts (:mod:`replay.evict.bucket`; Shah, Mitra and Matani 2010)
make every step O(1).

``lfu:keep``, a variant of BigMoeOnEdge's curves: the count outlives the eviction, a returning expert counts on.
"""

import numpy as np

from replay.arena.record import KEY, NOTE, OWN, PART, PART_COUNT, PARTS, WORK
from replay.declare.policy import Option, Policy
from replay.evict.bucket import (
    HOLDER,
    WORTH,
    bucket_words,
    lay_buckets,
    lowest_eligible,
    put_from_bottom,
    raise_by_one,
    take_out,
)
from replay.evict.plain import stay
from replay.jit import step

POLICY = Policy(
    name="lfu",
    kind="evict",
    summary="least frequently used, counted while resident",
    needs="S",
    source="textbook; libcachesim's LFU",
    options={"keep": Option("flag", False)},
)

KEEP = WORK + 2

words = bucket_words


def setup(m, options):
    """No bucket is in use; write whether counts are kept."""
    lay_buckets(m)
    m[m[PARTS] + PART * np.arange(m[PART_COUNT]) + KEEP] = int(options["keep"])


@step
def enter(m, p, s):
    """A load's own claim is its first use, or one more with ``keep``."""
    past = m[m[s + KEY] + NOTE] if m[p + KEEP] else 0
    put_from_bottom(m, p, s, m[OWN] + past)
    return 0


@step
def claim(m, p, s):
    """A hit counts one more."""
    raise_by_one(m, p, s)
    return 0


@step
def victim(m, p, key):
    """First eligible entry of the lowest count, oldest first."""
    s = lowest_eligible(m, p)
    if s >= 0:
        if m[p + KEEP]:
            m[m[s + KEY] + NOTE] = m[m[s + HOLDER] + WORTH]
        take_out(m, p, s)
    return s


touch = stay  # a guess is no use
