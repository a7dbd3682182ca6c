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


@dataclass
class Window:
    """One forward pass as it was recorded, padding left out.

    Attributes
    ----------
    number, session : int
    prefill : bool
    domain : str or None
    picks : int64[rows, L, k]
    weights : float32[rows, L, k] or None
    scores : float32 or float16[rows, L, E]
        float16: rounded before the selection, so picks and scores agree as they are.
    logits : float32[rows, L, E] or None
        Logits, where ``scores`` are what a biased or grouped selection saw.
    wanted : bool
        Whether the window's scores are kept.
    targets, issued : int64[c]
        Layers that have candidates, ascending, and the layers after which they were issued.
    candidates : float16[rows, c, E] or None
    events : list of Event or None
        One a layer.
    times : float32[L, 2] or None
        pre_us and post_us.
    """

    number: int
    session: int
    prefill: bool
    domain: str | None
    picks: NDArray[np.int64]
    weights: NDArray[np.float32] | None
    scores: NDArray[Any]
    logits: NDArray[np.float32] | None
    wanted: bool
    targets: NDArray[np.int64]
    issued: NDArray[np.int64]
    candidates: NDArray[np.float16] | None
    events: list[Event] | None
    times: NDArray[np.float32] | None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes while it waits."""
        candidates = 0 if self.candidates is None else self.candidates.nbytes
        return self.picks.nbytes + self.scores.nbytes + candidates


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
        windows = self.windows
        for window in windows:
            _settle(window, self.ranking)
        tables = {"windows": _windows(windows), "selections": _selections(windows), "drafts": _drafts(self.drafts)}
        if candidates:
            tables["candidates"] = _candidates(windows)
        if scores:
            tables["router_scores"] = _scores(windows)
        if windows[0].events is not None:
            tables["residents"], tables["counters"] = _residents(windows), _counters(windows)
        if windows[0].times is not None:
            tables["timing"] = _timing(windows)
        self.windows, self.drafts, self.nbytes = [], [], 0
        return tables


def _settle(window: Window, ranking: Ranking) -> None:
    """Picks in rank order, scores that say what was picked."""
    rows, layers, experts = window.scores.shape
    bad = np.isnan(window.scores) | np.isposinf(window.scores)
    if bad.any():
        _, layer, expert = np.argwhere(bad)[0]
        raise InputError(
            f"window {window.number}, layer {layer}: the router's score of expert {expert} is not finite; the model's "
            "arithmetic overflowed"
        )
    if window.scores.dtype == np.float16:
        ranking.rows += rows * layers
        return
    picks = window.picks.reshape(rows * layers, -1)
    scores = window.scores.reshape(rows * layers, experts)
    order = settle(picks, scores, ranking)
    window.picks, window.scores = picks.reshape(window.picks.shape), scores.reshape(window.scores.shape)
    if window.weights is not None:
        weights = np.take_along_axis(window.weights.reshape(order.shape), order, axis=1)
        window.weights = weights.reshape(window.picks.shape)
    for layer, event in enumerate(window.events or ()):
        event.outcome = np.take_along_axis(event.outcome, order.reshape(window.picks.shape)[:, layer], axis=1)


def _lists(values: NDArray[Any]) -> pa.Array:
    """Arrays of one length as lists."""
    count, width = values.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(values).reshape(-1)))


def _keys(windows: list[Window], layers: list[NDArray[np.int64]]) -> dict[str, pa.Array]:
    """Columns window, row, layer for windows with these layers each."""
    window = [np.full(len(each.picks) * len(own), each.number) for each, own in zip(windows, layers, strict=True)]
    row = [np.repeat(np.arange(len(each.picks)), len(own)) for each, own in zip(windows, layers, strict=True)]
    layer = [np.tile(own, len(each.picks)) for each, own in zip(windows, layers, strict=True)]
    return {
        "window": pa.array(_joined(window, np.uint32)),
        "row": pa.array(_joined(row, np.uint16)),
        "layer": pa.array(_joined(layer, np.uint16)),
    }


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


def _selections(windows: list[Window]) -> pa.RecordBatch:
    layers, width = windows[0].picks.shape[1:]
    columns = _keys(windows, [np.arange(layers)] * len(windows))
    columns["experts"] = _lists(_joined([each.picks.reshape(-1, width) for each in windows], np.uint16))
    weights = [each.weights.reshape(-1, width) for each in windows if each.weights is not None]
    if len(weights) == len(windows):
        columns["weights"] = _lists(_joined(weights, np.float32))
    if windows[0].events is not None:
        outcome = [np.stack([event.outcome for event in each.events or ()], axis=1) for each in windows]
        columns["outcome"] = _lists(_joined([each.reshape(-1, width) for each in outcome], np.uint8))
    return _batch(columns)


def _scores(windows: list[Window]) -> pa.RecordBatch:
    layers, experts = windows[0].scores.shape[1:]
    kept = [each for each in windows if each.wanted]
    columns = _keys(kept, [np.arange(layers)] * len(kept))
    dtype = windows[0].scores.dtype
    values = _joined([each.scores.reshape(-1, experts) for each in kept], dtype)
    columns["scores"] = _lists(values.reshape(-1, experts))
    if windows[0].logits is not None:
        logits = [each.logits.reshape(-1, experts) for each in kept if each.logits is not None]
        columns["logits"] = _lists(_joined(logits, np.float32).reshape(-1, experts))
    return _batch(columns)


def _candidates(windows: list[Window]) -> pa.RecordBatch:
    experts = windows[0].scores.shape[2]
    kept = [each for each in windows if each.candidates is not None]
    columns = _keys(kept, [each.targets for each in kept])
    columns["issued_after"] = pa.array(
        _joined([np.tile(each.issued, len(each.picks)) for each in kept], np.int16)
    )
    values = [each.candidates.reshape(-1, experts) for each in kept if each.candidates is not None]
    columns["scores"] = _lists(_joined(values, np.float16).reshape(-1, experts))
    return _batch(columns)


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
