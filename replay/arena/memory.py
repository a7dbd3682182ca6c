"""A replay's memory, laid out cold: where its records and tables begin (what they are: :mod:`replay.arena.record`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import replay.arena.record as ar
from replay.arena.partition import Plan


def _slot_counts(plan: Plan, sizes: NDArray[np.int64], experts: int) -> NDArray[np.int64]:
    """Slots to lay out for each part: no more than can ever be in use at once."""
    most = plan.keys + 2 * experts + 8
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
    at = ar.HEADER
    part_at = at + ar.PART * np.arange(parts)
    at += ar.PART * parts
    spec_at, at = at, at + 2 * layers
    limbo_at, at = at, at + 2 * experts
    at += -at % 16
    slot_at = at + ar.SLOT * np.concatenate(([0], np.cumsum(slots)[:-1]))
    at += ar.SLOT * int(slots.sum())
    at += -at % 16
    key_at, at = at, at + ar.KEY_SIZE * keys
    slot_of_at, at = at, at + keys
    uses_at, at = at, at + keys
    tally_at, at = at, at + ar.TALLY_WORDS * layers
    past_at, at = at, at + past_words
    heap_at = at + np.concatenate(([0], np.cumsum(slots)[:-1]))
    at += int(slots.sum())
    extra_at = at + np.concatenate(([0], np.cumsum(extra)[:-1]))
    at += int(extra.sum())
    m = aligned(at)  # which ends with the last part's own block
    m[[ar.NOW, ar.AVOID, ar.OWN, ar.HOTNOW]] = 0, -1, 1, -1
    m[ar.EVENT_TIMES], m[ar.WINDOW_TIMES], m[ar.EQUAL_TIMES] = 1, layers, 1
    m[[ar.SLOT_OF, ar.KEYS, ar.SPEC_LISTS, ar.USES, ar.PARTS, ar.PART_COUNT]] = (
        slot_of_at,
        key_at,
        spec_at,
        uses_at,
        ar.HEADER,
        parts,
    )
    m[[ar.OLD, ar.NEW, ar.OLD_GENERATION, ar.NEW_GENERATION]] = limbo_at, limbo_at + experts, -1, -1
    m[ar.TALLY], m[ar.PAST] = tally_at, past_at
    m[ar.SOLE_PART] = part_at[0] if parts == 1 else -1
    m[ar.EQUAL_BYTES] = sizes.flat[0] if (sizes == sizes.flat[0]).all() else -1
    m[ar.BYTES_BOUND], m[ar.SEED] = int(plan.by_bytes), seed
    m[ar.TOKEN] = top_k if plan.by_layer else layers * top_k
    m[slot_of_at : slot_of_at + keys] = ar.ABSENT
    for lists in (part_at, spec_at + 2 * np.arange(layers)):
        m[lists + ar.PREV] = lists
        m[lists + ar.NEXT] = lists
    for i in range(8):
        own = part_at + ar.LISTS + 2 * i
        m[own + ar.PREV] = own
        m[own + ar.NEXT] = own
    m[part_at + ar.CAPACITY] = slots if plan.by_bytes else plan.capacity
    m[part_at + ar.FRESH] = m[part_at + ar.FIRST] = slot_at
    m[part_at + ar.END] = slot_at + ar.SLOT * slots
    m[part_at + ar.HEAP], m[part_at + ar.EXTRA] = heap_at, extra_at
    m[part_at + ar.BUDGET], m[part_at + ar.CLASS] = plan.budget, plan.classes
    for p, first in enumerate(slot_at):
        every = first + ar.SLOT * np.arange(slots[p])
        m[every + ar.PIN] = -1
        m[every + ar.OF_PART] = part_at[p]
    records = key_at + ar.KEY_SIZE * np.arange(keys)
    m[records + ar.BYTES] = sizes.ravel()
    m[records + ar.KEY_PART] = part_at[plan.part_of]
    m[records + ar.NUMBER] = np.arange(keys)
    m[records + ar.NEXT_USE] = ar.FAR
    m[records + ar.TRANSIENT] = -1
    return m
