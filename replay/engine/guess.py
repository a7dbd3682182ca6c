"""Read-ahead: rank a prediction at its moment, merge its rows, issue what is absent (semantics 3, 4)."""

from __future__ import annotations

import numpy as np

import replay.arena.record as ar
import replay.engine.frame as fr
import replay.gate.admission as ad
from replay.arena.record import part_holding
from replay.arena.sort import sort_words
from replay.engine.gate import describe, summarise, walk
from replay.engine.move import beats, issue, note_touch
from replay.jit import apart, called, inline
from replay.predict import previous, stmoe
from replay.router.rule import pick


@inline
def rank_row(m, layer, low, high, boosted, ids, scores, count, protect, bonus, rank1, experts, work, out):
    """Picks of one shortlisted row against the residency of this moment.

    Whether an expert is resident is looked up only where a boost can lift it to the ``count``-th best raw score.
    """
    if boosted:
        last, most = low + count - 1, max(bonus, rank1)
        while high - 1 > last and np.float64(scores[high - 1]) + most < np.float64(scores[last]):
            high -= 1
        table = m[ar.SLOT_OF] + layer * experts
        for i in range(low, high):
            s = max(m[table + ids[i]], ar.NO_SLOT)  # no branch: whether it is there cannot be foretold
            work.resident[i - low] = m[s + ar.STATE] == ar.RESIDENT
    return pick(scores, ids, low, high, work.resident, work.taken, count, protect, bonus, rank1, out)


@inline
def keep_prediction(cell, place, width, ids, settings, work):
    """Remember a row's best picks as its selection (routes ``predicted``)."""
    count = min(place[width], settings[fr.TOP_K])
    work.predicted_count[cell] = count
    for i in range(count):
        work.predicted[cell * settings[fr.TOP_K] + i] = ids[place[i]]


@inline
def merge(m, w, g, events, guesses, settings, rates, work):
    """Merged candidates of a prediction in ``work.merged``: best rank, then raw score, then id. Returns how many."""
    experts, count = settings[fr.EXPERTS], settings[fr.COUNT_K]
    predicting = settings[fr.ROUTES] == fr.PREDICTED
    wide = predicting or settings[fr.GATES] > 0
    width = max(count, settings[fr.TOP_K]) if wide else max(count, 1)
    target = guesses.target[g]
    ranked = np.int64(0)
    rows = np.int64(0)
    for i in range(guesses.first[g], guesses.last[g]):
        if guesses.row[i] >= events.rows_used[w]:
            continue
        low, high = guesses.offsets[guesses.list[i]], guesses.offsets[guesses.list[i] + 1]
        place = work.place[rows * (width + 1) :]
        place[width] = rank_row(
            m, target, low, high, settings[fr.BOOSTED], guesses.ids, guesses.scores, width if wide else count,
            settings[fr.PROTECT], rates[fr.BONUS], rates[fr.RANK1], experts, work, place,
        )  # fmt: skip
        if predicting:
            keep_prediction(
                guesses.row[i] * settings[fr.LAYERS] + target, place, width, guesses.ids, settings, work
            )
        rows += 1
    if predicting:
        count = min(count, settings[fr.TOP_K])
    if rows == 1:  # its picks in their order: no expert stands twice
        count = min(count, work.place[width])
        for i in range(count):
            work.merged[i] = guesses.ids[work.place[i]]
            work.best[i] = guesses.scores[work.place[i]]
        return count
    work.stamp[0] += 1
    stamp = work.stamp[0]
    for rank in range(count):
        start = ranked
        for r in range(rows):
            at = r * (width + 1)
            if rank >= work.place[at + width]:
                continue
            position = work.place[at + rank]
            e = np.int64(guesses.ids[position])
            score = np.float64(guesses.scores[position])
            if work.mark[e] == stamp:
                before = np.int64(-1)
                for j in range(start, ranked):
                    if work.merged[j] == e:
                        before = j
                if before < 0 or work.best[before] >= score:
                    continue
                for j in range(before, ranked - 1):
                    work.merged[j] = work.merged[j + 1]
                    work.best[j] = work.best[j + 1]
                ranked -= 1
            work.mark[e] = stamp
            j = ranked
            while j > start and (
                work.best[j - 1] < score or (work.best[j - 1] == score and work.merged[j - 1] > e)
            ):
                work.merged[j] = work.merged[j - 1]
                work.best[j] = work.best[j - 1]
                j -= 1
            work.merged[j] = e
            work.best[j] = score
            ranked += 1
    return ranked


@called
def learn(m, layer, wants, low, high, settings, work):
    """Let a read-ahead policy that learns from events see what a decode event wants."""
    experts = settings[fr.EXPERTS]
    if settings[fr.READ_AHEAD] == fr.SUCCESSORS and layer > 0:
        stmoe.teach(m, layer, settings[fr.LAYERS], experts, wants, low, high, work)
    previous.remember(m, layer, experts, wants, low, high)


@inline
def spare(m, layer, count, scope, experts, work):
    """What a guess must not evict: the target layer's experts, or with scope ``layer`` those of its own list."""
    m[ar.NOW] += 1
    if scope == 0:
        m[ar.AVOID] = layer
        return
    table = m[ar.SLOT_OF] + layer * experts
    for i in range(count):
        s = m[table + work.merged[i]]
        if s >= 0:
            m[s + ar.PIN] = m[ar.NOW]


@inline
def guess(m, rows, w, g, events, guesses, settings, rates, work, victim, touch, gating, plan, ask):
    """Act on one prediction: rank, merge, skip what is there, issue the rest (what the gates admit of it)."""
    layers, experts = settings[fr.LAYERS], settings[fr.EXPERTS]
    layer = guesses.target[g]
    row = w * layers + layer
    first = guesses.first[g]
    if first < guesses.last[g] and guesses.row[first] >= events.rows_used[w]:
        return
    if settings[fr.READ_AHEAD] == fr.ORACLE:
        count = np.int64(0)
        for i in range(events.want_offsets[row], events.want_offsets[row + 1]):
            work.merged[count] = events.wants[i]
            count += 1
    elif settings[fr.READ_AHEAD] == fr.LISTED:
        count = guesses.offsets[g + 1] - guesses.offsets[g]
        for i in range(count):
            work.merged[i] = guesses.ids[guesses.offsets[g] + i]
    elif settings[fr.READ_AHEAD] == fr.PREVIOUS:
        count = previous.propose(m, layer, experts, work.merged)
    elif settings[fr.READ_AHEAD] == fr.SUCCESSORS:
        count = stmoe.propose(m, layer, layers, experts, work)
    else:
        count = merge(m, w, g, events, guesses, settings, rates, work)
        if settings[fr.GATES]:
            describe(m, w, g, events, guesses, settings, rates, work, gating)
            if gating.words[ad.SUMMED]:
                summarise(count, settings, work, gating)
    spare(m, layer, count, settings[fr.SCOPE], experts, work)
    if settings[fr.GATES]:
        walk(m, rows, w, layer, count, settings, rates, work, gating, plan, ask, victim, touch)
        m[ar.AVOID] = -1
        return
    for i in range(count):
        number = layer * experts + work.merged[i]
        s = m[m[ar.SLOT_OF] + number]
        if s < 0:
            if settings[fr.SPARES]:
                beats(m, number, rates)
            issue(m, rows, number, layer, victim)
            m[ar.HOTNOW] = -1
        elif settings[fr.TOUCH] and m[s + ar.STATE] == ar.RESIDENT and touch(m, part_holding(m, s), s):
            note_touch(m, s)
    m[ar.AVOID] = -1


@apart
def stream(m, rows, layer, settings, work, victim):
    """Prefill ``stream``: read the layer's most used absent experts ahead, right before its event."""
    experts = settings[fr.EXPERTS]
    cap = settings[fr.STREAM]
    if cap == fr.STREAM_DEFAULT:
        cap = 128 if layer >= 40 else 256
    order = np.empty(experts, np.int64)
    for e in range(experts):
        order[e] = -m[m[ar.USES] + layer * experts + e] * experts + e
    sort_words(order, 0, experts)
    absent = np.int64(0)
    count = np.int64(0)
    for i in range(experts):
        if absent >= cap:
            break
        e = order[i] % experts
        work.merged[count] = e
        count += 1
        if m[m[ar.SLOT_OF] + layer * experts + e] < 0:
            absent += 1
            work.taken[e] = 1
        else:
            work.taken[e] = 0
    spare(m, layer, count, settings[fr.SCOPE], experts, work)
    for i in range(count):
        e = work.merged[i]
        if work.taken[e]:
            issue(m, rows, layer * experts + e, layer, victim)
    m[ar.AVOID] = -1


@apart
def mark_hot(m, count, stamp):
    """Mark the ``count`` most recent residents of every part as hot for this prefill window."""
    m[ar.HOTNOW] = stamp
    for i in range(m[ar.PART_COUNT]):
        p = m[ar.PARTS] + ar.PART * i
        ticks = np.empty(m[p + ar.COUNT], np.int64)
        n = np.int64(0)
        for s in range(m[p + ar.FIRST], m[p + ar.FRESH], ar.SLOT):
            if m[s + ar.STATE] == ar.RESIDENT:
                ticks[n] = m[s + ar.USED_AT]
                n += 1
        if n > count:
            sort_words(ticks, 0, n)
            floor = ticks[n - count] if count > 0 else np.int64(1) << 62
        else:
            floor = np.int64(0)
        for s in range(m[p + ar.FIRST], m[p + ar.FRESH], ar.SLOT):
            if m[s + ar.STATE] == ar.RESIDENT and m[s + ar.USED_AT] >= floor:
                m[s + ar.HOT] = stamp
