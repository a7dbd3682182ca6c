"""The event loop (semantics 4): one compiled loop for every read-ahead, eviction, bound and route.

:func:`run_chunk` plays one chunk of a trace on one arena memory (:mod:`replay.arena.record`). Eviction is four steps
passed as first-class functions (enter, claim, victim, touch); read-ahead is a ranking (:mod:`replay.router.rule`);
routes, cell and order are modes. The state stays in the memory, so the next chunk resumes where this one
stopped. Residency never depends on time: the loop counts, and where asked writes the event log that a clock
(:mod:`replay.clock.clock`) consumes.

Choices where the semantics leave room: the prompt-hot recency is the last load, claim or moving touch; the
``uses`` of a stream prefill count every event of the replay, warm windows included; a stream walk's extent
ends at its CAP-th absent expert; experts in limbo are absent.
"""

from __future__ import annotations

import numpy as np

import replay.arena.record as ar
import replay.clock.log as op
import replay.engine.frame as fr
import replay.gate.admission as ad
from replay.clock.nominal import AFTER, pass_event
from replay.engine.event import event
from replay.engine.gate import settle
from replay.engine.guess import guess, mark_hot, stream
from replay.engine.move import log, turn_limbo
from replay.jit import called, loop


@called
def open_window(m, window, prefill, prompt_hot):
    """Tell the policies the phase, start the peaks, and mark what a prefill window spares."""
    m[ar.PREFILL] = prefill
    m[ar.DECODED] += not prefill
    m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO] = m[ar.SPECULATIVE], m[ar.LIMBO_SLOTS]
    m[ar.HOTNOW] = -1
    if prefill and prompt_hot >= 0:
        mark_hot(m, prompt_hot, window + 1)


@called
def snapshot(m, base, residents):
    """Write which of a layer's experts are published residents."""
    for e in range(len(residents)):
        s = m[m[ar.SLOT_OF] + base + e]
        residents[e] = s >= 0 and m[s + ar.STATE] == ar.RESIDENT


@called
def close_event(w, layer, events, settings, work, gating, ask, out):
    """Settle a decode event with the gates: what it wanted of the experts that its predictions named."""
    row = w * settings[fr.LAYERS] + layer
    if settings[fr.ROUTES] == fr.RECORDED:
        wants, low, high = events.wants, events.want_offsets[row], events.want_offsets[row + 1]
    else:
        wants, low, high = work.wants, np.int64(0), work.stamp[1]
    settle(layer, wants, low, high, settings, work, gating, ask, out.outcomes[row])


@called
def close_window(m, layers, counts):
    """Hand out the window's counters and clear them."""
    for layer in range(layers):
        at = m[ar.TALLY] + ar.TALLY_WORDS * layer
        for i in range(counts.shape[1]):
            counts[layer, i] = m[at + i]
            m[at + i] = 0


@loop(fr.RUN)
def run_chunk(
    m, settings, rates, events, guesses, router, work, out, enter, claim, victim, touch, gating, plan, ask
):  # fmt: skip
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
    gating, plan, ask : Gating, Plan, ASK
        The gates' memory, the nominal plan, and the gates as one function.

    Returns
    -------
    int
        1 where the replay stopped (``out.failure`` says why), else 0.
    """
    layers, experts = settings[fr.LAYERS], settings[fr.EXPERTS]
    rows, residents, split = out.log, out.residents, settings[fr.SPLIT]
    gated, planned = settings[fr.GATES] > 0, settings[fr.PLANNED] > 0
    m[ar.LOGGED] = 0
    for w in range(events.prefill.shape[0]):
        prefill = events.prefill[w]
        guessing = settings[fr.READ_AHEAD] != fr.NOTHING and not prefill
        open_window(m, settings[fr.FIRST_WINDOW] + w, prefill, settings[fr.PROMPT_HOT])
        log(m, rows, op.OP_WINDOW, settings[fr.FIRST_WINDOW] + w)
        if settings[fr.ROUTES] == fr.PREDICTED:
            work.predicted_count[: events.rows_used[w] * layers] = -1
        if planned:
            plan.words[AFTER] = -1
        if gated and guessing:
            ask(ad.WINDOW, 0, 0, gating.words, gating.reals)
        for layer in range(-1, layers):
            if layer >= 0:
                if prefill and settings[fr.STREAM] != fr.STREAM_OFF:
                    stream(m, rows, layer, settings, work, victim)
                m[ar.EVENT] += 1
                log(m, rows, op.OP_EVENT, layer)
                if residents.shape[0] > 0:
                    snapshot(m, layer * experts, residents[w * layers + layer])
                if not event(m, w, layer, settings, rates, events, router, work, out, enter, claim, victim):
                    return 1
                log(m, rows, op.OP_ASK, layer)
                if split:
                    turn_limbo(m)
                    log(m, rows, op.OP_FREE, layer)
                if planned:
                    pass_event(plan, w * layers + layer, layer)
                if gated and guessing:
                    close_event(w, layer, events, settings, work, gating, ask, out)
            if guessing:
                group = w * (layers + 1) + layer + 1
                for g in range(guesses.at[group], guesses.at[group + 1]):
                    guess(
                        m,
                        rows,
                        w,
                        g,
                        events,
                        guesses,
                        settings,
                        rates,
                        work,
                        victim,
                        touch,
                        gating,
                        plan,
                        ask,
                    )
        close_window(m, layers, out.counts[w * layers : (w + 1) * layers])
        out.peaks[w, 0], out.peaks[w, 1] = m[ar.PEAK_SPECULATIVE], m[ar.PEAK_LIMBO]
    return 0
