"""The arena's memory: one flat int64 array in which every record has an address.

A replay's whole state (semantics 1, 4) is one array ``m``. Parts, slots and keys are records in it, and
*a record's address is its handle*: field ``F`` of record ``x`` is ``m[x + F]``. Eviction steps and the
event loop hand that single array around. Measured against a tuple of three to nine arrays, one array makes
the event loop two to four times faster, because a tuple of arrays is copied word by word at every
indirect call.

=========  =====================================================================================
record     what it is
=========  =====================================================================================
header     address 0: the moment's settings that steps may read (``NOW``, ``AVOID``, ``PREFILL`` ..)
part       one eviction order with its slots: a size class, a layer's arena, or both (semantics 4)
slot       one place for an expert; number order is address order within a part
key        one expert (layer, id); carries what a policy remembers of an absent expert (ghosts)
=========  =====================================================================================

Lists are circular and doubly linked through ``PREV`` and ``NEXT`` at offset 0 and 1 of a sentinel and its
members; ``NEXT`` of the sentinel is the head (most recent), ``PREV`` the tail. A part is itself the
sentinel of its main list; policies have more sentinels at ``part + LISTS + 2 * i``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.jit import called, inline

# -- every record: list links first
PREV, NEXT = 0, 1

# -- header (address 0)
NOW = 2  # a slot whose PIN equals this is pinned or spared
AVOID = 3  # layer whose experts are no victims now; -1: none
PREFILL = 4  # 1 while a prefill window runs
OWN = 5  # 1: the load that enters is claimed at once; 0: entered without a claim (recorded start)
HOTNOW = 6  # a slot whose HOT equals this is a victim only when nothing else is; -1: none
TICK = 7  # counts claims, loads and moving touches
EVENT = 8  # running number of the event
SPECULATIVE, LIMBO_SLOTS = 9, 10  # slots in use that way, all parts
PEAK_SPECULATIVE, PEAK_LIMBO = 11, 12
OLD, OLD_COUNT, OLD_GENERATION = 13, 14, 15  # limbo generation to be freed next
NEW, NEW_COUNT, NEW_GENERATION = 16, 17, 18  # limbo generation of the current event
SLOT_OF = 19  # address of the table: key number -> slot address, or ABSENT, or DISPLACED
KEYS = 20  # address of the first key record
SPEC_LISTS = 21  # address of the per-layer sentinels of speculative slots
USES = 22  # address of the table: key number -> events that wanted it
PARTS, PART_COUNT = 23, 24
BYTES_BOUND = 25  # 1: the bound is a byte budget
SEED = 26  # state of the policy's random numbers
TALLY = 27  # address of the window's counters by layer, TALLY_WORDS each
LOGGED = 28  # rows of the event log
SOLE_PART = 29  # address of the only part; -1: several
EQUAL_BYTES = 30  # bytes of every expert; -1: they differ
TRACKED = 31  # 1: USED_AT and HELD are kept, for prompt-hot and for guesses that spare what is used more
TOKEN = 32  # experts that one token wants of a part: layers x top_k, or top_k in a layer's arena
DECODED = 33  # decode windows begun
GUESS_TAIL = 35  # 1: a claimed guess of a decode window enters at the tail of its part's list
INSIDE = 36  # which steps of the policy the event loop takes itself, without a call (replay.evict.plain)
PAST = 34  # address of what a read-ahead policy remembers of past events
EVENT_TIMES, WINDOW_TIMES = 40, 41  # look-ahead policies: times of an event, and of a window
EQUAL_TIMES = 42  # look-ahead policies: times that are one moment, in which nothing comes before another
NO_SLOT = 48  # stands for a slot where there is none: its PIN may be written, its STATE is FREE
HEADER = 64
TALLY_WORDS = 16

# -- part
CAPACITY = 2  # slots (nominal), or slots that the byte budget can ever need
FRESH, END = 3, 4  # addresses: next slot never used, end of the part's slots
HEAP, HEAP_COUNT = 5, 6  # min-heap of freed slots
PART_SPECULATIVE, PART_LIMBO = 7, 8
BUDGET, USED = 9, 10  # bytes
COUNT = 11  # resident slots
FIRST = 12  # address of the first slot
EXTRA = 13  # address of the policy's own block
KEY_COUNT = 14  # experts that this part may hold
CLASS = 15
WORK = 16  # 16 words of the policy's own: part + WORK + i
LISTS = 32  # 8 more list sentinels: part + LISTS + 2 * i
PART = 48

# -- slot: two cache lines, the second rarely touched
KEY = 2
PIN = 3
STATE = 4
WANTED = 5  # event that wants this speculative slot
LAYER = 6
A = 7  # the policy's own, as B, C and D
USED_AT = 8  # TICK of its last load, claim or moving touch; kept only where TRACKED
HOT = 9
GENERATION = 10  # event at which it went to limbo
OF_PART = 11  # the part that it lies in: part_holding
B, C, D = 12, 13, 14
HELD = 15  # claims since it was loaded; kept only where TRACKED
SLOT = 16

FREE, RESIDENT, SPECULATION, LIMBO = 0, 1, 2, 3

# -- key: two cache lines, the second rarely touched
BYTES = 2
KEY_PART = 3
NUMBER = 4  # layer * experts + expert
NEXT_USE = 5  # look-ahead policies: time of the next use (replay.lookahead)
GHOST = 6  # the policy's own, as NOTE and MARK
NOTE, MARK = 7, 8
TRANSIENT = 9  # event whose miss of it its policy declined to keep
LATER = 10  # look-ahead policies: bit j - 1: wanted j windows after its next use
KEY_SIZE, KEY_SHIFT = 16, 4

ABSENT, DISPLACED = -1, -2
"""What ``SLOT_OF`` says of an expert that is not there; ``DISPLACED``: a guess evicted it, nothing read it since."""

DECLINED = -2
"""What a policy's ``victim`` returns where it would rather not keep the expert that is missed."""

BEATEN = np.int64(1) << 40
"""``HOTNOW`` from here on: only residents with ``HELD`` below ``HOTNOW - BEATEN`` are eligible (``spare``)."""

FAR = np.int64(1) << 62
"""Next use of an expert that no later event wants."""

LAST_TIME = np.int64(1) << 43
"""All times of next uses but ``FAR`` are below."""

HORIZON = 62
"""Windows after a next use that ``LATER`` tells of: one bit each."""


@dataclass(frozen=True)
class Plan:
    """How a bound is cut into parts: the partition map of a replay.

    Attributes
    ----------
    part_of : int64[L * E]
        Part number of every key.
    capacity : int64[P]
        Slots of each part (slots bound); 0 under a byte budget.
    budget : int64[P]
        Bytes of each part; 0 under a slots bound.
    classes : int64[P]
        Size class that a part serves, -1 where classes play no part.
    by_bytes, by_layer : bool
        The bound is a byte budget; every layer has an arena of its own.
    """

    part_of: NDArray[np.int64]
    capacity: NDArray[np.int64]
    budget: NDArray[np.int64]
    classes: NDArray[np.int64]
    by_bytes: bool
    by_layer: bool


def share(total: int, layers: int) -> NDArray[np.int64]:
    """Equal split of a bound over layers: ``n // L`` each, the first ``n % L`` one more (semantics 4)."""
    out = np.full(layers, total // layers, np.int64)
    out[: total % layers] += 1
    return out


def plan_slots(classes: NDArray[np.uint8], slots: NDArray[np.int64], by_layer: bool) -> Plan:
    """Partition a slots bound: one part a size class, and a layer each with layer scope.

    Parameters
    ----------
    classes : uint8[L, E]
        Size class of every expert.
    slots : int64[C] or int64[C, L]
        Slots of each class; with two axes the slots of each class in each layer (a budget file).
    by_layer : bool
        Scope ``layer``.
    """
    layers, experts = classes.shape
    count = slots.shape[0]
    of_class = classes.astype(np.int64)
    if not by_layer:
        return Plan(of_class.ravel(), slots.copy(), np.zeros(count, np.int64), np.arange(count), False, False)
    table = slots if slots.ndim == 2 else np.stack([share(int(n), layers) for n in slots])
    part_of = of_class + count * np.arange(layers)[:, None]
    names = np.tile(np.arange(count), layers)
    return Plan(
        part_of.ravel(), table.T.ravel().copy(), np.zeros(count * layers, np.int64), names, False, True
    )


def plan_bytes(layers: int, experts: int, budget: int | NDArray[np.int64], by_layer: bool) -> Plan:
    """Partition a byte budget: one part, or one a layer (an array gives each layer's budget)."""
    if not by_layer:
        zero = np.zeros(layers * experts, np.int64)
        return Plan(zero, np.zeros(1, np.int64), np.array([budget], np.int64), np.full(1, -1), True, False)
    cut = share(int(budget), layers) if np.ndim(budget) == 0 else np.asarray(budget, np.int64)
    part_of = np.repeat(np.arange(layers, dtype=np.int64), experts)
    return Plan(part_of, np.zeros(layers, np.int64), cut, np.full(layers, -1), True, True)


def _slot_counts(plan: Plan, sizes: NDArray[np.int64], experts: int) -> NDArray[np.int64]:
    """Slots to lay out for each part: no more than can ever be in use at once."""
    keys = np.bincount(plan.part_of, minlength=len(plan.capacity))
    most = keys + 2 * experts + 8
    if plan.by_bytes:
        return np.minimum(most, plan.budget // max(int(sizes.min()), 1) + 3 * experts + 8)
    return np.minimum(plan.capacity, most)


def aligned(words: int) -> NDArray[np.int64]:
    """Zeroed words that begin at a cache line."""
    line = 64
    raw = np.zeros(words + line // 8, np.int64)
    skip = -raw.ctypes.data % line // 8
    return raw[skip : skip + words]


def build(
    plan: Plan,
    sizes: NDArray[np.int64],
    extra_words: NDArray[np.int64] | None = None,
    seed: int = 0,
    top_k: int = 1,
    past_words: int = 0,
) -> NDArray[np.int64]:
    """Lay out the memory of one replay.

    Parameters
    ----------
    plan : Plan
        The partition map.
    sizes : int64[L, E]
        Bytes of every expert.
    extra_words : int64[P], optional
        Words of each part's own block for its policy.
    seed : int
        Seed of the policy's random numbers.
    top_k : int
        Experts that a row picks in each layer.
    past_words : int
        Words in which the read-ahead policy remembers past events.

    Returns
    -------
    int64[n]
        The memory, cold: every slot free, every list empty.
    """
    layers, experts = sizes.shape
    keys, parts = layers * experts, len(plan.capacity)
    slots = _slot_counts(plan, sizes, experts)
    extra = np.zeros(parts, np.int64) if extra_words is None else extra_words
    at = HEADER
    part_at = at + PART * np.arange(parts)
    at += PART * parts
    spec_at, at = at, at + 2 * layers
    limbo_at, at = at, at + 2 * experts
    at += -at % 16
    slot_at = at + SLOT * np.concatenate(([0], np.cumsum(slots)[:-1]))
    at += SLOT * int(slots.sum())
    at += -at % 16
    key_at, at = at, at + KEY_SIZE * keys
    slot_of_at, at = at, at + keys
    uses_at, at = at, at + keys
    tally_at, at = at, at + TALLY_WORDS * layers
    past_at, at = at, at + past_words
    heap_at = at + np.concatenate(([0], np.cumsum(slots)[:-1]))
    at += int(slots.sum())
    extra_at = at + np.concatenate(([0], np.cumsum(extra)[:-1]))
    at += int(extra.sum())
    m = aligned(at)  # which ends with the last part's own block
    m[[NOW, AVOID, OWN, HOTNOW]] = 0, -1, 1, -1
    m[EVENT_TIMES], m[WINDOW_TIMES], m[EQUAL_TIMES] = 1, layers, 1
    m[[SLOT_OF, KEYS, SPEC_LISTS, USES, PARTS, PART_COUNT]] = (
        slot_of_at,
        key_at,
        spec_at,
        uses_at,
        HEADER,
        parts,
    )
    m[[OLD, NEW, OLD_GENERATION, NEW_GENERATION]] = limbo_at, limbo_at + experts, -1, -1
    m[TALLY], m[PAST] = tally_at, past_at
    m[SOLE_PART] = part_at[0] if parts == 1 else -1
    m[EQUAL_BYTES] = sizes.flat[0] if (sizes == sizes.flat[0]).all() else -1
    m[BYTES_BOUND], m[SEED] = int(plan.by_bytes), seed
    m[TOKEN] = top_k if plan.by_layer else layers * top_k
    m[slot_of_at : slot_of_at + keys] = ABSENT
    for lists in (part_at, spec_at + 2 * np.arange(layers)):
        m[lists + PREV] = lists
        m[lists + NEXT] = lists
    for i in range(8):
        own = part_at + LISTS + 2 * i
        m[own + PREV] = own
        m[own + NEXT] = own
    m[part_at + CAPACITY] = slots if plan.by_bytes else plan.capacity
    m[part_at + FRESH] = m[part_at + FIRST] = slot_at
    m[part_at + END] = slot_at + SLOT * slots
    m[part_at + HEAP], m[part_at + EXTRA] = heap_at, extra_at
    m[part_at + BUDGET], m[part_at + CLASS] = plan.budget, plan.classes
    m[part_at + KEY_COUNT] = np.bincount(plan.part_of, minlength=parts)
    for p, first in enumerate(slot_at):
        every = first + SLOT * np.arange(slots[p])
        m[every + PIN] = -1
        m[every + OF_PART] = part_at[p]
    records = key_at + KEY_SIZE * np.arange(keys)
    m[records + BYTES] = sizes.ravel()
    m[records + KEY_PART] = part_at[plan.part_of]
    m[records + NUMBER] = np.arange(keys)
    m[records + NEXT_USE] = FAR
    m[records + TRANSIENT] = -1
    return m


# -- lists ---------------------------------------------------------------------------------------


@inline
def unlink(m, x):
    """Take a record out of its list."""
    before, after = m[x + PREV], m[x + NEXT]
    m[before + NEXT] = after
    m[after + PREV] = before


@inline
def link_after(m, place, x):
    """Put a record right behind ``place``; behind the sentinel is the head of the list."""
    after = m[place + NEXT]
    m[place + NEXT] = x
    m[x + PREV] = place
    m[x + NEXT] = after
    m[after + PREV] = x


@inline
def link_head(m, sentinel, x):
    """Put a record at the head of a list."""
    link_after(m, sentinel, x)


@inline
def link_tail(m, sentinel, x):
    """Put a record at the tail of a list."""
    link_after(m, m[sentinel + PREV], x)


@inline
def part_of(m, key):
    """Part that may hold an expert."""
    p = m[SOLE_PART]
    return p if p >= 0 else m[key + KEY_PART]


@inline
def part_holding(m, s):
    """Part that a slot lies in."""
    p = m[SOLE_PART]
    return p if p >= 0 else m[s + OF_PART]


@inline
def bytes_of(m, key):
    """Bytes of an expert."""
    size = m[EQUAL_BYTES]
    return size if size >= 0 else m[key + BYTES]


@inline
def number_of(m, key):
    """Number of an expert: layer * experts + id."""
    return (key - m[KEYS]) >> KEY_SHIFT


@inline
def eligible(m, s):
    """Whether a resident slot may be a victim now: not pinned, not avoided, not hot, beaten by the guess."""
    if m[s + PIN] == m[NOW] or m[s + LAYER] == m[AVOID]:
        return False
    hot = m[HOTNOW]
    if hot < 0:
        return True
    return m[s + HELD] < hot - BEATEN if hot >= BEATEN else m[s + HOT] != hot


@inline
def first_eligible(m, sentinel):
    """First eligible slot from the tail of a list, or -1."""
    s = m[sentinel + PREV]
    while s != sentinel:
        if eligible(m, s):
            return s
        s = m[s + PREV]
    return np.int64(-1)


# -- free slots: lowest number first ---------------------------------------------------------------


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


# -- sorting -----------------------------------------------------------------------------------------


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
