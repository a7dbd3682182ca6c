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

Here are the fields, and what every step does with them. :mod:`replay.arena.memory` lays the array out,
:mod:`replay.arena.free_slot` keeps the slots that are free.
"""

from __future__ import annotations

import numpy as np

from replay.jit import inline

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
PAST = 34  # address of what a read-ahead policy remembers of past events
GUESS_TAIL = 35  # 1: a claimed guess of a decode window enters at the tail of its part's list
INSIDE = 36  # which steps of the policy the event loop takes itself, without a call (replay.evict.plain)
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
CLASS = 14
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
NEXT_USE = 5  # look-ahead policies: time of the next use (replay.prepare.lookahead)
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
