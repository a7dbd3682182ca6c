"""Misses over the arena's capacity, all layers together: how much arena halves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from replay.plot.canvas import alone, by_series, capacity, every, grouped, keys, keys_height, numbers
from replay.plot.style import MUTED, Looks, applied, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_miss_curve(
    table: pl.DataFrame,
    *,
    ax: Axes | None = None,
    looks: Looks | None = None,
    phase: str = "decode",
    at: float | None = None,
    half: float | None = None,
    token: float | None = None,
    log: bool = False,
) -> Axes:
    """Draw misses against capacity, one line a policy.

    Parameters
    ----------
    table : polars.DataFrame
        ``curves`` of a run (its rows for all layers are drawn); a column ``misses_per_token`` is drawn where it is
        there, else ``misses``.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        What each policy looks like; by its place in the table by default.
    phase : str, optional
        ``decode`` or ``prefill``.
    at : float, optional
        The run's own bound, marked by a vertical line; slots, bytes or a share, as the table has.
    half : float, optional
        Half of the baseline's misses at the bound, marked by a horizontal line.
    token : float, optional
        One token's working set, marked by a dotted vertical line.
    log : bool, optional
        Logarithmic axes.

    Returns
    -------
    Axes
    """
    table = table.filter((pl.col("phase") == phase) & pl.col("layer").is_null())
    looks, x = looks_of(table, looks), capacity(table)
    per_token = "misses_per_token" in table.columns
    y = "misses_per_token" if per_token else "misses"
    with applied():
        if ax is None:
            top = keys_height(list(looks)) + 0.3
            ax = alone(top + 3.6, left=0.75, top=top, right=0.95)
            keys(ax.figure, looks.values())  # type: ignore[arg-type]
        for look, rows in by_series(table, looks):
            ax.plot(
                x.of(rows),
                numbers(rows, y),
                label=look.name,
                markevery=every(len(rows), 24),
                **look.of_line(),
            )
        ax.set(xlabel=x.label, ylabel="misses per token" if per_token else "misses")
        if log:
            ax.set(xscale="log", yscale="log")
        else:
            ax.set_xlim(left=0)
            ax.set_ylim(bottom=0)
        ax.xaxis.set_major_formatter(grouped)
        _mark(ax, None if at is None else at / x.unit, half)
        if token is not None:
            _mark_token(ax, token / x.unit)
    return ax


def _mark_token(ax: Axes, token: float) -> None:
    """One token's working set, named above its line."""
    ax.axvline(token, color=MUTED, linewidth=0.8, linestyle=":", zorder=0.5)
    beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": MUTED}
    ax.annotate("one token", (token, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center", **beside)


def _mark(ax: Axes, at: float | None, half: float | None) -> None:
    """The run's own bound, and half of the baseline's misses there, named outside the lines."""
    beside: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": 9,
        "color": MUTED,
        "annotation_clip": False,
    }
    if at is not None:
        ax.axvline(at, color=MUTED, linewidth=0.8, zorder=1.2)
        ax.annotate(
            "this run's arena", (at, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center", **beside
        )
    if half is not None:
        ax.axhline(half, color=MUTED, linewidth=0.8, zorder=1.2)
        text = "half of the\nbaseline's"
        ax.annotate(text, (1, half), (4, 0), xycoords=("axes fraction", "data"), va="center", **beside)
