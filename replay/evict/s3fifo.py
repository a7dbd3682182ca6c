"""``s3fifo``: three static first-in-first-out queues (Yang and others, SOSP 2023).

A load goes to the head of S, the small queue, or to the head of M, the main one, where the ghost queue G knows its
id. A hit raises a counter, up to 3. Room is made from S where S has its size, else from M: S's tail goes to M with
its counter cleared where it was hit twice, else it is the victim and its id goes to G; M's tail returns to M's head
with its counter less one, or is the victim where that is 0. S has a tenth of the slots, M the rest, G as many ids
as M.

``fill=lcs`` (libCacheSim 0.3.5): until the first eviction, a load that finds S at its size goes to M, and G holds ids
for 90% of the slots. Its counter has no bound but is cut to 3 when M takes it back; as nothing else asks for more
than 3, that is the same. ``promote``: hits that take an expert from S to M.

Chosen where the paper is silent: an id leaves G when its miss asks for a victim, before that victim's id comes in;
one victim a load, as in the authors' program (the paper's listing also evicts from M whenever S moves an expert
into a full M); whoever is not eligible is passed over with its counter unchanged, and a queue with nobody
eligible yields to the other; a guess that is already resident is not touched, for there is no order of recency.
"""

import numpy as np

from replay.arena.record import (
    CAPACITY,
    GHOST,
    KEY,
    LISTS,
    NOTE,
    PREV,
    WORK,
    A,
    eligible,
    link_head,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.evict.plain import stay
from replay.evict.queues import count_load, parts, recall, remarks, slots_in
from replay.jit import inline, step

POLICY = Policy(
    name="s3fifo",
    kind="evict",
    summary="a small queue sorts out experts used once",
    needs="S",
    source="Yang and others, SOSP 2023; fill: libCacheSim 0.3.5",
    options={
        "small": Option("queue", "0.1", main=True),
        "ghost": Option("queue", None),
        "promote": Option("int", 2, low=1, high=3),
        "fill": Option("text", "small", choices=("small", "lcs")),
    },
    by_bytes=False,
)

# A slot's USES: its counter. A key's GHOST: 1 in G; its NOTE: 1 where it was, while its miss is in progress.
USES = A
SMALL, MAIN, IDS = 0, LISTS, LISTS + 2
SMALL_SIZE, MAIN_SIZE, IDS_SIZE = WORK, WORK + 1, WORK + 2
SMALL_SLOTS, MAIN_SLOTS, IDS_MOST, PROMOTE = WORK + 3, WORK + 4, WORK + 5, WORK + 6
FILLING = WORK + 7  # 1: nothing was evicted yet, and an overflow of S goes to M


def setup(m, options):
    """Write the queues' slots into every part; S leaves M at least one."""
    lcs = options.get("fill") == "lcs"
    ghost = options.get("ghost") or ("0.9" if lcs else None)
    for p in parts(m):
        capacity = int(m[p + CAPACITY])
        m[p + SMALL_SLOTS] = max(min(slots_in(m, p, options.get("small", "0.1")), capacity - 1), 1)
        m[p + MAIN_SLOTS] = max(capacity - m[p + SMALL_SLOTS], 1)
        m[p + IDS_MOST] = slots_in(m, p, ghost) if ghost else m[p + MAIN_SLOTS]
        m[p + PROMOTE] = options.get("promote", 2)
        m[p + FILLING] = lcs


@step
def enter(m, p, s):
    """A load: the head of M where the ghosts know it, else the head of S."""
    count_load(m, p)
    key = m[s + KEY]
    known = m[key + NOTE] or recall(m, p, key, IDS_SIZE)
    m[key + NOTE] = 0
    m[s + USES] = 0
    if known or (m[p + FILLING] and m[p + SMALL_SIZE] >= m[p + SMALL_SLOTS]):
        m[p + MAIN_SIZE] += 1
        link_head(m, p + MAIN, s)
    else:
        m[p + SMALL_SIZE] += 1
        link_head(m, p + SMALL, s)
    return 0


@step
def claim(m, p, s):
    """A hit raises the counter, up to 3."""
    m[s + USES] = min(m[s + USES] + 1, 3)
    return 0


@inline
def _from_small(m, p):
    """Victim of S, its id left to the ghosts, after moving those in front of it that were hit to M; or -1."""
    s = m[p + SMALL + PREV]
    while s != p + SMALL:
        ahead = m[s + PREV]
        if eligible(m, s):
            unlink(m, s)
            m[p + SMALL_SIZE] -= 1
            if m[s + USES] < m[p + PROMOTE]:
                old = m[s + KEY]
                m[old + GHOST] = 1
                link_head(m, p + IDS, old)
                if m[p + IDS_SIZE] < m[p + IDS_MOST]:
                    m[p + IDS_SIZE] += 1
                else:
                    oldest = m[p + IDS + PREV]
                    m[oldest + GHOST] = 0
                    unlink(m, oldest)
                return s
            m[s + USES] = 0
            m[p + MAIN_SIZE] += 1
            link_head(m, p + MAIN, s)
        s = ahead
    return np.int64(-1)


@inline
def _from_main(m, p):
    """Victim of M, after giving those in front of it another round for each hit; or -1."""
    s = m[p + MAIN + PREV]
    found = False
    while True:
        if s == p + MAIN:
            if not found:
                return np.int64(-1)
            found = False
            s = m[s + PREV]
            continue
        ahead = m[s + PREV]
        if eligible(m, s):
            found = True
            unlink(m, s)
            if m[s + USES] == 0:
                m[p + MAIN_SIZE] -= 1
                return s
            m[s + USES] -= 1
            link_head(m, p + MAIN, s)
        s = ahead


@step
def victim(m, p, key):
    """From S where it has its size, else from M; whichever has nobody eligible yields to the other."""
    if key >= 0 and recall(m, p, key, IDS_SIZE):
        m[key + NOTE] = 1
    s = np.int64(-1)
    if m[p + SMALL_SIZE] >= m[p + SMALL_SLOTS]:
        s = _from_small(m, p)
    if s < 0:
        s = _from_main(m, p)
    if s < 0:
        s = _from_small(m, p)
    if s < 0:
        s = _from_main(m, p)
    if s >= 0:
        m[p + FILLING] = 0
    return s


touch = stay  # a guess that is already resident changes nothing: there is no order of recency


def notes(m):
    """Say the queues' slots; warn of an S that is shorter than a token's loads."""
    return remarks(m, {"small": SMALL_SLOTS, "main": MAIN_SLOTS, "ghost": IDS_MOST}, "small")
