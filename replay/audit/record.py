"""What a trace records of its router: the settings, and rows as the audit's kernel takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replay.audit.again import Record
from replay.trace import Chunk, Scores, Trace
from replay.trace.reach import past_end


class Part(NamedTuple):
    """A chunk's rows that can be routed again, and how many cannot or may not be exact.

    Attributes
    ----------
    record : Record
    keys : int64[n, 3]
        Window, row and layer of each.
    without_residents, past : int
    """

    record: Record
    keys: NDArray[np.int64]
    without_residents: int
    past: int


def boosted(settings: dict[str, Any]) -> bool:
    """Whether residents play a part in any row."""
    return settings["bonus"] > 0 or (settings["r1"] > 0 and settings["protect"] > 1)


def router_settings(trace: Trace) -> tuple[dict[str, Any], str | None]:
    """The router's settings as the trace says them, and why they cannot be audited."""
    router = trace.meta.router
    bonus = None if router is None else router.bonus
    r1 = 0.0 if router is None else router.r1_bonus or 0.0
    said: dict[str, Any] = {"protect": None if router is None else router.protect, "bonus": bonus, "r1": r1}
    said["draft_moce"] = router is not None and bool(router.draft_moce)
    if not trace.has("router_scores"):
        return said, "the trace has no table router_scores"
    if bonus is None:
        return said, "trace.json does not say router.bonus"
    if said["protect"] is None and not (bonus > 0 or r1 > 0):
        said["protect"] = 0
    if said["protect"] is None:
        return said, "trace.json does not say router.protect"
    if boosted(said) and not trace.has("residents"):
        return said, "recorded with a resident bonus, and the trace has no table residents"
    return said, None


def read_part(trace: Trace, chunk: Chunk, settings: dict[str, Any]) -> Part:
    """Take the chunk's rows that have what their routing needs.

    Parameters
    ----------
    trace : Trace
    chunk : Chunk
        With selections, router scores, and residents where a bonus needs them.
    settings : dict
        The router's, as :func:`router_settings` gives them.
    """
    raw, picks, layers = chunk.router_scores, chunk.selections, trace.meta.layers
    assert raw is not None and picks is not None
    window = raw.window - chunk.w0
    snapshot, keep = np.full(len(window), -1, np.int64), np.ones(len(window), bool)
    residents = np.zeros(1, np.int64), np.empty(0, np.int32)
    if boosted(settings):
        snapshot = np.full((chunk.w1 - chunk.w0) * layers, -1, np.int64)
        if chunk.residents is not None:
            held = chunk.residents
            snapshot[(held.window - chunk.w0) * layers + held.layer] = np.arange(len(held.window))
            residents = _own(held.experts.offsets, np.int64), _own(held.experts.values, np.int32)
        snapshot = snapshot[window * layers + raw.layer]
        keep = snapshot >= 0
    draft = (raw.row > 0) & ~trace.windows.prefill[raw.window] & bool(settings["draft_moce"])
    record = Record(
        ((chunk.row_start[window] + raw.row) * layers + raw.layer)[keep],
        _own(draft[keep], np.uint8),
        _own(snapshot[keep], np.int64),
        *_kept(raw.offsets, raw.experts, raw.scores, keep),
        _own(picks.offsets, np.int64),
        _own(picks.values, np.int32),
        _own(_NONE if chunk.weights is None else chunk.weights, np.float32),
        *residents,
    )
    past = 0 if raw.experts is None else _past(trace, raw, settings, keep)
    return Part(record, np.stack([raw.window, raw.row, raw.layer], axis=1)[keep], int((~keep).sum()), past)


def reach(settings: dict[str, Any]) -> float:
    """Most that residency adds to a score."""
    return max(float(settings["bonus"]) * (2 if settings["draft_moce"] else 1), float(settings["r1"]), 0.0)


def _past(trace: Trace, raw: Scores, settings: dict[str, Any], keep: NDArray[np.bool_]) -> int:
    """Sparse rows that might lack an expert which would be picked."""
    return int((past_end(raw, trace.meta.experts, trace.meta.top_k, reach(settings)) & keep).sum())


def _kept(
    offsets: NDArray[np.int64],
    ids: NDArray[np.int32] | None,
    scores: NDArray[np.float32],
    keep: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Ragged rows where a mask is true."""
    lengths = np.diff(offsets)
    inside = np.repeat(keep, lengths)
    kept = np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int64)
    some = _own(_NONE if ids is None else ids[inside], np.int32)
    return kept, some, _own(scores if keep.all() else scores[inside], np.float32)


_NONE = np.empty(0, np.int32)


def _own(values: NDArray[Any], type: Any) -> NDArray[Any]:
    """An array that a kernel takes: contiguous, writable, of that type."""
    return np.require(values, type, ["C", "W"])
