"""The look of a trace (semantics 8): signs that it is not what it seems to be, each a warning with its share.

Nothing here refuses a trace. Ties, lost ranks, start-up rows and draws without memory all replay; the figures that
come out of them mean less, and the reader of a result should know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from replay.trace.chunk import Chunk, Scores
from replay.trace.columns import Lists
from replay.trace.reach import best_scores
from replay.trace.reader import Trace

LOOK_WINDOWS = 20_000  # windows whose picks are looked at
RANK_WINDOWS = 64  # windows that tell whether ranks are lost
SCORE_WINDOWS = 2_000  # windows whose scores are looked at
RUN = 8  # identical rows in a row that make a long run
_EVEN = 1e-6  # weights whose spread is at most this share are uniform
_EVENNESS = 0.005  # by how much popularity has to exceed even picks, beyond noise
_MARGIN = 0.02  # by how much reuse has to exceed independent draws, beyond noise
_FEW = 20  # fewer rows than this say nothing


@dataclass(frozen=True)
class Warning:
    """One sign: its short name, the share of rows (or picks) that show it, and what it means."""

    kind: str
    share: float
    text: str


@dataclass
class Look:
    """What was looked at, and what was seen. Shares are from 0 to 1, None where there was nothing to see.

    Attributes
    ----------
    windows, rows : int
        Windows and rows (tokens) looked at, from the trace's start.
    short : float or None
        Share of (row, layer) with fewer than top_k picks.
    sorted : float or None
        Share of (row, layer) whose picks ascend.
    runs : float or None
        Share of rows in runs of at least 8 rows with the same picks in all layers.
    uniform : float or None
        Share of (row, layer) whose weights are all the same.
    ties : dict of float
        For each score table, the share of rows with a tie among the top_k + 1 best.
    popularity : float or None
        Picks that two rows drawn at random share, over what they would share if all experts were picked alike.
    reuse, independent : float or None
        Share of a token's picks that the token before it (decode, same session) picked too, and what
        independent draws of the same popularity give.
    warnings : list of Warning
        The signs that are there.
    """

    windows: int = 0
    rows: int = 0
    short: float | None = None
    sorted: float | None = None
    runs: float | None = None
    uniform: float | None = None
    ties: dict[str, float] = field(default_factory=dict)
    popularity: float | None = None
    reuse: float | None = None
    independent: float | None = None
    warnings: list[Warning] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Give what was seen as plain data.

        Returns
        -------
        dict
            The attributes by name.
        """
        return asdict(self)


class _Picks:
    """Gathers, chunk by chunk, what the look of the picks needs."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.layers, self.experts = trace.meta.layers, trace.meta.experts
        self.lists = self.short = self.long = self.ascending = self.weighed = self.even = 0
        self.rows = 0
        self.chance = 0.0
        self.marks: list[np.ndarray] = []
        self.counts = np.zeros(self.layers * self.experts, np.int64)
        self.last = np.empty(0, np.int64)
        self.overlaps: list[np.ndarray] = []
        rng = np.random.default_rng(1)
        self.factors = rng.integers(1, 2**63, self.layers * trace.meta.top_k, np.uint64) | np.uint64(1)

    def add(self, chunk: Chunk) -> None:
        assert chunk.selections is not None
        picks = chunk.selections
        lengths = picks.lengths
        self.rows += int(chunk.row_start[-1])
        self.lists += len(lengths)
        self.short += int((lengths < self.trace.meta.top_k).sum())
        self.order(picks)
        if chunk.weights is not None:
            self._weights(chunk.weights, picks)
        self.marks.append(self._mark(picks))
        layer = np.repeat(np.arange(len(lengths)) % self.layers, lengths)
        keys = layer * self.experts + picks.values
        self.counts += np.bincount(keys, minlength=len(self.counts))
        self._reuse(chunk, keys, picks.offsets)

    def order(self, picks: Lists) -> None:
        lengths = picks.lengths
        falls = np.zeros(len(lengths), bool)
        inside = np.ones(max(len(picks.values) - 1, 0), bool)
        starts = picks.offsets[1:-1]
        inside[starts[(starts > 0) & (starts < len(picks.values))] - 1] = False
        falls[picks.row_of(np.flatnonzero(inside & (np.diff(picks.values) < 0)) + 1)] = True
        self.long += int((lengths > 1).sum())
        self.ascending += int(((lengths > 1) & ~falls).sum())

    def _weights(self, weights: np.ndarray, picks: Lists) -> None:
        lengths = picks.lengths
        filled = np.flatnonzero(lengths)
        if len(filled) == 0:
            return
        highest = np.maximum.reduceat(weights, picks.offsets[filled])
        lowest = np.minimum.reduceat(weights, picks.offsets[filled])
        several = (lengths[filled] > 1) & np.isfinite(highest)
        self.weighed += int(several.sum())
        self.even += int((several & (highest - lowest <= _EVEN * highest)).sum())

    def _mark(self, picks: Lists) -> np.ndarray:
        """Reduce each row's picks of all layers to one number; 0 where it has none."""
        ends = picks.offsets[:: self.layers]
        place = np.arange(len(picks.values)) - np.repeat(ends[:-1], np.diff(ends))
        with np.errstate(over="ignore"):
            sums = np.cumsum((picks.values.astype(np.uint64) + np.uint64(1)) * self.factors[place])
            sums = np.concatenate([np.zeros(1, np.uint64), sums])
            return sums[ends[1:]] - sums[ends[:-1]]

    def _reuse(self, chunk: Chunk, keys: np.ndarray, offsets: np.ndarray) -> None:
        """Count the picks that row 0 of each decode window shares with the window before, same session."""
        windows = self.trace.windows
        size = self.layers * self.experts
        first = chunk.row_start[:-1] * self.layers
        starts, stops = offsets[first], offsets[first + self.layers]
        counts = stops - starts
        window = np.repeat(np.arange(len(first)), counts)
        item = np.arange(len(window)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        packed = (window + 1) * size + keys[item]
        shared = np.isin(packed - size, np.concatenate([self.last, packed]), assume_unique=True)
        here = np.arange(chunk.w0, chunk.w1)
        before = np.maximum(here - 1, 0)
        pair = (here > 0) & ~windows.prefill[here] & ~windows.prefill[before]
        pair &= windows.session[here] == windows.session[before]
        self.overlaps.append(np.bincount(window, shared, len(first))[pair])
        self.last = packed[window == len(first) - 1] - len(first) * size


def look(trace: Trace, windows: int = LOOK_WINDOWS, scored: int = SCORE_WINDOWS) -> Look:
    """Look at a trace.

    Parameters
    ----------
    trace : Trace
        An open trace.
    windows, scored : int
        From its start, the windows whose picks, and whose scores, are looked at.

    Returns
    -------
    Look
        Shares and warnings.

    Raises
    ------
    InputError
        Something on the way is refused by the reader.
    """
    picks = _Picks(trace)
    found = Look()
    for chunk in _first(trace, "selections", windows):
        picks.add(chunk)
        found.windows = chunk.w1
    found.rows = picks.rows
    found.short = picks.short / picks.lists
    found.sorted = picks.ascending / picks.long if picks.long else None
    found.uniform = picks.even / picks.weighed if picks.weighed else None
    found.runs = _long_runs(np.concatenate(picks.marks))
    for name in ("candidates", "router_scores"):
        if trace.has(name):
            found.ties[name] = _ties(trace, name, scored)
    found.warnings = [*_warnings(found, picks, trace.meta.top_k), *_independence(picks, found)]
    return found


def ranks_lost(trace: Trace, windows: int = RANK_WINDOWS) -> bool:
    """Say whether the picks of nearly every row ascend, as an engine leaves them that sorts its ids.

    Parameters
    ----------
    trace : Trace
    windows : int
        From its start, the windows that are looked at.

    Returns
    -------
    bool
        False where there are too few rows to tell.
    """
    picks = _Picks(trace)
    for chunk in _first(trace, "selections", windows):
        assert chunk.selections is not None
        picks.order(chunk.selections)
    return _sorted(picks)


def _sorted(picks: _Picks) -> bool:
    return picks.long >= _FEW and picks.ascending / picks.long > 0.99


def _first(trace: Trace, name: str, windows: int) -> Iterator[Chunk]:
    for chunk in trace.chunks([name], {"selections": ("weights",)}):
        yield chunk
        if chunk.w1 >= windows:
            return


def _long_runs(marks: np.ndarray) -> float:
    """Share of rows that lie in long runs of equal marks (0: a row without picks, never in a run)."""
    starts = np.flatnonzero(np.concatenate([[True], marks[1:] != marks[:-1]]))
    lengths = np.diff(np.append(starts, len(marks)))
    return float(lengths[(lengths >= RUN) & (marks[starts] != 0)].sum() / len(marks))


def _independence(picks: _Picks, found: Look) -> Iterator[Warning]:
    """Compare popularity with even picks, and reuse with independent draws of that popularity."""
    rows = picks.rows
    counts = picks.counts.reshape(picks.layers, picks.experts).astype(np.float64)
    width = counts.sum(axis=1) / max(rows, 1)
    if rows < _FEW or not width.all() or picks.experts == 1:
        return
    shared = (counts * (counts - 1)).sum(axis=1) / (rows * (rows - 1.0))
    found.independent = float(shared.sum() / width.sum())
    found.popularity = float(shared.sum() / (width**2 / picks.experts).sum())
    noise = (2 * picks.experts / picks.layers) ** 0.5 / (rows * width.mean())  # of even picks: chi-square
    if found.popularity <= 1 + max(_EVENNESS, 4 * noise) and width.max() < picks.experts:
        text = (
            "of picks are shared by two rows drawn at random, as even draws give: all experts equally popular"
        )
        yield Warning("popularity", found.independent, text)
    overlaps = np.concatenate(picks.overlaps) / width.sum()
    if len(overlaps) < _FEW:
        return
    found.reuse = float(overlaps.mean())
    margin = max(_MARGIN * found.independent, 2 * float(overlaps.std()) / len(overlaps) ** 0.5)
    if found.reuse <= found.independent + margin and width.max() < picks.experts:
        text = f"of picks are the previous token's, {found.independent:.1%} by independent draws: no locality in time"
        yield Warning("reuse", found.reuse, text)


def _ties(trace: Trace, name: str, windows: int) -> float:
    """Share of score rows with a tie among the top_k + 1 best."""
    tied = rows = 0
    for chunk in _first(trace, name, windows):
        scores = getattr(chunk, name)
        assert isinstance(scores, Scores)
        best = best_scores(scores, trace.meta.top_k + 1)
        tied += int(((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > -np.inf)).any(axis=1).sum())
        rows += len(best)
    return tied / max(rows, 1)


def _warnings(found: Look, picks: _Picks, top_k: int) -> Iterator[Warning]:
    """Say which of the signs are there."""
    for name, share in found.ties.items():
        if share:
            yield Warning(
                f"ties-{name}",
                share,
                f"{name}: rows with a tie among the {top_k + 1} best; the lower id wins",
            )
    if found.short:
        yield Warning("short", found.short, f"(row, layer) with fewer than {top_k} picks: ranks were dropped")
    if _sorted(picks):
        assert found.sorted is not None
        yield Warning("sorted", found.sorted, "(row, layer) with ascending ids: the ranks are lost")
    if found.runs:
        text = f"rows in runs of {RUN} or more identical ones: start-up profiling, not traffic?"
        yield Warning("runs", found.runs, text)
    if found.uniform is not None and found.uniform > 0.01:
        yield Warning("uniform", found.uniform, "(row, layer) with uniform weights: start-up profiling?")
