"""Frontiers of families: misses, and exposed wait, against bytes read ahead, one curve a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import (
    by_series,
    byte_unit,
    figure,
    from_zero,
    keys,
    keys_height,
    numbers,
    panels,
    time_unit,
)
from replay.plot.style import Looks, applied, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_thresholds(
    table: pl.DataFrame,
    *,
    ax: Sequence[Axes] | NDArray[Any] | None = None,
    looks: Looks | None = None,
    sized: bool = True,
) -> NDArray[Any]:
    """Draw what families of thresholds spare against what they read ahead: the lower left is better.

    Parameters
    ----------
    table : polars.DataFrame
        Points on recorded windows, as ``frontier.parquet``, with a column series: the family, or what a point is;
        read_ahead_bytes_per_token, misses_per_token, and wait_us_per_token (null: no second panel).
    ax : sequence of Axes, optional
        Where to draw, one or two; a figure of its own by default.
    looks : mapping of str to Look, optional
        What each series looks like; by its place in the table by default.
    sized : bool, optional
        Whether the experts' sizes are known; where they are not, 1 byte stands for each and experts are counted.

    Returns
    -------
    array of Axes
        Misses, and where the table has times exposed wait.
    """
    looks = looks_of(table, looks)
    figures = [("misses_per_token", 1.0, "misses per token")]
    most = table["wait_us_per_token"].max() if sized else None
    if most is not None:
        size, name = time_unit(float(most))  # type: ignore[arg-type]
        figures.append(("wait_us_per_token", size, f"exposed wait per token ({name})"))
    with applied():
        if ax is None:
            top = keys_height(list(looks)) + 0.25
            made = figure(top + 3.9)
            keys(made, looks.values())
            axes = panels(made, 1, len(figures), left=0.75, top=top, across=0.75, share_y="none").ravel()
        else:
            axes = np.asarray(ax, dtype=object).ravel()
        for panel, (column, unit, label) in zip(axes, figures, strict=False):
            _draw(panel, table, looks, column, unit, sized)
            panel.set_ylabel(label)
    return axes


def _draw(ax: Axes, table: pl.DataFrame, looks: Looks, column: str, unit: float, sized: bool) -> None:
    size, name = byte_unit(float(table["read_ahead_bytes_per_token"].max() or 0), sized)  # type: ignore[arg-type]
    for look, rows in by_series(table, looks):
        rows = rows.sort("read_ahead_bytes_per_token", maintain_order=True)
        drawn = look.of_line() if len(rows) > 1 else {**look.of_line(), "linestyle": "", "markersize": 9}
        ax.plot(
            numbers(rows, "read_ahead_bytes_per_token", size),
            numbers(rows, column, unit),
            label=look.name,
            **drawn,
        )
    ax.set(xlabel=f"{name} read ahead per token")
    from_zero(ax)
