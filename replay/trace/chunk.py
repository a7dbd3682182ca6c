"""What the reader hands out: windows, and chunks of whole windows as plain numpy arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from replay.trace.columns import Lists

_SCORED = ("candidates", "router_scores")
_SCORED_WINDOWS = (
    256  # each chunk finds the lanes' memories out of the cache: enough lookups to make up for it
)
_CELLS = 2**24  # scores of one table that a chunk may hold, where its windows allow


@dataclass(frozen=True)
class Windows:
    """The table ``windows``, n rows.

    Attributes
    ----------
    session, rows : numpy.ndarray of int64, [n]
        Session and rows (tokens) of each window.
    prefill : numpy.ndarray of bool, [n]
        Whether the window is prefill: its phase, or more than 8 rows where the phase is not recorded.
    recorded : numpy.ndarray of bool, [n]
        Whether the phase is recorded.
    domain : list of str or None
        Domain of each window (None where null); None: no domains.
    output_hash : numpy.ndarray of uint64, [n], or None
        Hash of each window's output, 0 where null; None: no hashes.
    hashed : numpy.ndarray of bool, [n], or None
        Where ``output_hash`` is recorded.
    """

    session: np.ndarray
    rows: np.ndarray
    prefill: np.ndarray
    recorded: np.ndarray
    domain: list[str | None] | None = None
    output_hash: np.ndarray | None = None
    hashed: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Scores:
    """Score rows of candidates or routers, sorted by window, row, layer.

    Attributes
    ----------
    window, row, layer : numpy.ndarray of int64, [n]
        The key.
    issued_after : numpy.ndarray of int64, [n], or None
        Layer after which a candidate row was there; None for router scores.
    offsets : numpy.ndarray of int64, [n + 1]
        Where each row's scores begin.
    scores : numpy.ndarray of float32
        Logits, row after row (float16 widened exactly, or as it is stored where ``halves`` was asked for).
    experts : numpy.ndarray of int32 or None
        Their ids; None: dense, one score an expert in every row.
    """

    window: np.ndarray
    row: np.ndarray
    layer: np.ndarray
    issued_after: np.ndarray | None
    offsets: np.ndarray
    scores: np.ndarray
    experts: np.ndarray | None


@dataclass
class ResidentRows:
    """Resident snapshots: key arrays (int64, [n]) and the experts (int32) of each, ascending."""

    window: np.ndarray
    layer: np.ndarray
    experts: Lists


@dataclass
class Chunk:
    """Whole windows w0 .. w1-1 of the tables that were asked for.

    Attributes
    ----------
    w0, w1 : int
        The windows.
    row_start : numpy.ndarray of int64, [w1 - w0 + 1]
        First row of each window, counted from the chunk's start.
    selections : Lists or None
        Picks (int32) of every row and layer: list ``(row_start[w - w0] + row) * L + layer``.
    weights : numpy.ndarray of float32 or None
        Weight of each pick, beside ``selections.values``; NaN where the row's are null.
    outcome : numpy.ndarray of uint8 or None
        Outcome of each pick, beside ``selections.values``; 255 where the row's are null.
    candidates, router_scores : Scores or None
        Their rows, as far as the tables cover the windows.
    residents : ResidentRows or None
        Their rows, as far as the table covers the windows.
    tables : dict of dict of numpy.ndarray
        The other tables asked for: a column's array by its name. Integers are int64 (-1 where null), floats
        float64 (NaN where null), texts objects (None where null).
    """

    w0: int
    w1: int
    row_start: np.ndarray
    selections: Lists | None = None
    weights: np.ndarray | None = None
    outcome: np.ndarray | None = None
    candidates: Scores | None = None
    router_scores: Scores | None = None
    residents: ResidentRows | None = None
    tables: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)


def ranges(
    rows: np.ndarray,
    tables: Collection[str],
    cells: int,
    max_rows: int = 4096,
    max_windows: int | None = None,
) -> Iterator[tuple[int, int]]:
    """Cut the windows into ranges for chunks.

    Parameters
    ----------
    rows : numpy.ndarray of int64
        Rows of each window.
    tables : collection of str
        The tables that will be read.
    cells : int
        Experts of all layers: scores of a dense row.
    max_rows, max_windows : int, optional
        Most window rows, and windows, of a range; at least one window is in it.

    Yields
    ------
    tuple of int
        First window, and the one after the last.
    """
    scored = any(name in tables for name in _SCORED)
    if scored:
        max_rows = min(max_rows, _CELLS // cells)
    count = max_windows or (_SCORED_WINDOWS if scored else 512)
    ends = np.cumsum(rows)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        fitting = int(np.searchsorted(ends, before + max_rows, side="right"))
        stop = min(max(fitting, first + 1), first + count, len(ends))
        yield first, stop
        first = stop
