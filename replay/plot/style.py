"""One style for every chart: what a policy looks like, the inks, and the text that is safe to draw.

A policy has a colour, a line style and a marker of its own, given out in the order in which a run lists its
policies, so that it looks the same in all of the run's charts and stays readable in greyscale and to the
colour-blind. What looks into the future (``belady``, ``oracle``) is a bound: black, dashed.

The inks are distinct colours on purpose: a page that inlines a chart can replace each by a colour of its own
theme (:data:`INKS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

PAPER, INK, MUTED, GRID, BOUND = "#fffffe", "#1a1d21", "#5c636b", "#dde1e5", "#000001"
"""Background, text, lesser text and frames, grid lines, and the (practically black) bound."""

ON_DARK, ON_LIGHT = "#fffffd", "#1a1d20"
"""Text inside a filled shape, which keeps its colour in every theme."""

COLOURS = (
    "#0068a8",
    "#c4500c",
    "#00785a",
    "#8d3a92",
    "#a87400",
    "#3f3fb0",
    "#b83a62",
    "#4f6272",
    "#5f7600",
    "#007f8c",
    "#7c4a20",
    "#741c40",
)
"""Colours of policies: each at least 3.5:1 against the paper, neighbours apart for the colour-blind."""

LINES: tuple[Any, ...] = (
    "-",
    (0, (7, 1.4, 1.2, 1.4)),
    (0, (1.2, 1.2)),
    (0, (9, 1.8)),
    (0, (5, 1.2, 1.2, 1.2, 1.2, 1.2)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
BOUND_MARKERS = ("*", "x", "+", "1")

FATES = {
    "demand": "#3c4651",
    "timely": "#23906f",
    "late": "#f0b43c",
    "unused": "#bf4529",
    "partial": "#eaaa96",
    "pending": "#b9c2cb",
}
"""Colours of what became of the bytes: neighbours differ in lightness."""

TINTS = ("#f1f3f5", "#d3d9df", "#b4bdc6", "#98a3ae", "#e4dccb", "#c8bda4")
"""Fills of the stretches of a domain: told apart by lightness first."""

INKS = (PAPER, INK, MUTED, GRID, BOUND, *COLOURS, *FATES.values(), *TINTS)
"""Every colour that a themed page may replace."""

_LOOKS_AHEAD = re.compile(r"(?:^|\+)\s*(?:belady[\w-]*|oracle)\s*(?=$|[:+ (])")

RC: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titley": 1.0,
    "figure.dpi": 100,
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.color": MUTED,
    "hatch.linewidth": 0.8,
    "legend.borderaxespad": 0,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "replay",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9,
}


@dataclass(frozen=True)
class Look:
    """What one policy looks like in every chart of a run.

    Attributes
    ----------
    name : str
        The policy, and its routes where the run has several.
    index : int
        Its place among the run's policies.
    colour : str
    line : str or tuple
        Matplotlib's line style.
    marker : str
    filled : bool
        Whether the marker is filled.
    bound : bool
        It looks into the future: an offline bound, dashed black.
    """

    name: str
    index: int
    colour: str
    line: Any
    marker: str
    filled: bool = True
    bound: bool = False

    @property
    def gid(self) -> str:
        """The id of its artists, by which a page finds them in an SVG."""
        return f"policy-{self.index}"

    @property
    def key(self) -> str:
        """The id of its place in a legend."""
        return f"key-{self.index}"

    def of_marker(self) -> dict[str, Any]:
        """Keywords of a marker alone."""
        face = self.colour if self.filled else PAPER
        return {"marker": self.marker, "markerfacecolor": face, "markeredgecolor": self.colour}

    def of_line(self) -> dict[str, Any]:
        """Keywords of a line with markers; bounds lie below the others."""
        drawn = {"color": self.colour, "linestyle": self.line, "zorder": 1.9 if self.bound else 2}
        return {**drawn, "gid": self.gid, **self.of_marker()}


Looks = Mapping[str, Look]


def is_bound(policy: str) -> bool:
    """Whether a policy looks into the future, so that no engine can run it.

    Examples
    --------
    >>> is_bound("none+belady"), is_bound("oracle+lru"), is_bound("unpert1+lru")
    (True, True, False)
    """
    return _LOOKS_AHEAD.search(policy) is not None


def series(table: pl.DataFrame) -> pl.DataFrame:
    """A table with a column ``series``: the policy, with its routes where the table has several.

    Parameters
    ----------
    table : polars.DataFrame
        With ``policy`` and perhaps ``routes``.

    Returns
    -------
    polars.DataFrame
    """
    if "series" in table.columns:
        return table
    name = pl.col("policy")
    if "routes" in table.columns and table["routes"].n_unique() > 1:
        name = pl.format("{} ({})", pl.col("policy"), pl.col("routes"))
    return table.with_columns(name.alias("series"))


def looks_of(table: pl.DataFrame, looks: Looks | None = None) -> Looks:
    """The looks to draw a table with: those given, else its own series' in their order."""
    return looks_for(series(table)["series"].unique(maintain_order=True)) if looks is None else looks


def looks_for(names: Iterable[str]) -> dict[str, Look]:
    """Give every policy its look.

    Parameters
    ----------
    names : iterable of str
        Policies (or series) in the run's order.

    Returns
    -------
    dict of str to Look
        In that order.

    Examples
    --------
    >>> found = looks_for(["none+lru", "unpert1+lru", "none+belady"])
    >>> found["none+lru"].marker, found["unpert1+lru"].marker, found["none+belady"].line
    ('o', 's', '--')
    """
    given: dict[str, Look] = {}
    bounds = 0
    for name in dict.fromkeys(names):
        at = len(given)
        if is_bound(name):
            marker = BOUND_MARKERS[bounds % len(BOUND_MARKERS)]
            given[name], bounds = Look(name, at, BOUND, "--", marker, bound=True), bounds + 1
            continue
        i = at - bounds
        # past the last colour another dash, marker and fill come with each, so that no two policies look alike
        turn = i // len(COLOURS)
        line, marker = LINES[(i + turn) % len(LINES)], MARKERS[(i + 5 * turn) % len(MARKERS)]
        given[name] = Look(name, at, COLOURS[i % len(COLOURS)], line, marker, filled=turn % 2 == 0)
    return given


def label(text: object, longest: int = 60) -> str:
    r"""Text that is safe to draw: no control characters (an SVG may not hold them), and not too long.

    Parameters
    ----------
    text : object
    longest : int
        Most characters; the middle of a longer text is left out.

    Returns
    -------
    str

    Examples
    --------
    >>> label("a" + chr(27) + "b"), label("unpert1:k=6+decode2q", 12)
    ('a\\x1bb', 'unpert…ode2q')
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    if len(shown) <= longest:
        return shown
    tail = (longest - 1) // 2
    return f"{shown[: longest - 1 - tail]}…{shown[-tail:]}"


def width_of(text: str, size: float = 10) -> float:
    """About how wide a text is, in inches; a little more than most fonts need."""
    return len(text) * size * 0.62 / 72


@contextmanager
def applied() -> Iterator[None]:
    """The style, for as long as a chart is drawn or saved; the caller's settings come back."""
    import matplotlib

    with matplotlib.rc_context(dict(RC)):
        yield
