"""A worked policy file: a queue where a hit buys a life (up to ``most``), and a victim pays one to stay."""

import numpy as np

from replay.arena.record import PART, PART_COUNT, PARTS, PREV, WORK, A, eligible, link_head, unlink
from replay.declare.policy import Option, Policy
from replay.jit import step

POLICY = Policy(
    name="lives",
    kind="evict",
    summary="a queue, hits buy lives",
    needs="S",
    source="a worked example",
    options={"most": Option("int", 3, main=True, low=1)},
)
LIVES = A  # a word of every slot
MOST = WORK  # a word of every part


def setup(m, options):
    m[m[PARTS] + PART * np.arange(m[PART_COUNT]) + MOST] = options["most"]


@step
def enter(m, p, s):
    """A load goes to the head; the part is the sentinel of its list."""
    m[s + LIVES] = 0
    link_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit buys a life."""
    m[s + LIVES] = min(m[s + LIVES] + 1, m[p + MOST])
    return 0


@step
def victim(m, p, key):
    """From the tail the first eligible without lives; one with lives pays and goes to the head."""
    s = m[p + PREV]
    while s != p:
        after = m[s + PREV]
        if eligible(m, s):
            unlink(m, s)
            if m[s + LIVES] == 0:
                return s
            m[s + LIVES] -= 1
            link_head(m, p, s)
        s = m[p + PREV] if after == p and eligible(m, s) else after
    return -1


@step
def touch(m, p, s):
    """A guess that is already resident is no use of it."""
    return 0
