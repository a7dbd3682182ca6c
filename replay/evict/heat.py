"""``heat``: the least recently used expert with few uses goes first (semantics 5).

LRU whose victim is the first from the tail with at most ``h`` uses (default 4), else the tail. Uses are
counted while an expert is resident, its load's own claim included. Two lists, each in order of recency, hold
the experts with at most ``h`` uses and the hotter ones: the same victims without a search.
"""

from replay.arena.record import (
    LISTS,
    OWN,
    PART,
    PART_COUNT,
    PARTS,
    WORK,
    A,
    first_eligible,
    link_head,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.jit import inline, step

POLICY = Policy(
    name="heat",
    kind="evict",
    summary="lru that lets experts with few uses go first",
    options={"h": Option("int", 4, main=True, low=0)},
    needs="S",
    source="no paper: LRU that spares what was used often",
    by_bytes=False,
)

USES = A
LIMIT = WORK
HOT = LISTS


def setup(m, options):
    """Write ``h`` into every part."""
    for i in range(m[PART_COUNT]):
        m[m[PARTS] + PART * i + LIMIT] = options["h"]


@inline
def _to_head(m, p, s):
    """Put a slot at the head of the list that its uses ask for."""
    link_head(m, p if m[s + USES] <= m[p + LIMIT] else p + HOT, s)


@step
def enter(m, p, s):
    """A load goes to the head; its own claim is a use."""
    m[s + USES] = m[OWN]
    _to_head(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit is a use, and moves to the head."""
    m[s + USES] += 1
    unlink(m, s)
    _to_head(m, p, s)
    return 0


@step
def victim(m, p, key):
    """First eligible from the tail among those with few uses, else among the others."""
    s = first_eligible(m, p)
    if s < 0:
        s = first_eligible(m, p + HOT)
    if s >= 0:
        unlink(m, s)
    return s


@step
def touch(m, p, s):
    """A resident guess moves to the head; that is no use."""
    unlink(m, s)
    _to_head(m, p, s)
    return 1
