"""Hit curves: the same policy over a grid of capacities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.bound import Bound
from replay.play import Entry

DEFAULT_GRID = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Capacities as factors of the bound."""

FIGURES = ("lookups", "hits", "prefetch_hits", "misses")


@dataclass
class Point:
    """One capacity of a curve: the bound, and the lane that replayed it."""

    bound: Bound
    entry: Entry


def curves_frame(policy: str, routes: str, points: Sequence[Point]) -> pl.DataFrame:
    """Rows of ``curves.parquet`` of one policy: all layers together (layer null), then each layer.

    A capacity below the widest event has null figures.
    """
    rows: list[dict[str, Any]] = []
    for point in points:
        tally = point.entry.tally
        for phase, name in enumerate(("decode", "prefill")):
            if not _has_phase(points, phase):
                continue
            failed = point.entry.lane.failure is not None
            for layer in (None, *range(tally.layers)):
                row: dict[str, Any] = {
                    "policy": policy,
                    "routes": routes,
                    "phase": name,
                    "layer": layer,
                    "capacity_slots": point.bound.total_slots,
                    "capacity_bytes": point.bound.bytes,
                }
                for figure in FIGURES:
                    sums = tally.by_layer[figure][phase]
                    row[figure] = (
                        None if failed else sum(sums.tolist()) if layer is None else int(sums[layer])
                    )
                hits = None if failed else row["hits"] + row["prefetch_hits"]
                row["hit_ratio"] = hits / row["lookups"] if hits is not None and row["lookups"] else None
                rows.append(row)
    texts = ("policy", "routes", "phase")
    schema: dict[str, Any] = {
        **dict.fromkeys(texts, pl.String),
        **dict.fromkeys(("layer", "capacity_slots", "capacity_bytes", *FIGURES), pl.Int64),
        "hit_ratio": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def _has_phase(points: Sequence[Point], phase: int) -> bool:
    return any(point.entry.tally.windows[phase] for point in points)
