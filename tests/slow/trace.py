"""The in-memory trace of the slow twins, and its own reader from disk (semantics 1, trace-format v1)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

Key = tuple[int, int]
"""An expert: (layer, expert id)."""


class Window(NamedTuple):
    """One forward step: its session, whether it is prefill, and its number of rows."""

    session: int
    prefill: bool
    rows: int


@dataclass
class SlowTrace:
    """A whole trace in plain dictionaries.

    Attributes
    ----------
    sizes, classes
        Bytes and size class of every (layer, expert).
    picks
        (window, row, layer) to the recorded picks in rank order; may be shorter than `top_k`.
    weights
        (window, row, layer) to the weight of each pick; empty where none are recorded.
    candidates
        (window, row, layer) to (issued_after, {expert: score}); a missing key is a row without prediction.
    has_candidates
        Whether the trace has the table at all (it may have it and cover nothing).
    router_scores
        (window, row, layer) to {expert: score}; a missing key or None is an uncovered row.
    residents
        (window, layer) to the published residents just before routing, ascending.
    protect, bonus, r1_bonus, draft_moce
        The recorded router settings; None where not known.
    prefetch
        The recorded read-ahead settings (`policy.prefetch` of trace.json): k, protect, bonus, r1.
    io
        The recorded disk settings; `timing` is (window, layer) to (pre_us, post_us).
    counters
        (window, layer) to the recorded counters, for fidelity checks.
    """

    layers: int
    experts: int
    top_k: int
    sizes: dict[Key, int]
    classes: dict[Key, int]
    windows: list[Window]
    picks: dict[tuple[int, int, int], list[int]]
    candidates: dict[tuple[int, int, int], tuple[int, dict[int, float]]] = field(default_factory=dict)
    has_candidates: bool = False
    router_scores: dict[tuple[int, int, int], dict[int, float] | None] = field(default_factory=dict)
    residents: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    protect: int | None = None
    bonus: float | None = None
    r1_bonus: float | None = None
    draft_moce: bool | None = None
    prefetch: dict[str, Any] = field(default_factory=dict)
    io: dict[str, float] = field(default_factory=dict)
    timing: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    counters: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    weights: dict[tuple[int, int, int], list[float]] = field(default_factory=dict)


def _rows(folder: Path, meta: dict[str, Any], table: str, limit: int | None) -> Iterable[dict[str, Any]]:
    """Rows of one table as dictionaries, of windows below `limit`; none when the trace lacks the table."""
    entry = meta["tables"].get(table)
    if entry is None:
        return
    for batch in pq.ParquetFile(folder / entry["file"]).iter_batches(batch_size=4096):
        for row in batch.to_pylist():
            if limit is not None and row.get("window", 0) >= limit:
                return
            yield row


def _scores(row: dict[str, Any]) -> dict[int, float]:
    """Score by expert, of a dense or a sparse score row."""
    ids = row.get("experts")
    return dict(zip(range(len(row["scores"])) if ids is None else ids, row["scores"], strict=True))


def _is_prefill(row: dict[str, Any]) -> bool:
    """Phase where recorded, else more than 8 rows (semantics 4)."""
    return row["phase"] == "prefill" if row["phase"] is not None else row["rows"] > 8


def read(path: str | Path, limit: int | None = None) -> SlowTrace:
    """Read a trace folder with nothing but json and pyarrow; it checks nothing.

    Parameters
    ----------
    path
        The trace's folder.
    limit
        Read only the windows below this number.
    """
    folder = Path(path)
    meta = json.loads((folder / "trace.json").read_text())
    model, router = meta["model"], meta.get("router") or {}
    policy = meta.get("policy") or {}
    every = [(layer, e) for layer in range(model["layers"]) for e in range(model["experts"])]
    trace = SlowTrace(
        layers=model["layers"],
        experts=model["experts"],
        top_k=model["top_k"],
        sizes=dict.fromkeys(every, meta.get("expert_bytes") or 0),
        classes=dict.fromkeys(every, 0),
        windows=[
            Window(r["session"], _is_prefill(r), r["rows"]) for r in _rows(folder, meta, "windows", limit)
        ],
        picks={
            (r["window"], r["row"], r["layer"]): list(r["experts"])
            for r in _rows(folder, meta, "selections", limit)
        },
        has_candidates="candidates" in meta["tables"],
        protect=router.get("protect"),
        bonus=router.get("bonus"),
        r1_bonus=router.get("r1_bonus"),
        draft_moce=router.get("draft_moce"),
        prefetch={k: v for k, v in (policy.get("prefetch") or {}).items() if v is not None},
        io={k: v for k, v in (meta.get("io") or {}).items() if v is not None},
    )
    for r in _rows(folder, meta, "experts", None):
        trace.sizes[r["layer"], r["expert"]] = r["bytes"]
        trace.classes[r["layer"], r["expert"]] = r.get("size_class") or 0
    for r in _rows(folder, meta, "candidates", limit):
        after = r.get("issued_after")
        key = (r["window"], r["row"], r["layer"])
        trace.candidates[key] = (r["layer"] - 1 if after is None else after, _scores(r))
    for r in _rows(folder, meta, "router_scores", limit):
        trace.router_scores[r["window"], r["row"], r["layer"]] = _scores(r)
    for r in _rows(folder, meta, "residents", limit):
        trace.residents[r["window"], r["layer"]] = list(r["experts"])
    for r in _rows(folder, meta, "timing", limit):
        trace.timing[r["window"], r["layer"]] = (r["pre_us"], r["post_us"])
    for r in _rows(folder, meta, "counters", limit):
        trace.counters[r.pop("window"), r.pop("layer")] = r
    return trace
