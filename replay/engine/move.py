"""Moves of slots: load, hit, issue, retire, reclaim, limbo (semantics 4)."""

from __future__ import annotations

import numpy as np

import replay.arena.record as ar
import replay.clock.log as op
import replay.engine.frame as fr
from replay.arena.free_slot import give_free, take_free
from replay.arena.record import bytes_of, link_head, link_tail, number_of, part_holding, part_of, unlink
from replay.evict import plain
from replay.evict.plain import move_to_head, tail_victim
from replay.jit import called, inline


@inline
def log(m, rows, operation, argument):
    """Append a row to the event log; nothing where none is kept."""
    n = m[ar.LOGGED]
    if n < rows.shape[0]:
        rows[n, 0] = operation
        rows[n, 1] = argument
        m[ar.LOGGED] = n + 1


@inline
def count(m, layer, counter, amount):
    """Add to a counter of the window, at the layer it belongs to."""
    m[m[ar.TALLY] + ar.TALLY_WORDS * layer + counter] += amount


@inline
def refund(m, p, key):
    """An expert leaves its part: its bytes count no more."""
    if m[ar.BYTES_BOUND]:
        m[p + ar.USED] -= bytes_of(m, key)


@inline
def find_victim(m, p, key, victim):
    """Evict a victim of a part; hot experts only when nothing else is (semantics 4). -1: none; or ``DECLINED``."""
    s = tail_victim(m, p) if m[ar.INSIDE] & plain.VICTIM else victim(m, p, key)
    hot = m[ar.HOTNOW]
    if s == -1 and hot >= 0 and hot < ar.BEATEN:
        m[ar.HOTNOW] = -1
        s = victim(m, p, key)
        m[ar.HOTNOW] = hot
    if s >= 0:
        old = m[s + ar.KEY]
        m[m[ar.SLOT_OF] + number_of(m, old)] = ar.ABSENT
        m[p + ar.COUNT] -= 1
        refund(m, p, old)
    return s


@inline
def place(m, p, s, key, layer, state):
    """Put an expert into a slot."""
    m[s + ar.KEY] = key
    m[s + ar.LAYER] = layer
    m[s + ar.STATE] = state
    m[m[ar.SLOT_OF] + number_of(m, key)] = s
    if m[ar.BYTES_BOUND]:
        m[p + ar.USED] += bytes_of(m, key)
    if m[ar.TRACKED]:
        m[s + ar.HOT] = 0
        m[s + ar.HELD] = 0


@inline
def note_use(m, s):
    """Stamp a slot as used now and count the claim, where somebody needs to know."""
    if m[ar.TRACKED]:
        m[ar.TICK] += 1
        m[s + ar.USED_AT] = m[ar.TICK]
        m[s + ar.HELD] += m[ar.OWN]


@inline
def note_touch(m, s):
    """Stamp a slot as used now; a guess is no claim."""
    if m[ar.TRACKED]:
        m[ar.TICK] += 1
        m[s + ar.USED_AT] = m[ar.TICK]


@inline
def publish(m, p, s, enter):
    """Enter a slot into the eviction order as a fresh load (its own claim with it where ar.OWN is set)."""
    m[s + ar.STATE] = ar.RESIDENT
    m[p + ar.COUNT] += 1
    note_use(m, s)
    if m[ar.INSIDE] & plain.ENTER:
        link_head(m, p, s)
    else:
        enter(m, p, s)


@inline
def claim_resident(m, s, claim):
    """Tell the policy of a hit."""
    inside = m[ar.INSIDE]
    if inside & plain.MOVE:
        move_to_head(m, part_holding(m, s), s)
    elif not inside & plain.STAY:
        claim(m, part_holding(m, s), s)


@called
def trim(m, p, victim):
    """Evict in victim order until a byte budget fits or nothing is left to evict."""
    while m[p + ar.USED] > m[p + ar.BUDGET]:
        s = find_victim(m, p, np.int64(-1), victim)
        if s < 0:
            break
        give_free(m, p, s)


@inline
def count_retired(m, rows, s):
    """Count and log a read-ahead that nobody claimed, at its target layer."""
    key = m[s + ar.KEY]
    count(m, m[s + ar.LAYER], fr.RETIRED, 1)
    count(m, m[s + ar.LAYER], fr.RETIRED_BYTES, bytes_of(m, key))
    log(m, rows, op.OP_RETIRE, number_of(m, key))


@inline
def leave_speculation(m, p, s):
    """Take a slot out of speculation."""
    unlink(m, s)
    m[p + ar.PART_SPECULATIVE] -= 1
    m[ar.SPECULATIVE] -= 1


@called
def reclaim(m, p, rows):
    """Slot for a demand miss without a victim: limbo, then unwanted speculation, lowest slot first; or -1."""
    if m[p + ar.PART_LIMBO] > 0:
        for s in range(m[p + ar.FIRST], m[p + ar.FRESH], ar.SLOT):
            if m[s + ar.STATE] == ar.LIMBO:
                m[p + ar.PART_LIMBO] -= 1
                m[ar.LIMBO_SLOTS] -= 1
                refund(m, p, m[s + ar.KEY])
                return s
    if m[p + ar.PART_SPECULATIVE] > 0:
        for s in range(m[p + ar.FIRST], m[p + ar.FRESH], ar.SLOT):
            if m[s + ar.STATE] == ar.SPECULATION and m[s + ar.WANTED] != m[ar.EVENT]:
                key = m[s + ar.KEY]
                leave_speculation(m, p, s)
                m[m[ar.SLOT_OF] + number_of(m, key)] = ar.ABSENT
                refund(m, p, key)
                count_retired(m, rows, s)
                return s
    return np.int64(-1)


@inline
def load(m, rows, number, was, layer, enter, victim):
    """Load a missing expert, of which ``SLOT_OF`` said ``was``, and claim it.

    Returns its slot; ``DECLINED`` where the policy reads it into a transient slot that is gone at the event's
    end; -1 where the arena cannot hold the event.
    """
    key = m[ar.KEYS] + ar.KEY_SIZE * number
    p = part_of(m, key)
    s = take_free(m, p)
    if s < 0:
        s = find_victim(m, p, key, victim)
    if s == -1:
        s = reclaim(m, p, rows)
        if s < 0:
            return s
    if s >= 0:
        place(m, p, s, key, layer, ar.RESIDENT)
        m[s + ar.PIN] = m[ar.NOW]
        publish(m, p, s, enter)
    else:
        m[key + ar.TRANSIENT] = m[ar.EVENT]
        m[m[ar.SLOT_OF] + number] = ar.ABSENT
    count(m, layer, fr.MISSES, 1)
    if was == ar.DISPLACED:
        count(m, layer, fr.POLLUTION, 1)
    count(m, layer, fr.DEMAND_BYTES, bytes_of(m, key))
    log(m, rows, op.OP_DEMAND, number)
    return s


@called
def first_use(m, rows, s, layer, enter):
    """Claim a read-ahead: its slot enters the eviction order."""
    p, key = part_holding(m, s), m[s + ar.KEY]
    leave_speculation(m, p, s)
    publish(m, p, s, enter)
    if m[ar.GUESS_TAIL] and not m[ar.PREFILL]:
        unlink(m, s)
        link_tail(m, p, s)
    count(m, layer, fr.PREFETCH_HITS, 1)
    count(m, layer, fr.CLAIMED_BYTES, bytes_of(m, key))
    log(m, rows, op.OP_CLAIM, number_of(m, key))


@inline
def hit(m, rows, s, layer, enter, claim):
    """Claim a present expert: an arena hit, or the first use of a read-ahead. Returns the outcome."""
    if m[s + ar.STATE] == ar.RESIDENT:
        note_use(m, s)
        claim_resident(m, s, claim)
        count(m, layer, fr.HITS, 1)
        return 1
    first_use(m, rows, s, layer, enter)
    return 2


@inline
def room_for_guess(m, p, key, victim):
    """Slot for a guess: a free one or a victim's; under a byte budget, once it fits. -1 where there is none."""
    while True:
        fits = not m[ar.BYTES_BOUND] or m[p + ar.USED] + bytes_of(m, key) <= m[p + ar.BUDGET]
        if fits:
            s = take_free(m, p)
            if s >= 0:
                return s
        s = find_victim(m, p, np.int64(-1), victim)
        if s >= 0:
            m[m[ar.SLOT_OF] + number_of(m, m[s + ar.KEY])] = ar.DISPLACED
        if s < 0 or fits:
            return s
        give_free(m, p, s)


@called
def beats(m, number, rates):
    """Let a guess evict only what it beats: ``factor * uses + number`` of uses must not exceed its own."""
    mine = m[m[ar.USES] + number]
    factor, more = rates[fr.SPARE_FACTOR], rates[fr.SPARE_USES]
    limit = np.int64(-1)
    if more <= mine:
        limit = np.int64(1) << 38
        if factor > 0.0:
            limit = np.int64(min((mine - more) / factor, 2.0**38))
            while factor * (limit + 1) + more <= mine and limit < 1 << 38:
                limit += 1
            while limit >= 0 and factor * limit + more > mine:
                limit -= 1
    m[ar.HOTNOW] = ar.BEATEN + limit + 1


@called
def issue(m, rows, number, layer, victim):
    """Read one guess ahead: a slot turns speculative, or the guess is dropped. Says whether it was issued."""
    key = m[ar.KEYS] + ar.KEY_SIZE * number
    p = part_of(m, key)
    s = room_for_guess(m, p, key, victim)
    if s < 0:
        count(m, layer, fr.DROPPED, 1)
        return False
    place(m, p, s, key, layer, ar.SPECULATION)
    m[s + ar.WANTED] = -1
    link_tail(m, m[ar.SPEC_LISTS] + 2 * layer, s)
    m[p + ar.PART_SPECULATIVE] += 1
    m[ar.SPECULATIVE] += 1
    m[ar.PEAK_SPECULATIVE] = max(m[ar.PEAK_SPECULATIVE], m[ar.SPECULATIVE])
    count(m, layer, fr.ISSUED, 1)
    count(m, layer, fr.ISSUED_BYTES, bytes_of(m, key))
    log(m, rows, op.OP_ISSUE, number)
    return True


@inline
def retire_layer(m, rows, layer, split):
    """Step 4: unwanted speculation of the layer goes to the new limbo generation, or is free at once."""
    lists = m[ar.SPEC_LISTS] + 2 * layer
    if m[lists + ar.NEXT] != lists:
        retire_list(m, rows, lists, split)


@called
def retire_list(m, rows, lists, split):
    """Retire a layer's speculation, which stands in a list."""
    s = m[lists + ar.NEXT]
    while s != lists:
        after = m[s + ar.NEXT]
        key, p = m[s + ar.KEY], part_holding(m, s)
        leave_speculation(m, p, s)
        m[m[ar.SLOT_OF] + number_of(m, key)] = ar.ABSENT
        count_retired(m, rows, s)
        if split:
            m[s + ar.STATE] = ar.LIMBO
            m[s + ar.GENERATION] = m[ar.EVENT]
            m[m[ar.NEW] + m[ar.NEW_COUNT]] = s
            m[ar.NEW_COUNT] += 1
            m[p + ar.PART_LIMBO] += 1
            m[ar.LIMBO_SLOTS] += 1
        else:
            refund(m, p, key)
            give_free(m, p, s)
        s = after
    m[ar.NEW_GENERATION] = m[ar.EVENT]
    m[ar.PEAK_LIMBO] = max(m[ar.PEAK_LIMBO], m[ar.LIMBO_SLOTS])


@inline
def turn_limbo(m):
    """After an event: free the old generation's slots that were not reclaimed; new becomes old."""
    if m[ar.OLD_COUNT] + m[ar.NEW_COUNT] > 0:
        turn_generations(m)


@called
def turn_generations(m):
    """Free the old generation, make the new one old."""
    for i in range(m[ar.OLD_COUNT]):
        s = m[m[ar.OLD] + i]
        if m[s + ar.STATE] == ar.LIMBO and m[s + ar.GENERATION] == m[ar.OLD_GENERATION]:
            p = part_holding(m, s)
            m[p + ar.PART_LIMBO] -= 1
            m[ar.LIMBO_SLOTS] -= 1
            refund(m, p, m[s + ar.KEY])
            give_free(m, p, s)
    m[ar.OLD], m[ar.NEW] = m[ar.NEW], m[ar.OLD]
    m[ar.OLD_COUNT], m[ar.NEW_COUNT] = m[ar.NEW_COUNT], 0
    m[ar.OLD_GENERATION] = m[ar.NEW_GENERATION]
