"""Misses over capacities: the table behind the curves, and how large an arena halves the baseline's misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from replay.report.figure import Cell, Grid, Head, Row
from replay.report.subject import Subject
from replay.report.wording import NOTHING, decimals
from replay.units import format_bytes


def per_token(subject: Subject) -> pl.DataFrame:
    """The run's curves of decode windows, with ``misses_per_token``."""
    assert subject.run.curves is not None
    curves = subject.phase(subject.run.curves).with_columns(pl.col("misses").alias("misses_per_token"))
    return subject.per_token(curves, "misses_per_token")


def halving(points: Sequence[tuple[float, float | None]], goal: float) -> tuple[str, float] | None:
    """The least capacity whose misses are at most a goal, straight between the points.

    Parameters
    ----------
    points : sequence of (float, float or None)
        Capacity and misses, ascending; None: the arena cannot hold an event.
    goal : float

    Returns
    -------
    tuple of str and float, or None
        ``"<="`` where the first point has reached it already, ``">"`` where the last has not, else ``"~"``; and the
        capacity. None without a point.

    Examples
    --------
    >>> halving([(100, 40.0), (200, 20.0)], 30.0), halving([(100, 40.0)], 30.0), halving([(100, 40.0)], 50.0)
    (('~', 150.0), ('>', 100), ('<=', 100))
    """
    known = [(x, y) for x, y in points if y is not None]
    if not known:
        return None
    before: tuple[float, float] | None = None
    for x, y in known:
        if y <= goal:
            if before is None:
                return "<=", x
            share = (before[1] - goal) / (before[1] - y)
            return "~", before[0] + share * (x - before[0])
        before = (x, y)
    return ">", known[-1][0]


def _size(subject: Subject, value: float) -> str:
    slots = bool((subject.run.info.get("bound") or {}).get("slots"))
    return f"{round(value):,}" if slots else format_bytes(round(value))


_SIGNS = {"<=": "≤ ", ">": "> ", "~": "≈ "}
NEVER = "never"
"""In the place of a sign: not even an arena of all experts does it."""


def halves(subject: Subject, curves: pl.DataFrame) -> dict[str, tuple[str, float]]:
    """For each series the capacity at which it misses half of what the baseline misses at the run's bound."""
    base = subject.rows[subject.base_name]["misses_per_token"]
    whole = (curves["capacity_share"].max() or 0) >= 1  # type: ignore[operator]
    found: dict[str, tuple[str, float]] = {}
    for name, points in _points(curves).items():
        at = halving([(x, y) for x, y in points], base / 2) if base else None
        if at is not None:
            found[name] = (NEVER, at[1]) if whole and at[0] == ">" else at
    return found


def _points(curves: pl.DataFrame) -> dict[str, list[tuple[float, float | None]]]:
    """Capacity and misses per token of each series, all layers together."""
    table = curves.filter(pl.col("layer").is_null()).with_columns(
        pl.coalesce("capacity_slots", "capacity_bytes").alias("capacity")
    )
    found: dict[str, list[tuple[float, float | None]]] = {}
    for row in table.sort("capacity", maintain_order=True).iter_rows(named=True):
        found.setdefault(row["series"], []).append((row["capacity"], row["misses_per_token"]))
    return {name: found[name] for name in table["series"].unique(maintain_order=True)}


def halving_text(subject: Subject, found: tuple[str, float]) -> str:
    """Write a capacity that halves the misses."""
    return NEVER if found[0] == NEVER else _SIGNS[found[0]] + _size(subject, found[1])


def capacity_grid(subject: Subject, curves: pl.DataFrame) -> Grid:
    """Misses per token of each policy at each capacity, and where they halve the baseline's."""
    points = _points(curves)
    sizes = sorted({x for each in points.values() for x, _ in each})
    half = halves(subject, curves)
    unit = "slots" if (subject.run.info.get("bound") or {}).get("slots") else ""
    heads = [Head("policy", numeric=False), *(Head(_size(subject, x), unit) for x in sizes)]
    heads.append(
        Head(
            "halved at", unit, f"arena at which it misses half of what {subject.base_name} misses in this run"
        )
    )
    rows = []
    for name, each in points.items():
        at: dict[float, Any] = dict(each)
        cells = [Cell(decimals(at.get(x), 2), at.get(x)) for x in sizes]
        found = half.get(name)
        cells.append(
            Cell(
                NOTHING if found is None else halving_text(subject, found),
                None if found is None else found[1],
            )
        )
        rows.append(Row(name, cells, subject.look(name), subject.note(name)))
    hole = any(y is None for each in points.values() for _, y in each)
    note = f" ({NOTHING}: too small to hold the widest event)" if hole else ""
    return Grid(f"Misses per token by the size of the arena{note}", heads, rows)
