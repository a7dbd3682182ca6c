"""Admission: what the gates are asked about a prediction's candidates, and what they are told afterwards."""

from __future__ import annotations

import numpy as np

import replay.arena.record as ar
import replay.clock.nominal as no
import replay.engine.frame as fr
import replay.gate.admission as ad
from replay.arena.record import bytes_of, part_holding
from replay.engine.move import beats, issue, note_touch
from replay.jit import called, inline


@inline
def boost_at(rank, protect, bonus, rank1):
    """What residency adds to a score at one rank (semantics 2)."""
    early = rank1 if rank1 > 0.0 and protect > 1 else 0.0
    if rank < protect:
        return early if rank > 0 else 0.0
    return bonus if bonus > 0.0 else early


@inline
def kth_score(m, layer, place, got, guesses, settings, rates):
    """Adjusted score of a row's top_k-th pick, or of its last."""
    rank = min(got, settings[fr.TOP_K]) - 1
    score = np.float64(guesses.scores[place[rank]])
    s = m[m[ar.SLOT_OF] + layer * settings[fr.EXPERTS] + guesses.ids[place[rank]]]
    if s >= 0 and m[s + ar.STATE] == ar.RESIDENT:
        score += boost_at(rank, settings[fr.PROTECT], rates[fr.BONUS], rates[fr.RANK1])
    return score


@inline
def mass_above(row, position, guesses):
    """Softmax mass of the experts of a row that stand before a position of its shortlist."""
    low = guesses.offsets[guesses.list[row]]
    best, mass = np.float64(guesses.scores[low]), 0.0
    for i in range(low, position):
        mass += np.exp(np.float64(guesses.scores[i]) - best)
    return mass / guesses.total[guesses.list[row]]


@called
def describe(m, w, g, events, guesses, settings, rates, work, gating):
    """Features of a ranked prediction's merged experts; its rows' picks are still in ``work.place``."""
    layer, experts, top_k = guesses.target[g], settings[fr.EXPERTS], settings[fr.TOP_K]
    width, count = max(settings[fr.COUNT_K], top_k), settings[fr.COUNT_K]
    if settings[fr.ROUTES] == fr.PREDICTED:
        count = min(count, top_k)
    words, reals = gating.words, gating.reals
    work.stamp[0] += 1
    stamp, rows = work.stamp[0], np.int64(0)
    for row in range(guesses.first[g], guesses.last[g]):
        if guesses.row[row] >= events.rows_used[w]:
            continue
        place = work.place[rows * (width + 1) :]
        got, low = place[width], guesses.offsets[guesses.list[row]]
        rows += 1
        if got == 0:
            continue
        kth = kth_score(m, layer, place, got, guesses, settings, rates)
        for rank in range(min(got, count)):
            e, score = np.int64(guesses.ids[place[rank]]), np.float64(guesses.scores[place[rank]])
            at, raw = words[ad.RANKS] + e, ad.REALS_HEADER + e
            if work.mark[e] == stamp and (words[at] < rank or (words[at] == rank and reals[raw] >= score)):
                continue
            work.mark[e] = stamp
            words[at], words[words[ad.RAW_RANKS] + e] = rank, place[rank] - low
            reals[raw], reals[raw + experts] = score, kth
            s = m[m[ar.SLOT_OF] + layer * experts + e]
            held = s >= 0 and m[s + ar.STATE] == ar.RESIDENT
            words[words[ad.PUBLISHED] + e] = held
            boost = boost_at(rank, settings[fr.PROTECT], rates[fr.BONUS], rates[fr.RANK1]) if held else 0.0
            reals[raw + 3 * experts] = score + boost - kth
            if guesses.total.shape[0] > 0:
                reals[raw + 2 * experts] = mass_above(row, place[rank], guesses)
    words[ad.ROWS] = rows


@called
def summarise(count, settings, work, gating):
    """Features of the whole merged list: mean margins of its lead and its tail, share of the lead that is resident."""
    words, reals, experts = gating.words, gating.reals, settings[fr.EXPERTS]
    lead, tail, held = 0.0, 0.0, np.int64(0)
    first, others = np.int64(0), np.int64(0)
    for i in range(count):
        e = work.merged[i]
        margin = reals[ad.REALS_HEADER + 3 * experts + e]
        if words[words[ad.RANKS] + e] < settings[fr.TOP_K]:
            lead += margin
            held += words[words[ad.PUBLISHED] + e]
            first += 1
        else:
            tail += margin
            others += 1
    reals[ad.LEAD], reals[ad.TAIL] = lead / max(first, 1), tail / max(others, 1)
    reals[ad.HELD_SHARE] = held / max(first, 1)


@called
def introduce(m, layer, e, place, ranked, experts, gating):
    """Write one candidate's features where the gates read them."""
    words, reals = gating.words, gating.reals
    words[ad.EXPERT], words[ad.PLACE] = e, place
    words[ad.BYTES] = bytes_of(m, m[ar.KEYS] + ar.KEY_SIZE * (layer * experts + e))
    words[ad.RANK] = words[ad.RAW_RANK] = place
    if ranked:
        raw = ad.REALS_HEADER + e
        words[ad.RANK], words[ad.RAW_RANK] = words[words[ad.RANKS] + e], words[words[ad.RAW_RANKS] + e]
        reals[ad.RAW], reals[ad.KTH] = reals[raw], reals[raw + experts]
        reals[ad.MASS], reals[ad.MARGIN] = reals[raw + 2 * experts], reals[raw + 3 * experts]


@inline
def note(layer, e, flag, experts, gating):
    """Note what became of an expert that a prediction names, until its event."""
    words = gating.words
    flags = words[ad.FLAGS] + layer * experts + e
    if words[flags] == 0:
        listed = words[ad.NOTED] + layer
        words[words[ad.LIST] + layer * experts + words[listed]] = e
        words[listed] += 1
    words[flags] |= ad.NAMED | flag


@called
def walk(m, rows, w, layer, count, settings, rates, work, gating, plan, ask, victim, touch):
    """Walk a merged list as without gates, but issue only what every gate admits."""
    experts, ranked = settings[fr.EXPERTS], settings[fr.READ_AHEAD] == fr.RANKED
    words = gating.words
    words[ad.TARGET] = layer
    words[ad.PREDICTIONS] += 1
    if settings[fr.PLANNED]:
        words[ad.NOW] = plan.words[no.NOW]
        words[ad.DEADLINE] = no.deadline(plan, w, layer, settings[fr.LAYERS])
        words[ad.LATENCY] = plan.words[no.LATENCY]
        gating.reals[ad.DEVICE], gating.reals[ad.STREAM] = plan.rates[no.DEVICE], plan.rates[no.STREAM]
    for i in range(count):
        e = work.merged[i]
        number = layer * experts + e
        s = m[m[ar.SLOT_OF] + number]
        if s >= 0:
            note(layer, e, 0, experts, gating)
            if settings[fr.TOUCH] and m[s + ar.STATE] == ar.RESIDENT and touch(m, part_holding(m, s), s):
                note_touch(m, s)
            continue
        introduce(m, layer, e, i, ranked, experts, gating)
        if not ask(ad.CANDIDATE, 0, 0, words, gating.reals):
            note(layer, e, ad.ASKED, experts, gating)
            continue
        note(layer, e, ad.ASKED | ad.ADMITTED, experts, gating)
        if settings[fr.SPARES]:
            beats(m, number, rates)
        if issue(m, rows, number, layer, victim):
            ask(ad.ISSUED, 0, 0, words, gating.reals)
        m[ar.HOTNOW] = -1


@called
def settle(layer, wants, low, high, settings, work, gating, ask, outcomes):
    """After an event: tell the gates what it wanted of the experts that its predictions named, and count."""
    words, experts = gating.words, settings[fr.EXPERTS]
    work.stamp[0] += 1
    stamp = work.stamp[0]
    for i in range(low, high):
        work.mark[wants[i]] = stamp
    words[ad.TARGET] = layer
    listed = words[ad.NOTED] + layer
    for i in range(words[listed]):
        e = words[words[ad.LIST] + layer * experts + i]
        flags = words[ad.FLAGS] + layer * experts + e
        chosen = np.int64(work.mark[e] == stamp)
        asked, admitted = np.int64(words[flags] & ad.ASKED != 0), np.int64(words[flags] & ad.ADMITTED != 0)
        outcomes[0] += asked
        outcomes[1] += admitted
        outcomes[2] += asked & chosen
        outcomes[3] += admitted & chosen
        words[flags] = 0
        words[ad.EXPERT], words[ad.CHOSEN] = e, chosen
        ask(ad.OUTCOME, 0, 0, words, gating.reals)
    words[listed] = 0
