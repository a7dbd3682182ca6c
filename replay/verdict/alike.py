"""Whether two recorded runs did the same: the picks of every row, and the hash of every window's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replay.trace import Trace

if TYPE_CHECKING:
    from replay.trace.columns import Lists


@dataclass
class Outputs:
    """How far two runs did the same.

    Attributes
    ----------
    rows, routes : int
        Rows (window, row, layer), and those with other picks.
    order : int
        Rows with the same picks in another order.
    windows, hashes : int
        Windows with a hash on both sides, and those where it differs.
    first : tuple of int or None
        First (window, row, layer) with other picks.
    """

    rows: int = 0
    routes: int = 0
    order: int = 0
    windows: int = 0
    hashes: int = 0
    first: tuple[int, int, int] | None = None


def compare_outputs(one: Trace, other: Trace) -> Outputs:
    """Compare the picks of every row and the hashes of every window.

    Parameters
    ----------
    one, other : Trace
        Recordings of the same windows.
    """
    found = Outputs()
    layers = one.meta.layers
    chunks = (t.chunks({"selections"}) for t in (one, other))
    for a, b in zip(*chunks, strict=True):
        assert a.selections is not None and b.selections is not None
        differ, order = _rows(a.selections, b.selections)
        found.rows += len(differ)
        found.routes += int(differ.sum())
        found.order += int(order.sum())
        if found.first is None and differ.any():
            row, layer = divmod(int(np.argmax(differ)), layers)
            window = int(np.searchsorted(a.row_start, row, side="right")) - 1
            found.first = (a.w0 + window, row - int(a.row_start[window]), layer)
    mine, told = one.windows.output_hash, one.windows.hashed
    others, also = other.windows.output_hash, other.windows.hashed
    if mine is not None and told is not None and others is not None and also is not None:
        both = told & also
        found.windows, found.hashes = int(both.sum()), int((both & (mine != others)).sum())
    return found


def _rows(a: Lists, b: Lists) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows with other picks, and rows with the same ones in another order."""
    lengths = np.diff(a.offsets), np.diff(b.offsets)
    differ = lengths[0] != lengths[1]
    order = np.zeros(len(differ), bool)
    for width in np.unique(lengths[0][~differ]):
        rows = np.flatnonzero(~differ & (lengths[0] == width))
        pair = [each.values[each.offsets[rows][:, None] + np.arange(width)] for each in (a, b)]
        same = np.equal(*(np.sort(each, axis=1) for each in pair)).all(axis=1)
        order[rows] = same & (pair[0] != pair[1]).any(axis=1)
        differ[rows[~same]] = True
    return differ, order
