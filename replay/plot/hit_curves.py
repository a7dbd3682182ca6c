"""Hit ratio over the arena's capacity: all layers together, then each layer, small multiples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import (
    Measure,
    by_series,
    capacity,
    every,
    figure,
    grouped,
    keys,
    keys_height,
    numbers,
    panels,
)
from replay.plot.style import MUTED, Looks, applied, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_hit_curves(
    table: pl.DataFrame,
    *,
    ax: Axes | Sequence[Axes] | NDArray[Any] | None = None,
    looks: Looks | None = None,
    phase: str = "decode",
    at: float | None = None,
    token: float | None = None,
) -> NDArray[Any]:
    """Draw a run's hit curves, one line a policy, in a panel for all layers and one for each.

    Parameters
    ----------
    table : polars.DataFrame
        ``curves`` of a run: policy, routes, phase, layer (null: all), capacity_slots or capacity_bytes, hit_ratio.
    ax : Axes or sequence of Axes, optional
        Where to draw: one for each panel; the panels beyond them are left out. A figure of its own by default.
    looks : mapping of str to Look, optional
        What each policy looks like; by its place in the table by default.
    phase : str, optional
        ``decode`` or ``prefill``.
    at : float, optional
        The run's own bound, marked by a vertical line; slots, bytes or a share, as the table has.
    token : float, optional
        One token's working set, marked by a dotted line.

    Returns
    -------
    array of Axes
        The panels: all layers, then layer 0, 1, 2 ..
    """
    table = table.filter(pl.col("phase") == phase)
    looks, x = looks_of(table, looks), capacity(table)
    layers = [None, *table["layer"].drop_nulls().unique().sort().to_list()]
    parts = table.partition_by("layer", as_dict=True)
    with applied():
        if ax is None:
            axes = _grid(len(layers), looks, x)
        else:
            axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        for panel, layer in zip(axes, layers, strict=False):
            _panel(panel, parts.get((layer,), table.clear()), looks, x, at, token)
            weight = "bold" if layer is None else "normal"
            panel.set_title("all layers" if layer is None else f"layer {layer}", pad=3, fontweight=weight)
            if ax is not None:
                panel.set(xlabel=x.label, ylabel="hit ratio")
    return axes


def _grid(count: int, looks: Looks, x: Measure) -> NDArray[Any]:
    """A figure with a legend and a panel for each layer; the outer ones carry the figures and labels."""
    columns = min(count, 6 if count <= 30 else 7)
    rows = -(-count // columns)
    top = keys_height(list(looks)) + 0.3
    made = figure(top + 0.55 + rows * 1.15 + (rows - 1) * 0.3)
    keys(made, looks.values())
    axes = panels(made, rows, columns, left=0.74, top=top, across=0.2, down=0.3).ravel()
    for spare in axes[count:]:
        spare.remove()
    for lowest in axes[max(count - columns, 0) : count]:
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel(x.label)
    for first in axes[:count:columns]:
        first.set_ylabel("hit ratio")
    return axes[:count]


def _panel(
    panel: Axes, table: pl.DataFrame, looks: Looks, x: Measure, at: float | None, token: float | None
) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter

    for look, rows in by_series(table, looks):
        fine = look.of_line() | {"linewidth": 1.3, "markersize": 3.4, "markevery": every(len(rows), 8)}
        panel.plot(x.of(rows), numbers(rows, "hit_ratio"), label=look.name, **fine)
    if at is not None:
        panel.axvline(at / x.unit, color=MUTED, linewidth=0.6, zorder=0.5)
    if token is not None:
        panel.axvline(token / x.unit, color=MUTED, linewidth=0.8, linestyle=":", zorder=0.5)
    panel.set_ylim(0, 1.04)
    panel.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    panel.yaxis.set_major_formatter(PercentFormatter(1, 0))
    panel.set_xlim(left=0)
    end = panel.get_xlim()[1]
    steps = np.asarray(MaxNLocator(4 if end < 1600 else 2, steps=[1, 2, 5, 10]).tick_values(0, end))
    inner = steps[steps < 0.9 * end]  # a figure at the edge would touch the next panel's
    panel.xaxis.set_major_locator(FixedLocator(inner.tolist()))
    panel.xaxis.set_major_formatter(grouped)
