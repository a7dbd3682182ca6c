"""Misses against bytes read: what each policy pays for what it spares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from replay.plot.canvas import alone, by_series, byte_unit, from_zero, keys, keys_height, numbers
from replay.plot.style import Looks, applied, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_frontier(
    table: pl.DataFrame, *, ax: Axes | None = None, looks: Looks | None = None, sized: bool = True
) -> Axes:
    """Draw misses per token against bytes read per token, a marker a policy: the lower left is better.

    Parameters
    ----------
    table : polars.DataFrame
        policy, routes, read_bytes_per_token, misses_per_token: one row a policy.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    looks : mapping of str to Look, optional
        What each policy looks like; by its place in the table by default.
    sized : bool, optional
        Whether the experts' sizes are known; where they are not, 1 byte stands for each and experts are counted.

    Returns
    -------
    Axes
    """
    looks = looks_of(table, looks)
    unit, name = byte_unit(float(table["read_bytes_per_token"].max() or 0), sized)  # type: ignore[arg-type]
    with applied():
        if ax is None:
            top = keys_height(list(looks)) + 0.2
            ax = alone(top + 3.4, left=0.75, top=top)
            keys(ax.figure, looks.values(), lines=False)  # type: ignore[arg-type]
        for look, rows in by_series(table, looks):
            ax.plot(
                numbers(rows, "read_bytes_per_token", unit), numbers(rows, "misses_per_token"), linestyle="",
                label=look.name, gid=look.gid, **(look.of_marker() | {"markersize": 8}),
            )  # fmt: skip
        ax.set(xlabel=f"{name} read per token", ylabel="misses per token")
        from_zero(ax, "x")
        from_zero(ax)
    return ax
