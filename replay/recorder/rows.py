"""Recorded windows as rows of the trace's tables, one batch of each table at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replay.errors import InputError
from replay.recorder.arena import Event
from replay.recorder.rank import Ranking, settle
from replay.recorder.window import Window

_HALF = 65504.0  # largest float16


def halved(scores: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round scores to float16, beyond its range to the largest; -inf stays, NaN becomes -inf.

    Parameters
    ----------
    scores : float32[..]

    Returns
    -------
    float16[..]

    Examples
    --------
    >>> halved(np.array([1e6, -np.inf], np.float32)).tolist()
    [65504.0, -inf]
    """
    low = np.isneginf(scores) | np.isnan(scores)
    return np.where(low, np.float32(-np.inf), np.clip(scores, -_HALF, _HALF)).astype(np.float16)


@dataclass
class Rows:
    """Windows that wait to be written.

    Attributes
    ----------
    ranking : Ranking
        Counts over all rows so far.
    windows : list of Window
    drafts : list of tuple
        window, step, p, matched.
    nbytes : int
    """

    ranking: Ranking = field(default_factory=Ranking)
    windows: list[Window] = field(default_factory=list)
    drafts: list[tuple[int, int, float, bool]] = field(default_factory=list)
    nbytes: int = 0

    def add(self, window: Window) -> None:
        """Let a window wait."""
        self.windows.append(window)
        self.nbytes += window.nbytes

    def batches(self, scores: bool, candidates: bool) -> dict[str, pa.RecordBatch]:
        """Give what waits as a batch of each table, and forget it.

        Parameters
        ----------
        scores, candidates : bool
            Whether there are these tables.

        Returns
        -------
        dict of pyarrow.RecordBatch

        Raises
        ------
        InputError
            A score is not a number.
        """
        waiting = _Waiting(self.windows)
        waiting.settle(self.ranking)
        tables = {
            "windows": _windows(self.windows),
            "selections": waiting.selections(),
            "drafts": _drafts(self.drafts),
        }
        if candidates:
            tables["candidates"] = _candidates(self.windows, waiting.scores.shape[2])
        if scores:
            tables["router_scores"] = waiting.router_scores()
        if self.windows[0].events is not None:
            tables["residents"], tables["counters"] = _residents(self.windows), _counters(self.windows)
        if self.windows[0].times is not None:
            tables["timing"] = _timing(self.windows)
        self.windows, self.drafts, self.nbytes = [], [], 0
        return tables


class _Waiting:
    """Rows of several windows in one piece: arrays [rows, L, ..]."""

    def __init__(self, windows: list[Window]):
        self.windows = windows
        self.counts = np.array([len(each.picks) for each in windows])
        self.picks = _whole([each.picks for each in windows])
        self.scores = _whole([each.scores for each in windows])
        weights = [each.weights for each in windows if each.weights is not None]
        self.weights = _whole(weights) if len(weights) == len(windows) else None
        logits = [each.logits for each in windows if each.logits is not None]
        self.logits = _whole(logits) if len(logits) == len(windows) else None
        outcome = [
            np.stack([event.outcome for event in each.events], axis=1) for each in windows if each.events
        ]
        self.outcome = _whole(outcome) if outcome else None

    def settle(self, ranking: Ranking) -> None:
        """Picks in rank order, scores that say what was picked."""
        rows, layers, experts = self.scores.shape
        if not np.isfinite(self.scores.max(initial=0)):  # NaN, or +inf
            bad = np.isnan(self.scores) | np.isposinf(self.scores)
            row, layer, expert = np.argwhere(bad)[0]
            window = self.windows[int(np.searchsorted(np.cumsum(self.counts), row, side="right"))].number
            raise InputError(
                f"window {window}, layer {layer}: the router's score of expert {expert} is not finite; the model's "
                "arithmetic overflowed"
            )
        if self.scores.dtype == np.float16:
            ranking.rows += rows * layers
            return
        picks = self.picks.reshape(rows * layers, -1)
        order = settle(picks, self.scores.reshape(rows * layers, experts), ranking).reshape(self.picks.shape)
        if self.weights is not None:
            self.weights = np.take_along_axis(self.weights, order, axis=2)
        if self.outcome is not None:
            self.outcome = np.take_along_axis(self.outcome, order, axis=2)

    def _keys(self, counts: NDArray[np.int64], numbers: list[int]) -> dict[str, pa.Array]:
        """Columns window, row, layer of windows with so many rows."""
        layers, rows = self.picks.shape[1], int(counts.sum())
        within = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
        return {
            "window": pa.array(np.repeat(np.array(numbers, np.uint32), counts * layers)),
            "row": pa.array(np.repeat(within.astype(np.uint16), layers)),
            "layer": pa.array(np.tile(np.arange(layers, dtype=np.uint16), rows)),
        }

    def selections(self) -> pa.RecordBatch:
        columns = self._keys(self.counts, [each.number for each in self.windows])
        columns["experts"] = _lists(self.picks, np.uint16)
        if self.weights is not None:
            columns["weights"] = _lists(self.weights, np.float32)
        if self.outcome is not None:
            columns["outcome"] = _lists(self.outcome, np.uint8)
        return _batch(columns)

    def router_scores(self) -> pa.RecordBatch:
        wanted = np.array([each.wanted for each in self.windows])
        rows = np.repeat(wanted, self.counts)
        columns = self._keys(self.counts[wanted], [each.number for each in self.windows if each.wanted])
        columns["scores"] = _lists(self.scores[rows], self.scores.dtype)
        if self.logits is not None:
            columns["logits"] = _lists(self.logits[rows], np.float32)
        return _batch(columns)


def _whole(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if len(parts) > 1 else parts[0].copy()


def _lists(values: NDArray[Any], dtype: Any) -> pa.Array:
    """Arrays [.., n] as lists of n."""
    width = values.shape[-1]
    count = values.size // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(np.ascontiguousarray(values, dtype).reshape(-1))
    )


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _windows(windows: list[Window]) -> pa.RecordBatch:
    return _batch(
        {
            "window": pa.array([each.number for each in windows], pa.uint32()),
            "session": pa.array([each.session for each in windows], pa.uint32()),
            "phase": pa.array(["prefill" if each.prefill else "decode" for each in windows]),
            "rows": pa.array([len(each.picks) for each in windows], pa.uint16()),
            "domain": pa.array([each.domain for each in windows], pa.string()),
        }
    )


def _candidates(windows: list[Window], experts: int) -> pa.RecordBatch:
    kept = [each for each in windows if each.candidates is not None]
    shapes = [(len(each.picks), len(each.targets)) for each in kept]
    numbers = [np.full(rows * layers, each.number) for each, (rows, layers) in zip(kept, shapes, strict=True)]
    values = [each.candidates.reshape(-1, experts) for each in kept if each.candidates is not None]
    scores = halved(_joined(values, np.float32).reshape(-1, experts))
    return _batch(
        {
            "window": pa.array(_joined(numbers, np.uint32)),
            "row": pa.array(
                _joined([np.repeat(np.arange(rows), layers) for rows, layers in shapes], np.uint16)
            ),
            "layer": pa.array(_joined([np.tile(each.targets, len(each.picks)) for each in kept], np.uint16)),
            "issued_after": pa.array(
                _joined([np.tile(each.issued, len(each.picks)) for each in kept], np.int16)
            ),
            "scores": _lists(scores, np.float16),
        }
    )


def _events(windows: list[Window]) -> tuple[dict[str, pa.Array], list[Event]]:
    """Columns window and layer, and the events."""
    layers = windows[0].picks.shape[1]
    return {
        "window": pa.array(np.repeat([each.number for each in windows], layers).astype(np.uint32)),
        "layer": pa.array(np.tile(np.arange(layers), len(windows)).astype(np.uint16)),
    }, [event for each in windows for event in each.events or ()]


def _residents(windows: list[Window]) -> pa.RecordBatch:
    columns, events = _events(windows)
    offsets = np.cumsum([0, *(len(event.residents) for event in events)]).astype(np.int32)
    values = _joined([event.residents for event in events], np.uint16)
    columns["experts"] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return _batch(columns)


def _counters(windows: list[Window]) -> pa.RecordBatch:
    columns, events = _events(windows)
    none = np.zeros(len(events), np.uint32)
    columns["hits"] = pa.array([event.hits for event in events], pa.uint32())
    columns["prefetch_hits"] = columns["late"] = pa.array(none)
    columns["misses"] = pa.array([event.misses for event in events], pa.uint32())
    return _batch(columns)


def _timing(windows: list[Window]) -> pa.RecordBatch:
    columns, _ = _events(windows)
    times = np.concatenate([each.times for each in windows if each.times is not None])
    columns["pre_us"], columns["post_us"] = pa.array(times[:, 0]), pa.array(times[:, 1])
    return _batch(columns)


def _drafts(drafts: list[tuple[int, int, float, bool]]) -> pa.RecordBatch:
    window, step, p, matched = zip(*drafts, strict=True) if drafts else ((), (), (), ())
    return _batch(
        {
            "window": pa.array(window, pa.uint32()),
            "step": pa.array(step, pa.uint8()),
            "p": pa.array(p, pa.float64()),
            "matched": pa.array(matched, pa.bool_()),
        }
    )
