"""``decode2q``: protect experts used twice in decode (semantics 5).

A fresh slot enters at the *tail* with reuse 0; the first claim (a load's own claim included) makes reuse 1
and leaves it there; the second makes 2 and moves it to the head; later claims move it to the head. The
victim is, from the tail, the first eligible with reuse < 2, else the first eligible. In prefill windows it
acts as ``lru`` and leaves reuse alone.

``quota=q``: at most floor(q x slots) slots may have reuse 2, checked after the move to the head; beyond it
the least recent of them falls back to reuse 1 where it stands. It is a share of slots: under a byte budget
it has no effect. ``head``: fresh slots enter at the head.
"""

import math

import numpy as np

from replay.arena.record import (
    BYTES_BOUND,
    CAPACITY,
    OWN,
    PART,
    PART_COUNT,
    PARTS,
    PREFILL,
    PREV,
    WORK,
    A,
    eligible,
    first_eligible,
    link_head,
    link_tail,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.evict.plain import move_to_head
from replay.jit import inline, step

POLICY = Policy(
    name="decode2q",
    kind="evict",
    summary="experts used twice in decode are protected",
    options={
        "quota": Option("share", None, main=True, low=0.0, high=1.0),
        "head": Option("flag", False),
    },
    needs="S",
    source="Strata",
    environment="STRATA_METAL_DECODE_2Q=1",
    tail=True,
)

REUSE = A
PROTECTED, LIMIT, AT_HEAD = WORK, WORK + 1, WORK + 2


def setup(m, options):
    """Write the options into every part: protected slots allowed (-1: any), entry at the head."""
    quota = options.get("quota")
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + LIMIT] = -1 if quota is None or m[BYTES_BOUND] else math.floor(quota * int(m[p + CAPACITY]))
        m[p + AT_HEAD] = int(options.get("head", False))


@inline
def _keep_quota(m, p):
    """Let the least recent protected slot fall back to reuse 1 while the quota is exceeded."""
    if m[p + LIMIT] < 0 or m[p + PROTECTED] <= m[p + LIMIT]:
        return
    s = m[p + PREV]
    while m[s + REUSE] != 2:
        s = m[s + PREV]
    m[s + REUSE] = 1
    m[p + PROTECTED] -= 1


@step
def enter(m, p, s):
    """A fresh slot: at the tail in decode, at the head in prefill."""
    m[s + REUSE] = 0
    if m[PREFILL] or m[p + AT_HEAD]:
        link_head(m, p, s)
    else:
        link_tail(m, p, s)
    if m[OWN] and not m[PREFILL]:
        m[s + REUSE] = 1
    return 0


@step
def claim(m, p, s):
    """A hit: reuse 1, then 2 and the head."""
    if not m[PREFILL]:
        if m[s + REUSE] == 0:
            m[s + REUSE] = 1
            return 0
        if m[s + REUSE] == 1:
            m[s + REUSE] = 2
            m[p + PROTECTED] += 1
            move_to_head(m, p, s)
            _keep_quota(m, p)
            return 0
    move_to_head(m, p, s)
    return 0


@step
def victim(m, p, key):
    """From the tail the first eligible that is not protected, else the first eligible."""
    found = np.int64(-1)
    if not m[PREFILL]:
        s = m[p + PREV]
        while s != p:
            if m[s + REUSE] < 2 and eligible(m, s):
                found = s
                break
            s = m[s + PREV]
    if found < 0:
        found = first_eligible(m, p)
    if found >= 0:
        unlink(m, found)
        if m[found + REUSE] == 2:
            m[p + PROTECTED] -= 1
    return found


@step
def touch(m, p, s):
    """A resident guess moves to the head only where it is protected."""
    if m[s + REUSE] != 2:
        return 0
    move_to_head(m, p, s)
    return 1
