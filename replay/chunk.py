"""One decoded chunk of a trace, prepared once for every policy: unions, groups of predictions, shortlists.

A dense row of 512 scores is cut to the experts that any policy of the run could pick (:func:`shortlist_dense`)
before a policy sees it; unions of an event's rows are made once for every number of rows that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.engine.frame import Events, Guesses, Scores
from replay.jit import inline, kernel
from replay.router import shortlist_dense, shortlist_halves, shortlist_sparse

IN_PLAY = 2
"""Chunks that are played at once: a lane that is done with one goes on to the next before the others are."""

Numbers = NDArray[np.int64]

if TYPE_CHECKING:
    from replay.trace import Chunk
    from replay.trace import Scores as RawScores


_I64, _I32 = types.Array(types.int64, 1, "C", readonly=True), types.Array(types.int32, 1, "C", readonly=True)


@inline
def _sort_few(values, low, high, out, at):
    """Sort a few distinct values into ``out``: each goes where as many are smaller (no branch to mispredict)."""
    for i in range(low, high):
        x = values[i]
        smaller = np.int32(0)
        for j in range(low, high):
            smaller += np.int32(values[j] < x)
        out[at + smaller] = x


@kernel(
    types.Tuple((types.int64[::1], types.int32[::1]))(_I64, _I64, _I64, _I32, types.int64, types.int64)
)  # fmt: skip
def unions(row_start, rows_used, pick_offsets, picks, layers, experts):
    """Unique experts of every event over its first ``rows_used`` rows, ascending.

    Parameters
    ----------
    row_start, rows_used : int64[W + 1], int64[W]
    pick_offsets, picks : int64[rows * L + 1], int32[n]
    layers, experts : int

    Returns
    -------
    offsets : int64[W * L + 1]
    wants : int32[m]
    """
    windows = len(rows_used)
    offsets = np.zeros(windows * layers + 1, np.int64)
    wants = np.empty(len(picks), np.int32)
    found = np.empty(experts, np.int32)
    mark = np.full(experts, -1, np.int64)
    at = np.int64(0)
    for w in range(windows):
        for layer in range(layers):
            event = w * layers + layer
            n = 0
            for r in range(rows_used[w]):
                row = (row_start[w] + r) * layers + layer
                for i in range(pick_offsets[row], pick_offsets[row + 1]):
                    e = picks[i]
                    if mark[e] != event:
                        mark[e] = event
                        found[n] = e
                        n += 1
            if n <= 48:
                _sort_few(found, 0, n, wants, at)
                at += n
            else:
                for e in range(experts):
                    if mark[e] == event:
                        wants[at] = e
                        at += 1
            offsets[event + 1] = at
    return offsets, wants[:at].copy()


def wanted(
    chunk: Chunk, rows_used: NDArray[np.int64], layers: int, experts: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Unique experts of every event of a chunk; see :func:`unions`."""
    lists = chunk.selections
    assert lists is not None, "the pass reads the selections"
    found: tuple[NDArray[np.int64], NDArray[np.int32]] = unions(
        chunk.row_start, rows_used, lists.offsets, lists.values, layers, experts
    )
    return found


@dataclass(frozen=True)
class Demand:
    """What a run asks of a chunk's scores: the most picks and the largest boost of any of its policies.

    ``every`` asks for the moments after each layer, ``rows`` for the router scores as they were read.
    """

    guesses: bool = False
    picks: int = 0
    reach: float = 0.0
    moments: bool = False
    every: bool = False
    rows: bool = False
    router: bool = False
    router_picks: int = 0
    router_reach: float = 0.0
    spread: bool = False
    prior: float = 0.0
    dense: bool = False


@dataclass
class Prepared:
    """A chunk as policies read it.

    Attributes
    ----------
    first_window : int
    guesses : Guesses
        Ranked predictions, or empty.
    moments : Guesses
        The same groups for ``oracle``; without a candidates table, after layer l-1 for every l >= 1.
    every : Guesses
        After layer l-1 for every l >= 1, whatever the candidates: where policies act that learn from events.
    router : Scores
    widest : float
        Widest spread of a row's router scores so far; only where ``cacheprior`` asks.
    """

    chunk: Chunk
    layers: int
    experts: int
    prefill: NDArray[np.uint8]
    guesses: Guesses
    moments: Guesses
    every: Guesses
    router: Scores
    widest: float = 0.0
    _views: dict[bytes, Events] = field(default_factory=dict)

    @property
    def first_window(self) -> int:
        """Number of the chunk's first window in the trace."""
        return self.chunk.w0

    def router_rows(self, rows: Numbers) -> tuple[NDArray[np.floating], Numbers]:
        """Dense router scores, and where each decode window's begin; -1: a prefill window, or one without scores.

        Parameters
        ----------
        rows : int64[W]
            Rows of each window that count, of which there is at least one.

        Returns
        -------
        scores : float16[n, E] or float32[n, E]
            By window, row and layer, as stored.
        start : int64[W]
        """
        raw, every = self.chunk.router_scores, np.diff(self.chunk.row_start)
        if raw is None or not len(raw.window):
            return np.empty((0, self.experts), np.float32), np.full(len(every), -1)
        found = np.bincount(raw.window - self.first_window, minlength=len(every))
        whole = (found == every * self.layers) & (self.prefill == 0) & (rows > 0)
        start = np.where(whole, np.cumsum(found) - found, -1).astype(np.int64)
        return raw.scores.reshape(-1, self.experts), start

    def events(self, rows_used: NDArray[np.int64] | None) -> Events:
        """Events over the rows that count (all where ``rows_used`` is None); cached by that choice.

        Parameters
        ----------
        rows_used : int64[W], optional
            Rows of each window that count.
        """
        chunk = self.chunk
        rows = np.diff(chunk.row_start) if rows_used is None else rows_used
        key = rows.tobytes()
        if key not in self._views:
            offsets, wants = wanted(chunk, rows, self.layers, self.experts)
            lists = chunk.selections
            assert lists is not None
            self._views[key] = Events(
                chunk.row_start, rows, self.prefill, lists.offsets, lists.values, offsets, wants, _NO_I64, _NO_I64
            )  # fmt: skip
        return self._views[key]


_NO_I64, _NO_I32, _NO_F32 = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
_NO_F64 = np.empty(0)
NO_SCORES = Scores(_NO_I64, _NO_F32, np.zeros(1, np.int64), _NO_I32, _NO_F32)


def no_guesses(windows: int, layers: int) -> Guesses:
    """Groups of a chunk without predictions."""
    at = np.zeros(windows * (layers + 1) + 1, np.int64)
    none = _NO_I64
    return Guesses(at, none, none, none, none, none, np.zeros(1, np.int64), _NO_I32, _NO_F32, _NO_F64)


def _shortlists(
    raw: RawScores, picks: int, reach: float, experts: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    if raw.experts is not None:
        return shortlist_sparse(raw.offsets, raw.experts, raw.scores.astype(np.float32, copy=False))
    rows = raw.scores.reshape(-1, experts)
    if rows.dtype == np.float16:
        return shortlist_halves(rows.view(np.int16), picks, reach)
    return shortlist_dense(rows, picks, reach)


def softmax_total(raw: RawScores, experts: int) -> NDArray[np.float64]:
    """Sum of exp(score - best score) of dense rows; masked experts add nothing, a row without any has 0.

    Parameters
    ----------
    raw : Scores
        Dense rows.
    experts : int
    """
    dense = raw.scores.reshape(-1, experts).astype(np.float64)
    best = dense.max(axis=1, keepdims=True)
    total: NDArray[np.float64] = np.exp(dense - np.where(np.isfinite(best), best, 0.0)).sum(axis=1)
    return total


def group(raw: RawScores, first: int, windows: int, layers: int) -> Guesses:
    """Group candidate rows by (window, issued_after, target layer), rows ascending; no shortlists yet."""
    window = raw.window - first
    slot = window * (layers + 1) + raw.issued_after + 1
    key = slot * layers + raw.layer
    order = np.lexsort((raw.row, key))
    key = key[order]
    new = np.flatnonzero(np.diff(key, prepend=-1))
    at = np.searchsorted(key[new] // layers, np.arange(windows * (layers + 1) + 1))
    last = np.append(new[1:], len(key)).astype(np.int64)
    return Guesses(
        at.astype(np.int64),
        np.ascontiguousarray(raw.layer[order][new]),
        new.astype(np.int64),
        last,
        np.ascontiguousarray(raw.row[order]),
        order.astype(np.int64),
        np.zeros(1, np.int64),
        _NO_I32,
        _NO_F32,
        _NO_F64,
    )


def every_layer(windows: int, layers: int) -> Guesses:
    """Moments that no candidates table gives: after layer l-1, for l >= 1 (semantics 3, ``oracle``)."""
    counts = np.tile(np.array([0] + [1] * (layers - 1) + [0]), windows)
    at = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    groups = windows * (layers - 1)
    target = np.tile(np.arange(1, layers, dtype=np.int64), windows)
    zero = np.zeros(groups, np.int64)
    none = _NO_I64
    return Guesses(at, target, zero, zero, none, none, np.zeros(1, np.int64), _NO_I32, _NO_F32, _NO_F64)


def listed(at: Numbers, target: Numbers, offsets: Numbers, ids: NDArray[np.int32]) -> Guesses:
    """Predictions whose guesses are known before the event loop: a list a group."""
    zero = np.zeros(len(target), np.int64)
    return Guesses(at, target, zero, zero, _NO_I64, _NO_I64, offsets, ids, _NO_F32, _NO_F64)


def prepare(
    chunk: Chunk,
    layers: int,
    experts: int,
    prefill: NDArray[np.bool_],
    demand: Demand,
    table: bool,
    widest: float = 0.0,
) -> Prepared:
    """Prepare a chunk for all policies of a run.

    Parameters
    ----------
    chunk : Chunk
        Decoded tables of a range of windows.
    layers, experts : int
        Shape of the model.
    prefill : bool[W]
        Which of the chunk's windows are prefill.
    demand : Demand
        What the run's policies may ask.
    table : bool
        The trace has a candidates table (``oracle`` then acts at its moments).
    widest : float
        Widest spread of a row's router scores in the chunks before.
    """
    windows = chunk.w1 - chunk.w0
    guesses = moments = no_guesses(windows, layers)
    if chunk.candidates is not None and len(chunk.candidates.window):
        moments = group(chunk.candidates, chunk.w0, windows, layers)
        if demand.guesses:
            offsets, ids, scores = _shortlists(chunk.candidates, demand.picks, demand.reach, experts)
            guesses = moments._replace(offsets=offsets, ids=ids, scores=scores)
            if demand.dense:
                guesses = guesses._replace(total=softmax_total(chunk.candidates, experts))
    elif demand.moments and not table:
        moments = every_layer(windows, layers)
    every = every_layer(windows, layers) if demand.every else no_guesses(windows, layers)
    router = NO_SCORES
    if demand.router:
        router, widest = _router_scores(chunk, layers, experts, demand, widest)
    return Prepared(chunk, layers, experts, prefill.astype(np.uint8), guesses, moments, every, router, widest)


def _router_scores(
    chunk: Chunk, layers: int, experts: int, demand: Demand, widest: float
) -> tuple[Scores, float]:
    """Router scores as shortlists, and the widest spread of a row's scores so far."""
    lists = np.full(int(chunk.row_start[-1]) * layers, -1, np.int64)
    raw = chunk.router_scores
    if raw is None or not len(raw.window):
        return NO_SCORES._replace(list=lists), widest
    lists[(chunk.row_start[raw.window - chunk.w0] + raw.row) * layers + raw.layer] = np.arange(
        len(raw.window)
    )
    span, reach = _NO_F32, demand.router_reach
    if demand.spread:
        dense = raw.scores.reshape(-1, experts).astype(np.float32, copy=False)
        low = np.where(np.isfinite(dense), dense, np.inf).min(axis=1)
        span = np.where(np.isfinite(low), dense.max(axis=1) - low, 0).astype(np.float32)
        widest = max(widest, float(span.max()))
        reach = max(reach, demand.prior * widest * (1.0 + 1e-9))  # the running mean may round above it
    return Scores(lists, span, *_shortlists(raw, demand.router_picks, reach, experts)), widest
