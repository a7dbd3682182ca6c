"""``clock``: second chance (semantics 5; Corbato 1968, as the queue with reinsertion that it equals).

One bit an entry; a load enters with bit 0 right behind the hand, a hit sets it. For a victim the hand goes
round: an entry with its bit set has it cleared and is passed (which is its reinsertion at the head of the
queue), the first entry with bit 0 goes.

An entry that is not eligible stays at the front of the queue with its bit, as semantics 5 asks of queues:
the hand stops at the first such entry, and those behind it that lose their bit meanwhile are moved behind
the hand.
"""

import numpy as np

from replay.arena.record import PREV, eligible, link_after, unlink
from replay.declare.policy import Policy
from replay.evict.hand import BIT, EVICTED, HAND, before, hand_notes, place_hands
from replay.evict.plain import stay
from replay.jit import inline, step

POLICY = Policy(
    name="clock",
    kind="evict",
    summary="second chance: one bit, a hand",
    needs="S",
    source="Corbato 1968; libcachesim's Clock",
    by_bytes=False,
)


def setup(m, options):
    """Every hand at its tail."""
    place_hands(m)


def notes(m):
    """Say where the hand never came round: no entry got a second look."""
    return hand_notes(m, "clock", "no expert was looked at twice")


@step
def enter(m, p, s):
    """A load goes right behind the hand, its bit 0."""
    m[s + BIT] = 0
    link_after(m, m[p + HAND], s)
    return 0


@step
def claim(m, p, s):
    """A hit sets the bit."""
    m[s + BIT] = 1
    return 0


@inline
def _next(m, p, s):
    """The entry after ``s``, round and round."""
    s = m[s + PREV]
    return m[p + PREV] if s == p else s


@inline
def _behind(m, p, front):
    """Victim past an entry that is not eligible and keeps its place at the front of the queue; or -1."""
    s = _next(m, p, front)
    while s != front:
        after = _next(m, p, s)
        if eligible(m, s):
            if m[s + BIT] == 0 or after == front:
                return s
            m[s + BIT] = 0
            unlink(m, s)
            link_after(m, front, s)
        s = after
    return np.int64(-1)


@step
def victim(m, p, key):
    """First eligible entry with bit 0 from the hand on; bits are cleared on the way."""
    s = m[p + HAND]
    if s == p:
        s = m[p + PREV]
        if s == p:
            return -1
    while eligible(m, s):
        if m[s + BIT] == 0:
            m[p + HAND] = before(m, p, s)
            m[p + EVICTED] += 1
            unlink(m, s)
            return s
        m[s + BIT] = 0
        s = before(m, p, s)
        if s == p:
            s = m[p + PREV]
    m[p + HAND] = s
    found = _behind(m, p, s)
    if found >= 0:
        m[p + EVICTED] += 1
        unlink(m, found)
    return found


touch = stay  # there is no recency: the bit is for hits
