"""A part's residents by next use, the farthest first: an indexed heap in the part's own words.

An entry is two words, a rank and a slot; field ``A`` of a slot is its entry's place. The rank is
``time * experts + (experts - 1 - number)``, so that the greatest rank is the farthest next use, ties by lowest
expert number; times of :mod:`replay.lookahead`, and for an expert that is never wanted again one that is beyond
them all. The farthest *eligible* resident is found by walking down from the top past entries that are not
eligible, which stay where they stand; a subtree whose top is no farther than what was found is not entered.
"""

import numpy as np

from replay.arena import (
    EXTRA,
    FAR,
    KEY,
    KEY_SIZE,
    KEYS,
    NEXT_USE,
    NUMBER,
    PART,
    PART_COUNT,
    PARTS,
    SLOT_OF,
    WORK,
    A,
    eligible,
)
from replay.jit import inline

COUNT, EXPERTS, NEVER = WORK, WORK + 1, WORK + 2


def heap_words(plan, shape, options):
    """Two words for every expert that can be resident at once.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]
    """
    most = np.bincount(plan.part_of, minlength=len(plan.capacity))
    return 2 * (most if plan.by_bytes else np.minimum(most, plan.capacity))


def lay_heap(m):
    """Write the number of experts and the time beyond all others into every part."""
    experts = int(m[SLOT_OF] - m[KEYS]) // KEY_SIZE
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + EXPERTS] = experts
        m[p + NEVER] = int(FAR) // experts - 1


@inline
def rank_of(m, p, s):
    """Rank of a slot by its expert's next use as it is known now."""
    key = m[s + KEY]
    return min(m[key + NEXT_USE], m[p + NEVER]) * m[p + EXPERTS] + m[p + EXPERTS] - 1 - m[key + NUMBER]


@inline
def _write(m, base, i, rank, s):
    m[base + 2 * i] = rank
    m[base + 2 * i + 1] = s
    m[s + A] = i


@inline
def _rise(m, base, i, rank, s):
    """Move an entry up from place ``i`` to where it belongs."""
    while i > 0:
        parent = (i - 1) // 2
        above = m[base + 2 * parent]
        if above >= rank:
            break
        _write(m, base, i, above, m[base + 2 * parent + 1])
        i = parent
    _write(m, base, i, rank, s)


@inline
def _sink(m, base, n, i, rank, s):
    """Move an entry down from place ``i`` to where it belongs, among ``n``."""
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and m[base + 2 * child + 2] > m[base + 2 * child]:
            child += 1
        below = m[base + 2 * child]
        if below <= rank:
            break
        _write(m, base, i, below, m[base + 2 * child + 1])
        i = child
    _write(m, base, i, rank, s)


@inline
def add(m, p, s):
    """Insert a slot."""
    n = m[p + COUNT]
    m[p + COUNT] = n + 1
    _rise(m, m[p + EXTRA], n, rank_of(m, p, s), s)


@inline
def renew(m, p, s):
    """Move a slot to where its expert's next use puts it now."""
    base, i, rank = m[p + EXTRA], m[s + A], rank_of(m, p, s)
    if rank > m[base + 2 * i]:
        _rise(m, base, i, rank, s)
    else:
        _sink(m, base, m[p + COUNT], i, rank, s)


@inline
def remove(m, p, s):
    """Take a slot out; the last entry takes its place."""
    base, i, n = m[p + EXTRA], m[s + A], m[p + COUNT] - 1
    m[p + COUNT] = n
    if i < n:
        rank, moved = m[base + 2 * n], m[base + 2 * n + 1]
        if rank > m[base + 2 * i]:
            _rise(m, base, i, rank, moved)
        else:
            _sink(m, base, n, i, rank, moved)


@inline
def farthest_eligible(m, p):
    """The eligible slot of the greatest rank, or -1."""
    base, n = m[p + EXTRA], m[p + COUNT]
    found, most = np.int64(-1), np.int64(-1)
    i = np.int64(0)
    while True:
        if i < n and m[base + 2 * i] > most:
            s = m[base + 2 * i + 1]
            if not eligible(m, s):
                i = 2 * i + 1
                continue
            found, most = s, m[base + 2 * i]
        while i > 0 and i % 2 == 0:  # done below this one: up, past right children
            i = (i - 1) // 2
        if i == 0:
            return found
        i += 1
