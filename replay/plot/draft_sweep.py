"""Sweeps of draft retention: tokens over cost by two thresholds, as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import figure, numbers, panels
from replay.plot.style import INK, ON_DARK, PAPER, applied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {
    "schedule": ("threshold of the first draft", "threshold of later drafts"),
    "flat and cumulative": ("floor of each draft", "floor of the product"),
}
"""Families with two thresholds, and what these are."""


def plot_draft_sweep(table: pl.DataFrame, *, ax: Sequence[Axes] | NDArray[Any] | None = None) -> NDArray[Any]:
    """Draw tokens over cost of every pair of thresholds, a heat map a family; the best of each is framed.

    Parameters
    ----------
    table : polars.DataFrame
        As ``draft_sweep.parquet``: family, first, second, tokens_per_cost. Families with one threshold are left out.
    ax : sequence of two Axes, optional
        Where to draw; a figure of its own by default.

    Returns
    -------
    array of two Axes
        ``schedule``: first threshold up, later ones across; ``flat and cumulative``: floor up, product across.
        Both share one colour scale, from the least to the most.
    """
    shown = table.filter(pl.col("family").is_in(list(PANELS)))
    values = numbers(shown, "tokens_per_cost")
    ends = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    with applied():
        if ax is None:
            axes = panels(
                figure(4.3), 1, 2, left=0.75, top=0.35, bottom=0.6, across=0.7, share_y=False
            ).ravel()
        else:
            axes = np.asarray(ax, dtype=object).ravel()
        for panel, (family, names) in zip(axes, PANELS.items(), strict=True):
            _draw(panel, shown.filter(pl.col("family") == family), names, ends)
            panel.set_title(f"{family}: tokens over cost", loc="left")
    return axes


def _draw(ax: Axes, rows: pl.DataFrame, names: tuple[str, str], ends: tuple[float, float]) -> None:
    from matplotlib.patches import Rectangle

    up, across = (rows[name].unique().sort().to_list() for name in ("first", "second"))
    cells = np.full((len(up), len(across)), np.nan)
    at = np.searchsorted(up, rows["first"].to_numpy()), np.searchsorted(across, rows["second"].to_numpy())
    cells[at] = numbers(rows, "tokens_per_cost")
    low, high = ends
    mesh = ax.pcolormesh(
        cells, cmap="Blues", vmin=low, vmax=max(high, low + 1e-9), edgecolors=ON_DARK, linewidth=0.8
    )
    mesh.set_gid("cells")
    ax.set_xticks(np.arange(len(across)) + 0.5, [f"{each:g}" for each in across])
    ax.set_yticks(np.arange(len(up)) + 0.5, [f"{each:g}" for each in up])
    ax.set(ylabel=names[0], xlabel=names[1])
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    for (y, x), cell in np.ndenumerate(cells):
        if np.isfinite(cell):
            dark = cell > low + 0.6 * (high - low)
            ax.text(
                x + 0.5, y + 0.5, f"{cell:.3f}".removeprefix("0"), ha="center", va="center", fontsize=7,
                color=PAPER if dark else INK,
            )  # fmt: skip
    if np.isfinite(cells).any():
        y, x = divmod(int(np.nanargmax(cells)), cells.shape[1])
        ax.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=INK, linewidth=1.6, gid="best"))
