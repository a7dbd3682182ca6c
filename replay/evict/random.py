"""``random``: every eligible resident is as likely to go (semantics 5).

A part keeps its residents in an array; a victim's place is taken by the last one. It draws up to 8 places until
one is eligible, then counts the eligible ones and draws among them: uniform in any case. Numbers come from
a 64-bit xorshift (Marsaglia 2003: 13, 7, 17), a state for each part, seeded from ``seed`` and the part's number by
one step of splitmix64. Where nothing is eligible the state stays.
"""

import numpy as np

from replay.arena.record import EXTRA, PART, PART_COUNT, PARTS, WORK, A, eligible
from replay.declare.policy import Option, Policy
from replay.evict.plain import stay
from replay.jit import inline, step

POLICY = Policy(
    name="random",
    kind="evict",
    summary="any eligible expert, drawn at random",
    options={"seed": Option("int", 0, main=True, low=0)},
    needs="S",
    source="textbook",
)

PLACE = A
STATE, MEMBERS = WORK, WORK + 1
TRIES = 8
_A, _B, _C, _HALF = np.uint64(13), np.uint64(7), np.uint64(17), np.uint64(32)
_MASK = (1 << 64) - 1


def seed_state(seed, number):
    """First state of a part's random numbers.

    Parameters
    ----------
    seed, number : int
        The option, and the part's number.

    Returns
    -------
    int
        Not 0, below 2^64.

    Examples
    --------
    >>> seed_state(0, 0) != seed_state(0, 1)
    True
    """
    z = ((seed << 20) + number + 1) * 0x9E3779B97F4A7C15 & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return (z ^ z >> 31) or 1


def words(plan, shape, options):
    """One word for every expert that can be resident at once.

    Parameters
    ----------
    plan : Plan
    shape : Shape
    options : mapping

    Returns
    -------
    int64[P]
    """
    return plan.residents


def setup(m, options):
    """Seed every part."""
    for i in range(m[PART_COUNT]):
        state = seed_state(options["seed"], i)
        m[m[PARTS] + PART * i + STATE] = state - (1 << 64) if state >> 63 else state


@inline
def _draw(m, p, n):
    """A number below ``n`` (up to 2^32)."""
    x = np.uint64(m[p + STATE])
    x ^= x << _A
    x ^= x >> _B
    x ^= x << _C
    m[p + STATE] = np.int64(x)
    return np.int64(((x >> _HALF) * np.uint64(n)) >> _HALF)


@inline
def _choose(m, p):
    """An eligible resident, or -1."""
    n, base = m[p + MEMBERS], m[p + EXTRA]
    if n == 0:
        return np.int64(-1)
    state = m[p + STATE]
    for _ in range(TRIES):
        s = m[base + _draw(m, p, n)]
        if eligible(m, s):
            return s
    count = np.int64(0)
    for i in range(n):
        count += eligible(m, m[base + i])
    if count == 0:
        m[p + STATE] = state
        return np.int64(-1)
    rank = _draw(m, p, count)
    for i in range(n):
        s = m[base + i]
        if eligible(m, s):
            if rank == 0:
                return s
            rank -= 1
    return np.int64(-1)


@step
def enter(m, p, s):
    """A load joins the array at its end."""
    n = m[p + MEMBERS]
    m[m[p + EXTRA] + n] = s
    m[s + PLACE] = n
    m[p + MEMBERS] = n + 1
    return 0


@step
def claim(m, p, s):
    """A hit changes nothing."""
    return 0


@step
def victim(m, p, key):
    """An eligible resident; the last of the array takes its place."""
    s = _choose(m, p)
    if s >= 0:
        n = m[p + MEMBERS] - 1
        last = m[m[p + EXTRA] + n]
        m[m[p + EXTRA] + m[s + PLACE]] = last
        m[last + PLACE] = m[s + PLACE]
        m[p + MEMBERS] = n
    return s


touch = stay  # there is no recency: nothing moves
