"""``lirs``: low inter-reference recency set (Jiang and Zhang, SIGMETRICS 2002).

Experts of low inter-reference recency (LIR) hold all slots but a few; those few, the queue Q, hold resident
experts of high one (HIR). The stack S orders LIR experts, and HIR ones, resident or not, by their last use;
its bottom is always LIR, and what lies under the last LIR expert is pruned. A hit or a load of an HIR expert that is
in S makes it LIR, and the bottom of S falls to the end of Q; a load that S does not know is HIR, in S and in Q
(LIR while there are too few of those); a hit of one that is only in Q puts it back on S and at Q's end. The victim
is the front of Q, which stays in S as non-resident. Q has 1% of the slots, at least 2; ``hir`` gives it another size,
at least one slot.

``stack=x``: S holds at most x times the slots; beyond that the expert that is non-resident for longest leaves it.
``demote=1``: a hit of an expert that is only in Q also lets the bottom of S fall to Q's end, and the front of a Q
that is then too long is evicted at once; Q has at least 1 slot. ``stack=2,demote=1`` is what libCacheSim 0.3.5 does.
(With a Q of one slot, below 200 slots, it evicts in such a hit the very expert that is hit and yet counts its next
use as a hit; here that expert stays, and nobody is evicted.)

Chosen where the paper is silent: with nobody in Q eligible the victim is the lowest eligible LIR expert, which S
then forgets; an expert leaves S when its miss asks for a victim, before that victim becomes non-resident; while no
LIR expert is resident S is empty; the first eligible in Q's order is evicted under ``demote``, never the one that is
hit; a guess that is already resident is not touched, for recency in S counts uses.
"""

import math

import numpy as np

from replay.arena.free_slot import give_free
from replay.arena.record import (
    CAPACITY,
    COUNT,
    GHOST,
    HOT,
    KEY,
    KEYS,
    LISTS,
    MARK,
    NOTE,
    NUMBER,
    PREV,
    SLOT_OF,
    WORK,
    A,
    B,
    C,
    eligible,
    link_after,
    link_head,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.evict.plain import stay
from replay.evict.queues import count_load, parts, remarks, slots_in
from replay.jit import inline, step

POLICY = Policy(
    name="lirs",
    kind="evict",
    summary="keeps experts whose last two uses were close",
    needs="S",
    source="Jiang and Zhang, SIGMETRICS 2002; stack, demote: libCacheSim 0.3.5",
    options={
        "hir": Option("queue", None, main=True),
        "stack": Option("float", None, low=1.0, high=1e6),
        "demote": Option("flag", False),
    },
    by_bytes=False,
)

# Sentinels of a part. S links slots and, for non-residents, keys at offset 0; a slot has a second pair of links at Q,
# a key at GONE (among the non-residents, latest first).
STACK, QUEUE, ABSENT = 0, LISTS, LISTS + 2
RANK, Q, GONE = A, B, GHOST  # Q takes a slot's words B and C, GONE a key's words GHOST and NOTE
assert C == B + 1 and NOTE == GHOST + 1
APART, HIR, LIR = 0, 1, 2  # a slot's RANK: in Q only; in Q and S; in S only
PLACE = MARK  # of a key
NOWHERE, ON_STACK, RECALLED = 0, 1, 2  # PLACE: RECALLED was on S until its miss, which is in progress
LIR_SIZE, HIR_SIZE, STACK_SIZE = WORK, WORK + 1, WORK + 2
LIR_SLOTS, HIR_SLOTS, STACK_MOST, DEMOTE = WORK + 3, WORK + 4, WORK + 5, WORK + 6


def setup(m, options):
    """Write the options into every part; Q leaves the LIR set at least one slot."""
    stack, demote = options.get("stack"), bool(options.get("demote", False))
    for p in parts(m):
        capacity = int(m[p + CAPACITY])
        size = options.get("hir")
        slots = slots_in(m, p, size) if size else max(slots_in(m, p, "0.01"), 1 if demote else 2)
        m[p + HIR_SLOTS] = max(min(slots, capacity - 1), 1)
        m[p + LIR_SLOTS] = max(capacity - m[p + HIR_SLOTS], 1)
        m[p + STACK_MOST] = np.iinfo(np.int64).max if stack is None else math.floor(stack * capacity)
        m[p + DEMOTE] = demote


@inline
def _push(m, p, s, rank):
    """Put a slot on top of S."""
    link_head(m, p + STACK, s)
    m[s + RANK] = rank
    m[p + STACK_SIZE] += 1


@inline
def _take_absent(m, p, key, place):
    """Take a non-resident expert out of S."""
    unlink(m, key)
    unlink(m, key + GONE)
    m[key + PLACE] = place
    m[p + STACK_SIZE] -= 1


@inline
def _prune(m, p):
    """Take everything below the lowest LIR expert out of S."""
    x = m[p + STACK + PREV]
    while x != p + STACK:
        above = m[x + PREV]
        if x >= m[KEYS]:
            _take_absent(m, p, x, NOWHERE)
        elif m[x + RANK] == LIR:
            break
        else:
            unlink(m, x)
            m[x + RANK] = APART
            m[p + STACK_SIZE] -= 1
        x = above


@inline
def _demote(m, p):
    """Let the bottom of S, a LIR expert, fall to the end of Q."""
    s = m[p + STACK + PREV]
    unlink(m, s)
    m[s + RANK] = APART
    m[p + STACK_SIZE] -= 1
    m[p + LIR_SIZE] -= 1
    link_head(m, p + QUEUE, s + Q)
    m[p + HIR_SIZE] += 1
    _prune(m, p)


@inline
def _promote(m, p, s):
    """Make the slot on top of S LIR; the bottom makes room for it."""
    m[s + RANK] = LIR
    m[p + LIR_SIZE] += 1
    if m[p + LIR_SIZE] > m[p + LIR_SLOTS]:
        _demote(m, p)


@inline
def _limit(m, p):
    """Keep S within its bound: the expert that is non-resident for longest leaves."""
    while m[p + STACK_SIZE] > m[p + STACK_MOST]:
        last = m[p + ABSENT + PREV]
        if last == p + ABSENT:
            break
        _take_absent(m, p, last - GONE, NOWHERE)


@inline
def _from_queue(m, p, but):
    """Take the first eligible of Q, from its front, out of Q; in S it stays as non-resident. Not ``but``; or -1."""
    x = m[p + QUEUE + PREV]
    while x != p + QUEUE:
        s = x - Q
        if s != but and eligible(m, s):
            unlink(m, x)
            m[p + HIR_SIZE] -= 1
            if m[s + RANK] == HIR:
                key = m[s + KEY]
                before = m[s + PREV]
                unlink(m, s)
                link_after(m, before, key)
                m[key + PLACE] = ON_STACK
                link_head(m, p + ABSENT, key + GONE)
            return s
        x = m[x + PREV]
    return np.int64(-1)


@inline
def _evict(m, p, s):
    """Evict a slot that is out of the order without a load: it is free at once."""
    m[m[SLOT_OF] + m[m[s + KEY] + NUMBER]] = -1
    m[s + HOT] = 0
    m[p + COUNT] -= 1
    give_free(m, p, s)


@inline
def _from_stack(m, p):
    """Take the lowest eligible LIR expert out of S; or -1."""
    x = m[p + STACK + PREV]
    while x != p + STACK:
        if x < m[KEYS] and m[x + RANK] == LIR and eligible(m, x):
            unlink(m, x)
            m[p + STACK_SIZE] -= 1
            m[p + LIR_SIZE] -= 1
            _prune(m, p)
            return x
        x = m[x + PREV]
    return np.int64(-1)


@step
def enter(m, p, s):
    """A load: LIR where S knows it or too few are, else HIR; on top of S."""
    count_load(m, p)
    key = m[s + KEY]
    known = m[key + PLACE] != NOWHERE
    if m[key + PLACE] == ON_STACK:
        _take_absent(m, p, key, NOWHERE)
    m[key + PLACE] = NOWHERE
    _push(m, p, s, HIR)
    if known or m[p + LIR_SIZE] < m[p + LIR_SLOTS]:
        _promote(m, p, s)
    else:
        link_head(m, p + QUEUE, s + Q)
        m[p + HIR_SIZE] += 1
    _limit(m, p)
    return 0


@step
def claim(m, p, s):
    """A hit: on top of S; HIR becomes LIR where it was in S, else it moves to Q's end."""
    if m[s + RANK] != APART:
        unlink(m, s)
        link_head(m, p + STACK, s)
        if m[s + RANK] == LIR:
            _prune(m, p)
            return 0
        unlink(m, s + Q)
        m[p + HIR_SIZE] -= 1
        _promote(m, p, s)
        return 0
    unlink(m, s + Q)
    link_head(m, p + QUEUE, s + Q)
    if m[p + DEMOTE] and m[p + LIR_SIZE] >= m[p + LIR_SLOTS]:
        if m[p + HIR_SIZE] >= m[p + HIR_SLOTS]:
            gone = _from_queue(m, p, s)
            if gone >= 0:
                _evict(m, p, gone)
        _demote(m, p)
    if m[p + LIR_SIZE] > 0:
        _push(m, p, s, HIR)
        _limit(m, p)
    return 0


@step
def victim(m, p, key):
    """The first eligible of Q from its front, else the lowest eligible LIR expert of S."""
    if key >= 0 and m[key + PLACE] == ON_STACK:
        _take_absent(m, p, key, RECALLED)
    s = _from_queue(m, p, np.int64(-1))
    if s < 0:
        s = _from_stack(m, p)
    return s


touch = stay  # a guess that is already resident changes nothing: recency in S counts uses


def notes(m):
    """Say the LIR and HIR slots; warn of a Q that is shorter than a token's loads."""
    return remarks(m, {"lir": LIR_SLOTS, "hir": HIR_SLOTS}, "hir")
