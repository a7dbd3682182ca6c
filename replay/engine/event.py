"""One event: what it wants, its hits and misses in order, its end (semantics 4)."""

from __future__ import annotations

import numpy as np

import replay.arena.record as ar
import replay.engine.frame as fr
from replay.arena.record import part_holding, part_of
from replay.engine.guess import learn, rank_row
from replay.engine.move import claim_resident, count, first_use, hit, load, note_use, retire_layer, trim
from replay.jit import called, inline


@inline
def insert_id(wants, n, e):
    """Insert into an ascending list of ``n`` ids unless it is there; returns the new length."""
    i = n
    while i > 0 and wants[i - 1] > e:
        i -= 1
    if i > 0 and wants[i - 1] == e:
        return n
    for j in range(n, i, -1):
        wants[j] = wants[j - 1]
    wants[i] = e
    return n + 1


@called
def recorded_occurrences(w, layer, layers, events, work):
    """The event's recorded picks, row-major and rank order, into ``work.occurrence``; returns how many."""
    n = np.int64(0)
    for r in range(events.rows_used[w]):
        at = (events.row_start[w] + r) * layers + layer
        for i in range(events.pick_offsets[at], events.pick_offsets[at + 1]):
            work.occurrence[n] = events.picks[i]
            n += 1
    return n


@inline
def prior_bonus(layer, chosen, router, settings, rates):
    """Resident bonus of ``cacheprior``: lambda times the layer's running spread of scores, this row's included."""
    at = fr.SPREAD + layer
    span = np.float64(router.span[chosen])
    rates[at] = span if rates[at] < 0.0 else fr.SPREAD_KEPT * rates[at] + (1.0 - fr.SPREAD_KEPT) * span
    return rates[fr.PRIOR] * rates[at]


@called
def reroute_row(m, w, layer, r, chosen, events, router, settings, rates, work):
    """New picks of one row from its router scores and the replayed residency; returns how many."""
    draft = r > 0 and settings[fr.DRAFT_MOCE] and not events.prefill[w]
    protect = settings[fr.ROUTE_PROTECT]
    bonus, rank1 = rates[fr.ROUTE_BONUS], rates[fr.ROUTE_RANK1]
    if settings[fr.CACHE_PRIOR]:
        bonus, rank1 = prior_bonus(layer, chosen, router, settings, rates), 0.0
    elif draft:
        protect, bonus, rank1 = np.int64(1), 2.0 * bonus, 0.0
    return rank_row(
        m, layer, router.offsets[chosen], router.offsets[chosen + 1], True, router.ids, router.scores,
        settings[fr.TOP_K], protect, bonus, rank1, settings[fr.EXPERTS], work, work.place,
    )  # fmt: skip


@inline
def mass_given_up(chosen, got, router, work):
    """Share of the softmax mass of the raw best ``got`` experts that the picks in ``work.place`` lack."""
    low = router.offsets[chosen]
    best = np.float64(router.scores[low])
    raw, kept = 0.0, 0.0
    for i in range(got):
        raw += np.exp(np.float64(router.scores[low + i]) - best)
        kept += np.exp(np.float64(router.scores[work.place[i]]) - best)
    return max(0.0, 1.0 - kept / raw)


@called
def new_occurrences(m, w, layer, events, router, settings, rates, work, given_up):
    """Picks of routes that are not the recorded ones, row-major and rank order; returns how many.

    A row without the scores that its routes need keeps its recorded picks. Picks that the recorded row holds too
    are counted as kept.
    """
    layers, top_k = settings[fr.LAYERS], settings[fr.TOP_K]
    n = np.int64(0)
    for r in range(events.rows_used[w]):
        at = (events.row_start[w] + r) * layers + layer
        low_pick, high_pick = events.pick_offsets[at], events.pick_offsets[at + 1]
        start = n
        if settings[fr.ROUTES] == fr.PREDICTED:
            cell = r * layers + layer
            known = work.predicted_count[cell] >= 0
            for i in range(work.predicted_count[cell]):
                work.occurrence[n] = work.predicted[cell * top_k + i]
                n += 1
        else:
            chosen = router.list[at]
            known = chosen >= 0
            if known:
                got = reroute_row(m, w, layer, r, chosen, events, router, settings, rates, work)
                for i in range(got):
                    work.occurrence[n] = router.ids[work.place[i]]
                    n += 1
                if given_up.shape[0] > 0 and got > 0:
                    given_up[at] = mass_given_up(chosen, got, router, work)
        if not known:
            for i in range(low_pick, high_pick):
                work.occurrence[n] = events.picks[i]
                n += 1
            continue
        count(m, layer, fr.PICKS_MADE, n - start)
        for i in range(start, n):
            for j in range(low_pick, high_pick):
                if events.picks[j] == work.occurrence[i]:
                    count(m, layer, fr.PICKS_KEPT, 1)
    return n


@called
def unique(work, n):
    """Unique ids of the first ``n`` occurrences, ascending, into ``work.wants``; returns how many."""
    work.stamp[0] += 1
    stamp = work.stamp[0]
    found = np.int64(0)
    for i in range(n):
        e = work.occurrence[i]
        if work.mark[e] != stamp:
            work.mark[e] = stamp
            found = insert_id(work.wants, found, e)
    return found


@called
def last_order(work, n):
    """Unique ids of ``n`` occurrences in the order of their last one, into ``work.order``; returns how many."""
    work.stamp[0] += 1
    stamp = work.stamp[0]
    found = np.int64(0)
    for i in range(n - 1, -1, -1):
        e = work.occurrence[i]
        if work.mark[e] != stamp:
            work.mark[e] = stamp
            work.order[found] = e
            found += 1
    for i in range(found // 2):
        work.order[i], work.order[found - 1 - i] = work.order[found - 1 - i], work.order[i]
    return found


@called
def fail(m, failure, window, layer, number, base, wants, low, high):
    """Record why the replay stops: the arena cannot hold one event."""
    p = part_of(m, m[ar.KEYS] + ar.KEY_SIZE * number)
    needed = np.int64(0)
    for i in range(low, high):
        if m[m[ar.KEYS] + ar.KEY_SIZE * (base + wants[i]) + ar.KEY_PART] == p:
            needed += 1
    failure[fr.FAILED] = 1
    failure[fr.FAIL_WINDOW] = window
    failure[fr.FAIL_LAYER] = layer
    failure[fr.FAIL_CLASS] = m[p + ar.CLASS]
    failure[fr.FAIL_SLOTS] = (m[p + ar.FRESH] - m[p + ar.FIRST]) // ar.SLOT
    failure[fr.FAIL_NEEDED] = needed


@inline
def pin_present(m, base, wants, low, high):
    """Pin every wanted slot that is present, and mark it as wanted by this event."""
    m[ar.NOW] += 1
    table = m[ar.SLOT_OF] + base
    for i in range(low, high):
        s = m[table + wants[i]]
        if s >= 0:
            m[s + ar.PIN] = m[ar.NOW]
            if m[s + ar.STATE] != ar.RESIDENT:
                m[s + ar.WANTED] = m[ar.EVENT]


@inline
def claim_present(m, rows, layer, wants, low, high, base, slots, order, enter, claim):
    """Pin and claim the present ids, ascending (order ``id``); the absent ones into ``order``; returns how many.

    They are parted first, without a branch, so that reads of memory need not wait for each other. All are pinned
    before the first is claimed: a claim may evict (``lirs:demote``).
    """
    m[ar.NOW] += 1
    now, table = m[ar.NOW], m[ar.SLOT_OF] + base
    present, absent = np.int64(0), np.int64(0)
    for i in range(low, high):
        s = m[table + wants[i]]
        slots[present], order[absent] = s, wants[i]
        m[max(s, ar.NO_SLOT) + ar.PIN] = now
        missing = np.int64(s < 0)
        absent += missing
        present += 1 - missing
    claimed = np.int64(0)
    for i in range(present):
        s = slots[i]
        if m[s + ar.STATE] == ar.RESIDENT:
            note_use(m, s)
            claim_resident(m, s, claim)
        else:
            m[s + ar.WANTED] = m[ar.EVENT]
            first_use(m, rows, s, layer, enter)
            claimed += 1
    count(m, layer, fr.HITS, present - claimed)
    return absent


@inline
def foretell(m, number, next_use, later, i):
    """Write a want's next use into its expert's record."""
    key = m[ar.KEYS] + ar.KEY_SIZE * number
    m[key + ar.NEXT_USE] = next_use[i]
    if later.shape[0] > 0:
        m[key + ar.LATER] = later[i]


@inline
def play(m, rows, layer, order, lookups, base, sequential, next_use, later, got, at, enter, claim, victim):
    """Claim or load one expert after the other; returns the id that found no slot, or -1.

    In ``sequential`` cells nothing is pinned: each lookup stands alone, and a byte budget is trimmed after a load. A
    miss that its policy declined lies in its transient slot until the event's end: later lookups of it there hit.
    """
    table = m[ar.SLOT_OF] + base
    for i in range(lookups):
        e = order[i]
        s = m[table + e]
        if sequential:
            m[ar.NOW] += 1
            if next_use.shape[0] > 0:
                foretell(m, base + e, next_use, later, at + i)
        if s >= 0:
            outcome = hit(m, rows, s, layer, enter, claim)
        elif sequential and m[m[ar.KEYS] + ar.KEY_SIZE * (base + e) + ar.TRANSIENT] == m[ar.EVENT]:
            count(m, layer, fr.HITS, 1)
            outcome = 1
        else:
            s = load(m, rows, base + e, s, layer, enter, victim)
            if s == -1:
                return np.int64(e)
            if sequential and m[ar.BYTES_BOUND]:
                trim(m, part_holding(m, s), victim)
            outcome = 0
        if sequential and at + i < got.shape[0]:
            got[at + i] = outcome
    return np.int64(-1)


@inline
def look(m, wants, low, high, base, got):
    """Outcome of every want, as it stands before an atomic event."""
    for i in range(low, min(high, got.shape[0])):
        s = m[m[ar.SLOT_OF] + base + wants[i]]
        got[i] = 0 if s < 0 else (1 if m[s + ar.STATE] == ar.RESIDENT else 2)


@inline
def begin(m, base, wants, low, high, next_use, later, look_ahead, counts_uses):
    """Tell look-ahead policies the next uses, count uses for ``stream`` and ``spare``."""
    if counts_uses:
        for i in range(low, high):
            m[m[ar.USES] + base + wants[i]] += 1
    if look_ahead:
        for i in range(low, high):
            foretell(m, base + wants[i], next_use, later, i)


@inline
def finish(m, rows, layer, base, split, trimmed, victim):
    """Steps 4 and 5: retire what nobody wanted, trim a byte budget, unpin."""
    retire_layer(m, rows, layer, split)
    if trimmed:
        trim(m, part_of(m, m[ar.KEYS] + ar.KEY_SIZE * base), victim)
    m[ar.NOW] += 1


@inline
def event(m, w, layer, settings, rates, events, router, work, out, enter, claim, victim):
    """One event, steps 1 to 5. Returns False where the arena cannot hold it."""
    rows, got, row, base = out.log, out.got, w * settings[fr.LAYERS] + layer, layer * settings[fr.EXPERTS]
    sequential, by_rows = settings[fr.CELL] == fr.SEQUENTIAL, settings[fr.ORDER] == fr.BY_ROWS
    wants, low, high = events.wants, events.want_offsets[row], events.want_offsets[row + 1]
    occurrences = np.int64(0)
    if settings[fr.ROUTES] != fr.RECORDED:
        occurrences = new_occurrences(m, w, layer, events, router, settings, rates, work, out.given_up)
        wants, low, high = work.wants, np.int64(0), unique(work, occurrences)
        work.stamp[1] = high
    elif sequential or by_rows:
        occurrences = recorded_occurrences(w, layer, settings[fr.LAYERS], events, work)
    next_use, later = events.next_use, events.later
    look_ahead = settings[fr.LOOK_AHEAD] and not sequential
    begin(m, base, wants, low, high, next_use, later, look_ahead, settings[fr.COUNTS_USES])
    if settings[fr.READ_AHEAD] >= fr.PREVIOUS and not events.prefill[w]:
        learn(m, layer, wants, low, high, settings, work)
    order, lookups, at = work.order, high - low, np.int64(0)
    if sequential:
        order, lookups, at = work.occurrence, occurrences, out.looked[0]
        out.looked[0] += occurrences
    else:
        look(m, wants, low, high, base, got)
    count(m, layer, fr.LOOKUPS, lookups)
    if sequential or by_rows:
        pin_present(m, base, wants, low, high)
        if not sequential:
            last_order(work, occurrences)
    else:
        lookups = claim_present(m, rows, layer, wants, low, high, base, work.slots, order, enter, claim)
    lost = play(
        m, rows, layer, order, lookups, base, sequential, next_use, later, got, at, enter, claim, victim
    )
    if lost >= 0:
        fail(m, out.failure, settings[fr.FIRST_WINDOW] + w, layer, base + lost, base, wants, low, high)
        return False
    finish(m, rows, layer, base, settings[fr.SPLIT], m[ar.BYTES_BOUND] and not sequential, victim)
    return True
