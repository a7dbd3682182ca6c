"""What depths of the offline bound are read from: since when each slot of a part has been free.

``belady`` in retrospect: it keeps an expert for a use where a slot turns out to have been free all the while. A want
whose last use was at ``s`` hits with ``c`` slots exactly where one of them has been free since ``s`` or before. It
then takes, of those, the one that became free last; a miss takes the one that became free last of all (the best fit
that colours the most intervals: Carlisle and Lloyd 1995). Wants of one event go by descending number, since of
equally far experts the bound evicts the lowest. No time of a next use is needed.

Another slot adds one time to those of fewer slots: slot 1, 2, .. stand in line with the time that each adds, and the
depth of a want is the first slot free since its last use. A want moves times from slot to slot behind its depth: each
that is greater than all before it, up to ``s``, makes room for the one before it. Stretches of slots whose times
ascend, runs, stay such stretches: a run takes one time in and gives its next one up. So a time only carries the number
of its run, which a want changes for a few, and the depth is the slot at which a run begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import called, inline

_I64, _I32 = (types.Array(t, 1, "C") for t in (types.int64, types.int32))

BLOCK = 64  # places
GROUP = 32  # blocks
NONE = np.int32(2**31 - 1)  # no run: the time is no slot's any more, or not there yet
NEVER = -1


class Vacancies(NamedTuple):
    """Times since which slots are free, one line of places a part, the latest last.

    A line has ``room`` places, in whole groups, and ``room + 1`` runs, the nearest with the lowest number; the last
    is no run, but begins at the slot that was never used. Both are numbered anew when a line is full.

    Attributes
    ----------
    first, room : int64[P]
        First place of each part's line, and how many it has; its runs begin at ``first + part``.
    begin, next : int64[P]
        Places before the event that runs, and behind it.
    before : int64[P]
        Places of the event before.
    taken : int64[P]
        Wants of the event that runs so far; they have the first slots.
    newest : int64[P]
        Its run.
    run, least, least_in_group : int32[n], int32[n / BLOCK], int32[n / (BLOCK * GROUP)]
        Run of each place's time or ``NONE``; the least run of each block and group.
    start : int32[n + P]
        First slot of each run, 1 and up.
    above, below : int32[n + P]
        The runs before and behind it.
    since : int32[L * E]
        Places before the end of the last event that wanted each expert; ``NEVER``.
    members, members_at : int32[L * E], int64[P + 1]
        Experts of each part.
    scratch : int32[room + 1]
        New numbers while a line is packed.
    """

    first: NDArray[np.int64]
    room: NDArray[np.int64]
    begin: NDArray[np.int64]
    next: NDArray[np.int64]
    before: NDArray[np.int64]
    taken: NDArray[np.int64]
    newest: NDArray[np.int64]
    run: NDArray[np.int32]
    least: NDArray[np.int32]
    least_in_group: NDArray[np.int32]
    start: NDArray[np.int32]
    above: NDArray[np.int32]
    below: NDArray[np.int32]
    since: NDArray[np.int32]
    members: NDArray[np.int32]
    members_at: NDArray[np.int64]
    scratch: NDArray[np.int32]


VACANCIES = types.NamedTuple((_I64,) * 7 + (_I32,) * 8 + (_I64, _I32), Vacancies)


def vacancies_of(part_of: NDArray[np.int64], parts: int) -> Vacancies:
    """Slots that were never used, each line with room for twice its experts."""
    keys = np.bincount(part_of, minlength=parts)
    room = -(-2 * keys // (BLOCK * GROUP)) * (BLOCK * GROUP)
    first = np.concatenate(([0], np.cumsum(room)[:-1])).astype(np.int64)
    total, zero = int(room.sum()), np.zeros(parts, np.int64)
    start = np.zeros(total + parts, np.int32)
    start[first + np.arange(parts) + room] = 1
    return Vacancies(
        first, room.astype(np.int64), zero, zero.copy(), zero.copy(), zero.copy(), room.astype(np.int64),
        np.full(total, NONE), np.full(total // BLOCK, NONE), np.full(total // (BLOCK * GROUP), NONE),
        start, np.zeros_like(start), np.zeros_like(start), np.full(len(part_of), NEVER, np.int32),
        np.argsort(part_of, kind="stable").astype(np.int32),
        np.concatenate(([0], np.cumsum(keys))).astype(np.int64), np.zeros(int(room.max(initial=0)) + 1, np.int32),
    )  # fmt: skip


@inline
def _last_below(values, start, stop, bound):
    """Greatest index from ``start`` to before ``stop`` whose value is below a bound, else -1."""
    i = stop - 1
    while i >= start and values[i] >= bound:
        i -= 1
    return i if i >= start else np.int64(-1)


@called
def find(v, first, stop, bound):
    """Latest place from ``first`` to before ``stop`` whose run is below a bound, else -1."""
    if stop <= first:
        return np.int64(-1)
    block = (stop - 1) // BLOCK
    if v.least[block] < bound:
        at = _last_below(v.run, block * BLOCK, stop, bound)
        if at >= 0:
            return at
    group = block // GROUP
    at = np.int64(-1)
    if v.least_in_group[group] < bound:
        at = _last_below(v.least, group * GROUP, block, bound)
    if at < 0:
        group = _last_below(v.least_in_group, first // (BLOCK * GROUP), group, bound)
        if group < 0:
            return group
        at = _last_below(v.least, group * GROUP, (group + 1) * GROUP, bound)
    return _last_below(v.run, at * BLOCK, (at + 1) * BLOCK, bound)


@inline
def _least(values, start, count):
    """Least of some values."""
    least = values[start]
    for i in range(start + 1, start + count):
        least = min(least, values[i])
    return least


@inline
def put(v, at, run):
    """Give a place's time to a run; the least of its block and group follow."""
    old, block = v.run[at], at // BLOCK
    group = block // GROUP
    v.run[at] = run
    if run <= v.least[block]:
        v.least[block] = run
        v.least_in_group[group] = min(v.least_in_group[group], run)
    elif old == v.least[block]:
        v.least[block] = _least(v.run, block * BLOCK, BLOCK)
        if old == v.least_in_group[group]:
            v.least_in_group[group] = _least(v.least, group * GROUP, GROUP)


@inline
def pass_down(v, first, at, run, top):
    """Give a place's time to a run, that run's place before it to the run it came from, and so on.

    Each time the latest earlier place of a lower run; ends at run ``top``, or where there is none. Returns the run
    that gave a time up without getting one.
    """
    while True:
        old = v.run[at]
        put(v, at, run)
        if old == top:
            return old
        at = find(v, first, at, old)
        if at < 0:
            return old
        run = old


@inline
def open_event(v, p, width):
    """Begin an event that wants some of a part's experts: a run of its own before all others."""
    if v.next[p] + width > v.room[p]:
        pack(v, p)
    v.begin[p] = v.next[p]
    v.next[p] += width
    v.taken[p] = 0
    runs, following = v.first[p] + p, v.newest[p]
    v.newest[p] = following - 1
    v.start[runs + following - 1] = 1
    v.below[runs + following - 1] = following
    v.above[runs + following] = following - 1


@inline
def close_event(v, p):
    """End an event, of which each expert has been told when it was."""
    v.before[p] = v.next[p] - v.begin[p]


@called
def pack(v, p):
    """Renumber a full line's runs to its end, and its places from its start."""
    first, stop, runs, new = v.first[p], v.first[p] + v.next[p], v.first[p] + p, v.room[p]
    old = new
    while old != v.newest[p]:
        old = v.above[runs + old]
        new -= 1
        v.start[runs + new] = v.start[runs + old]
        v.scratch[old] = new
    for run in range(new, v.room[p]):
        v.above[runs + run + 1], v.below[runs + run] = run, run + 1
    v.newest[p] = new
    for at in range(first, stop):
        if v.run[at] != NONE:
            v.run[at] = v.scratch[v.run[at]]
    kept = np.int64(0)
    for at in range(first, stop):
        v.scratch[at - first] = kept
        if v.run[at] != NONE:
            v.run[first + kept] = v.run[at]
            kept += 1
    v.scratch[stop - first] = kept
    v.run[first + kept : stop] = NONE
    for i in range(v.members_at[p], v.members_at[p + 1]):
        number = v.members[i]
        if v.since[number] != NEVER:
            v.since[number] = v.scratch[v.since[number]]
    for block in range(first // BLOCK, (first + v.room[p]) // BLOCK):
        v.least[block] = _least(v.run, block * BLOCK, BLOCK)
    for group in range(first // (BLOCK * GROUP), (first + v.room[p]) // (BLOCK * GROUP)):
        v.least_in_group[group] = _least(v.least, group * GROUP, GROUP)
    v.next[p], v.before[p] = kept, 0
