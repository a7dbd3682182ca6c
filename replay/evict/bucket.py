"""Buckets of entries of equal worth, in order: what ``lfu`` and ``lfuda`` pick their victims from.

A part's buckets are a list, lowest worth at the tail; a bucket's entries are a list, least recent at the
tail. A victim is the first eligible entry from the lowest bucket on. A bucket lives while it has entries, so
that a part needs as many as it has slots: they lie in the part's own block.
"""

import numpy as np

from replay.arena.record import (
    EXTRA,
    LISTS,
    NEXT,
    PART,
    PART_COUNT,
    PARTS,
    PREV,
    WORK,
    A,
    first_eligible,
    link_after,
    link_head,
    unlink,
)
from replay.jit import inline

ORDER = LISTS  # part: sentinel of its buckets
SPARE = WORK  # part: first bucket that is not in use, linked through NEXT; 0: none
UNUSED = WORK + 1  # part: next bucket never used
HOLDER = A  # slot: its bucket

# bucket: list links first
WORTH = 2
ENTRIES = 4  # sentinel of its entries
BUCKET = 6


def bucket_words(plan, shape, options):
    """Words of each part's buckets: one for every expert that can be resident at once.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]
    """
    return BUCKET * (plan.residents + 1)


def lay_buckets(m):
    """No bucket is in use."""
    for p in m[PARTS] + PART * np.arange(m[PART_COUNT]):
        m[p + SPARE], m[p + UNUSED] = 0, m[p + EXTRA]


@inline
def _new_bucket(m, p, place, worth):
    """Open a bucket right below ``place`` in the order."""
    b = m[p + SPARE]
    if b == 0:
        b = m[p + UNUSED]
        m[p + UNUSED] = b + BUCKET
    else:
        m[p + SPARE] = m[b + NEXT]
    m[b + WORTH] = worth
    m[b + ENTRIES + PREV] = m[b + ENTRIES + NEXT] = b + ENTRIES
    link_after(m, place, b)
    return b


@inline
def _put(m, b, s):
    """Make a slot the most recent entry of a bucket."""
    m[s + HOLDER] = b
    link_head(m, b + ENTRIES, s)


@inline
def take_out(m, p, s):
    """Take a slot out of its bucket, which closes where it was the last."""
    unlink(m, s)
    b = m[s + HOLDER]
    if m[b + ENTRIES + NEXT] == b + ENTRIES:
        unlink(m, b)
        m[b + NEXT] = m[p + SPARE]
        m[p + SPARE] = b


@inline
def put_from_bottom(m, p, s, worth):
    """Enter a slot with a worth that few buckets lie below."""
    order = p + ORDER
    b = m[order + PREV]
    while b != order and m[b + WORTH] < worth:
        b = m[b + PREV]
    if b == order or m[b + WORTH] > worth:
        b = _new_bucket(m, p, b, worth)
    _put(m, b, s)


@inline
def put_from_top(m, p, s, worth):
    """Enter a slot with a worth that few buckets lie above."""
    order = p + ORDER
    b = m[order + NEXT]
    while b != order and m[b + WORTH] > worth:
        b = m[b + NEXT]
    if b == order or m[b + WORTH] < worth:
        b = _new_bucket(m, p, m[b + PREV], worth)
    _put(m, b, s)


@inline
def raise_by_one(m, p, s):
    """Move a slot to the bucket of the next worth; alone in its bucket, it takes the bucket along."""
    b = m[s + HOLDER]
    worth = m[b + WORTH] + 1
    above = m[b + PREV]
    if above != p + ORDER and m[above + WORTH] == worth:
        take_out(m, p, s)
        _put(m, above, s)
    elif m[b + ENTRIES + PREV] == m[b + ENTRIES + NEXT]:
        m[b + WORTH] = worth
    else:
        unlink(m, s)
        _put(m, _new_bucket(m, p, above, worth), s)


@inline
def lowest_eligible(m, p):
    """First eligible entry from the lowest bucket on, least recent first; or -1."""
    order = p + ORDER
    b = m[order + PREV]
    while b != order:
        s = first_eligible(m, b + ENTRIES)
        if s >= 0:
            return s
        b = m[b + PREV]
    return np.int64(-1)
