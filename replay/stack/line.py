"""Depths of LRU: the last uses of a part's experts as bits in a line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import called, inline, loop
from replay.stack.count import LOOKUPS, raise_widest

_I64, _I32, _U64 = (types.Array(t, 1, "C") for t in (types.int64, types.int32, types.uint64))

_M1, _M2, _M4 = (np.uint64(x) for x in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_U1, _U2, _U4, _U8, _U16, _U32, _LOW = (np.uint64(x) for x in (1, 2, 4, 8, 16, 32, 127))


@inline
def popcount(x):
    """Bits that are set in a 64-bit word."""
    x = x - ((x >> _U1) & _M1)
    x = (x & _M2) + ((x >> _U2) & _M2)
    x = (x + (x >> _U4)) & _M4
    x = x + (x >> _U8)
    x = x + (x >> _U16)
    return np.int64((x + (x >> _U32)) & _LOW)


@inline
def in_last_order(ids, low, high, experts, order):
    """Unique ids in the order of their last occurrence to the front of ``order``; returns how many.

    ``order[experts : 2 * experts]`` marks the ids that were met, ``order[2 * experts]`` is the mark.
    """
    order[2 * experts] += 1
    mark = order[2 * experts]
    n = np.int64(0)
    for i in range(high - 1, low - 1, -1):
        e = ids[i]
        if order[experts + e] != mark:
            order[experts + e] = mark
            order[n] = e
            n += 1
    for i in range(n // 2):
        order[i], order[n - 1 - i] = order[n - 1 - i], order[i]
    return n


GROUP = 32  # words of a group


class Line(NamedTuple):
    """Uses in order, one line of bits a part; a bit that is set is the last use of an expert.

    Attributes
    ----------
    first, groups : int64[P]
        First group of each part's line, and how many it has.
    next, live : int64[P]
        Next bit of each line, and bits that are set in it.
    bits : uint64[GROUP * n]
    before : int32[GROUP * n]
        Bits that are set in the words of its group before each word, up to the word that is being filled.
    before_group : int32[n]
        Bits that are set in the groups of its line before each group, up to the one that is being filled.
    owner : int32[64 * GROUP * n]
        Expert of each bit.
    last : int64[L * E]
        Bit of each expert in its part's line; -1: never used.
    """

    first: NDArray[np.int64]
    groups: NDArray[np.int64]
    next: NDArray[np.int64]
    live: NDArray[np.int64]
    bits: NDArray[np.uint64]
    before: NDArray[np.int32]
    before_group: NDArray[np.int32]
    owner: NDArray[np.int32]
    last: NDArray[np.int64]


LINE = types.NamedTuple((_I64, _I64, _I64, _I64, _U64, _I32, _I32, _I32, _I64), Line)


def line_of(part_of: NDArray[np.int64], parts: int) -> Line:
    """Empty lines, each with room for four times its experts."""
    keys = np.bincount(part_of, minlength=parts)
    groups = (4 * keys) // (64 * GROUP) + 1
    first = np.concatenate(([0], np.cumsum(groups)[:-1])).astype(np.int64)
    total, zero = int(groups.sum()), np.zeros(parts, np.int64)
    return Line(
        first, groups.astype(np.int64), zero, zero.copy(), np.zeros(total * GROUP, np.uint64),
        np.zeros(total * GROUP, np.int32), np.zeros(total, np.int32), np.zeros(total * GROUP * 64, np.int32),
        np.full(len(part_of), -1, np.int64),
    )  # fmt: skip


@inline
def depth_of(line, p, number):
    """Depth of an expert in its part's LRU stack; 0: never used."""
    at = line.last[number]
    if at < 0:
        return np.int64(0)
    word = line.first[p] * GROUP + (at >> 6)
    upto = popcount(line.bits[word] << np.uint64(63 - (at & 63)))
    return line.live[p] + 1 - upto - line.before[word] - line.before_group[word // GROUP]


@inline
def take_one(sums, place):
    """Take one from every sum behind a place."""
    for j in range(len(sums)):
        sums[j] -= np.int32(j > place)


@inline
def use(line, p, number):
    """Move an expert to the top of its part's stack."""
    first, groups = line.first[p], line.groups[p]
    at = line.last[number]
    if at >= 0:
        word = at >> 6
        line.bits[first * GROUP + word] &= ~(_U1 << np.uint64(at & 63))
        group = word // GROUP
        low = (
            first + group
        ) * GROUP  # later words and groups that are not begun yet are written when they are
        take_one(line.before[low : low + GROUP], word % GROUP)
        take_one(line.before_group[first : first + groups], group)
    else:
        line.live[p] += 1
    at = line.next[p]
    line.bits[first * GROUP + (at >> 6)] |= _U1 << np.uint64(at & 63)
    line.owner[first * GROUP * 64 + at] = number
    line.last[number] = at
    line.next[p] = at + 1
    if (at & 63) == 63:
        begin_word(line, p, (at >> 6) + 1)


@inline
def begin_word(line, p, word):
    """Begin a line's next word; a full line is packed."""
    first = line.first[p]
    if word == line.groups[p] * GROUP:
        pack(line, p)
        return
    at = first * GROUP + word
    count = line.before[at - 1] + np.int32(popcount(line.bits[at - 1]))
    if word % GROUP == 0:
        line.before_group[at // GROUP] = line.before_group[at // GROUP - 1] + count
        count = np.int32(0)
    line.before[at] = count


@called
def pack(line, p):
    """Renumber a full line's set bits from its start."""
    word, owner = line.first[p] * GROUP, line.first[p] * GROUP * 64
    kept = np.int64(0)
    for at in range(line.next[p]):
        if (line.bits[word + (at >> 6)] >> np.uint64(at & 63)) & _U1:
            number = line.owner[owner + at]
            line.owner[owner + kept] = number
            line.last[number] = kept
            kept += 1
    for i in range(line.groups[p] * GROUP):
        full = min(max(kept - (i << 6), 0), 64)
        line.bits[word + i] = ~np.uint64(0) if full == 64 else (_U1 << np.uint64(full)) - _U1
        line.before[word + i] = (i % GROUP) * 64
        if i % GROUP == 0:
            line.before_group[line.first[p] + i // GROUP] = i * 64
    line.next[p] = kept


@loop(types.void(_I64, _I32, LOOKUPS, LINE, _I64, _I64, _I64, _I64, types.int64, types.int64, types.boolean))
def lru_depths(offsets, picks, lookups, line, part_of, order, width, widest, layers, experts, sequential):
    """Find a chunk's LRU depths.

    Parameters
    ----------
    offsets, picks : int64[W * L + 1], int32[n]
        Occurrences, event after event, row-major and in rank order.
    lookups : Lookups
        Its ids and depths are filled.
    line : Line
        Changed in place.
    part_of : int64[L * E]
    order, width : int64[2 * E + 1], int64[P]
        Scratch, zeros at first.
    widest : int64[P]
        Most experts of a part that one event wants (sequential: 1); raised in place.
    layers, experts : int
    sequential : bool
        Occurrences are lookups of their own; else an event's unique experts, in the order of their last one.
    """
    found, ids, depth = lookups
    sole = len(widest) == 1
    for event in range(len(offsets) - 1):
        base, low, high = (event % layers) * experts, offsets[event], offsets[event + 1]
        start = found[event]
        if sequential:
            for i in range(low, high):
                number = base + picks[i]
                p = np.int64(0) if sole else part_of[number]
                ids[i], depth[i] = picks[i], depth_of(line, p, number)
                use(line, p, number)
                widest[p] = max(widest[p], 1)
            continue
        stop = found[event + 1]
        if high - low == stop - start:
            for i in range(high - low):
                ids[start + i] = picks[low + i]
        else:
            for i in range(in_last_order(picks, low, high, experts, order)):
                ids[start + i] = order[i]
        raise_widest(widest, width, part_of, base, ids, start, stop)
        for i in range(start, stop):
            number = base + ids[i]
            depth[i] = depth_of(line, np.int64(0) if sole else part_of[number], number)
        for i in range(start, stop):
            number = base + ids[i]
            use(line, np.int64(0) if sole else part_of[number], number)


@loop(types.void(_I32, LINE, _I64))
def lru_start(numbers, line, part_of):
    """Insert a recorded start."""
    for number in numbers:
        use(line, part_of[number], number)
