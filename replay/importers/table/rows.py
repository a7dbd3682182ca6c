"""Tables of text, CSV and JSON lines, read as frames."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.importers.json_lines import JsonLines, numbers, whole_numbers
from replay.importers.table.columns import Column
from replay.importers.table.frame import Frame, Ragged, parse_lists
from replay.importers.text_rows import TextRows

WHOLE = ("step", "token", "layer", "rank")
TEXT = ("session", "phase", "domain")
ROWS = 2**16  # rows at once
_HEAD = 2**16  # bytes of CSV looked at to tell lists from numbers


class Rows(ABC):
    """A table's rows, read as often as asked.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    names : list of str
        Its columns.
    place : str
        What a place in it is called.
    cut : int
        1 where the file ends inside its last row, which is left out; else 0.
    """

    place = "line"

    def __init__(self, path: Path):
        self.path = path
        self.names: list[str] = []
        self.cut = 0

    @abstractmethod
    def frames(self, columns: dict[str, Column]) -> Iterator[Frame]:
        """Read the rows: the columns by what they hold."""

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a place."""
        return InputError(f"{self.path}: {self.place} {line}: {text}")


class CsvRows(Rows):
    """CSV with a header."""

    def __init__(self, path: Path):
        super().__init__(path)
        with TextRows(path) as rows:
            self.names = list(rows.columns)

    def frames(self, columns: dict[str, Column]) -> Iterator[Frame]:
        """Read the rows."""
        lists = {what for what in ("expert", "weight", "outcome") if self._is_list(columns.get(what))}
        types: dict[str, type] = {}
        for what, column in columns.items():
            kind = int if what in (*WHOLE, "expert", "outcome") else float if what == "weight" else str
            types |= dict.fromkeys(column.names, str if what in lists else kind)
        with TextRows(self.path) as rows:
            for batch in rows.batches(types):
                if len(batch):
                    yield self._frame(batch.line, batch.columns, columns, lists)
            self.cut = rows.cut

    def _frame(
        self, line: np.ndarray, values: dict[str, np.ndarray], columns: dict[str, Column], lists: set[str]
    ) -> Frame:
        frame = Frame(line)
        for what, column in columns.items():
            own = [values[name] for name in column.names]
            if what in WHOLE:
                frame.whole[what] = own[0]
            elif what in TEXT:
                frame.text[what] = own[0]
            elif what in lists:
                frame.picks[what] = parse_lists(own[0], line, column.names[0], what != "weight", self.wrong)
            elif len(own) > 1:
                frame.picks[what] = Ragged(
                    np.stack(own, axis=1).reshape(-1), np.arange(len(line) + 1) * len(own)
                )
            else:
                frame.picks[what] = own[0]
        return frame

    def _is_list(self, column: Column | None) -> bool:
        """Say whether a column's first rows hold anything but single numbers."""
        if column is None or len(column.names) > 1:
            return False
        place = self.names.index(column.names[0])
        with self.path.open("rb") as file:
            text = file.read(_HEAD).decode("utf-8", "replace")
        lines = [
            line for line in text.splitlines()[:-1] or text.splitlines() if line.strip() and line[0] != "#"
        ]
        for row in csv.reader(lines[1:]):
            if len(row) > place:
                try:
                    float(row[place])
                except ValueError:
                    return bool(row[place].strip())
        return False


class JsonRows(Rows):
    """JSON lines, one object a row."""

    def __init__(self, path: Path):
        super().__init__(path)
        first = next(JsonLines(path).objects(), (0, {}))
        self.names = list(first[1])

    def frames(self, columns: dict[str, Column]) -> Iterator[Frame]:
        """Read the rows."""
        lines = JsonLines(self.path)
        block: list[tuple[int, dict[str, Any]]] = []
        for each in lines.objects():
            block.append(each)
            if len(block) == ROWS // 8:
                yield self._frame(block, columns)
                block = []
        if block:
            yield self._frame(block, columns)
        self.cut = lines.cut

    def _frame(self, block: list[tuple[int, dict[str, Any]]], columns: dict[str, Column]) -> Frame:
        frame = Frame(np.array([line for line, _ in block], np.int64))
        for what, column in columns.items():
            name = column.names[0]
            values = [self._value(line, value, name) for line, value in block]
            if what in WHOLE:
                frame.whole[what] = whole_numbers(values, self._wrong(block), name)
            elif what in TEXT:
                frame.text[what] = np.array([None if v is None else str(v) for v in values], object)
            else:
                frame.picks[what] = self._picks(block, values, name, what != "weight")
        return frame

    def _value(self, line: int, value: dict[str, Any], name: str) -> Any:
        if name not in value:
            raise self.wrong(line, f"expected a key {name!r}, found {', '.join(value) or 'none'}")
        return value[name]

    def _picks(
        self, block: list[tuple[int, dict[str, Any]]], values: list[Any], name: str, whole: bool
    ) -> Any:
        read = whole_numbers if whole else numbers
        if not any(isinstance(value, list) for value in values):
            return read(
                [-1 if value is None and whole else value for value in values], self._wrong(block), name
            )
        lists = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
        flat = [-1 if each is None and whole else each for value in lists for each in value]
        return Ragged(
            read(flat, self._wrong(block), name), np.append(0, np.cumsum([len(value) for value in lists]))
        )

    def _wrong(self, block: list[tuple[int, dict[str, Any]]]) -> Any:
        return lambda text: InputError(f"{self.path}: lines {block[0][0]} to {block[-1][0]}: {text}")
