"""``fifo``: first in, first out (semantics 5).

A load enters at the head, a hit changes nothing, the victim is the first eligible from the tail.
"""

from replay.arena import first_eligible, link_head, unlink
from replay.jit import step
from replay.policy import Policy

POLICY = Policy(
    name="fifo",
    kind="evict",
    summary="first in, first out",
    needs="S",
    source="textbook; libcachesim's FIFO",
    tail=True,
)


@step
def enter(m, p, s):
    """A load, or a claimed guess, goes to the head."""
    link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit changes nothing."""
    return 0


@step
def victim(m, p, key):
    """First eligible from the tail, taken out of the order."""
    s = first_eligible(m, p)
    if s >= 0:
        unlink(m, s)
    return s


@step
def touch(m, p, s):
    """There is no recency: nothing moves."""
    return 0
