"""Slots of each layer under several splits, and below them what the splits gain over the equal one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import figure, numbers, panels
from replay.plot.style import COLOURS, LINES, MARKERS, MUTED, applied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPLITS = ("transfer", "optimum")
UNITS = {"misses": "misses", "bytes": "bytes", "wait": "us of waiting"}


def plot_layer_slots(
    table: pl.DataFrame, *, ax: Any = None, size_class: int = 0, figure_of_cost: str = "misses"
) -> NDArray[Any]:
    """Draw slots by layer, and the gain over the equal split.

    Parameters
    ----------
    table : polars.DataFrame
        class, layer, and ``X_slots`` and ``X_cost`` of the splits equal, transfer and optimum.
    ax : sequence of two Axes, optional
        Where to draw; a figure of its own by default.
    size_class : int, optional
        The size class to draw.
    figure_of_cost : str, optional
        What the costs count: ``misses``, ``bytes`` or ``wait``.

    Returns
    -------
    array of two Axes
        Slots (the equal split grey), and cost saved, both over layers.
    """
    rows = table.filter(pl.col("class") == size_class).sort("layer")
    with applied():
        if ax is None:
            axes = panels(figure(4.4), 2, 1, left=0.85, top=0.15, down=0.25, share_y="none").ravel()
        else:
            axes = np.asarray(ax, dtype=object).ravel()
        _slots(axes[0], rows)
        _gains(axes[1], rows, UNITS[figure_of_cost])
    return axes


def _look(i: int) -> dict[str, Any]:
    return {
        "color": COLOURS[i],
        "linestyle": LINES[i],
        "marker": MARKERS[i],
        "markersize": 4,
        "linewidth": 1.4,
    }


def _slots(ax: Axes, rows: pl.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    layer = numbers(rows, "layer")
    ax.plot(layer, numbers(rows, "equal_slots"), color=MUTED, linewidth=1.2, label="equal")
    for i, name in enumerate(SPLITS):
        ax.plot(layer, numbers(rows, f"{name}_slots"), label=name, **_look(i))
    ax.set_ylabel("slots")
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.legend(ncols=3)


def _gains(ax: Axes, rows: pl.DataFrame, unit: str) -> None:
    layer = numbers(rows, "layer")
    ax.axhline(0, color=MUTED, linewidth=0.8)
    for i, name in enumerate(SPLITS):
        saved = numbers(rows, "equal_cost") - numbers(rows, f"{name}_cost")
        ax.plot(layer, saved, label=name, **_look(i))
    ax.set_ylabel(f"{unit} saved")
    ax.set_xlabel("layer")
