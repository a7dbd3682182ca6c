"""CSV with a ``#`` preamble, streamed: column arrays with the line number of every row, and errors that name a line.

Blocks of text go through Arrow's parser; only a block that it cannot read is looked at line by line, to say which
line is wrong and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv

from replay.errors import InputError
from replay.importers.source import expect_file

_BLOCK = 2**22  # bytes of text parsed at once
_LINE = 2**20  # longest line
_BOM = b"\xef\xbb\xbf"


@dataclass
class Batch:
    """Some consecutive rows.

    Attributes
    ----------
    line : numpy.ndarray of int64, [n]
        Line of each row in its file, from 1.
    columns : dict of numpy.ndarray
        int64, float64 (NaN where nothing was written), or text as objects, by column name.
    """

    line: np.ndarray
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def take(self, which: np.ndarray | slice) -> Batch:
        """Take some rows: a mask, an order or a range."""
        return Batch(self.line[which], {name: values[which] for name, values in self.columns.items()})

    def then(self, other: Batch) -> Batch:
        """Put another batch's rows after these."""
        joined = {name: np.concatenate([self[name], other[name]]) for name in self.columns}
        return Batch(np.concatenate([self.line, other.line]), joined)


class TextRows:
    """A CSV file: its ``#`` lines before the header, its columns, and its rows once.

    Parameters
    ----------
    path : Path
        The file.
    joined : bool
        Whether a second header in mid-file begins another run, instead of being refused.

    Attributes
    ----------
    preamble : list of str
        The ``#`` lines before the header, without the ``#`` and surrounding blanks.
    headers : list of int
        Lines of further headers.
    columns : tuple of str
        Column names of the header.
    comments : int
        ``#`` lines after the header, passed over.
    cut : int
        1 where the file ends inside its last line, which is left out; else 0.

    Raises
    ------
    InputError
        No such file, no header, or a column named twice.
    """

    def __init__(self, path: Path, joined: bool = False):
        self.path = path
        self.joined = joined
        self.preamble: list[str] = []
        self.headers: list[int] = []
        self.comments = self.cut = 0
        expect_file(path)
        self._file: BinaryIO = path.open("rb")
        self._line = 0
        self._header = self._read_header()
        self.columns = self._read_columns()

    def __enter__(self) -> TextRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a line."""
        return InputError(f"{self.path}: line {line}: {text}")

    def _read_header(self) -> str:
        while True:
            raw = self._file.readline(_LINE)
            self._line += 1
            if self._line == 1:
                raw = raw.removeprefix(_BOM)
            try:
                text = raw.decode("utf-8").strip()
            except UnicodeDecodeError:
                raise self.wrong(self._line, "expected text in UTF-8; is this the right file?") from None
            if text.startswith("#"):
                self.preamble.append(text[1:].strip())
            elif text:
                return text
            elif not raw:
                raise InputError(f"{self.path}: expected a line of column names, found the file's end")

    def _read_columns(self) -> tuple[str, ...]:
        """Split the header, each name once."""
        try:
            columns = tuple(each.strip() for each in next(reader([self._header]), []))
        except CsvError as problem:
            raise self.wrong(self._line, f"expected a line of column names, found none: {problem}") from None
        seen: set[str] = set()
        for name in columns:
            if name in seen:
                raise self.wrong(
                    self._line, f"expected each column once, found {name[:40]!r} twice; rename one of them"
                )
            seen.add(name)
        return columns

    def batches(self, types: Mapping[str, type]) -> Iterator[Batch]:
        """Read the rows.

        Parameters
        ----------
        types : mapping of str to type
            ``int``, ``float`` or ``str`` for each column to read; all are there.

        Yields
        ------
        Batch
            The rows in order.

        Raises
        ------
        InputError
            A line has another number of values, or a value is not of its type; or a header stands in mid-file.
        """
        rest = b""
        while True:
            data = self._file.read(_BLOCK)
            text = rest + data
            end = text.rfind(b"\n") + 1 if data else len(text)
            if len(text) - end > _LINE:
                raise self.wrong(self._line + 1 + text.count(b"\n"), f"longer than {_LINE} bytes")
            block, rest = text[:end], text[end:]
            if not data:
                block = self._without_cut(block)
            if block:
                yield self._parse(block, types)
            if not data:
                return

    def _without_cut(self, block: bytes) -> bytes:
        """Leave out a last line that the file's end cuts: no newline, and too few values."""
        last = block[block.rfind(b"\n") + 1 :]
        if last.strip() and not last.startswith(b"#") and last.count(b",") + 1 < len(self.columns):
            self.cut = 1
            return block[: len(block) - len(last)]
        return block

    def _parse(self, block: bytes, types: Mapping[str, type]) -> Batch:
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        number = np.arange(self._line + 1, self._line + 1 + len(lines))
        self._line += len(lines)
        if b"#" in block or self.columns[0].encode() in block or not all(map(bytes.strip, lines)):
            kept = [i for i, line in enumerate(lines) if self._is_row(line, int(number[i]))]
            lines, number = [lines[i] for i in kept], number[kept]
            block = b"\n".join(lines)
        if not lines:
            return Batch(number, {name: np.empty(0, _DTYPES[kind]) for name, kind in types.items()})
        try:
            table = self._arrow(block, types)
        except (pa.ArrowException, UnicodeDecodeError) as problem:
            raise self._blame(lines, number, types, problem) from None
        if table.num_rows != len(lines):
            raise self.wrong(int(number[0]), "values in quotes hold line breaks; write plain numbers")
        columns = {}
        for name, kind in types.items():
            column = table.column(name)
            if kind is int and column.null_count:
                at = int(np.argmax(column.is_null().to_numpy()))
                raise self.wrong(int(number[at]), f"expected a whole number in {name}, found nothing")
            columns[name] = column.to_numpy(zero_copy_only=False) if kind is str else column.to_numpy()
        return Batch(number, columns)

    def _is_row(self, raw: bytes, number: int) -> bool:
        """Tell rows from blank lines and ``#`` lines; a second header is refused."""
        line = raw.decode("utf-8", "replace").strip()
        comment = line.startswith("#")
        if comment:
            again = line[1:].strip() in self.preamble[:1]
        else:
            again = line.split(",")[0].strip().strip('"') == self.columns[0]
        if again and self.joined:
            if not comment:
                self.headers.append(number)
                return False
        elif again:
            raise self.wrong(
                number,
                "a second header: files of several runs were joined, and each run began with an empty arena; "
                "split the file there and import each run by itself",
            )
        self.comments += comment
        return bool(line) and not comment

    def _arrow(self, block: bytes, types: Mapping[str, type]) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, column_names=list(self.columns), block_size=len(block) + 1),
            csv.ParseOptions(),
            csv.ConvertOptions(
                column_types={name: _ARROW[kind] for name, kind in types.items()},
                include_columns=list(types),
                strings_can_be_null=False,
            ),
        )

    def _blame(
        self, lines: list[bytes], number: np.ndarray, types: Mapping[str, type], problem: Exception
    ) -> InputError:
        """Find the line that Arrow could not read."""
        for line, at in zip(lines, number.tolist(), strict=True):
            try:
                values = next(reader([line.decode("utf-8", "replace").strip()]), [])
            except CsvError as trouble:
                return self.wrong(at, f"not a line of CSV: {trouble}")
            if len(values) != len(self.columns):
                return self.wrong(at, f"expected {len(self.columns)} values, found {len(values)}")
            for name, kind in types.items():
                text = values[self.columns.index(name)].strip()
                if kind is str:
                    continue
                try:
                    fits = abs(int(text)) < 2**63 if kind is int else not text or bool(str(float(text)))
                except ValueError:
                    fits = False
                if not fits:
                    word = "a whole number" if kind is int else "a number"
                    return self.wrong(at, f"expected {word} in {name}, found {text[:40]!r}")
        return InputError(f"{self.path}: cannot be read as CSV: {' '.join(str(problem).split())[:120]}")


_ARROW = {int: pa.int64(), float: pa.float64(), str: pa.string()}
_DTYPES: dict[type, type] = {int: np.int64, float: np.float64, str: object}
