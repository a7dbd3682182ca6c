"""The event loop (semantics 4): one compiled loop for every read-ahead, eviction, bound and route.

:func:`run_chunk` plays one chunk of a trace on one arena memory (:mod:`replay.arena`). Eviction is four steps
passed as first-class functions (enter, claim, victim, touch); read-ahead is a ranking (:mod:`replay.router`);
routes, cell and order are modes. The state stays in the memory, so the next chunk resumes where this one
stopped. Residency never depends on time: the loop counts, and where asked writes the event log that a clock
(:mod:`replay.clock`) consumes.

Choices where the semantics leave room: the prompt-hot recency is the last load, claim or moving touch; the
``uses`` of a stream prefill count every event of the replay, warm windows included; a stream walk's extent
ends at its CAP-th absent expert; experts in limbo are absent.
"""

from __future__ import annotations

import replay.arena as ar
import replay.engine.frame as fr
import replay.log as op
from replay.arena import take_free
from replay.engine.event import begin, event, fail, finish, play_atomic
from replay.engine.guess import guess, mark_hot, stream
from replay.engine.move import count, find_victim, log, place, publish, trim, turn_limbo
from replay.jit import inline, kernel


@kernel(fr.START)
def start_layer(m, ids, layer, experts, enter, victim):
    """Start ``recorded``: insert a layer's snapshot as fresh loads without a claim, ascending id.

    Where the arena is smaller than the snapshots, a load evicts in victim order, and a byte budget is trimmed
    after each load.
    """
    m[ar.OWN] = 0
    for e in ids:
        key = m[ar.KEYS] + ar.KEY_SIZE * (layer * experts + e)
        p = m[key + ar.KEY_PART]
        m[ar.NOW] += 1
        s = take_free(m, p)
        if s < 0:
            s = find_victim(m, p, key, victim)
        if s < 0:
            continue
        place(m, p, s, key, layer, ar.RESIDENT)
        m[s + ar.PIN] = m[ar.NOW]
        publish(m, p, s, enter)
        if m[ar.BYTES_BOUND]:
            trim(m, p, victim)
    m[ar.OWN] = 1
    return 0


@inline
def open_window(m, window, prefill, prompt_hot):
    """Tell the policies the phase, start the peaks, and mark what a prefill window spares."""
    m[ar.PREFILL] = prefill
    m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO] = m[ar.SPECULATIVE], m[ar.LIMBO_SLOTS]
    m[ar.HOTNOW] = -1
    if prefill and prompt_hot >= 0:
        mark_hot(m, prompt_hot, window + 1)


@inline
def snapshot(m, base, residents):
    """Write which of a layer's experts are published residents."""
    for e in range(len(residents)):
        s = m[m[ar.SLOT_OF] + base + e]
        residents[e] = s >= 0 and m[s + ar.STATE] == ar.RESIDENT


@inline
def close_window(m, layers, counts):
    """Hand out the window's counters and clear them."""
    for layer in range(layers):
        at = m[ar.TALLY] + ar.TALLY_WORDS * layer
        for i in range(counts.shape[1]):
            counts[layer, i] = m[at + i]
            m[at + i] = 0


@kernel(fr.RUN)
def run_chunk(m, settings, rates, events, guesses, router, work, out, enter, claim, victim, touch):
    """Play the windows of one chunk.

    Parameters
    ----------
    m : int64[n]
        The arena's memory; changed in place.
    settings, rates : int64[fr.SETTINGS], float64[fr.RATES]
        Modes and numbers, see the constants of this module.
    events, guesses, router, work, out
        See the tuples of this module.
    enter, claim, victim, touch : STEP
        The eviction policy.

    Returns
    -------
    int
        1 where the replay stopped (``out.failure`` says why), else 0.
    """
    layers, experts = settings[fr.LAYERS], settings[fr.EXPERTS]
    # arrays that every event needs, taken out of their tuples once: a tuple is copied word by word at a call
    rows, got, residents = out.log, out.got, out.residents
    wants, want_offsets, next_use = events.wants, events.want_offsets, events.next_use
    look_ahead, streaming, split = settings[fr.LOOK_AHEAD], settings[fr.STREAM], settings[fr.SPLIT]
    plain = (
        settings[fr.ROUTES] == fr.RECORDED
        and settings[fr.CELL] == fr.ATOMIC
        and settings[fr.ORDER] == fr.BY_ID
    )
    m[ar.LOGGED] = 0
    for w in range(events.prefill.shape[0]):
        prefill = events.prefill[w]
        guessing = settings[fr.READ_AHEAD] != fr.NOTHING and not prefill
        open_window(m, settings[fr.FIRST_WINDOW] + w, prefill, settings[fr.PROMPT_HOT])
        log(m, rows, op.OP_WINDOW, settings[fr.FIRST_WINDOW] + w)
        if settings[fr.ROUTES] == fr.PREDICTED:
            work.predicted_count[: events.rows_used[w] * layers] = -1
        for layer in range(-1, layers):
            if layer >= 0:
                m[ar.EVENT] += 1
                if prefill and streaming != fr.STREAM_OFF:
                    stream(m, rows, layer, settings, work, victim)
                log(m, rows, op.OP_EVENT, layer)
                row, base = w * layers + layer, layer * experts
                if residents.shape[0] > 0:
                    snapshot(m, base, residents[row])
                if plain:
                    low, high = want_offsets[row], want_offsets[row + 1]
                    begin(m, base, wants, low, high, next_use, look_ahead, streaming)
                    count(m, layer, fr.LOOKUPS, high - low)
                    lost = play_atomic(m, rows, layer, wants, low, high, base, got, enter, claim, victim)
                    if lost >= 0:
                        window = settings[fr.FIRST_WINDOW] + w
                        fail(m, out.failure, window, layer, base + lost, base, wants, low, high)
                        return 1
                    finish(m, rows, layer, base, split, m[ar.BYTES_BOUND], victim)
                elif not event(m, w, layer, settings, rates, events, router, work, out, enter, claim, victim):
                    return 1
                log(m, rows, op.OP_ASK, layer)
                if split:
                    turn_limbo(m)
                    log(m, rows, op.OP_FREE, layer)
            if guessing:
                group = w * (layers + 1) + layer + 1
                for g in range(guesses.at[group], guesses.at[group + 1]):
                    guess(m, rows, w, g, events, guesses, settings, rates, work, victim, touch)
        close_window(m, layers, out.counts[w * layers : (w + 1) * layers])
        out.peaks[w, 0], out.peaks[w, 1] = m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO]
    return 0
