"""``arc``: adaptive replacement cache (Megiddo and Modha, FAST 2003).

T1 holds experts seen once, T2 those seen again, both least recently used first; B1 and B2 remember as ghosts
what left them. A load goes to the head of T1, a load whose ghost is known and every hit to the head of T2. The
victim is T1's tail where T1 is longer than its target p (or as long, for a load whose ghost is in B2), else T2's.
A ghost in B1 raises p by max(|B2| / |B1|, 1), one in B2 lowers it by max(|B1| / |B2|, 1); p starts at 0, is
real-valued and stays within 0 and c. |T1| + |B1| <= c, and the four together hold at most 2c.

Chosen where the paper is silent:

- p moves once for each load, when its miss asks for a victim or, where a slot was free (or a guess took it),
  when it enters.
- Ghosts beyond the bounds are dropped when a load enters, not before its victim goes: the same lists follow, and
  a victim taken for a guess, whose expert is not known yet, needs no rule of its own.
- T1 or T2 with nobody eligible yields to the other; an expert's ghost joins the list of the queue that it left.
- ``touch`` moves a resident guess to the head of the list where it is: it is no second use.
"""

import numpy as np

from replay.arena.record import (
    CAPACITY,
    GHOST,
    KEY,
    LISTS,
    NOTE,
    PREV,
    WORK,
    A,
    first_eligible,
    link_head,
    unlink,
)
from replay.declare.policy import Policy
from replay.evict.queues import parts
from replay.jit import inline, step

POLICY = Policy(
    name="arc",
    kind="evict",
    summary="adaptive replacement: recency and frequency balanced by ghosts",
    needs="S",
    source="Megiddo and Modha, FAST 2003",
    by_bytes=False,
)

# A slot's LIST: 1 in T1, 2 in T2. A key's GHOST: 1 in B1, 2 in B2; its NOTE: the same, while its miss is in progress.
LIST = A
T1, T2, B1, B2 = 0, LISTS, LISTS + 2, LISTS + 4
T1_SIZE, T2_SIZE, B1_SIZE, B2_SIZE = WORK, WORK + 1, WORK + 2, WORK + 3
TARGET = WORK + 4  # p, the bits of a double


@inline
def _recall(m, p, key):
    """Take an absent expert out of the ghosts and move the target; returns 1 (B1), 2 (B2) or 0."""
    ghost = m[key + GHOST]
    if ghost == 0:
        return ghost
    target = np.int64(m[p + TARGET]).view(np.float64)
    if ghost == 1:
        step_up = max(m[p + B2_SIZE] / m[p + B1_SIZE], 1.0)
        target = min(target + step_up, np.float64(m[p + CAPACITY]))
        m[p + B1_SIZE] -= 1
    else:
        step_down = max(m[p + B1_SIZE] / m[p + B2_SIZE], 1.0)
        target = max(target - step_down, 0.0)
        m[p + B2_SIZE] -= 1
    m[p + TARGET] = np.float64(target).view(np.int64)
    m[key + GHOST] = 0
    unlink(m, key)
    return ghost


@inline
def _forget(m, p, ghosts, size):
    """Drop the oldest ghost of a list."""
    key = m[p + ghosts + PREV]
    unlink(m, key)
    m[key + GHOST] = 0
    m[p + size] -= 1


@step
def enter(m, p, s):
    """A load: the head of T2 where its ghost is known, else the head of T1; ghosts keep to their bounds."""
    key = m[s + KEY]
    ghost = m[key + NOTE]
    if ghost == 0:
        ghost = _recall(m, p, key)
    m[key + NOTE] = 0
    if ghost != 0:
        m[s + LIST] = 2
        m[p + T2_SIZE] += 1
        link_head(m, p + T2, s)
        return 0
    room = m[p + CAPACITY]
    while m[p + B1_SIZE] > 0 and m[p + T1_SIZE] + m[p + B1_SIZE] >= room:
        _forget(m, p, B1, B1_SIZE)
    rest = 2 * room - m[p + T1_SIZE] - m[p + T2_SIZE] - m[p + B1_SIZE]
    while m[p + B2_SIZE] > 0 and m[p + B2_SIZE] >= rest:
        _forget(m, p, B2, B2_SIZE)
    m[s + LIST] = 1
    m[p + T1_SIZE] += 1
    link_head(m, p + T1, s)
    return 0


@step
def claim(m, p, s):
    """A hit: the head of T2."""
    unlink(m, s)
    link_head(m, p + T2, s)
    if m[s + LIST] == 1:
        m[s + LIST] = 2
        m[p + T1_SIZE] -= 1
        m[p + T2_SIZE] += 1
    return 0


@step
def victim(m, p, key):
    """First eligible from the tail of T1 or T2, as the target says; its ghost goes to B1 or B2."""
    ghost = np.int64(0)
    if key >= 0:
        ghost = m[key + NOTE]
        if ghost == 0:
            ghost = _recall(m, p, key)
            m[key + NOTE] = ghost
    once = m[p + T1_SIZE]
    target = np.int64(m[p + TARGET]).view(np.float64)
    if once > 0 and (once > target or (ghost == 2 and once == target)):
        s = first_eligible(m, p + T1)
        if s < 0:
            s = first_eligible(m, p + T2)
    else:
        s = first_eligible(m, p + T2)
        if s < 0:
            s = first_eligible(m, p + T1)
    if s < 0:
        return s
    unlink(m, s)
    old = m[s + KEY]
    if m[s + LIST] == 1:
        m[p + T1_SIZE] -= 1
        m[p + B1_SIZE] += 1
        m[old + GHOST] = 1
        link_head(m, p + B1, old)
    else:
        m[p + T2_SIZE] -= 1
        m[p + B2_SIZE] += 1
        m[old + GHOST] = 2
        link_head(m, p + B2, old)
    return s


@step
def touch(m, p, s):
    """A guess that is already resident moves to the head of its own list."""
    sentinel = p + T1 if m[s + LIST] == 1 else p + T2
    unlink(m, s)
    link_head(m, sentinel, s)
    return 1


def notes(m):
    """Say where the target of T1 ended up."""
    every = [p for p in parts(m) if m[p + CAPACITY] > 0]
    if not every:
        return []
    share = [float(m[p + TARGET : p + TARGET + 1].view(np.float64)[0]) / int(m[p + CAPACITY]) for p in every]
    return [f"target of T1 at the end: {min(share):.0%} to {max(share):.0%} of the slots"]
