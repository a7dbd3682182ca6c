"""``2q``: two queues, the full version (Johnson and Shasha, VLDB 1994).

A load goes to the head of A1in, a queue of first uses; a hit there does nothing. What A1in gives up leaves its id
in A1out, and a load whose id is in A1out goes to Am, the main list, least recently used first. Room is made from
A1in's tail (its id goes to A1out) where A1in is longer than Kin, else from Am's tail, which leaves no id. Kin is a
quarter of the slots, A1out holds ids for half of them.

``amcap=1`` (libCacheSim 0.3.5) bounds Am to the slots without Kin. A stream of single lookups never meets that
bound, for A1in is then never shorter than Kin; with pinned experts or read-ahead it can be: the least recent of
Am then falls back to A1in's tail, where it goes next.

Chosen where the paper is silent: an id leaves A1out when its miss asks for a victim, before that victim's id
comes in; a queue with nobody eligible yields to the other; ``touch`` moves a resident guess of Am to its head and
leaves A1in alone.
"""

from replay.arena.record import (
    CAPACITY,
    GHOST,
    KEY,
    LISTS,
    NOTE,
    PREV,
    WORK,
    A,
    first_eligible,
    link_head,
    link_tail,
    unlink,
)
from replay.declare.policy import Option, Policy
from replay.evict.queues import count_load, parts, recall, remarks, slots_in
from replay.jit import step

POLICY = Policy(
    name="2q",
    kind="evict",
    summary="a queue of first uses before the main list",
    needs="S",
    source="Johnson and Shasha, VLDB 1994; amcap: libCacheSim 0.3.5",
    options={
        "a1in": Option("queue", "0.25"),
        "a1out": Option("queue", "0.5"),
        "amcap": Option("flag", False),
    },
    by_bytes=False,
)

# A slot's LIST: 1 in A1in, 2 in Am. A key's GHOST: 1 in A1out; its NOTE: 1 where it was, while its miss is in progress.
LIST = A
A1IN, AM, A1OUT = 0, LISTS, LISTS + 2
IN_SIZE, AM_SIZE, OUT_SIZE = WORK, WORK + 1, WORK + 2
KIN, KOUT, AM_MOST = WORK + 3, WORK + 4, WORK + 5


def setup(m, options):
    """Write the queues' slots into every part; A1in leaves Am at least one."""
    for p in parts(m):
        capacity = int(m[p + CAPACITY])
        m[p + KIN] = max(min(slots_in(m, p, options.get("a1in", "0.25")), capacity - 1), 1)
        m[p + KOUT] = slots_in(m, p, options.get("a1out", "0.5"))
        m[p + AM_MOST] = max(capacity - m[p + KIN], 1) if options.get("amcap", False) else capacity


@step
def enter(m, p, s):
    """A load: the head of Am where A1out knows it, else the head of A1in."""
    count_load(m, p)
    key = m[s + KEY]
    if m[key + NOTE] == 0 and recall(m, p, key, OUT_SIZE) == 0:
        m[s + LIST] = 1
        m[p + IN_SIZE] += 1
        link_head(m, p + A1IN, s)
        return 0
    m[key + NOTE] = 0
    m[s + LIST] = 2
    m[p + AM_SIZE] += 1
    link_head(m, p + AM, s)
    if m[p + AM_SIZE] > m[p + AM_MOST]:
        last = m[p + AM + PREV]
        unlink(m, last)
        link_tail(m, p + A1IN, last)
        m[last + LIST] = 1
        m[p + AM_SIZE] -= 1
        m[p + IN_SIZE] += 1
    return 0


@step
def claim(m, p, s):
    """A hit: the head of Am, and nothing in A1in."""
    if m[s + LIST] == 2:
        unlink(m, s)
        link_head(m, p + AM, s)
    return 0


@step
def victim(m, p, key):
    """First eligible from the tail of A1in where that is longer than Kin, else of Am."""
    if key >= 0 and recall(m, p, key, OUT_SIZE):
        m[key + NOTE] = 1
    if m[p + IN_SIZE] > m[p + KIN]:
        s = first_eligible(m, p + A1IN)
        if s < 0:
            s = first_eligible(m, p + AM)
    else:
        s = first_eligible(m, p + AM)
        if s < 0:
            s = first_eligible(m, p + A1IN)
    if s < 0:
        return s
    unlink(m, s)
    if m[s + LIST] == 2:
        m[p + AM_SIZE] -= 1
        return s
    m[p + IN_SIZE] -= 1
    old = m[s + KEY]
    m[old + GHOST] = 1
    link_head(m, p + A1OUT, old)
    if m[p + OUT_SIZE] < m[p + KOUT]:
        m[p + OUT_SIZE] += 1
    else:
        oldest = m[p + A1OUT + PREV]
        m[oldest + GHOST] = 0
        unlink(m, oldest)
    return s


@step
def touch(m, p, s):
    """A guess that is already resident moves to the head of Am, if it is there."""
    if m[s + LIST] != 2:
        return 0
    unlink(m, s)
    link_head(m, p + AM, s)
    return 1


def notes(m):
    """Say the queues' slots; warn of an A1in that is shorter than a token's loads."""
    return remarks(m, {"a1in": KIN, "a1out": KOUT}, "a1in")
