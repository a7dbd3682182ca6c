"""A run's charts for notebooks: ``replay.plot_x(run)``, or the same with a frame of one's own.

Each gives :mod:`replay.plot` the tables that the report draws. They return Axes, show nothing and save nothing; a
figure of their own is ``axes.figure``, and :func:`replay.plot.save` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.argument import either, expect, instance
from replay.errors import InputError
from replay.plot.bytes_by_fate import plot_bytes_by_fate as _bytes_by_fate
from replay.plot.canvas import alone, keys, keys_height
from replay.plot.drafts import plot_drafts as _drafts
from replay.plot.frontier import plot_frontier as _frontier
from replay.plot.hit_curves import plot_hit_curves as _hit_curves
from replay.plot.layer_heatmap import plot_layer_heatmap as _layer_heatmap
from replay.plot.miss_curve import plot_miss_curve as _miss_curve
from replay.plot.style import Looks, applied, looks_of
from replay.plot.trace_line import plot_trace_line as _trace_line
from replay.report.along import along, marks
from replay.report.capacity import per_token
from replay.report.draft import draft_frame, draft_looks
from replay.report.layers import by_layer
from replay.report.policies import bytes_by_series
from replay.report.subject import Subject
from replay.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Where = Axes | Sequence[Axes] | NDArray[Any] | None


_KINDS = {"data": either(instance(Run, "a run"), instance(pl.DataFrame, "a polars frame"))}


def plot_hit_curves(data: Run | pl.DataFrame, *, ax: Axes | None = None, phase: str = "decode") -> Axes:
    """Draw the hit ratio over the arena's capacity, all layers together, a line a policy.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run with curves, or a frame like its ``curves``.
    ax : Axes, optional
        Where to draw; a figure of its own, with a legend, by default.
    phase : str
        ``decode`` or ``prefill``.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The run has no curves, or the data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    table, looks, at = _curves(data)
    panel = _with_keys(looks) if ax is None else ax
    _hit_curves(table, ax=[panel], looks=looks, phase=phase, at=at)
    return panel


def plot_layer_hit_curves(
    data: Run | pl.DataFrame, *, ax: Where = None, phase: str = "decode", layers: Sequence[int] | None = None
) -> NDArray[Any]:
    """Draw the hit curves of all layers together, then of each layer, small multiples.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run with curves, or a frame like its ``curves``.
    ax : Axes or sequence of Axes, optional
        One Axes, whose place the panels take; or an Axes for each panel. A figure of its own by default.
    phase : str
        ``decode`` or ``prefill``.
    layers : sequence of int, optional
        The layers to draw; all of them by default.

    Returns
    -------
    array of Axes
        All layers, then one a layer.

    Raises
    ------
    InputError
        The run has no curves, or the data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    table, looks, at = _curves(data)
    if layers is not None:
        table = table.filter(pl.col("layer").is_null() | pl.col("layer").is_in(list(layers)))
    if ax is None or np.iterable(ax):
        return _hit_curves(table, ax=ax, looks=looks, phase=phase, at=at)
    count = 1 + table.filter(pl.col("phase") == phase)["layer"].drop_nulls().n_unique()
    within, columns = _inside(ax, count)
    panels = _hit_curves(table, ax=within, looks=looks, phase=phase, at=at)
    for i, panel in enumerate(panels):
        if i % columns:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
        if i + columns < count:
            panel.set_xlabel("")
            panel.tick_params(labelbottom=False)
    return panels


def plot_miss_curve(
    data: Run | pl.DataFrame, *, ax: Axes | None = None, phase: str = "decode", log: bool = False
) -> Axes:
    """Draw misses over the arena's capacity, a line a policy; per token, and half of the baseline's marked, for a run.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run with curves, or a frame like its ``curves``.
    ax : Axes, optional
        Where to draw; a figure of its own, with a legend, by default.
    phase : str
        ``decode`` or ``prefill`` (whose misses are not per token).
    log : bool
        Logarithmic axes.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The run has no curves, or the data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    table, looks, at = _curves(data)
    half = None
    if isinstance(data, Run) and phase == "decode":
        subject = Subject(data)
        table = per_token(subject)
        base = subject.rows[subject.base_name]["misses_per_token"]
        half = None if base is None else base / 2
    return _miss_curve(table, ax=ax, looks=looks, phase=phase, at=at, half=half, log=log)


def plot_bytes_by_fate(data: Run | pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw what became of the bytes, per token, one stacked bar a policy.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run, or a frame as :func:`replay.plot.bytes_by_fate.plot_bytes_by_fate` takes it.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    if isinstance(data, pl.DataFrame):
        return _bytes_by_fate(data, ax=ax)
    subject = Subject(data)
    return _bytes_by_fate(bytes_by_series(subject), ax=ax, looks=subject.looks, sized=subject.sized)


def plot_layer_heatmap(
    data: Run | pl.DataFrame, *, ax: Axes | None = None, value: str = "misses_per_token"
) -> Axes:
    """Draw a figure of every policy at every layer, decode windows: the stronger the colour, the more.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run, or a frame with policy, layer and ``value``.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    value : str
        The column to show: of a run's ``layers``, or ``misses_per_token``.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    if isinstance(data, pl.DataFrame):
        return _layer_heatmap(data, ax=ax, value=value)
    subject = Subject(data)
    return _layer_heatmap(by_layer(subject), ax=ax, looks=subject.looks, value=value)


def plot_trace_line(data: Run | pl.DataFrame, *, ax: Where = None) -> NDArray[Any]:
    """Draw misses, bytes read and waits along the trace, smoothed, with its sessions and domains.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run, or a frame with policy, window and one or more of misses, disk_bytes, wait_us.
    ax : Axes or sequence of Axes, optional
        Where to draw, one a measure (with one Axes: misses). A figure of its own by default.

    Returns
    -------
    array of Axes
        One a measure.

    Raises
    ------
    InputError
        The data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    if isinstance(data, pl.DataFrame):
        return _trace_line(data, ax=ax)
    subject = Subject(data)
    table = along(subject)[0]
    return _trace_line(table, ax=ax, looks=subject.looks, marks=marks(subject), sized=subject.sized)


def plot_frontier(data: Run | pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw misses against bytes read, both per token, a marker a policy: the lower left is better.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run, or a frame with policy, read_bytes_per_token and misses_per_token.
    ax : Axes, optional
        Where to draw; a figure of its own, with a legend, by default.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    if isinstance(data, pl.DataFrame):
        return _frontier(data, ax=ax)
    subject = Subject(data)
    columns = ("read_bytes_per_token", "misses_per_token")
    rows = [{"series": name, **{each: row[each] for each in columns}} for name, row in subject.rows.items()]
    return _frontier(pl.DataFrame(rows), ax=ax, looks=subject.looks, sized=subject.sized)


def plot_drafts(data: Run | pl.DataFrame, *, ax: Sequence[Axes] | NDArray[Any] | None = None) -> NDArray[Any]:
    """Draw the acceptance of kept drafts by step, and tokens over cost of each retention policy.

    Parameters
    ----------
    data : Run or polars.DataFrame
        A run of a trace with drafts, or a frame with policy, step, acceptance_ratio and tokens_per_cost.
    ax : sequence of two Axes, optional
        Where to draw; a figure of its own by default.

    Returns
    -------
    array of two Axes

    Raises
    ------
    InputError
        The run's trace has no drafts, or the data is neither a run nor a frame.
    """
    expect(locals(), _KINDS)
    if isinstance(data, pl.DataFrame):
        return _drafts(data, ax=ax)
    survey = data.info.get("drafts")
    if not survey or not survey["policies"]:
        raise InputError("plot_drafts: the run's trace has no drafts; give a run of one that has")
    return _drafts(draft_frame(survey), ax=ax, looks=draft_looks(survey))


def _curves(data: Run | pl.DataFrame) -> tuple[pl.DataFrame, Looks, float | None]:
    """Curves with their series, what each looks like, and the run's bound."""
    if isinstance(data, pl.DataFrame):
        return data, looks_of(data), None
    if data.curves is None:
        raise InputError("the run has no curves; compare again with a grid of capacities")
    subject = Subject(data)
    return subject.of(data.curves), subject.looks, subject.at


def _with_keys(looks: Looks) -> Axes:
    """One Axes in a figure of its own, below a legend."""
    with applied():
        top = keys_height(list(looks)) + 0.3
        ax = alone(top + 3.6, left=0.75, top=top)
        keys(ax.figure, looks.values())  # type: ignore[arg-type]
    return ax


def _inside(ax: Axes, count: int) -> tuple[list[Axes], int]:
    """So many panels in the place of one Axes, and how many stand in a row."""
    columns = min(count, max(2, round(count**0.5) + 1))
    wide, high = 1 / columns, 1 / -(-count // columns)
    ax.set_axis_off()
    places = [(i % columns * wide, 1 - (i // columns + 0.9) * high) for i in range(count)]
    with applied():
        return [ax.inset_axes((x, y, 0.88 * wide, 0.65 * high)) for x, y in places], columns
