"""The plain steps: enter at the head, move to the head or stay, leave from the tail.

A policy whose step is one of these (``enter = at_head``) has it taken by the event loop itself, without a call, which
made LRU a sixth faster.
"""

from typing import Any

from replay.arena.record import first_eligible, link_head, unlink
from replay.jit import inline, step

ENTER, MOVE, STAY, VICTIM = 1, 2, 4, 8
"""Bits of ``INSIDE``: which steps the event loop takes itself."""


@inline
def move_to_head(m, p, s):
    """Move a slot to the head of the main list."""
    unlink(m, s)
    link_head(m, p, s)


@inline
def tail_victim(m, p):
    """Take the first eligible slot from the tail out of the main list; -1 where there is none."""
    s = first_eligible(m, p)
    if s >= 0:
        unlink(m, s)
    return s


@step
def at_head(m, p, s):
    """A load, or a claimed guess, goes to the head."""
    link_head(m, p, s)
    return 0


@step
def to_head(m, p, s):
    """A hit moves to the head; as a touch it made the slot more recent."""
    move_to_head(m, p, s)
    return 1


@step
def stay(m, p, s):
    """A hit, or a guess that is already resident, moves nothing."""
    return 0


@step
def from_tail(m, p, key):
    """The victim is the first eligible from the tail, taken out of the order."""
    return tail_victim(m, p)


def taken_inside(enter: Any, claim: Any, victim: Any) -> int:
    """Which of a policy's steps are plain ones, as bits."""
    claims = MOVE * (claim is to_head) + STAY * (claim is stay)
    return ENTER * (enter is at_head) + claims + VICTIM * (victim is from_tail)
