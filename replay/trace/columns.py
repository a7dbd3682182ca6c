"""From Arrow to numpy: one batch of a table as plain arrays, whatever width or list type it was stored in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types

from replay.schema.table import INTEGERS, Column, Table


@dataclass
class Flat:
    """A column of single values.

    Attributes
    ----------
    values : numpy.ndarray
        One a row, in the stored type; 0 (NaN for floats) where null. Texts are codes into ``names``, -1
        where null.
    valid : numpy.ndarray of bool or None
        False where null; None: no nulls.
    names : tuple of str or None
        The texts behind the codes; None for numbers.
    """

    values: np.ndarray
    valid: np.ndarray | None = None
    names: tuple[str, ...] | None = None

    def where(self, mask: np.ndarray) -> Flat:
        """Take the rows where a mask is true."""
        return Flat(self.values[mask], None if self.valid is None else self.valid[mask], self.names)

    def part(self, start: int, stop: int) -> Flat:
        """Take rows start .. stop, without a copy."""
        return Flat(self.values[start:stop], _part(self.valid, start, stop), self.names)


@dataclass
class Lists:
    """A column of lists: row i holds ``values[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    values : numpy.ndarray
        All items, row after row, in the stored type.
    offsets : numpy.ndarray of int64
        One more than rows, from 0.
    valid : numpy.ndarray of bool or None
        False where the row is null (and has no items); None: no nulls.
    holes : numpy.ndarray of int64 or None
        Positions in ``values`` that were null (0 stands there); None: none.
    """

    values: np.ndarray
    offsets: np.ndarray
    valid: np.ndarray | None = None
    holes: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Items of each row, int64."""
        return np.diff(self.offsets)

    def where(self, mask: np.ndarray) -> Lists:
        """Take the rows where a mask is true, without nulls."""
        lengths = self.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths[mask])])
        return Lists(self.values[np.repeat(mask, lengths)], offsets)

    def part(self, start: int, stop: int) -> Lists:
        """Take rows start .. stop, items without a copy."""
        offsets = self.offsets[start : stop + 1]
        return Lists(
            self.values[offsets[0] : offsets[-1]], offsets - offsets[0], _part(self.valid, start, stop)
        )

    def row_of(self, items: np.ndarray) -> np.ndarray:
        """Say which row each item position belongs to."""
        return np.searchsorted(self.offsets, items, side="right") - 1


def _part(array: np.ndarray | None, start: int, stop: int) -> np.ndarray | None:
    return None if array is None else array[start:stop]


@dataclass
class Block:
    """Some consecutive rows of one table, decoded.

    Attributes
    ----------
    table : Table
        The declaration.
    first : int
        Position in the file of the first row.
    rows : int
        Rows of this block.
    columns : dict of Flat or Lists
        The columns that were read.
    """

    table: Table
    first: int
    rows: int
    columns: dict[str, Flat | Lists]

    @property
    def bare(self) -> bool:
        """Whether only the key is left of its rows."""
        return self.columns.keys() == set(self.table.key)

    def flat(self, name: str) -> Flat:
        """Give a column of single values."""
        column = self.columns[name]
        assert isinstance(column, Flat)
        return column

    def lists(self, name: str) -> Lists:
        """Give a column of lists."""
        column = self.columns[name]
        assert isinstance(column, Lists)
        return column

    def where(self, mask: np.ndarray) -> Block:
        """Take the rows where a mask is true."""
        columns = {name: column.where(mask) for name, column in self.columns.items()}
        return Block(self.table, self.first, int(mask.sum()), columns)

    def part(self, start: int, stop: int) -> Block:
        """Take rows start .. stop."""
        columns = {name: column.part(start, stop) for name, column in self.columns.items()}
        return Block(self.table, self.first + start, stop - start, columns)

    def key(self, row: int) -> str:
        """Name a row by its key, or by its place in the file where the key itself is null."""
        words = []
        for name in self.table.key:
            column = self.flat(name)
            if column.valid is not None and not column.valid[row]:
                return f"row number {self.first + row} of the file"
            value = column.values[row]
            words.append(f"{name} {value if column.names is None else column.names[value]}")
        return ", ".join(words)


def fits(column: Column, type: pa.DataType) -> bool:
    """Say whether an Arrow type can hold what a column is declared to hold.

    Parameters
    ----------
    column : Column
        The declaration.
    type : pyarrow.DataType
        What the file has. Integers may have any width and sign: their values are checked as they come.

    Returns
    -------
    bool
        True where it is read.
    """
    if column.item is not None:
        is_list = types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type)
        return is_list and _fits_item(column.item, type.value_type)
    return _fits_item(column.type, type)


def _fits_item(declared: str, type: pa.DataType) -> bool:
    if declared in INTEGERS:
        return types.is_integer(type)
    if declared == "score":
        return types.is_float16(type) or types.is_float32(type)
    if declared == "bool":
        return types.is_boolean(type)
    if declared == "string":
        plain = type.value_type if types.is_dictionary(type) else type
        return types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    return types.is_floating(type)


def decode(table: Table, batch: pa.RecordBatch, first: int, names: Collection[str]) -> Block:
    """Decode a batch of a table.

    Parameters
    ----------
    table : Table
        The declaration.
    batch : pyarrow.RecordBatch
        Rows as pyarrow read them; its types passed ``fits``.
    first : int
        Position in the file of the batch's first row.
    names : collection of str
        Declared columns to decode.

    Returns
    -------
    Block
        Arrays, without a copy where Arrow's memory can be used as it is.

    Raises
    ------
    UnicodeDecodeError
        A text is not UTF-8.
    """
    columns: dict[str, Flat | Lists] = {}
    for name in names:
        array = batch.column(name)
        declared = table.column(name)
        if declared.item is not None:
            columns[name] = _lists(array)
        elif declared.type == "string":
            columns[name] = _texts(array)
        else:
            columns[name] = _numbers(array)
    return Block(table, first, batch.num_rows, columns)


def _valid(array: pa.Array) -> np.ndarray | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _numbers(array: pa.Array) -> Flat:
    valid = _valid(array)
    if valid is not None and not types.is_floating(array.type):  # floats become NaN by themselves
        array = array.fill_null(False if types.is_boolean(array.type) else 0)
    return Flat(array.to_numpy(zero_copy_only=False), valid)


def _texts(array: pa.Array) -> Flat:
    if types.is_dictionary(array.type):  # its dictionary may hold nulls and repeats: start afresh
        array = array.cast(array.type.value_type)
    array = array.dictionary_encode()
    valid = _valid(array)
    codes = array.indices.fill_null(-1) if valid is not None else array.indices
    names = tuple(array.dictionary.to_pylist())
    return Flat(codes.to_numpy(zero_copy_only=False).astype(np.int64), valid, names)


def _lists(array: pa.Array) -> Lists:
    valid = _valid(array)
    items = array.flatten()
    if types.is_fixed_size_list(array.type):
        offsets = np.arange(len(array) + 1, dtype=np.int64) * array.type.list_size
    else:
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        offsets -= offsets[0]
    if valid is not None:
        lengths = np.where(valid, np.diff(offsets), 0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
    holes = None
    if items.null_count:
        holes = np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False))
        plain = items.cast(pa.float32()) if types.is_float16(items.type) else items
        items = plain.fill_null(0)
    return Lists(items.to_numpy(zero_copy_only=False), offsets, valid, holes)
