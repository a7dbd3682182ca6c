"""``lru``: least recently used (semantics 4).

A load enters at the head, a claim moves to the head, the victim is the first eligible from the tail.
"""

from replay.arena import first_eligible, link_head, unlink
from replay.jit import step
from replay.policy import Policy

POLICY = Policy(
    name="lru",
    kind="evict",
    summary="least recently used",
    needs="S",
    source="textbook; Strata's default",
    environment="",
    tail=True,
)


@step
def enter(m, p, s):
    """A load, or a claimed guess, goes to the head."""
    link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit moves to the head."""
    unlink(m, s)
    link_head(m, p, s)
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
    """A guess that is already resident moves to the head (``touch=1``)."""
    unlink(m, s)
    link_head(m, p, s)
    return 1
