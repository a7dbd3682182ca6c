"""Room for a chunk that a lane plays: scratch space, what it writes, and how long its event log can get."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import replay.engine.frame as fr
import replay.gate.admission as ad
from replay.lane.shape import Shape

Settings = NDArray[np.int64]


def widest_row(events: fr.Events, shape: Shape) -> int:
    """Most picks that a row of a chunk has, recorded or new."""
    return max(int(np.diff(events.pick_offsets).max(initial=0)), shape.top_k)


def scratch(shape: Shape, settings: Settings, picks: int) -> fr.Work:
    """Scratch space for events of at most ``picks`` picks."""
    predicting = settings[fr.ROUTES] == fr.PREDICTED
    cells = shape.widest * shape.layers if predicting else 0
    places = shape.widest * (max(int(settings[fr.COUNT_K]), shape.top_k) + 2)
    e = shape.experts + 1
    return fr.Work(
        place=np.zeros(places, np.int64),
        mark=np.zeros(e, np.int64),
        merged=np.zeros(e, np.int64),
        best=np.zeros(e, np.float64),
        resident=np.zeros(e, np.uint8),
        taken=np.zeros(e, np.uint8),
        wants=np.zeros(e, np.int32),
        slots=np.zeros(e, np.int64),
        order=np.zeros(e, np.int32),
        occurrence=np.zeros(picks, np.int32),
        predicted=np.zeros(cells * shape.top_k, np.int32),
        predicted_count=np.zeros(cells, np.int32),
        stamp=np.zeros(2, np.int64),
    )


def output(
    shape: Shape, settings: Settings, events: fr.Events, log: int, *, got: bool, residents: bool
) -> fr.Output:
    """Arrays that a chunk writes.

    Parameters
    ----------
    shape : Shape
    settings : int64[SETTINGS]
        As :func:`replay.lane.setting.settings_of` gives them, gates known.
    events : Events
    log : int
        Rows of the event log; 0: none is kept.
    got, residents : bool
        Keep every lookup's outcome, the residents before every event.
    """
    windows = len(events.prefill)
    cells = windows * shape.layers
    lookups = len(events.picks) if settings[fr.CELL] == fr.SEQUENTIAL else len(events.wants)
    rows = len(events.pick_offsets) - 1
    return fr.Output(
        counts=np.zeros((cells, len(fr.COUNTERS)), np.int64),
        peaks=np.zeros((windows, 2), np.int64),
        log=np.empty((log, 2), np.int64),
        looked=np.zeros(1, np.int64),
        got=np.zeros(lookups if got else 0, np.uint8),
        residents=np.zeros((cells if residents else 0, shape.experts), np.uint8),
        given_up=np.full(rows if settings[fr.ROUTES] == fr.REROUTED else 0, np.nan, np.float32),
        failure=np.zeros(6, np.int64),
        outcomes=np.zeros((cells if settings[fr.GATES] else 0, len(ad.OUTCOMES)), np.int64),
    )


def log_rows(shape: Shape, settings: Settings, events: fr.Events, guesses: fr.Guesses, proposed: int) -> int:
    """Rows that the event log of a chunk can need at most.

    Parameters
    ----------
    shape : Shape
    settings : int64[SETTINGS]
    events : Events
    guesses : Guesses
    proposed : int
        Experts that a policy which learns from events can guess at once.
    """
    s = settings
    windows = len(events.prefill)
    cells = windows * shape.layers
    issued = 0
    if s[fr.READ_AHEAD] == fr.ORACLE:
        issued = len(guesses.target) * min(shape.experts, int(np.diff(events.want_offsets).max(initial=0)))
    elif s[fr.READ_AHEAD] == fr.RANKED:
        rows = guesses.last - guesses.first
        issued = int(np.minimum(rows * s[fr.COUNT_K], shape.experts).sum())
    elif s[fr.READ_AHEAD] == fr.LISTED:
        issued = len(guesses.ids)
    elif s[fr.READ_AHEAD] >= fr.PREVIOUS:
        issued = len(guesses.target) * proposed
    if s[fr.STREAM] != fr.STREAM_OFF:
        issued += int(events.prefill.sum()) * shape.layers * shape.experts
    wanted = len(events.picks) if s[fr.CELL] == fr.SEQUENTIAL or s[fr.ROUTES] else len(events.wants)
    rows_k = int(events.rows_used.sum()) * shape.layers * shape.top_k if s[fr.ROUTES] else 0
    return windows + 3 * cells + 2 * issued + wanted + rows_k + 16
