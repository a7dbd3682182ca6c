"""Figures outside pyplot: one Axes, or a grid of them, with margins in inches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.amount import EXPERTS
from replay.plot.style import Look, Looks, label, series, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.6
"""Inches: a page's width, at which 10 points read as body text."""


def figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure with an SVG canvas."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height))
    FigureCanvasSVG(made)
    return made


def panels(
    made: Figure,
    rows: int,
    columns: int,
    *,
    left: float,
    top: float,
    right: float = 0.15,
    bottom: float = 0.5,
    across: float = 0.25,
    down: float = 0.45,
    share_y: bool | Literal["none", "all", "row", "col"] = True,
) -> NDArray[Any]:
    """A grid of Axes that share x (and y), with margins and gaps in inches."""
    width, height = made.get_size_inches()
    wide = (width - left - right - across * (columns - 1)) / columns
    high = (height - top - bottom - down * (rows - 1)) / rows
    grid = {
        "left": left / width,
        "right": 1 - right / width,
        "top": 1 - top / height,
        "bottom": bottom / height,
        "wspace": across / wide,
        "hspace": down / high,
    }
    found: NDArray[Any] = made.subplots(
        rows, columns, sharex=True, sharey=share_y, squeeze=False, gridspec_kw=grid
    )
    return found


def alone(height: float, *, left: float, top: float, bottom: float = 0.5, right: float = 0.2) -> Axes:
    """One Axes in a figure of its own."""
    axes: Axes = panels(figure(height), 1, 1, left=left, top=top, bottom=bottom, right=right)[0, 0]
    return axes


def by_series(table: pl.DataFrame, looks: Looks) -> list[tuple[Look, pl.DataFrame]]:
    """Each look with its rows, in the looks' order; those without rows are left out."""
    parts = series(table).partition_by("series", as_dict=True, maintain_order=True)
    return [(look, parts[(name,)]) for name, look in looks.items() if (name,) in parts]


def keys_height(names: Sequence[str], width: float = WIDTH) -> float:
    """Inches that ``keys`` needs for a legend of these names."""
    return 0.185 * -(-len(names) // _key_columns(names, width)) + 0.08 if names else 0.0


def keys(made: Figure, shown: Iterable[Look], *, lines: bool = True) -> None:
    """A legend of policies along the figure's top, in as many columns as fit."""
    from matplotlib.lines import Line2D

    each = list(shown)
    names = [label(look.name, 44) for look in each]
    if not names:
        return
    handles = [
        Line2D([], [], **(look.of_line() | {"gid": look.key} | ({} if lines else {"linestyle": ""})))
        for look in each
    ]
    width, height = made.get_size_inches()
    made.legend(
        handles,
        names,
        loc="upper left",
        bbox_to_anchor=(0.12 / width, 1 - 0.06 / height),
        ncols=_key_columns(names, width),
        labelspacing=0.25,
        columnspacing=1.4,
    )


def _key_columns(names: Sequence[str], width: float) -> int:
    widest = 0.75 + max(width_of(label(name, 44), 9.5) for name in names)
    return max(1, min(len(names), int((width - 0.2) / widest)))


def from_zero(ax: Axes, axis: str = "y") -> None:
    """Let an axis begin at 0 and leave room for a whole marker at its other end, however close the values are."""
    most = float(ax.dataLim.y1 if axis == "y" else ax.dataLim.x1)
    most = 1.06 * most if np.isfinite(most) and most > 0 else 1.0
    if axis == "y":
        ax.set_ylim(0, most)
    else:
        ax.set_xlim(0, most)


def every(points: int, most: int) -> int:
    """At every how many points a line has its marker, so that there are about so many.

    Examples
    --------
    >>> every(6, 8), every(24, 8), every(120, 24)
    (1, 3, 5)
    """
    return max(1, round(points / most))


def numbers(table: pl.DataFrame, column: str, scale: float = 1.0) -> NDArray[np.float64]:
    """A column as floats over a unit, NaN where it is null."""
    found: NDArray[np.float64] = table[column].cast(pl.Float64).to_numpy() / scale
    return found


def grouped(value: float, _: object = None) -> str:
    """Write a tick's value with thousands apart, as a formatter does."""
    return f"{value:,.10g}"


def figures(value: float) -> str:
    """Write a value with about three figures, as many decimals for all of one size."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def byte_unit(most: float, sized: bool = True) -> tuple[float, str]:
    """The decimal unit to show sizes in: its bytes, and its name; experts where 1 byte stands for each."""
    if not sized:
        return EXPERTS.size, EXPERTS.unit
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if most >= size:
            return size, name
    return 1.0, "B"


def time_unit(most: float) -> tuple[float, str]:
    """The unit to show times in: its microseconds, and its name."""
    return (1e6, "s") if most >= 1e6 else (1e3, "ms") if most >= 1e3 else (1.0, "us")


class Measure(NamedTuple):
    """What an axis shows: a table's column, over a unit, with a label."""

    column: str
    unit: float
    label: str

    def of(self, table: pl.DataFrame) -> NDArray[np.float64]:
        """The column's values in the axis's unit, NaN where it is null."""
        return numbers(table, self.column, self.unit)


def capacity(table: pl.DataFrame) -> Measure:
    """The capacities of a curve: slots, or bytes in the unit that suits them all; where both are null, shares."""
    most = table["capacity_bytes"].max() if "capacity_bytes" in table.columns else None
    if most is None:
        if (
            len(table)
            and "capacity_share" in table.columns
            and table["capacity_slots"].null_count() == len(table)
        ):
            return Measure("capacity_share", 0.01, "arena (%)")
        return Measure("capacity_slots", 1.0, "arena (slots)")
    size, name = byte_unit(float(most))  # type: ignore[arg-type]
    return Measure("capacity_bytes", size, f"arena ({name})")
