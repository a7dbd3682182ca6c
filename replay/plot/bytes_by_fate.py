"""What became of the bytes: stacked bars, one a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import WIDTH, alone, byte_unit, figures, numbers
from replay.plot.style import (
    FATES,
    INK,
    MUTED,
    ON_DARK,
    ON_LIGHT,
    PAPER,
    Looks,
    applied,
    label,
    looks_of,
    series,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Fate(NamedTuple):
    """One kind of bytes: its column, what the legend says, and how it is filled."""

    column: str
    text: str
    colour: str
    on: str
    hatch: str = ""


TIMED = (
    Fate("demand_bytes", "demand: waited for", FATES["demand"], ON_DARK),
    Fate("timely_bytes", "read ahead, timely", FATES["timely"], ON_DARK),
    Fate("late_bytes", "read ahead, late", FATES["late"], ON_LIGHT),
    Fate("whole_unused_bytes", "read, never used", FATES["unused"], ON_DARK),
    Fate("partial_read_bytes", "read in part", FATES["partial"], ON_LIGHT, "..."),
    Fate("pending_read_bytes", "pending", FATES["pending"], ON_LIGHT),
    Fate("cancelled_bytes", "cancelled, never read", PAPER, INK, "////"),
)
"""Fates by the clock, in the order of the bars: what waited, what helped, what did not, what was not read."""

UNTIMED = (
    Fate("demand_bytes", "demand", FATES["demand"], ON_DARK),
    Fate("claimed_bytes", "read ahead and used", FATES["timely"], ON_DARK),
    Fate("retired_bytes", "read ahead, never used", FATES["unused"], ON_DARK),
)
"""What is known without a clock."""


def plot_bytes_by_fate(
    table: pl.DataFrame,
    *,
    ax: Axes | None = None,
    looks: Looks | None = None,
    per: str = "token",
    sized: bool = True,
) -> Axes:
    """Draw what became of the bytes, one stacked bar a policy.

    Parameters
    ----------
    table : polars.DataFrame
        One row a policy: policy, routes, and bytes (of one ``per``): demand_bytes, timely_bytes, late_bytes,
        whole_unused_bytes (unused without the read part of partial reads), partial_read_bytes, pending_read_bytes,
        cancelled_bytes; without a clock demand_bytes, claimed_bytes, retired_bytes. A column that is missing or all
        null or all zero gets no colour in the legend.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        The policies, in the order of the bars from the top; the table's order by default.
    per : str, optional
        What the bytes are of: the axis says "read per token".
    sized : bool, optional
        Whether the experts' sizes are known; where they are not, 1 byte stands for each and experts are counted.

    Returns
    -------
    Axes
        One bar container a fate.
    """
    table, looks = series(table), looks_of(table, looks)
    names = [name for name in looks if name in set(table["series"])]
    table = pl.DataFrame({"series": names}).join(table, on="series", how="left", maintain_order="left")
    timed = "timely_bytes" in table.columns and table["timely_bytes"].null_count() < len(table)
    fates = [each for each in (TIMED if timed else UNTIMED) if _any(table, each.column)]
    with applied():
        own = ax is None
        ax = _own(names, len(fates)) if ax is None else ax
        _bars(ax, table, fates, sized)
        _legend(ax, own)
        ax.set_yticks(range(len(names)), [label(name, 44) for name in names])
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel(f"{ax.get_xlabel()} per {per}")
        ax.grid(False, axis="y")
        ax.tick_params(axis="y", length=0)
    return ax


def _any(table: pl.DataFrame, column: str) -> bool:
    return column in table.columns and bool((table[column].fill_null(0) != 0).any())


def _own(names: list[str], fates: int) -> Axes:
    left = min(0.3 + max((width_of(label(name, 44), 9) for name in names), default=1), WIDTH / 2)
    return alone(
        0.75 + 0.22 * (-(-fates // 5)) + 0.36 * len(names),
        left=left,
        top=0.2 + 0.22 * (-(-fates // 5)),
        right=0.95,
    )


def _bars(ax: Axes, table: pl.DataFrame, fates: list[Fate], sized: bool) -> None:
    """The segments, their figures where they fit, the bytes that were read at each bar's end, the legend."""
    columns = {each.column: np.nan_to_num(numbers(table, each.column)) for each in fates}
    whole = sum(columns.values(), np.zeros(len(table)))
    unit, name = byte_unit(float(whole.max(initial=0)), sized)
    start = np.zeros(len(table))
    most = "" if fates[0] in TIMED else "at most "
    longest = max(float(whole.max(initial=0)), 1e-9)
    for fate in fates:
        sizes = columns[fate.column]
        _segment(ax, fate, sizes / unit, start / unit, sizes / longest)
        start = start + sizes
    read = whole - columns.get("cancelled_bytes", 0)
    for y, (end, size) in enumerate(zip(whole / unit, read / unit, strict=True)):
        ax.annotate(
            f"{most}{figures(size)} read",
            (end, y),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    ax.set_xlabel(name)


def _legend(ax: Axes, own: bool) -> None:
    """The fates: along the figure's top where it is ours, else above the Axes."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0)}
    if own:
        width, height = ax.figure.get_size_inches()  # type: ignore[union-attr]
        corner = (0.12 / width, 1 - 0.06 / height)
        place = {"loc": "upper left", "bbox_to_anchor": corner, "bbox_transform": ax.figure.transFigure}
    ax.legend(ncols=5, borderpad=0.2, handlelength=1.4, columnspacing=1.2, **place)


def _segment(
    ax: Axes, fate: Fate, sizes: NDArray[np.float64], start: NDArray[np.float64], share: NDArray[np.float64]
) -> None:
    bars = ax.barh(
        range(len(sizes)),
        sizes,
        left=start,
        height=0.68,
        color=fate.colour,
        edgecolor=MUTED if fate.hatch else PAPER,
        hatch=fate.hatch,
        linewidth=0.6,
        label=fate.text,
    )
    for bar, size, part in zip(bars, sizes, share, strict=True):
        if part > 0.07:
            ax.text(
                bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2, figures(size),
                ha="center", va="center", color=fate.on, fontsize=9,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1} if fate.hatch == "////" else None,
            )  # fmt: skip
