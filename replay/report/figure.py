"""Tables of a report: cells with the text to show and the value to sort by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.report.wording import NOTHING


@dataclass(frozen=True)
class Cell:
    """One figure.

    Attributes
    ----------
    text : str
        As shown.
    value : float or None
        What a column is sorted by; None sorts last.
    best : bool
        The best of its column.
    aside : str
        A lesser text beside it, such as its change against the baseline.
    """

    text: str
    value: float | None = None
    best: bool = False
    aside: str = ""


@dataclass(frozen=True)
class Head:
    """A column's head: its words, their unit, what they mean, and whether its cells are figures."""

    text: str
    unit: str = ""
    doc: str = ""
    numeric: bool = True

    @property
    def whole(self) -> str:
        """Words and unit on one line."""
        return f"{self.text} {self.unit}".strip()


@dataclass(frozen=True)
class Row:
    """One row: what it is of, its cells, the place of its policy among the run's (None: no policy's), and remarks.

    ``note`` is a word behind the name, ``also`` a lesser text below it.
    """

    name: str
    cells: list[Cell]
    look: int | None = None
    note: str = ""
    also: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: what it shows, its heads (the row names' first), its rows."""

    caption: str
    heads: list[Head]
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """A column of figures: where a value comes from, how it reads, and which end is better.

    Attributes
    ----------
    head : Head
    of : callable
        From a summary row (a dict) to a value or None.
    show : callable
        From a value to its text.
    better : str
        ``low``, ``high``, or empty where neither is.
    aside : callable, optional
        From a summary row to a lesser text beside the value.
    """

    head: Head
    of: Callable[[Any], float | None]
    show: Callable[[Any], str]
    better: str = ""
    aside: Callable[[Any], str] = lambda row: ""


def mark_best(values: Sequence[float | None], eligible: Sequence[bool], better: str) -> list[bool]:
    """Which of a column's values are its best; none where nothing differs.

    Examples
    --------
    >>> mark_best([3.0, 1.0, 0.5], [True, True, False], "low")
    [False, True, False]
    """
    known = [v for v, may in zip(values, eligible, strict=True) if may and v is not None]
    if not better or len(set(known)) < 2:
        return [False] * len(values)
    best = min(known) if better == "low" else max(known)
    return [may and v == best for v, may in zip(values, eligible, strict=True)]


def grid(
    caption: str,
    first: str,
    figures: Sequence[Figure],
    items: Iterable[tuple[str, Any]],
    *,
    look: Callable[[str], int | None] = lambda name: None,
    eligible: Callable[[str], bool] = lambda name: True,
    note: Callable[[str], str] = lambda name: "",
    group: Callable[[str], str] = lambda name: "",
    also: Callable[[str], str] = lambda name: "",
) -> Grid:
    """Lay out items by figures.

    Parameters
    ----------
    caption : str
    first : str
        Head of the first column, which names the items.
    figures : sequence of Figure
    items : iterable of (str, object)
        Name, and what the figures read.
    look : callable, optional
        The place of an item's policy among the run's.
    eligible : callable, optional
        Whether an item may be the best.
    note : callable, optional
        A word behind an item's name.
    group : callable, optional
        Items of one group are compared with each other; each group has its best.
    also : callable, optional
        A lesser text below an item's name.

    Returns
    -------
    Grid
        Columns that hold no value are left out.
    """
    named = list(items)
    names = [name for name, _ in named]
    may = {each: [eligible(name) and group(name) == each for name in names] for each in map(group, names)}
    columns: list[tuple[Head, list[Cell]]] = []
    for figure in figures:
        values = [figure.of(item) for _, item in named]
        if all(value is None for value in values):
            continue
        marks = [mark_best(values, each, figure.better) for each in may.values()]
        best = [any(each) for each in zip(*marks, strict=True)]
        texts = [NOTHING if v is None else figure.show(v) for v in values]
        asides = [figure.aside(item) for _, item in named]
        columns.append((figure.head, [Cell(*each) for each in zip(texts, values, best, asides, strict=True)]))
    rows = [
        Row(name, [cells[i] for _, cells in columns], look(name), note(name), also(name))
        for i, name in enumerate(names)
    ]
    return Grid(caption, [Head(first, numeric=False), *(head for head, _ in columns)], rows)
