"""Sorting inside kernels that may not allocate."""

from __future__ import annotations

from replay.jit import called


@called
def sort_words(m, first, count):
    """Sort some words ascending in place: nothing to do when they are, else a heap sort."""
    ordered = True
    for i in range(first + 1, first + count):
        if m[i - 1] > m[i]:
            ordered = False
            break
    if ordered:
        return
    for turn in range(count // 2 + count):
        root, end = count // 2 - 1 - turn, count
        if root < 0:  # the heap stands: its largest goes behind it
            root, end = 0, end + root
            m[first], m[first + end] = m[first + end], m[first]
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and m[first + child + 1] > m[first + child]:
                child += 1
            if m[first + root] >= m[first + child]:
                break
            m[first + root], m[first + child] = m[first + child], m[first + root]
            root = child
