"""Tables of curves: what policies hit and miss over capacities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.comparison.play import Entry
from replay.ledger.grouping import FIGURES

DEFAULT_GRID = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Capacities as factors of the bound."""

TYPES: dict[str, Any] = {
    **dict.fromkeys(("policy", "routes", "phase"), pl.String),
    **dict.fromkeys(("layer", "session"), pl.Int64),
    "domain": pl.String,
    **dict.fromkeys(("capacity_slots", "capacity_bytes"), pl.Int64),
    "capacity_share": pl.Float64,
    **dict.fromkeys(("lookups", "hits", "prefetch_hits", "misses", "compulsory", "demand_bytes"), pl.Int64),
    "hit_ratio": pl.Float64,
}
"""Columns of ``curves.parquet``."""


@dataclass
class Point:
    """One capacity of a curve: the bound, and the lane that replayed it."""

    bound: Bound
    entry: Entry


@dataclass(frozen=True)
class Lines:
    """What a policy counted in one phase: a line for all layers together, then one a layer, session and domain.

    Attributes
    ----------
    policy, routes, phase : str
    layers, sessions : list of int
    domains : list of str
    figures : int64[G, len(FIGURES), 1 + layers + sessions + domains]
    compulsory : int64[1 + layers + sessions + domains] or None
        First uses; None where they are not known.
    fails : bool[G]
        Capacities that cannot hold some event: their figures are null.
    """

    policy: str
    routes: str
    phase: str
    layers: list[int]
    sessions: list[int]
    domains: list[str]
    figures: NDArray[np.int64]
    compulsory: NDArray[np.int64] | None
    fails: NDArray[np.bool_]


def shares_of(bounds: Sequence[Bound], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Capacities as shares of the experts, or of their bytes under a byte budget."""
    whole = int(sizes.sum())
    return np.array(
        [(each.bytes or 0) / whole if each.slots is None else sum(each.slots) / sizes.size for each in bounds]
    )


def lines_frame(lines: Lines, bounds: Sequence[Bound], shares: NDArray[np.float64]) -> pl.DataFrame:
    """Rows of ``curves.parquet``: line after line, each over the capacities.

    Parameters
    ----------
    lines : Lines
    bounds : sequence of Bound
        The G capacities, ascending.
    shares : float64[G]
        Them as shares.
    """
    layers, sessions, domains = len(lines.layers), len(lines.sessions), len(lines.domains)
    count, points = 1 + layers + sessions + domains, len(bounds)

    def every(values: Sequence[Any]) -> pl.Series:
        return pl.Series(values).gather(np.repeat(np.arange(count), points))

    def over(values: Sequence[Any]) -> pl.Series:
        return pl.Series(values).gather(np.tile(np.arange(points), count))

    columns: dict[str, Any] = {
        "policy": pl.repeat(lines.policy, count * points, eager=True),
        "routes": pl.repeat(lines.routes, count * points, eager=True),
        "phase": pl.repeat(lines.phase, count * points, eager=True),
        "layer": every([None, *lines.layers, *[None] * (sessions + domains)]),
        "session": every([None] * (1 + layers) + lines.sessions + [None] * domains),
        "domain": every([None] * (1 + layers + sessions) + lines.domains),
        "capacity_slots": over([each.total_slots for each in bounds]),
        "capacity_bytes": over([each.bytes for each in bounds]),
        "capacity_share": over(shares.tolist()),
        "compulsory": every([None] * count if lines.compulsory is None else lines.compulsory.tolist()),
    }
    for i, name in enumerate(FIGURES):
        columns[name] = lines.figures[:, i].T.ravel()
    found = pl.DataFrame({name: pl.Series(name, columns[name], strict=False) for name in columns}).cast(
        {name: kind for name, kind in TYPES.items() if name in columns}
    )
    ratio = (pl.col("hits") + pl.col("prefetch_hits")) / pl.col("lookups")
    found = found.with_columns(hit_ratio=pl.when(pl.col("lookups") > 0).then(ratio))
    held = over((~lines.fails).tolist())
    return found.with_columns(
        pl.when(held).then(pl.col(name)).alias(name) for name in (*FIGURES, "hit_ratio")
    ).select(*TYPES)


def curves_frame(policy: str, routes: str, points: Sequence[Point], sizes: NDArray[np.int64]) -> pl.DataFrame:
    """Rows of ``curves.parquet`` of a comparison's policy: each phase's total, then each layer.

    A capacity below the widest event has null figures.
    """
    tallies = [point.entry.tally for point in points]
    bounds = [point.bound for point in points]
    fails = np.array([point.entry.lane.failure is not None for point in points])
    frames = []
    for phase, name in enumerate(("decode", "prefill")):
        if not any(tally.windows[phase] for tally in tallies):
            continue
        by_layer = np.array([[tally.by_layer[each][phase] for each in FIGURES] for tally in tallies])
        figures = np.concatenate([by_layer.sum(axis=2, keepdims=True), by_layer], axis=2)
        layers = list(range(tallies[0].layers))
        lines = Lines(policy, routes, name, layers, [], [], figures, None, fails)
        frames.append(lines_frame(lines, bounds, shares_of(bounds, sizes)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=TYPES)


def worst_layers(curves: pl.DataFrame, at: Bound) -> pl.DataFrame:
    """Layers of every policy at one capacity, those that miss most first; of decode where there is any.

    Parameters
    ----------
    curves : polars.DataFrame
        See ``schemas/result/curves.json``.
    at : Bound
        One of its capacities.

    Returns
    -------
    polars.DataFrame
        The layer's figures there, its share of the policy's misses, and the misses of ``belady``.
    """
    phase = "decode" if (curves["phase"] == "decode").any() else "prefill"
    here = curves.filter(
        pl.col("layer").is_not_null(),
        pl.col("phase") == phase,
        pl.col("capacity_slots").eq_missing(pl.lit(at.total_slots, pl.Int64)),
        pl.col("capacity_bytes").eq_missing(pl.lit(at.bytes, pl.Int64)),
    )
    bound = here.filter(pl.col("policy").is_in(["belady", "none+belady"])).unique("layer")
    order = curves.select("policy", "routes").unique(maintain_order=True).with_row_index("place")
    total = pl.col("misses").sum().over("policy", "routes")
    return (
        here.join(bound.select("layer", bound_misses="misses"), on="layer", how="left")
        .join(order, on=["policy", "routes"])
        .with_columns(misses_share=pl.when(total > 0).then(pl.col("misses") / total))
        .sort("place", "misses", "layer", descending=[False, True, False], nulls_last=True)
        .select(
            "policy", "routes", "phase", "layer", "capacity_slots", "capacity_bytes", "lookups", "misses",
            "compulsory", "bound_misses", "misses_share", "hit_ratio",
        )
    )  # fmt: skip
