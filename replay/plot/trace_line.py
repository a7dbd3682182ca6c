"""Misses, bytes and waits along the trace, with its sessions and domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.plot.canvas import (
    WIDTH,
    Measure,
    by_series,
    byte_unit,
    figure,
    grouped,
    keys,
    keys_height,
    panels,
    time_unit,
)
from replay.plot.style import MUTED, ON_LIGHT, TINTS, Looks, applied, label, looks_of, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = ("misses", "disk_bytes", "wait_us")
WHOLE_LINES, MOST_SESSIONS = 12, 200
"""Up to so many session starts are lines from top to bottom, up to so many are ticks at the top; more are left out."""

_WORDS = {"misses": "misses", "disk_bytes": "read", "wait_us": "waited"}


def plot_trace_line(
    table: pl.DataFrame,
    *,
    ax: Axes | Sequence[Axes] | NDArray[Any] | None = None,
    looks: Looks | None = None,
    marks: pl.DataFrame | None = None,
    sized: bool = True,
) -> NDArray[Any]:
    """Draw what each window missed, read and waited, one line a policy.

    Parameters
    ----------
    table : polars.DataFrame
        policy, routes, window and one or more of misses, disk_bytes, wait_us: as they are to be drawn, so smoothed
        and thinned already. A measure that is missing or all null gets no panel.
    ax : Axes or sequence of Axes, optional
        Where to draw: one a measure. A figure of its own by default.
    looks : mapping of str to Look, optional
        What each policy looks like; by its place in the table by default.
    marks : polars.DataFrame, optional
        window, session, domain (null: not known): one row where a session begins or a domain changes, ascending.
    sized : bool, optional
        Whether the experts' sizes are known; where they are not, 1 byte stands for each and experts are counted.

    Returns
    -------
    array of Axes
        One a measure, sharing the windows.
    """
    looks = looks_of(table, looks)
    shown = [_measure(table, each, sized) for each in MEASURES if _has(table, each)]
    domains = _domains(marks, table)
    with applied():
        axes = (
            _stack(len(shown), looks, 0.0 if not domains else 0.3 if _named(domains, WIDTH - 1) else 0.5)
            if ax is None
            else np.atleast_1d(np.asarray(ax, object)).ravel()
        )
        for panel, measure in zip(axes, shown, strict=False):
            for i, (look, rows) in enumerate(by_series(table, looks)):
                every = max(len(rows) // 8, 1)
                start = (i * every // max(len(looks), 1)) % max(len(rows), 1)
                panel.plot(
                    rows["window"].to_numpy(), measure.of(rows), label=look.name,
                    markevery=(start, every), **(look.of_line() | {"linewidth": 1.3}),
                )  # fmt: skip
            panel.set_ylabel(measure.label)
            panel.set_ylim(bottom=0)
            panel.margins(x=0)
            _sessions(panel, marks)
        if len(axes):
            axes[-1].set_xlabel("window")
            axes[-1].xaxis.set_major_formatter(grouped)
        if domains:
            _strip(axes[0], domains)
    return axes


def _has(table: pl.DataFrame, column: str) -> bool:
    return column in table.columns and table[column].null_count() < len(table)


def _measure(table: pl.DataFrame, column: str, sized: bool) -> Measure:
    most = float(table[column].max() or 0)  # type: ignore[arg-type]
    unit, name = 1.0, ""
    if column != "misses":
        unit, name = byte_unit(most, sized) if column.endswith("_bytes") else time_unit(most)
    return Measure(column, unit, f"{name} {_WORDS[column]}\nper window".strip())


def _stack(count: int, looks: Looks, strip: float) -> NDArray[Any]:
    """A figure with a panel for each measure, below a legend and so many inches for the strip."""
    count = max(count, 1)
    top = keys_height(list(looks)) + 0.15 + strip
    made = figure(top + 0.55 + 1.65 * count + 0.2 * (count - 1))
    keys(made, looks.values())
    return panels(made, count, 1, left=0.85, top=top, down=0.2, share_y=False).ravel()


def _sessions(panel: Axes, marks: pl.DataFrame | None) -> None:
    """A thin line where a session begins."""
    if marks is None:
        return
    starts = marks.filter(pl.col("session") != pl.col("session").shift(1))["window"].to_list()
    foot = 0.0 if len(starts) <= WHOLE_LINES else 0.94
    for window in starts if len(starts) <= MOST_SESSIONS else ():
        panel.axvline(
            window, foot, color=MUTED, linewidth=0.7, linestyle=(0, (1, 2)) if foot == 0 else "-", zorder=0.6
        )


def _domains(marks: pl.DataFrame | None, table: pl.DataFrame) -> list[tuple[float, float, str]]:
    """Stretches of one domain: first window, the window after its last, name."""
    if marks is None or not len(marks) or marks["domain"].null_count() == len(marks):
        return []
    changed = marks.filter(
        pl.col("domain").ne_missing(pl.col("domain").shift(1)) | (pl.int_range(pl.len()) == 0)
    )
    starts = [*changed["window"].to_list(), float(table["window"].max() or 0) + 1]  # type: ignore[arg-type]
    names = [each or "" for each in changed["domain"].to_list()]
    return [(a, b, name) for a, b, name in zip(starts[:-1], starts[1:], names, strict=True) if b > a]


def _strip(panel: Axes, domains: list[tuple[float, float, str]]) -> None:
    """A strip above the first panel: a tint for each domain, their names in it where all fit, else a key."""
    from matplotlib.patches import Rectangle

    frame = panel.get_xaxis_transform()
    inches = panel.get_position().width * float(panel.figure.get_size_inches()[0])  # type: ignore[union-attr]
    height = 0.17 / (panel.get_position().height * float(panel.figure.get_size_inches()[1]))  # type: ignore[union-attr]
    names = list(dict.fromkeys(name for _, _, name in domains))
    tints = {name: TINTS[i % len(TINTS)] for i, name in enumerate(names)}
    told = _named(domains, inches)
    for start, end, name in domains:
        place: dict[str, Any] = {"transform": frame, "clip_on": False}
        panel.add_patch(
            Rectangle(
                (start, 1.03),
                end - start,
                height,
                linewidth=0.6,
                facecolor=tints[name],
                edgecolor=MUTED,
                **place,
            )
        )
        if told:
            middle = ((start + end) / 2, 1.03 + height / 2)
            panel.text(
                *middle, label(name, 24), ha="center", va="center", fontsize=8, color=ON_LIGHT, **place
            )
    if not told:
        _tell(panel, {name: tints[name] for name in names[: len(TINTS)]}, 1.05 + height)


def _named(domains: list[tuple[float, float, str]], inches: float) -> bool:
    """Whether a strip so wide has room for the names of all its stretches."""
    per_window = inches / max(domains[-1][1] - domains[0][0], 1)
    return all(width_of(label(name, 24), 8) <= (end - start) * per_window for start, end, name in domains)


def _tell(panel: Axes, tints: dict[str, str], above: float) -> None:
    """A key of the domains, where the strip has no room for all names."""
    from matplotlib.patches import Patch

    panel.legend(
        [Patch(facecolor=tint, edgecolor=MUTED, linewidth=0.6) for tint in tints.values()],
        [label(name, 20) or "not known" for name in tints],
        loc="lower left", bbox_to_anchor=(0, above), ncols=len(tints), fontsize=8.5, handlelength=1.4,
        borderpad=0.1, columnspacing=1.2,
    )  # fmt: skip
