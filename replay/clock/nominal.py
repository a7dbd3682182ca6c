"""The nominal plan (semantics 6): what a gate or a predictor that needs time may know, never the simulated clock.

Time is a whole number of nanoseconds. It runs through from window to window, prefill windows included: an event
takes its ``pre`` and its ``post``, and waits for nothing. ``pre``, ``post``, latency and rates are the clock's own
(``--clock``, else the trace's ``timing`` and ``io``, else the defaults); with several clocks the run's first.

- now: after layer l's event, the sum of ``pre + post`` of the events so far; a window's start is the end of the one
  before.
- deadline of a guess issued now for layer t: now + ``pre + post`` of the layers between + ``pre`` of t, which is when
  t's event asks.
- a read issued now is done at ``max(now + latency, free) + ceil(bytes / rate)``, where ``free`` is when the bytes
  that the asker has issued before are moved: each asker (gate or predictor) keeps its own, and counts what was issued
  on its word.
- a demand read takes ``latency + ceil(bytes / min(stream, device))``.

The gates `budget` (with ``reserve``) and `calibrated` use it, and `seqmoe` may. Kernels call :func:`pass_event`,
:func:`deadline`, :func:`done` and :func:`demand_time`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import MEMORY, REALS, called, inline

NOW = 0  # nominal time, ns
LATENCY = 1  # ns
AFTER = 2  # layer after which guesses are made now; -1: at the window's start
WORDS = 8
DEVICE, STREAM = 0, 1  # bytes a nanosecond
RATES = 4


class Plan(NamedTuple):
    """The nominal plan of a lane, and the compute times of a chunk's events.

    Attributes
    ----------
    words, rates : int64[WORDS], float64[RATES]
    pre, post : int64[W * L] or int64[0]
        Nanoseconds; without entries where nobody asks for the plan.
    """

    words: NDArray[np.int64]
    rates: NDArray[np.float64]
    pre: NDArray[np.int64]
    post: NDArray[np.int64]


PLAN = types.NamedTuple((MEMORY, REALS, MEMORY, MEMORY), Plan)


def lay_plan(latency_ns: int, device: float, stream: float) -> Plan:
    """A plan at time 0.

    Parameters
    ----------
    latency_ns : int
    device, stream : float
        Decimal GB/s of the device and of one read, which are bytes a nanosecond.

    Examples
    --------
    >>> plan = lay_plan(80_000, 6.0, 3.0)
    >>> int(plan.words[LATENCY]), len(plan.pre)
    (80000, 0)
    """
    words, rates = np.zeros(WORDS, np.int64), np.zeros(RATES)
    words[LATENCY], words[AFTER] = latency_ns, -1
    rates[DEVICE], rates[STREAM] = device, stream
    nothing = np.zeros(0, np.int64)
    return Plan(words, rates, nothing, nothing)


@called
def pass_event(plan, cell, layer):
    """An event is over; ``cell`` is its place in the chunk, window * layers + layer."""
    plan.words[NOW] += plan.pre[cell] + plan.post[cell]
    plan.words[AFTER] = layer


@called
def deadline(plan, window, target, layers):
    """When the target's event asks; ``window`` is the chunk's."""
    time = plan.words[NOW]
    first = window * layers
    for layer in range(plan.words[AFTER] + 1, target):
        time += plan.pre[first + layer] + plan.post[first + layer]
    return time + plan.pre[first + target]


@inline
def done(now, latency, free, size, rate):
    """When a read that is issued now is done: after the bytes issued before, at a rate in bytes a nanosecond."""
    return max(now + latency, free) + np.int64(np.ceil(size / rate))


@inline
def demand_time(latency, size, stream, device):
    """Nanoseconds that a demand read takes."""
    return latency + np.int64(np.ceil(size / min(stream, device)))
