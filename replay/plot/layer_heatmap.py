"""Misses by layer and policy: a heat map, the stronger the colour, the more is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import WIDTH, alone, numbers
from replay.plot.style import INK, ON_DARK, PAPER, Looks, applied, label, looks_of, series, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WRITTEN = 24
"""Most layers whose figures are written into the cells."""


def plot_layer_heatmap(
    table: pl.DataFrame,
    *,
    ax: Axes | None = None,
    looks: Looks | None = None,
    value: str = "misses_per_token",
) -> Axes:
    """Draw a figure of every policy (rows) at every layer (columns).

    Parameters
    ----------
    table : polars.DataFrame
        policy, routes, layer and the column ``value``; one row a policy and layer.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        The policies, in the order of the rows from the top; the table's order by default.
    value : str, optional
        The column to show; its name, with blanks, is the colour bar's label.

    Returns
    -------
    Axes
        One mesh, from white (0) to dark (the most); figures in the cells where there are few layers.
    """
    table, looks = series(table), looks_of(table, looks)
    names = [name for name in looks if name in set(table["series"])]
    layers = table["layer"].unique().sort().to_list()
    cells = np.full((len(names), len(layers)), np.nan)
    row = table["series"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    cells[row, np.searchsorted(layers, table["layer"].to_numpy())] = numbers(table, value)
    with applied():
        ax = _own(names) if ax is None else ax
        _draw(ax, cells, names, layers, value.replace("_", " "))
    return ax


def _own(names: list[str]) -> Axes:
    left = min(0.3 + max((width_of(label(name, 44), 9) for name in names), default=1), WIDTH / 2)
    return alone(0.75 + 0.3 * max(len(names), 2), left=left, top=0.12, right=0.85)


def _draw(ax: Axes, cells: NDArray[np.float64], names: list[str], layers: list[int], what: str) -> None:
    most = float(np.nanmax(cells, initial=0)) or 1.0
    mesh = ax.pcolormesh(cells, cmap="Blues", vmin=0, vmax=most, edgecolors=ON_DARK, linewidth=0.8)
    mesh.set_gid("cells")
    ax.set_yticks(np.arange(len(names)) + 0.5, [label(name, 44) for name in names])
    step = max(1, -(-len(layers) // 24))
    ax.set_xticks(np.arange(0, len(layers), step) + 0.5, [str(each) for each in layers[::step]])
    ax.set(xlabel="layer", ylim=(len(names), 0))
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    _bar(ax, most, what)
    digits = 0 if most >= 99.5 else 1 if most >= 9.95 else 2
    if len(layers) <= WRITTEN:
        for (y, x), cell in np.ndenumerate(cells):
            if np.isfinite(cell):
                dark = cell > 0.6 * most
                ax.text(
                    x + 0.5, y + 0.5, f"{cell:.{digits}f}", ha="center", va="center", fontsize=8,
                    color=PAPER if dark else INK,
                )  # fmt: skip


def _bar(ax: Axes, most: float, what: str) -> None:
    """A colour bar beside the mesh, as shapes: an image would not scale."""
    beside = ax.inset_axes((1.015, 0, 0.018, 1))
    steps = np.linspace(0, most, 33)
    bar = beside.pcolormesh([0, 1], steps, steps[:-1, None] + most / 64, cmap="Blues", vmin=0, vmax=most)
    bar.set_gid("cells")
    beside.set_xticks([])
    beside.yaxis.tick_right()
    beside.yaxis.set_label_position("right")
    beside.set_ylabel(what)
    beside.tick_params(axis="y", length=2, labelsize=8)
    beside.grid(False)
    beside.spines[:].set_visible(False)
