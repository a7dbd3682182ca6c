"""Tables in Parquet, read as frames; and how the kinds of files are told apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import InputError
from replay.importers.table.columns import Column
from replay.importers.table.frame import Frame, Ragged, parse_lists
from replay.importers.table.rows import ROWS, TEXT, WHOLE, CsvRows, JsonRows, Rows
from replay.trace.file import brief, open_parquet


def open_rows(path: Path) -> Rows:
    """Tell the kinds of files apart and open one.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Rows

    Raises
    ------
    InputError
        Not to be read.
    """
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise InputError(f"{path}: expected a table, found 0 bytes; copy it again")
    if head.startswith(b"PAR1"):
        return ParquetRows(path)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return JsonRows(path)
    return CsvRows(path)


class ParquetRows(Rows):
    """Parquet, read by handle; integers of any width, lists of any kind."""

    place = "row"

    def __init__(self, path: Path):
        super().__init__(path)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4))
            if file.read() != b"PAR1" or size < 12:
                raise InputError(f"{path}: not a whole Parquet file (PAR1 at both ends); copy it again")
        try:
            self.names = list(open_parquet(path).schema_arrow.names)
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise InputError(f"{path}: not a Parquet file that can be read: {brief(problem)}") from None
        for name in self.names:
            if self.names.count(name) > 1:
                raise InputError(
                    f"{path}: expected each column once, found {name!r} twice; rename one of them"
                )

    def frames(self, columns: dict[str, Column]) -> Iterator[Frame]:
        """Read the rows."""
        names = [name for column in columns.values() for name in column.names]
        at = 1
        try:
            for batch in open_parquet(self.path).iter_batches(ROWS, columns=names, use_threads=False):
                yield self._frame(batch, np.arange(at, at + batch.num_rows), columns)
                at += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            raise InputError(f"{self.path}: damaged near row {at}: {brief(problem)}; copy it again") from None

    def _frame(self, batch: pa.RecordBatch, line: np.ndarray, columns: dict[str, Column]) -> Frame:
        frame = Frame(line)
        for what, column in columns.items():
            own = [batch.column(name) for name in column.names]
            if what in WHOLE:
                frame.whole[what] = self._numbers(own[0], line, column.names[0], whole=True, null=False)
            elif what in TEXT:
                frame.text[what] = np.array(own[0].cast(pa.string()).to_pylist(), object)
            else:
                frame.picks[what] = self._picks(own, line, column, whole=what != "weight")
        return frame

    def _picks(
        self, own: list[pa.Array], line: np.ndarray, column: Column, whole: bool
    ) -> np.ndarray | Ragged:
        kind = own[0].type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._list(own[0], line, column.names[0], whole)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return parse_lists(own[0].to_pylist(), line, column.names[0], whole, self.wrong)
        values = [
            self._numbers(each, line, name, whole, null=True)
            for each, name in zip(own, column.names, strict=True)
        ]
        if len(values) == 1:
            return values[0]
        return Ragged(np.stack(values, axis=1).reshape(-1), np.arange(len(line) + 1) * len(values))

    def _list(self, own: pa.Array, line: np.ndarray, name: str, whole: bool) -> Ragged:
        lengths = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        offsets = np.append(0, np.cumsum(lengths))
        flat = own.flatten()  # of rows that are not null
        values = self._numbers(flat, np.repeat(line, lengths), name, whole, null=True)
        return Ragged(values, offsets)

    def _numbers(self, own: pa.Array, line: np.ndarray, name: str, whole: bool, null: bool) -> np.ndarray:
        """Cast numbers: whole ones to int64 with null as -1 where it may be, others to float64 with NaN."""
        kind = own.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InputError(
                f"{self.path}: column {name}: expected numbers, found {kind}; cast it, or map another"
            )
        if not whole:
            return own.cast(pa.float64()).to_numpy(zero_copy_only=False)
        empty = own.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if empty.any() and not null:
            raise self.wrong(int(line[np.argmax(empty)]), f"expected a whole number in {name}, found null")
        if pa.types.is_uint64(kind):
            own = pc.if_else(pc.equal(own, pa.scalar(2**64 - 1, kind)), pa.scalar(None, kind), own)
        try:
            values = own.cast(pa.float64() if pa.types.is_floating(kind) else pa.int64())
        except pa.ArrowException:
            raise InputError(f"{self.path}: column {name}: a number beyond 64 bits, with sign") from None
        array = values.to_numpy(zero_copy_only=False)
        if array.dtype.kind == "f":
            array = np.nan_to_num(array, nan=-1, posinf=2.0**60, neginf=-(2.0**60))
            odd = array != np.rint(array)
            if odd.any():
                raise self.wrong(
                    int(line[np.argmax(odd)]), f"expected whole numbers in {name}, found {array[odd][0]}"
                )
        return array.astype(np.int64)
