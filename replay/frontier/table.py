"""Figures of a frontier's points: one row a point, and lines by session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.comparison.candidate import Candidate
from replay.frontier.against import Line, frame_schema
from replay.frontier.family import Family
from replay.frontier.point import Point, Ways
from replay.schema.study import FRONTIER_COUNTS
from replay.trace import Trace


def points_frame(
    asked: Sequence[Family],
    wanted: Sequence[Point],
    found: Sequence[Candidate],
    ways: Ways,
    windows: str = "recorded",
) -> pl.DataFrame:
    """One row a point."""
    pairs = list(zip(wanted, found, strict=True))
    idle = {str(p.spec.evict): one.tally.total("misses", 0) for p, one in pairs if p.kind == "none"}
    rows = [_row(asked, p, one, idle.get(str(p.spec.evict)), ways, windows) for p, one in pairs]
    return pl.DataFrame(rows, schema=frame_schema("frontier"))


def _row(
    asked: Sequence[Family], point: Point, one: Candidate, idle: int | None, ways: Ways, windows: str
) -> dict[str, Any]:
    tally, tokens = one.tally, int(one.tokens[ways.semantics.warm :].sum())
    counts = {name: tally.total(name, 0) for name in FRONTIER_COUNTS}
    hits, misses = counts["prefetch_hits"], counts["misses"]
    wait = (tally.total("wait_ns", 0) + tally.total("limbo_wait_ns", 0)) / 1000 if tally.timed else None
    avoided = None if idle is None else idle - misses
    family = asked[point.family] if point.family >= 0 else None
    return {
        "windows": windows,
        "kind": point.kind,
        "family": None if family is None else family.text,
        "policy": one.text,
        "option": None if family is None else family.option,
        "value": point.value,
        "tokens": tokens,
        **counts,
        "wait_us": wait,
        "read_ahead_bytes_per_token": counts["issued_bytes"] / tokens if tokens else None,
        "misses_per_token": misses / tokens if tokens else None,
        "wait_us_per_token": wait / tokens if tokens and wait is not None else None,
        "precision_ratio": hits / counts["issued"] if counts["issued"] else None,
        "coverage_ratio": hits / (hits + misses) if hits + misses else None,
        "bytes_per_miss_avoided": counts["issued_bytes"] / avoided
        if avoided is not None and avoided > 0
        else None,
    }


def lines_of(
    asked: Sequence[Family], wanted: Sequence[Point], found: Sequence[Candidate], trace: Trace, ways: Ways
) -> tuple[list[Line], list[Line]]:
    """Every family's points by session, and for each the point without read-ahead."""
    of = [_by_session(one, trace, ways) for one in found]
    idle_at = {str(p.spec.evict): i for i, p in enumerate(wanted) if p.kind == "none"}
    lines, idle = [], []
    for f, family in enumerate(asked):
        mine = [i for i, p in enumerate(wanted) if p.family == f]
        lines.append(_line(family.text, [found[i].text for i in mine], [of[i] for i in mine]))
        none = idle_at[str(wanted[mine[0]].spec.evict)]
        idle.append(_line("none", [found[none].text], [of[none]]))
    return lines, idle


def _line(family: str, policies: list[str], parts: list[dict[str, NDArray[np.float64]]]) -> Line:
    figures = {name: np.stack([part[name] for part in parts]) for name in parts[0] if name != "read"}
    return Line(family, tuple(policies), np.stack([part["read"] for part in parts]), figures)


def _by_session(one: Candidate, trace: Trace, ways: Ways) -> dict[str, NDArray[np.float64]]:
    """Bytes read ahead, misses and wait a token of every session with a counted token."""
    sums, windows = one.tally.by_window(), trace.windows
    place = np.unique(windows.session, return_inverse=True)[1]
    counted = sums["window"][~windows.prefill[sums["window"]]]
    keep = ~windows.prefill[sums["window"]]
    tokens = np.bincount(place[counted], one.tokens[counted], place.max() + 1)

    def summed(*names: str) -> NDArray[np.float64]:
        values = sum(sums[name][keep] for name in names)
        return np.asarray(np.bincount(place[counted], values, len(tokens))[tokens > 0] / tokens[tokens > 0])

    found = {"read": summed("issued_bytes"), "misses": summed("misses")}
    if one.tally.timed:
        found["wait_us"] = summed("wait_ns", "limbo_wait_ns") / 1000.0
    return found
