"""JSON lines, streamed: one object a line with its number, bounded, and errors that name a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.importers.source import expect_file

_LINE = 2**26  # longest line
_BOM = b"\xef\xbb\xbf"
_UNSIGNED = 2**64 - 1  # -1 that was read as an unsigned number


class JsonLines:
    """A file of one JSON object a line.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    cut : int
        1 where the file ends inside its last line, which is left out; else 0.

    Raises
    ------
    InputError
        No such file.
    """

    def __init__(self, path: Path):
        self.path = path
        self.cut = 0
        expect_file(path)

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a line."""
        return InputError(f"{self.path}: line {line}: {text}")

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read the lines.

        Yields
        ------
        tuple of int and dict
            Each object with its line, from 1; blank lines are passed over.

        Raises
        ------
        InputError
            A line is no JSON object, or too long.
        """
        self.cut = 0
        with self.path.open("rb") as file:
            number = 0
            while raw := file.readline(_LINE + 1):
                number += 1
                if len(raw) > _LINE:
                    raise self.wrong(number, f"longer than {_LINE} bytes; is this the right file?")
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    if not raw.endswith(b"\n") and number > 1:
                        self.cut = 1
                        return
                    found = line[:40].decode("utf-8", "replace").strip()
                    raise self.wrong(number, f"expected a JSON object, found {found!r}") from None
                if not isinstance(value, dict):
                    raise self.wrong(number, f"expected a JSON object, found {str(value)[:40]}")
                yield number, value


def whole_numbers(values: list[Any], wrong: Callable[[str], InputError], what: str) -> np.ndarray:
    """Turn a flat list of JSON numbers into int64; 2^64-1 is -1 that was read as an unsigned number.

    Parameters
    ----------
    values : list
        Of whole numbers.
    wrong : function
        Makes the error of the place that they are from.
    what : str
        What they are, for the error.

    Returns
    -------
    numpy.ndarray of int64

    Raises
    ------
    InputError
        One is no whole number, or does not fit.
    """
    if not values:
        return np.empty(0, np.int64)
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        array = np.array(values, object)
    if array.dtype == np.int64 and array.ndim == 1:
        return array
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong(f"expected whole numbers in {what}, found {str(value)[:40]!r}")
        if not (-(2**63) <= value < 2**63 or value == _UNSIGNED):
            raise wrong(f"expected numbers of at most 64 bits in {what}, found {value}")
    return np.array([-1 if value == _UNSIGNED else value for value in values], np.int64)


def numbers(values: list[Any], wrong: Callable[[str], InputError], what: str) -> np.ndarray:
    """Turn a flat list of JSON numbers, null where unknown, into float64 with NaN.

    Parameters
    ----------
    values : list
        Of numbers and None.
    wrong : function
        Makes the error of the place that they are from.
    what : str
        What they are, for the error.

    Returns
    -------
    numpy.ndarray of float64

    Raises
    ------
    InputError
        One is no number.
    """
    try:
        array = np.array(values)
        if array.dtype.kind not in "fi" or array.ndim != 1:
            raise ValueError
        return array.astype(np.float64)
    except (ValueError, OverflowError):
        for value in values:
            if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
                raise wrong(f"expected numbers in {what}, found {str(value)[:40]!r}") from None
        return np.array([np.nan if value is None else float(value) for value in values], np.float64)


def nested(value: Any, wrong: Callable[[str], InputError], what: str) -> tuple[list[Any], list[int]]:
    """Flatten a list of lists; null counts as an empty list.

    Parameters
    ----------
    value : list of list
        As JSON has it.
    wrong : function
        Makes the error of the place that it is from.
    what : str
        What it is, for the error.

    Returns
    -------
    list, list of int
        The items, and the length of each inner list.

    Raises
    ------
    InputError
        Not a list of lists.

    Examples
    --------
    >>> nested([[3, 1], None, [2]], InputError, "experts")
    ([3, 1, 2], [2, 0, 1])
    """
    if not isinstance(value, list):
        raise wrong(f"expected {what} as a list of lists, found {str(value)[:40]!r}")
    lists = [[] if each is None else each for each in value]
    for each in lists:
        if not isinstance(each, list):
            raise wrong(f"expected {what} as a list of lists, found {str(each)[:40]!r} in it")
    return list(chain.from_iterable(lists)), [len(each) for each in lists]
