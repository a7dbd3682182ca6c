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
from replay.engine.event import event
from replay.engine.guess import guess, mark_hot, stream
from replay.engine.move import find_victim, log, place, publish, trim, turn_limbo
from replay.jit import kernel


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
    layers, experts, logging = settings[fr.LAYERS], settings[fr.EXPERTS], settings[fr.LOGGING]
    for w in range(events.prefill.shape[0]):
        prefill = events.prefill[w]
        m[ar.PREFILL] = prefill
        m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO] = m[ar.SPECULATIVE], m[ar.LIMBO_SLOTS]
        guessing = settings[fr.READ_AHEAD] != fr.NOTHING and not prefill
        if logging:
            log(out, op.OP_WINDOW, settings[fr.FIRST_WINDOW] + w)
        if prefill and settings[fr.PROMPT_HOT] >= 0:
            mark_hot(m, settings[fr.PROMPT_HOT], settings[fr.FIRST_WINDOW] + w + 1)
        if settings[fr.ROUTES] == fr.PREDICTED:
            work.predicted_count[: events.rows_used[w] * layers] = -1
        for layer in range(-1, layers):
            if layer >= 0:
                row = w * layers + layer
                m[ar.EVENT] += 1
                if prefill and settings[fr.STREAM] != fr.STREAM_OFF:
                    stream(m, layer, row, settings, work, out, victim)
                if logging:
                    log(out, op.OP_EVENT, layer)
                if out.residents.shape[0] > 0:
                    for e in range(experts):
                        s = m[m[ar.SLOT_OF] + layer * experts + e]
                        out.residents[row, e] = s >= 0 and m[s + ar.STATE] == ar.RESIDENT
                if not event(m, w, layer, settings, rates, events, router, work, out, enter, claim, victim):
                    return 1
                if logging:
                    log(out, op.OP_ASK, layer)
                if settings[fr.SPLIT]:
                    turn_limbo(m)
                    if logging:
                        log(out, op.OP_FREE, layer)
            if guessing:
                group = w * (layers + 1) + layer + 1
                for g in range(guesses.at[group], guesses.at[group + 1]):
                    guess(m, w, g, events, guesses, settings, rates, work, out, victim, touch)
        out.peaks[w, 0], out.peaks[w, 1] = m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO]
        m[ar.HOTNOW] = -1
    return 0
