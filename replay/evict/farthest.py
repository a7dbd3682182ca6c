"""A part's residents by next use, the farthest first: an indexed heap in the part's own words.

Four children a node. An entry is one word, ``rank << SLOT_BITS | slot number``; behind the entries stands the
place of each slot's. The rank is the time of the next use (:mod:`replay.prepare.lookahead`: ties are in it, the lowest
expert number the farthest), and beyond all times for an expert that is never wanted again. The farthest
*eligible* resident is found by walking down from the top past entries that are not eligible, which stay where
they stand; a subtree whose top is no farther than what was found is not entered.
"""

import numpy as np

from replay.arena.record import (
    EXTRA,
    FAR,
    FIRST,
    KEY,
    KEY_SIZE,
    KEYS,
    LAST_TIME,
    NEXT_USE,
    NUMBER,
    PART,
    PART_COUNT,
    PARTS,
    SLOT,
    SLOT_OF,
    WORK,
    eligible,
)
from replay.errors import InputError
from replay.jit import inline

COUNT, PLACES, EXPERTS = WORK, WORK + 1, WORK + 2
SPARE = 8  # words behind the entries that stay 0, so that every node has four children
SLOT_BITS = 18
SLOTS = (1 << SLOT_BITS) - 1


def heap_words(plan, shape, options):
    """Two words for every slot that can ever be in use.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]

    Raises
    ------
    InputError
        A part has more slots than an entry can tell apart.
    """
    most = plan.keys + 3 * shape.experts + 8
    slots = most if plan.by_bytes else np.minimum(most, plan.capacity)
    if slots.max() > SLOTS:
        raise InputError(f"an arena of {slots.max()} slots is too large for belady; give at most {SLOTS}")
    return 2 * slots + SPARE


def lay_heap(m):
    """Write where the places stand, and the number of experts, into every part."""
    parts = m[PARTS] + PART * np.arange(m[PART_COUNT])
    words = np.diff(np.append(m[parts + EXTRA], len(m)))
    m[parts + PLACES] = m[parts + EXTRA] + (words + SPARE) // 2
    m[parts + EXPERTS] = (m[SLOT_OF] - m[KEYS]) // KEY_SIZE


@inline
def entry_of(m, p, s):
    """A slot's entry by its expert's next use as it is known now."""
    key = m[s + KEY]
    rank = m[key + NEXT_USE]
    if rank == FAR:
        rank = LAST_TIME + m[p + EXPERTS] - m[key + NUMBER]
    return (rank << SLOT_BITS) + (s - m[p + FIRST]) // SLOT


@inline
def _rise(m, heap, places, i, entry):
    """Move an entry up from place ``i`` to where it belongs."""
    while i > 0:
        parent = (i - 1) >> 2
        above = m[heap + parent]
        if above >= entry:
            break
        m[heap + i] = above
        m[places + (above & SLOTS)] = i
        i = parent
    m[heap + i] = entry
    m[places + (entry & SLOTS)] = i


@inline
def _sink(m, heap, places, n, i, entry):
    """Move an entry down from place ``i`` to where it belongs, among ``n``."""
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        a, b, c, d = m[heap + child], m[heap + child + 1], m[heap + child + 2], m[heap + child + 3]
        ab, cd = max(a, b), max(c, d)
        most = max(ab, cd)
        if most <= entry:
            break
        at = child + (np.int64(d > c) + 2 if cd > ab else np.int64(b > a))
        m[heap + i] = most
        m[places + (most & SLOTS)] = i
        i = at
    m[heap + i] = entry
    m[places + (entry & SLOTS)] = i


@inline
def add(m, p, s):
    """Insert a slot."""
    n = m[p + COUNT]
    m[p + COUNT] = n + 1
    _rise(m, m[p + EXTRA], m[p + PLACES], n, entry_of(m, p, s))


@inline
def renew(m, p, s):
    """Move a slot to where its expert's next use puts it now: never nearer than before."""
    entry = entry_of(m, p, s)
    _rise(m, m[p + EXTRA], m[p + PLACES], m[m[p + PLACES] + (entry & SLOTS)], entry)


@inline
def remove(m, p, s):
    """Take a slot out; the last entry takes its place."""
    heap, places, n = m[p + EXTRA], m[p + PLACES], m[p + COUNT] - 1
    i = m[places + (s - m[p + FIRST]) // SLOT]
    m[p + COUNT] = n
    moved = m[heap + n]
    m[heap + n] = 0
    if i < n:
        if moved > m[heap + i]:
            _rise(m, heap, places, i, moved)
        else:
            _sink(m, heap, places, n, i, moved)


@inline
def farthest_eligible(m, p):
    """The eligible slot of the greatest rank, or -1."""
    heap, first, n = m[p + EXTRA], m[p + FIRST], m[p + COUNT]
    found, most = np.int64(-1), np.int64(-1)
    i = np.int64(0)
    while True:
        if i < n and m[heap + i] > most:
            s = first + SLOT * (m[heap + i] & SLOTS)
            if not eligible(m, s):
                i = 4 * i + 1
                continue
            found, most = s, m[heap + i]
        while i > 0 and i % 4 == 0:  # done below this one: up, past last children
            i = (i - 1) >> 2
        if i == 0:
            return found
        i += 1
