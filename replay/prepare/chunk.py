"""One decoded chunk of a trace, prepared once for every policy: unions, groups of predictions, shortlists.

A dense row of 512 scores is cut to the experts that any policy of the run could pick (:mod:`replay.router.shortlist`)
before a policy sees it; unions of an event's rows are made once for every number of rows that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replay.engine.frame import Events, Guesses, Scores
from replay.prepare.moment import NO_F32, NO_I32, NO_I64, every_layer, group, no_guesses
from replay.prepare.union import wanted
from replay.router.shortlist import shortlist_dense, shortlist_halves, shortlist_sparse

IN_PLAY = 2
"""Chunks that are played at once: a lane that is done with one goes on to the next before the others are."""

Numbers = NDArray[np.int64]

if TYPE_CHECKING:
    from replay.trace import Chunk
    from replay.trace import Scores as RawScores


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
                chunk.row_start, rows, self.prefill, lists.offsets, lists.values, offsets, wants, NO_I64, NO_I64
            )  # fmt: skip
        return self._views[key]


NO_SCORES = Scores(NO_I64, NO_F32, np.zeros(1, np.int64), NO_I32, NO_F32)


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
    span, reach = NO_F32, demand.router_reach
    if demand.spread:
        dense = raw.scores.reshape(-1, experts).astype(np.float32, copy=False)
        low = np.where(np.isfinite(dense), dense, np.inf).min(axis=1)
        span = np.where(np.isfinite(low), dense.max(axis=1) - low, 0).astype(np.float32)
        widest = max(widest, float(span.max()))
        reach = max(reach, demand.prior * widest * (1.0 + 1e-9))  # the running mean may round above it
    return Scores(lists, span, *_shortlists(raw, demand.router_picks, reach, experts)), widest
