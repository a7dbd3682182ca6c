"""Depths of the offline bound: a part's experts stacked by priority, their next use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.arena import FAR, LAST_TIME
from replay.jit import inline, loop
from replay.stack.count import LOOKUPS, raise_widest

_I64, _I32 = (types.Array(t, 1, "C") for t in (types.int64, types.int32))

BLOCK = 64


class Pile(NamedTuple):
    """A stack of experts for each part, the top first, ranked by next use: the greater, the farther.

    Attributes
    ----------
    first, size : int64[P]
        First place of each part's stack (a multiple of 64), and its experts.
    key : int32[n]
        Expert of each place.
    rank : int64[n]
        Its rank; -1: the event that runs wants it; -2: no expert.
    most : int64[n / 64]
        Greatest rank of each block.
    place : int64[L * E]
        Place of each expert; -1: never used.
    """

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    key: NDArray[np.int32]
    rank: NDArray[np.int64]
    most: NDArray[np.int64]
    place: NDArray[np.int64]


PILE = types.NamedTuple((_I64, _I64, _I32, _I64, _I64, _I64), Pile)


def pile_of(part_of: NDArray[np.int64], parts: int) -> Pile:
    """Empty stacks."""
    room = -(-np.bincount(part_of, minlength=parts) // BLOCK) * BLOCK
    first = np.concatenate(([0], np.cumsum(room)[:-1])).astype(np.int64)
    total = int(room.sum())
    return Pile(
        first, np.zeros(parts, np.int64), np.zeros(total, np.int32), np.full(total, -2, np.int64),
        np.full(total // BLOCK, -2, np.int64), np.full(len(part_of), -1, np.int64),
    )  # fmt: skip


@inline
def put(pile, at, number, rank):
    """Write an expert with its rank into a place; the block's greatest rank follows."""
    old, block = pile.rank[at], at // BLOCK
    pile.key[at] = number
    pile.rank[at] = rank
    pile.place[number] = at
    if rank >= pile.most[block]:
        pile.most[block] = rank
    elif old == pile.most[block]:
        most = np.int64(-2)
        for i in range(block * BLOCK, block * BLOCK + BLOCK):
            most = max(most, pile.rank[i])
        pile.most[block] = most


@inline
def sink_through(pile, at, stop, carried, rank):
    """Let an expert sink from ``at`` to before ``stop``, inside a block that holds a farther one.

    Wherever it meets a farther one it stays, and that one sinks on. Returns what sinks on behind the block. The
    block's greatest rank leaves with it, if it is met; all before its place are then no greater than what took it.
    """
    block = at // BLOCK
    most = pile.most[block]
    while at < stop and rank < most:
        following = pile.rank[at]
        if following > rank:
            key = pile.key[at]
            pile.key[at], pile.rank[at], pile.place[carried] = carried, rank, at
            carried, rank = key, following
        at += 1
    if rank == most:
        left = pile.rank[at - 1]
        for i in range(at, block * BLOCK + BLOCK):
            left = max(left, pile.rank[i])
        pile.most[block] = left
    return carried, rank


@inline
def promote(pile, p, number):
    """Move an expert to the top of its part's stack; what it displaces sinks past all that are nearer."""
    first = pile.first[p]
    end = pile.place[number]
    if end < 0:
        end = first + pile.size[p]
        pile.size[p] += 1
    if end == first:
        put(pile, first, number, np.int64(-1))
        return
    carried, rank = pile.key[first], pile.rank[first]
    put(pile, first, number, np.int64(-1))
    at = first + 1
    while at < end:
        stop = min((at // BLOCK + 1) * BLOCK, end)
        if pile.most[at // BLOCK] > rank:
            carried, rank = sink_through(pile, at, stop, carried, rank)
        at = stop
    put(pile, end, carried, rank)


@inline
def rank_at(time, number, keys):
    """Rank of a next use: its time; for an expert never wanted again beyond all times, the lowest number last."""
    return LAST_TIME + keys - number if time == FAR else time


@loop(types.void(LOOKUPS, _I64, PILE, _I64, _I64, _I64, types.int64, types.int64, types.boolean))
def belady_depths(lookups, next_use, pile, part_of, width, widest, layers, experts, sequential):
    """Find a chunk's depths in the bound's priority stack.

    Parameters
    ----------
    lookups : Lookups
        Ids are given: an event's unique ones, ascending, or (sequential) occurrences; depths are filled.
    next_use : int64[n]
        Time of the next use of each.
    pile : Pile
        Changed in place.
    part_of, width, widest, layers, experts, sequential
        As in :func:`lru_depths`.
    """
    offsets, ids, depth = lookups
    keys = layers * experts
    for event in range(len(offsets) - 1):
        base, low, high = (event % layers) * experts, offsets[event], offsets[event + 1]
        step = 1 if sequential else max(high - low, 1)
        for start in range(low, high, step):
            raise_widest(widest, width, part_of, base, ids, start, start + step)
            for i in range(start, start + step):
                number = base + ids[i]
                at = pile.place[number]
                depth[i] = at - pile.first[part_of[number]] + 1 if at >= 0 else 0
                if at >= 0:
                    put(pile, at, number, np.int64(-1))
            for i in range(start, start + step):
                promote(pile, part_of[base + ids[i]], base + ids[i])
            for i in range(start, start + step):
                number = base + ids[i]
                put(pile, pile.place[number], number, rank_at(next_use[i], number, keys))


@loop(types.void(_I32, PILE, _I64, _I64))
def belady_start(numbers, pile, part_of, first_use):
    """Insert a recorded start, each expert by its first use."""
    for number in numbers:
        promote(pile, part_of[number], number)
        put(pile, pile.place[number], number, rank_at(first_use[number], number, len(part_of)))
