"""One event: what it wants, its hits and misses in order, its end (semantics 4)."""

from __future__ import annotations

import numpy as np

import replay.arena as ar
import replay.engine.frame as fr
from replay.engine.guess import rank_row
from replay.engine.move import hit, load, retire_layer, trim
from replay.jit import inline


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


@inline
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


@inline
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


@inline
def new_occurrences(m, w, layer, row, events, router, settings, rates, work, out):
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
                if out.given_up.shape[0] > 0 and got > 0:
                    out.given_up[at] = mass_given_up(chosen, got, router, work)
        if not known:
            for i in range(low_pick, high_pick):
                work.occurrence[n] = events.picks[i]
                n += 1
            continue
        out.counts[row, fr.PICKS_MADE] += n - start
        for i in range(start, n):
            for j in range(low_pick, high_pick):
                if events.picks[j] == work.occurrence[i]:
                    out.counts[row, fr.PICKS_KEPT] += 1
    return n


@inline
def unique(work, n):
    """Unique ids of the first ``n`` occurrences, ascending, into ``work.wants``; returns how many."""
    work.stamp[0] += 1
    stamp = work.stamp[0]
    count = np.int64(0)
    for i in range(n):
        e = work.occurrence[i]
        if work.mark[e] != stamp:
            work.mark[e] = stamp
            count = insert_id(work.wants, count, e)
    return count


@inline
def last_order(work, n):
    """Unique ids of ``n`` occurrences in the order of their last one, into ``work.order``; returns how many."""
    work.stamp[0] += 1
    stamp = work.stamp[0]
    count = np.int64(0)
    for i in range(n - 1, -1, -1):
        e = work.occurrence[i]
        if work.mark[e] != stamp:
            work.mark[e] = stamp
            work.order[count] = e
            count += 1
    for i in range(count // 2):
        work.order[i], work.order[count - 1 - i] = work.order[count - 1 - i], work.order[i]
    return count


@inline
def fail(m, out, window, layer, number, base, wants, low, high):
    """Record why the replay stops: the arena cannot hold one event."""
    p = m[m[ar.KEYS] + ar.KEY_SIZE * number + ar.KEY_PART]
    needed = np.int64(0)
    for i in range(low, high):
        if m[m[ar.KEYS] + ar.KEY_SIZE * (base + wants[i]) + ar.KEY_PART] == p:
            needed += 1
    out.failure[fr.FAILED] = 1
    out.failure[fr.FAIL_WINDOW] = window
    out.failure[fr.FAIL_LAYER] = layer
    out.failure[fr.FAIL_CLASS] = m[p + ar.CLASS]
    out.failure[fr.FAIL_SLOTS] = (m[p + ar.FRESH] - m[p + ar.FIRST]) // ar.SLOT
    out.failure[fr.FAIL_NEEDED] = needed


@inline
def pin_present(m, base, wants, low, high):
    """Pin every wanted slot that is present, and mark it as wanted by this event."""
    m[ar.NOW] += 1
    table = m[ar.SLOT_OF] + base
    for i in range(low, high):
        s = m[table + wants[i]]
        if s >= 0:
            m[s + ar.PIN] = m[ar.NOW]
            m[s + ar.WANTED] = m[ar.EVENT]


@inline
def play_atomic(m, layer, first_row, wants, low, high, experts, logging, keep, out, enter, claim, victim):
    """Hits, then misses, each ascending (order ``id``). Returns the id that found no slot, or -1."""
    row = first_row + layer
    base = layer * experts
    table = m[ar.SLOT_OF] + base
    missing = np.int64(0)
    for i in range(low, high):
        s = m[table + wants[i]]
        if s < 0:
            missing += 1
            continue
        outcome = hit(m, s, row, logging, out, enter, claim)
        if keep:
            out.got[i] = outcome
    if missing > 0:
        for i in range(low, high):
            if m[table + wants[i]] >= 0:
                continue
            if load(m, base + wants[i], layer, first_row, logging, out, enter, victim) == -1:
                return np.int64(wants[i])
    return np.int64(-1)


@inline
def play_in_order(m, layer, first_row, count, experts, logging, out, work, enter, claim, victim):
    """Claims and loads in one pass over ``work.order`` (order ``rows``). Returns the id without a slot, or -1."""
    base = layer * experts
    for i in range(count):
        e = work.order[i]
        s = m[m[ar.SLOT_OF] + base + e]
        if s >= 0:
            hit(m, s, first_row + layer, logging, out, enter, claim)
        elif load(m, base + e, layer, first_row, logging, out, enter, victim) == -1:
            return np.int64(e)
    return np.int64(-1)


@inline
def play_sequential(m, layer, first_row, count, experts, logging, keep, at, out, work, enter, claim, victim):
    """Every occurrence is a lookup of its own; nothing is pinned. Returns the id without a slot, or -1."""
    base = layer * experts
    for i in range(count):
        e = work.occurrence[i]
        s = m[m[ar.SLOT_OF] + base + e]
        m[ar.NOW] += 1
        outcome = 0
        if s >= 0:
            outcome = hit(m, s, first_row + layer, logging, out, enter, claim)
        elif m[m[ar.KEYS] + ar.KEY_SIZE * (base + e) + ar.TRANSIENT] == m[ar.EVENT]:
            out.counts[first_row + layer, fr.HITS] += 1
            outcome = 1
        else:
            s = load(m, base + e, layer, first_row, logging, out, enter, victim)
            if s == -1:
                return np.int64(e)
            if m[ar.BYTES_BOUND]:
                trim(m, m[s + ar.OF_PART], victim)
        if keep:
            out.got[at + i] = outcome
    return np.int64(-1)


@inline
def event(m, w, layer, settings, rates, events, router, work, out, enter, claim, victim):
    """One event, steps 1 to 5. Returns False where the arena cannot hold it."""
    layers, experts, logging = settings[fr.LAYERS], settings[fr.EXPERTS], settings[fr.LOGGING]
    first_row = w * layers
    row = first_row + layer
    base = layer * experts
    rerouted = settings[fr.ROUTES] != fr.RECORDED
    sequential = settings[fr.CELL] == fr.SEQUENTIAL
    by_rows = settings[fr.ORDER] == fr.BY_ROWS
    keep = out.got.shape[0] > 0
    count = np.int64(0)
    if rerouted:
        count = new_occurrences(m, w, layer, row, events, router, settings, rates, work, out)
        wants, low, high = work.wants, np.int64(0), unique(work, count)
    else:
        if sequential or by_rows:
            count = recorded_occurrences(w, layer, layers, events, work)
        wants, low, high = events.wants, events.want_offsets[row], events.want_offsets[row + 1]
    if settings[fr.STREAM] != fr.STREAM_OFF:
        for i in range(low, high):
            m[m[ar.USES] + base + wants[i]] += 1
    if settings[fr.LOOK_AHEAD]:
        for i in range(low, high):
            m[m[ar.KEYS] + ar.KEY_SIZE * (base + wants[i]) + ar.NEXT_USE] = events.next_use[i]
    pin_present(m, base, wants, low, high)
    if sequential:
        out.counts[row, fr.LOOKUPS] += count
        at = out.filled[1]
        out.filled[1] += count
        lost = play_sequential(
            m, layer, first_row, count, experts, logging, keep, at, out, work, enter, claim, victim
        )
    elif by_rows:
        out.counts[row, fr.LOOKUPS] += high - low
        if keep:
            for i in range(low, high):
                s = m[m[ar.SLOT_OF] + base + wants[i]]
                out.got[i] = 0 if s < 0 else (1 if m[s + ar.STATE] == ar.RESIDENT else 2)
        count = last_order(work, count)
        lost = play_in_order(m, layer, first_row, count, experts, logging, out, work, enter, claim, victim)
    else:
        out.counts[row, fr.LOOKUPS] += high - low
        lost = play_atomic(
            m, layer, first_row, wants, low, high, experts, logging, keep, out, enter, claim, victim
        )
    if lost >= 0:
        fail(m, out, settings[fr.FIRST_WINDOW] + w, layer, base + lost, base, wants, low, high)
        return False
    retire_layer(m, layer, row, settings[fr.SPLIT], logging, out)
    if m[ar.BYTES_BOUND] and not sequential:
        trim(m, m[m[ar.KEYS] + ar.KEY_SIZE * base + ar.KEY_PART], victim)
    m[ar.NOW] += 1
    return True
