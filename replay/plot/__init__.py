"""Charts: one a file, each ``plot_x(table, *, ax=None) -> Axes``.

They compute nothing, show nothing and save nothing; without ``ax`` they make a figure of their own, outside
pyplot. ``save`` writes one, the same bytes for the same table.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.argument import PATH, expect
from replay.errors import InputError
from replay.plot.style import applied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_META: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
}
_TAG = re.compile(rb"<(?:path|use|g|rect|text)\b[^>]*>")
_DECIMALS = re.compile(rb"(\d\.\d\d\d)\d+")


def figure_of(axes: Axes | Iterable[Axes]) -> Figure:
    """The figure that Axes, or an array of them, are in."""
    import numpy as np

    found = np.asarray(axes, dtype=object).ravel()
    if not len(found) or not hasattr(found[0], "figure"):
        raise InputError(f"axes: expected Axes, as a chart returns them, found {type(axes).__name__}")
    figure: Figure = found[0].figure
    return figure


def save(axes: Axes | Iterable[Axes], path: str | Path) -> None:
    """Write a chart's figure to a file: the same bytes for the same chart, no date, no random ids.

    Parameters
    ----------
    axes : matplotlib.axes.Axes or array of Axes
        What a chart returned.
    path : str or Path
        A name that ends in ``.svg`` or ``.png``.

    Raises
    ------
    InputError
        Another ending.
    """
    expect(locals(), {"path": PATH})
    path = Path(path)
    path.write_bytes(drawn(axes, kind_of(path)))


def kind_of(path: Path) -> str:
    """Say how a chart's file is written, by its name: ``svg`` or ``png``.

    Raises
    ------
    InputError
        Another ending.
    """
    kind = path.suffix.lower().lstrip(".")
    if kind not in _META:
        raise InputError(f"{path}: a chart is written as .svg or .png; name it so")
    return kind


def drawn(axes: Axes | Iterable[Axes], kind: str = "svg") -> bytes:
    """A chart's figure as the bytes of an ``svg`` or ``png`` file."""
    stream = io.BytesIO()
    with applied(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure_of(axes).savefig(stream, format=kind, dpi=144 if kind == "png" else 72, metadata=_META[kind])
    return _lighter(stream.getvalue()) if kind == "svg" else stream.getvalue()


def frames(axes: Axes | Iterable[Axes]) -> list[dict[str, Any]]:
    """Where a chart's panels are in its SVG, and what their (linear) axes count.

    Parameters
    ----------
    axes : matplotlib.axes.Axes or array of Axes
        What a chart returned.

    Returns
    -------
    list of dict
        One a panel: ``box`` (left, top, right, bottom in the SVG's units, y downwards), ``x`` and ``y`` (limits),
        ``title``, ``xlabel``, ``ylabel``.
    """
    import numpy as np

    panels: list[Any] = list(np.asarray(axes, dtype=object).ravel())
    width, height = (72 * side for side in figure_of(axes).get_size_inches())
    found = []
    for panel in panels:
        place = panel.get_position()
        box = (place.x0 * width, (1 - place.y1) * height, place.x1 * width, (1 - place.y0) * height)
        found.append(
            {
                "box": [round(float(each), 2) for each in box],
                "x": [float(each) for each in panel.get_xlim()],
                "y": [float(each) for each in panel.get_ylim()],
                "title": panel.get_title(loc="left"),
                "xlabel": panel.get_xlabel(),
                "ylabel": panel.get_ylabel().replace("\n", " "),
            }
        )
    return found


def _lighter(svg: bytes) -> bytes:
    """Leave out what nobody sees: decimals below a thousandth of a point.

    Where the font that the text was measured with is missing, one of its width or a narrower one is asked for.
    """
    svg = svg.replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")
    return _TAG.sub(lambda tag: _DECIMALS.sub(rb"\1", tag[0]), svg)
