"""Columns of integers that grow row by row, packed: what a replay keeps of every window it played.

A block of rows holds each column as its least value, the greatest common divisor of the distances to it, and the
distances over that in the smallest unsigned integers that hold them. Bytes of experts of one size take no more room
than their number then, and a column that does not change takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024
"""Rows from which on a block is packed; a constant that a process holds unpacked, whatever the trace's length."""

_NARROW = 2**16


class _Column(NamedTuple):
    """A column of a block: ``least + step * steps``, modulo 2**64; a column of one value has no steps."""

    least: int
    step: int
    steps: NDArray[np.unsignedinteger] | None


class Packed(Mapping[str, NDArray[np.int64]]):
    """Named columns of int64 that only grow; a column is unpacked when it is asked for.

    Parameters
    ----------
    names : sequence of str
        Of the columns.

    Examples
    --------
    >>> kept = Packed(["window", "bytes"])
    >>> kept.add(np.array([[0, 5_000_000], [1, 3_000_000]]))
    >>> kept["bytes"].tolist()
    [5000000, 3000000]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: i for i, name in enumerate(names)}
        self._blocks: list[tuple[int, list[_Column]]] = []
        self._open: list[NDArray[np.int64]] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        place = self._place[name]
        blocks = [_unpacked(rows, columns[place]) for rows, columns in self._blocks]
        return np.concatenate([np.empty(0, np.int64), *blocks, *(part[:, place] for part in self._open)])

    @property
    def nbytes(self) -> int:
        """Bytes of all values that are held."""
        steps = (each.steps for _, columns in self._blocks for each in columns)
        return sum(each.nbytes for each in (*steps, *self._open) if each is not None)

    def add(self, rows: NDArray[np.int64]) -> None:
        """Add rows.

        Parameters
        ----------
        rows : int64[n, columns]
            Kept as it is until a block is full: not to be changed.
        """
        self._open.append(rows)
        count = sum(map(len, self._open))
        if count >= BLOCK:
            columns = np.ascontiguousarray(np.concatenate(self._open).T)
            self._blocks.append((count, [_packed(each) for each in columns]))
            self._open = []


def _packed(values: NDArray[np.int64]) -> _Column:
    least, most = int(values.min()), int(values.max())
    if least == most:
        return _Column(least, 0, None)
    away = values.view(np.uint64) - np.uint64(least % 2**64)
    step = int(np.gcd.reduce(away)) if most - least >= _NARROW else 1
    return _Column(least, step, (away // np.uint64(step)).astype(np.min_scalar_type((most - least) // step)))


def _unpacked(rows: int, column: _Column) -> NDArray[np.int64]:
    if column.steps is None:
        return np.full(rows, column.least, np.int64)
    values = column.steps.astype(np.uint64)
    values *= np.uint64(column.step)
    values += np.uint64(column.least % 2**64)
    return values.view(np.int64)
