"""What the policies with a hand share (``clock``, ``sieve``): where it points, how often it came round.

``m[p + HAND]`` is the entry to be looked at next; the part itself, its list's sentinel, stands for the tail.
"""

import numpy as np

from replay.arena.record import PART, PART_COUNT, PARTS, PREV, WORK, A
from replay.jit import inline

BIT = A
HAND, WRAPS, EVICTED = WORK, WORK + 1, WORK + 2


def parts(m):
    """Addresses of every part."""
    return m[PARTS] + PART * np.arange(m[PART_COUNT])


def place_hands(m):
    """Let every hand point at its tail."""
    for p in parts(m):
        m[p + HAND] = p


@inline
def before(m, p, s):
    """The entry that the hand looks at after ``s``; the sentinel where it comes round."""
    s = m[s + PREV]
    if s == p:
        m[p + WRAPS] += 1
    return s


def hand_notes(m, name, effect):
    """Remark where some part evicted and its hand never came round.

    Parameters
    ----------
    m : int64[n]
        The memory.
    name, effect : str
        The policy, and what it comes to where its hand never wraps.

    Returns
    -------
    list of str
        At most one line.
    """
    every = parts(m)
    busy = every[m[every + EVICTED] > 0]
    still = busy[m[busy + WRAPS] == 0]
    if not len(still):
        return []
    evicted = int(m[still + EVICTED].sum())
    where = f" in {len(still)} of {len(every)} parts" if len(every) > 1 else ""
    return [f"{name}: the hand never wrapped{where} ({evicted} evictions); {effect}"]
