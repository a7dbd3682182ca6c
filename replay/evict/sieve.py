"""``sieve`` (semantics 5; Zhang et al., NSDI 2024).

One visited bit an entry; a load enters at the head, not visited; a hit sets the bit and moves nothing. For a
victim the hand goes from the tail to the head and wraps: a visited entry has its bit cleared and stays, the
first that is not visited goes, and the hand rests at the next one.

The hand passes entries that are not eligible and leaves their bits; where none is eligible it does not move.
On traces that are cyclic in the layers the hand may never wrap, and sieve then keeps what ``lfu`` keeps:
:func:`notes` says so.
"""

import numpy as np

from replay.arena.record import PREV, eligible, link_head, unlink
from replay.declare.policy import Policy
from replay.evict.hand import BIT, EVICTED, HAND, WRAPS, before, hand_notes, place_hands
from replay.evict.plain import stay
from replay.jit import step

POLICY = Policy(
    name="sieve",
    kind="evict",
    summary="one visited bit, a hand that sifts from the tail to the head",
    needs="S",
    source="SIEVE, NSDI 2024; libcachesim's Sieve",
    by_bytes=False,
)


def setup(m, options):
    """Every hand at its tail."""
    place_hands(m)


def notes(m):
    """Say where the hand never came round: visited entries behind it were never looked at again."""
    return hand_notes(m, "sieve", "what it passed was never looked at again, as in lfu")


@step
def enter(m, p, s):
    """A load goes to the head, not visited."""
    m[s + BIT] = 0
    link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit marks the entry as visited."""
    m[s + BIT] = 1
    return 0


@step
def victim(m, p, key):
    """First eligible entry from the hand on that is not visited; bits are cleared on the way."""
    start = m[p + HAND]
    if start == p:
        start = m[p + PREV]
        if start == p:
            return -1
    wraps = m[p + WRAPS]
    s = start
    cleared = False
    while True:
        if eligible(m, s):
            if m[s + BIT] == 0:
                m[p + HAND] = before(m, p, s)
                m[p + EVICTED] += 1
                unlink(m, s)
                return s
            m[s + BIT] = 0
            cleared = True
        s = before(m, p, s)
        if s == p:
            s = m[p + PREV]
        if s == start:
            if not cleared:
                m[p + WRAPS] = wraps
                return np.int64(-1)
            cleared = False


touch = stay  # there is no recency: the bit is for hits
