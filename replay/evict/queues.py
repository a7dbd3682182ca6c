"""Queues of the policies that have several: their slots in each part, and remarks on them at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator

from replay.arena.record import (
    CAPACITY,
    DECODED,
    GHOST,
    PART,
    PART_COUNT,
    PARTS,
    PREFILL,
    TOKEN,
    WORK,
    unlink,
)
from replay.declare.queue_size import queue_slots
from replay.jit import inline

LOADS = WORK + 15
"""Experts that decode windows loaded into a part, guesses that were claimed included."""


@inline
def count_load(m, p):
    """Count an expert that enters a part in a decode window."""
    m[p + LOADS] += 1 - m[PREFILL]


@inline
def recall(m, p, key, size):
    """Take an absent expert's id out of the ghosts that word ``size`` of the part counts; 1 where it was there."""
    if m[key + GHOST] == 0:
        return 0
    m[key + GHOST] = 0
    m[p + size] -= 1
    unlink(m, key)
    return 1


def parts(m) -> Iterator[int]:
    """Addresses of the parts, in order."""
    for i in range(int(m[PART_COUNT])):
        yield int(m[PARTS]) + PART * i


def slots_in(m, p, size) -> int:
    """Slots of a queue of a declared size in one part; at least one."""
    return queue_slots(size, int(m[p + CAPACITY]), int(m[TOKEN]))


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def remarks(m, queues, probation) -> list[str]:
    """Say how many slots each queue came to, and warn where fresh experts leave before a token is over.

    Parameters
    ----------
    m : int64[n]
        The arena's memory after a run.
    queues : mapping of str to int
        Each queue's name and the word of a part that holds its slots (or ids, for ghosts).
    probation : str
        The queue in which fresh experts wait for a second use.

    Returns
    -------
    list of str
        The resolved sizes; and a warning where an average decode window loads more experts into a part than its
        probation queue holds.
    """
    every = [p for p in parts(m) if m[p + CAPACITY] > 0]
    if not every:
        return []
    sizes = ", ".join(f"{queue} {_span([int(m[p + at]) for p in every])}" for queue, at in queues.items())
    where = f" in each of {len(every)} arenas" if len(every) > 1 else ""
    found = [f"slots of its queues{where}: {sizes}"]
    if m[DECODED] == 0:
        return found
    loads = [(int(m[p + LOADS]) / int(m[DECODED]), int(m[p + queues[probation]])) for p in every]
    short = [(load, slots) for load, slots in loads if slots < load]
    if short:
        load, slots = max(short, key=lambda each: each[0] / each[1])
        some = f" ({len(short)} of {len(every)} arenas; the worst is named)" if len(every) > 1 else ""
        found.append(
            f"warning: one token loads {load:.0f} experts, but {probation} has {slots} slots{some}: fresh "
            f"experts leave before their next use; try {probation}=1tok"
        )
    return found
