"""Reliability: what came of guesses that were given a probability, and how many there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import by_series, figure, grouped, keys, keys_height, numbers, panels
from replay.plot.style import BOUND, Looks, applied, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_reliability(
    table: pl.DataFrame,
    *,
    ax: Sequence[Axes] | NDArray[Any] | None = None,
    looks: Looks | None = None,
) -> NDArray[Any]:
    """Draw the selected share against the told probability, the diagonal dashed, and the counts below.

    Parameters
    ----------
    table : polars.DataFrame
        One row a source and bin of equal width: series (what told the probability), low (the bin's lower end), count,
        p (mean probability), selected (share); p and selected are null in a bin without examples.
    ax : sequence of two Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        What each source looks like; by its place in the table by default.

    Returns
    -------
    array of two Axes
        Selected share by probability (a line a source), and examples a bin (grouped bars, logarithmic).
    """
    looks = looks_of(table, looks)
    with applied():
        if ax is None:
            top = keys_height(list(looks)) + 0.2
            made = figure(top + 5.0, width=6.4)
            axes = panels(made, 2, 1, left=0.8, top=top, down=0.25, share_y="none").ravel()
            axes[0].set_position(_part(axes[0], axes[1], 0.36))
            axes[1].set_position(_part(axes[1], axes[1], -0.36))
            keys(made, looks.values())
        else:
            axes = np.asarray(ax, dtype=object).ravel()
        axes[0].plot([0, 1], [0, 1], linestyle="--", color=BOUND, linewidth=1.0, gid="diagonal")
        _shares(axes[0], table, looks)
        _counts(axes[1], table, looks)
    return axes


def _part(ax: Axes, lower: Axes, grow: float) -> tuple[float, float, float, float]:
    """A panel's place, its border with the lower one moved by a share of the lower one's height."""
    place, height = ax.get_position(), lower.get_position().height
    if ax is lower:
        return place.x0, place.y0, place.width, place.height * (1 + grow)
    return place.x0, place.y0 - height * grow, place.width, place.height + height * grow


def _shares(ax: Axes, table: pl.DataFrame, looks: Looks) -> None:
    for look, rows in by_series(table, looks):
        known = rows.filter(pl.col("count") > 0)
        ax.plot(numbers(known, "p"), numbers(known, "selected"), label=look.name, **look.of_line())
    ax.set(ylabel="share selected", xlim=(0, 1), ylim=(0, 1.03))


def _counts(ax: Axes, table: pl.DataFrame, looks: Looks) -> None:
    shown = by_series(table, looks)
    for i, (look, rows) in enumerate(shown):
        width = 1.0 / max(len(rows), 1)
        bar = 0.8 * width / len(shown)
        left = numbers(rows, "low") + 0.1 * width + i * bar
        ax.bar(left, numbers(rows, "count"), bar, align="edge", color=look.colour, gid=f"counts-{look.index}")
    ax.set(xlabel="told probability", ylabel="candidates", yscale="log")
    ax.yaxis.set_major_formatter(grouped)
    ax.set_ylim(bottom=0.8)
