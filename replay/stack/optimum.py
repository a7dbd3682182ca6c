"""Depths of the offline bound: the first slot that has been free since a want's last use."""

from __future__ import annotations

import numpy as np
from numba import types

from replay.jit import inline, loop
from replay.stack.count import LOOKUPS
from replay.stack.vacancy import NEVER, NONE, VACANCIES, close_event, find, open_event, pass_down, put

_I64, _I32 = (types.Array(t, 1, "C") for t in (types.int64, types.int32))


@inline
def lose_slot(v, runs, run):
    """A run's first slot leaves it; where that was all it leaves the list."""
    v.start[runs + run] += 1
    following = v.below[runs + run]
    if v.start[runs + run] == v.start[runs + following]:
        before = v.above[runs + run]
        v.below[runs + before] = following
        v.above[runs + following] = before


@inline
def depth_of(v, p, number):
    """Depth of an event's next want, the highest number first; 0: never used. The slot is taken.

    The event's run takes the first slot that it does not have. The slot at the depth, which leaves its run, gets the
    latest time before it: the end of the run above. A first use drops the latest time of all.
    """
    first, runs, end = v.first[p], v.first[p] + p, v.room[p]
    taken, upto = v.taken[p], v.since[number]
    top = v.below[runs + v.newest[p]]
    run, heir, depth = NONE, NONE, np.int64(0)
    if upto == NEVER:
        v.start[runs + end] += np.int32(top == end)
    else:
        run = np.int32(end)
        at = find(v, first, first + upto, NONE)
        if at >= 0:
            run = pass_down(v, first, at, NONE, np.int32(-1))
        depth, heir = np.int64(v.start[runs + run]), v.above[runs + run]
        if run == end:
            v.start[runs + end] += 1
        else:
            lose_slot(v, runs, run)
    if top != run and top != end:
        begin = first + v.begin[p]
        if taken < v.before[p]:  # all of run ``top`` is of the event before, at one time
            put(v, begin - 1 - taken, heir)
        else:
            pass_down(v, first, find(v, first, begin, run), heir, top)
        lose_slot(v, runs, top)
    put(v, first + v.next[p] - 1 - taken, np.int32(v.newest[p]))
    v.taken[p] = taken + 1
    return depth


@inline
def look_up(v, p, base, ids, depth, low, high):
    """Look an event up that wants experts of one part."""
    open_event(v, p, high - low)
    for i in range(high - 1, low - 1, -1):
        depth[i] = depth_of(v, p, base + ids[i])
    for i in range(low, high):
        v.since[base + ids[i]] = v.next[p]
    close_event(v, p)


@inline
def look_up_apart(v, part_of, width, widest, base, ids, depth, low, high):
    """Look an event up that wants experts of several parts, ``width`` of each; zeros again afterwards."""
    for i in range(low, high):
        p = part_of[base + ids[i]]
        if width[p] > 0:
            widest[p] = max(widest[p], width[p])
            open_event(v, p, width[p])
            width[p] = 0
    for i in range(high - 1, low - 1, -1):
        depth[i] = depth_of(v, part_of[base + ids[i]], base + ids[i])
    for i in range(low, high):
        p = part_of[base + ids[i]]
        v.since[base + ids[i]] = v.next[p]
        close_event(v, p)


@loop(types.void(LOOKUPS, VACANCIES, _I64, _I64, _I64, types.int64, types.int64, types.boolean))
def belady_depths(lookups, vacancies, part_of, width, widest, layers, experts, sequential):
    """Find a chunk's depths under the offline bound, at all capacities that hold its events.

    Parameters
    ----------
    lookups : Lookups
        Ids are given: an event's unique ones, ascending, or (sequential) occurrences; depths are filled.
    vacancies : Vacancies
        Changed in place.
    part_of, width, widest, layers, experts, sequential
        As in :func:`replay.stack.line.lru_depths`.
    """
    offsets, ids, depth = lookups
    sole = len(widest) == 1
    for event in range(len(offsets) - 1):
        base, first, last = (event % layers) * experts, offsets[event], offsets[event + 1]
        step = 1 if sequential else max(last - first, 1)
        for low in range(first, last, step):
            high = low + step
            p = np.int64(0) if sole else part_of[base + ids[low]]
            if not sole and not sequential:
                for i in range(low, high):
                    width[part_of[base + ids[i]]] += 1
                if width[p] < step:
                    look_up_apart(vacancies, part_of, width, widest, base, ids, depth, low, high)
                    continue
                width[p] = 0
            widest[p] = max(widest[p], step)
            look_up(vacancies, p, base, ids, depth, low, high)


@loop(types.void(_I32, VACANCIES, _I64))
def belady_start(numbers, vacancies, part_of):
    """Insert a recorded start, one expert after the other."""
    for number in numbers:
        p = part_of[number]
        open_event(vacancies, p, np.int64(1))
        depth_of(vacancies, p, np.int64(number))
        vacancies.since[number] = vacancies.next[p]
        close_event(vacancies, p)
