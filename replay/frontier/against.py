"""Families against each other: at equal bytes read ahead, session by session, with intervals.

A family's frontier, for a figure, are its points than which none of its own does as well with fewer bytes (means over
sessions; no read-ahead is a point of every family, and not compared). For each point on it and each session, the
other family's figure is read off the other's frontier of that session at the bytes that the point read there:
straight lines between its points, level beyond the last. The interval is that of the mean difference over sessions
(:mod:`replay.verdict.interval`): a point is worse where the whole interval lies above zero. Points that read more
than any of the other's are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.schema.result import RESULT
from replay.verdict.interval import mean_interval

FIGURES = ("misses", "wait_us")


@dataclass(frozen=True)
class Line:
    """A family's points by session.

    Attributes
    ----------
    family : str
    policies : tuple of str
        The points' specs; a point without reads in front is no point of the family.
    read : float64[P, S]
        Bytes read ahead a token of each point and session.
    figures : dict of str to float64[P, S]
        Misses, and where a clock ran exposed wait, a token.
    """

    family: str
    policies: tuple[str, ...]
    read: NDArray[np.float64]
    figures: dict[str, NDArray[np.float64]]


def compared(lines: Sequence[Line], idle: Sequence[Line], seed: int = 0) -> pl.DataFrame:
    """Compare every family with every other.

    Parameters
    ----------
    lines : sequence of Line
    idle : sequence of Line
        For each of them, one point without read-ahead under the same eviction.
    seed : int
        Of the intervals.

    Returns
    -------
    polars.DataFrame
        See ``schemas/result/frontier_against.json``.
    """
    rows: list[dict[str, Any]] = []
    for i, mine in enumerate(lines):
        for j, other in enumerate(lines):
            if i == j:
                continue
            for figure in FIGURES:
                if figure in mine.figures and figure in other.figures:
                    rows += _pair(mine, idle[i], other, idle[j], figure, seed)
    return pl.DataFrame(rows, schema=frame_schema("frontier_against"))


def frame_schema(table: str) -> dict[str, Any]:
    """Polars' types of a result table's columns."""
    types = {"string": pl.String, "int64": pl.Int64, "float64": pl.Float64}
    return {each.name: types[each.type] for each in RESULT[table].columns}


def _pair(mine: Line, none: Line, other: Line, idle: Line, figure: str, seed: int) -> list[dict[str, Any]]:
    """One row a point on a family's frontier that reads no more than the other's most."""
    read = np.concatenate([idle.read, other.read])
    values = np.concatenate([idle.figures[figure], other.figures[figure]])
    reach = float(read.mean(axis=1).max())
    kept = efficient(read, values)
    read, values = read[kept], values[kept]
    own = efficient(
        np.concatenate([none.read, mine.read]), np.concatenate([none.figures[figure], mine.figures[figure]])
    )
    rows = []
    for p, policy in enumerate(mine.policies):
        if p + 1 not in own or mine.read[p].mean() > reach:
            continue
        there = [at(read[:, s], values[:, s], mine.read[p, s]) for s in range(read.shape[1])]
        found = mean_interval(mine.figures[figure][p] - np.array(there), seed=seed)
        ends = [end if np.isfinite(end) else None for end in (found.low, found.high)]
        told = (mine.family, other.family, figure, policy, float(mine.read[p].mean()), len(there), found.mean)
        rows.append(dict(zip(frame_schema("frontier_against"), (*told, *ends), strict=True)))
    return rows


def efficient(read: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Points than which no other does as well with as few bytes, by their means over sessions.

    Parameters
    ----------
    read, values : float64[P, S]

    Returns
    -------
    int64[..]
        By bytes, ascending; of equal points the first.

    Examples
    --------
    >>> efficient(np.array([[0.0], [9.0], [3.0], [6.0]]), np.array([[8.0], [5.0], [5.0], [6.0]])).tolist()
    [0, 2]
    """
    means = read.mean(axis=1), values.mean(axis=1)
    order = np.lexsort((means[1], means[0]))
    least = np.minimum.accumulate(means[1][order])
    return order[np.concatenate(([True], means[1][order][1:] < least[:-1]))]


def at(read: NDArray[np.float64], values: NDArray[np.float64], x: float) -> float:
    """Value of a curve at some bytes; of several points with the same bytes the least.

    Parameters
    ----------
    read, values : float64[P]
        Points in any order.
    x : float

    Examples
    --------
    >>> at(np.array([0.0, 10.0, 10.0]), np.array([5.0, 3.0, 1.0]), 5.0)
    3.0
    """
    order = np.lexsort((values, read))
    first = np.concatenate(([True], np.diff(read[order]) > 0))
    return float(np.interp(x, read[order][first], values[order][first]))
