"""What goes into and comes out of the event loop: settings, counters, log operations and tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.clock.nominal import PLAN
from replay.gate.admission import GATING
from replay.jit import ASK_TYPE, MEMORY, STEP_TYPE

# -- counters of an event, by (window, layer); reads are counted at their target layer
COUNTERS = (
    "lookups", "hits", "prefetch_hits", "misses", "issued", "retired", "dropped", "pollution",
    "demand_bytes", "issued_bytes", "claimed_bytes", "retired_bytes", "picks_kept", "picks_made",
)  # fmt: skip
(
    LOOKUPS, HITS, PREFETCH_HITS, MISSES, ISSUED, RETIRED, DROPPED, POLLUTION,
    DEMAND_BYTES, ISSUED_BYTES, CLAIMED_BYTES, RETIRED_BYTES, PICKS_KEPT, PICKS_MADE,
) = range(len(COUNTERS))  # fmt: skip

# -- settings (int64)
(
    LAYERS, EXPERTS, TOP_K, CELL, ORDER, SPLIT, SCOPE, READ_AHEAD, COUNT_K, PROTECT, TOUCH, STREAM, PROMPT_HOT,
    ROUTES, ROUTE_PROTECT, DRAFT_MOCE, FIRST_WINDOW, LOOK_AHEAD, BOOSTED,
    CACHE_PRIOR, GATES, PLANNED, SPARES, COUNTS_USES,
) = range(24)  # fmt: skip
SETTINGS = 24
# -- settings (float64)
BONUS, RANK1, ROUTE_BONUS, ROUTE_RANK1, PRIOR, SPARE_FACTOR, SPARE_USES, SPREAD = 0, 1, 2, 3, 4, 5, 6, 8
"""``PRIOR`` is cacheprior's lambda; from ``SPREAD`` on stands each layer's running spread of scores (-1: none)."""
SPREAD_KEPT = 0.99

ATOMIC, SEQUENTIAL = 0, 1
BY_ID, BY_ROWS = 0, 1
NOTHING, RANKED, ORACLE, LISTED, PREVIOUS, SUCCESSORS = range(6)
"""Read-ahead modes; those from ``PREVIOUS`` on learn from every decode event."""
RECORDED, REROUTED, PREDICTED = 0, 1, 2
STREAM_OFF, STREAM_DEFAULT = -1, -2

# -- what stopped a replay: int64[6]
FAILED, FAIL_WINDOW, FAIL_LAYER, FAIL_CLASS, FAIL_SLOTS, FAIL_NEEDED = range(6)


class Events(NamedTuple):
    """What every policy sees of a chunk's windows: recorded picks and their unions.

    Attributes
    ----------
    row_start : int64[W + 1]
        Chunk-local number of each window's first row.
    rows_used : int64[W]
        Rows that count: all of them, or 1 + kept drafts.
    prefill : uint8[W]
    pick_offsets, picks : int64[rows * L + 1], int32[n]
        Selected experts of list ``row * L + layer``, in rank order.
    want_offsets, wants : int64[W * L + 1], int32[n]
        Unique experts of each event over the rows that count, ascending.
    next_use, later : int64[n] or int64[0]
        Time of each want's next use, and the windows after it (:mod:`replay.prepare.lookahead`); only for policies that
        look ahead. Under ``cell=sequential`` they are those of the occurrences, event after event.
    """

    row_start: NDArray[np.int64]
    rows_used: NDArray[np.int64]
    prefill: NDArray[np.uint8]
    pick_offsets: NDArray[np.int64]
    picks: NDArray[np.int32]
    want_offsets: NDArray[np.int64]
    wants: NDArray[np.int32]
    next_use: NDArray[np.int64]
    later: NDArray[np.int64]


class Guesses(NamedTuple):
    """Predictions of a chunk: groups of rows (window, issued_after, target layer) over shortlists.

    Attributes
    ----------
    at : int64[W * (L + 1) + 1]
        Groups of window w issued after layer a are ``at[w * (L + 1) + a + 1]`` and up to the next entry.
    target, first, last : int64[G], int64[G], int64[G]
        Target layer, and the range of the group's rows in ``row`` and ``list``.
    row, list : int64[n]
        Row of the window, and its shortlist.
    offsets, ids, scores : int64[m + 1], int32[e], float32[e]
        Shortlists, sorted for :func:`replay.router.rule.pick`. Under ``LISTED`` the guesses themselves, a list a group.
    total : float64[m] or float64[0]
        Each shortlist's whole row's sum of exp(score - its best score); no entries where no policy asks.
    """

    at: NDArray[np.int64]
    target: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    row: NDArray[np.int64]
    list: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    total: NDArray[np.float64]


class Scores(NamedTuple):
    """Router scores of a chunk as shortlists.

    Attributes
    ----------
    list : int64[rows * L] or int64[0]
        Shortlist of list ``row * L + layer``, or -1 where none was recorded.
    span : float32[rows]
        Largest less smallest finite score of each shortlisted row; no entries where no policy asks.
    offsets, ids, scores
        As in :class:`Guesses`.
    """

    list: NDArray[np.int64]
    span: NDArray[np.float32]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    scores: NDArray[np.float32]


class Output(NamedTuple):
    """What a chunk's run writes.

    Attributes
    ----------
    counts : int64[W * L, len(COUNTERS)]
    peaks : int64[W, 2]
        Most speculative and most limbo slots at any moment of the window.
    log : int64[n, 2]
        Event log, ``m[LOGGED]`` rows of it; with no rows nothing is logged.
    looked : int64[1]
        Lookups so far under ``sequential``.
    got : uint8[n]
        Outcome of every want (atomic) or occurrence, event after event (sequential): 0 miss, 1 hit, 2 first use
        of a read-ahead; with no entries not written.
    residents : uint8[W * L, E]
        Published residents just before each event; with no rows not written.
    given_up : float32[rows * L]
        Share of the softmax mass of a row's raw best picks that its new picks give up; NaN where the row kept
        its recorded picks; with no entries not written.
    failure : int64[6]
    outcomes : int64[W * L, len(OUTCOMES)]
        What became of the candidates that gates were asked about (:mod:`replay.gate.admission`); no rows without gates.
    """

    counts: NDArray[np.int64]
    peaks: NDArray[np.int64]
    log: NDArray[np.int64]
    looked: NDArray[np.int64]
    got: NDArray[np.uint8]
    residents: NDArray[np.uint8]
    given_up: NDArray[np.float32]
    failure: NDArray[np.int64]
    outcomes: NDArray[np.int64]


class Work(NamedTuple):
    """Scratch space of one lane, by expert or by place in a merged list.

    ``predicted`` holds the window's predicted picks by row, layer and rank, ``predicted_count`` how many of them
    a row and layer has (-1: no prediction); both without entries where routes are not predicted. ``stamp[1]`` is how
    many ids ``wants`` holds, where routes are not the recorded ones.
    """

    place: NDArray[np.int64]
    mark: NDArray[np.int64]
    merged: NDArray[np.int64]
    best: NDArray[np.float64]
    resident: NDArray[np.uint8]
    taken: NDArray[np.uint8]
    wants: NDArray[np.int32]
    slots: NDArray[np.int64]
    order: NDArray[np.int32]
    occurrence: NDArray[np.int32]
    predicted: NDArray[np.int32]
    predicted_count: NDArray[np.int32]
    stamp: NDArray[np.int64]


_I64, _I32, _F32, _F64, _U8 = (
    types.Array(t, 1, "C") for t in (types.int64, types.int32, types.float32, types.float64, types.uint8)
)
_TABLE, _BITS = types.Array(types.int64, 2, "C"), types.Array(types.uint8, 2, "C")
EVENTS = types.NamedTuple((_I64, _I64, _U8, _I64, _I32, _I64, _I32, _I64, _I64), Events)
GUESSES = types.NamedTuple((_I64, _I64, _I64, _I64, _I64, _I64, _I64, _I32, _F32, _F64), Guesses)
SCORES = types.NamedTuple((_I64, _F32, _I64, _I32, _F32), Scores)
OUTPUT = types.NamedTuple((_TABLE, _TABLE, _TABLE, _I64, _U8, _BITS, _F32, _I64, _TABLE), Output)
WORK = types.NamedTuple((_I64, _I64, _I64, _F64, _U8, _U8, _I32, _I64, _I32, _I32, _I32, _I32, _I64), Work)

START = types.int64(MEMORY, _I32, types.int64, types.int64, STEP_TYPE, STEP_TYPE)
RUN = types.int64(
    MEMORY,
    _I64,
    _F64,
    EVENTS,
    GUESSES,
    SCORES,
    WORK,
    OUTPUT,
    STEP_TYPE,
    STEP_TYPE,
    STEP_TYPE,
    STEP_TYPE,
    GATING,
    PLAN,
    ASK_TYPE,
)
