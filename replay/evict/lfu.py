"""``lfu``: least frequently used (semantics 5, policies.md).

Uses are counted in the cache only, from 1 for a load's own claim (0 for an expert of a recorded start); a
returning expert starts anew. Victim: the lowest count, oldest first within a count, which is the one whose
count was reached first. Buckets of equal counts (:mod:`replay.evict.bucket`; Shah, Mitra and Matani 2010)
make every step O(1).
"""

from replay.arena import OWN
from replay.evict.bucket import (
    bucket_words,
    lay_buckets,
    lowest_eligible,
    put_from_bottom,
    raise_by_one,
    take_out,
)
from replay.jit import step
from replay.policy import Policy

POLICY = Policy(
    name="lfu",
    kind="evict",
    summary="least frequently used, counted while resident",
    needs="S",
    source="textbook; libcachesim's LFU",
)

words = bucket_words


def setup(m, options):
    """No bucket is in use."""
    lay_buckets(m)


@step
def enter(m, p, s):
    """A load's own claim is its first use."""
    put_from_bottom(m, p, s, m[OWN])
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
        take_out(m, p, s)
    return s


@step
def touch(m, p, s):
    """A guess is no use."""
    return 0
