"""The free slots of a part, the lowest number first: a heap of freed ones below those never used."""

from __future__ import annotations

import numpy as np

from replay.arena.record import END, FREE, FRESH, HEAP, HEAP_COUNT, SLOT, STATE
from replay.jit import inline


@inline
def take_free(m, p):
    """Lowest-numbered free slot of a part, or -1. Freed slots always lie below those never used."""
    n = m[p + HEAP_COUNT]
    heap = m[p + HEAP]
    if n == 0:
        s = m[p + FRESH]
        if s == m[p + END]:
            return np.int64(-1)
        m[p + FRESH] = s + SLOT
        return s
    top = m[heap]
    n -= 1
    m[p + HEAP_COUNT] = n
    x = m[heap + n]
    i = np.int64(0)
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and m[heap + child + 1] < m[heap + child]:
            child += 1
        if m[heap + child] >= x:
            break
        m[heap + i] = m[heap + child]
        i = child
    m[heap + i] = x
    return top


@inline
def give_free(m, p, s):
    """Return a slot to its part's free slots."""
    m[s + STATE] = FREE
    heap = m[p + HEAP]
    i = m[p + HEAP_COUNT]
    m[p + HEAP_COUNT] = i + 1
    while i > 0:
        parent = (i - 1) // 2
        if m[heap + parent] <= s:
            break
        m[heap + i] = m[heap + parent]
        i = parent
    m[heap + i] = s
