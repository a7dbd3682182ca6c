"""Drafts: how often each step is accepted, and what each retention policy's tokens cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import WIDTH, by_series, figure, keys, keys_height, numbers
from replay.plot.style import Looks, applied, label, looks_of, series, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_drafts(
    table: pl.DataFrame,
    *,
    ax: Sequence[Axes] | NDArray[Any] | None = None,
    looks: Looks | None = None,
) -> NDArray[Any]:
    """Draw the acceptance of kept drafts by step, and tokens over cost of each retention policy.

    Parameters
    ----------
    table : polars.DataFrame
        One row a retention policy and draft step: policy, step, acceptance_ratio (accepted / kept), tokens_per_cost
        (the same on all rows of a policy).
    ax : sequence of two Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        What each policy looks like; by its place in the table by default.

    Returns
    -------
    array of two Axes
        Acceptance by step (a line a policy), tokens over cost (a marker a policy).
    """
    table = series(table)
    looks = looks_of(table, looks)
    with applied():
        axes = _own(looks) if ax is None else np.asarray(ax, dtype=object).ravel()
        _acceptance(axes[0], table, looks)
        _worth(axes[1], table, looks)
    return axes


def _own(looks: Looks) -> NDArray[Any]:
    left = min(0.3 + max((width_of(label(name, 40), 9) for name in looks), default=1), WIDTH / 2)
    top = keys_height(list(looks)) + 0.3
    height = max(1.9, 0.3 * len(looks))
    made = figure(top + 0.55 + height)
    keys(made, looks.values())
    half = (WIDTH - 0.8 - left - 0.55) / 2
    size = made.get_size_inches()
    frame = (0.55 / size[1], height / size[1])
    first = made.add_axes((0.7 / size[0], frame[0], half / size[0], frame[1]))
    second = made.add_axes(((0.7 + half + left) / size[0], frame[0], half / size[0], frame[1]))
    return np.array([first, second], dtype=object)


def _acceptance(ax: Axes, table: pl.DataFrame, looks: Looks) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    for look, rows in by_series(table, looks):
        ax.plot(rows["step"].to_numpy(), numbers(rows, "acceptance_ratio"), label=look.name, **look.of_line())
    ax.set(xlabel="draft step", ylabel="accepted of those kept", ylim=(0, 1.04))
    ax.yaxis.set_major_formatter(PercentFormatter(1, 0))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _worth(ax: Axes, table: pl.DataFrame, looks: Looks) -> None:
    shown = by_series(table, looks)
    for y, (look, rows) in enumerate(shown):
        value = numbers(rows, "tokens_per_cost")[:1]
        ax.plot(value, [y], linestyle="", gid=look.gid, **(look.of_marker() | {"markersize": 7}))
        for x in value[np.isfinite(value)]:
            ax.annotate(f"{x:.3f}", (x, y), (8, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(range(len(shown)), [label(look.name, 40) for look, _ in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlabel("tokens over cost")
    ax.margins(x=0.18)
    ax.tick_params(axis="y", length=0)
