"""Rows of a table as plain arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from replay.errors import InputError

Wrong = Callable[[int, str], InputError]
_ITEM = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|null|None", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,;|()\[\]]*")


@dataclass
class Ragged:
    """Lists: their values, and where each begins; a null list is empty."""

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Items of each list."""
        return np.diff(self.offsets)


@dataclass
class Frame:
    """Some rows.

    Attributes
    ----------
    line : numpy.ndarray of int64, [n]
        Place of each row, from 1.
    whole : dict of numpy.ndarray of int64, [n]
        Step, token, layer and rank, where there.
    text : dict of numpy.ndarray of object, [n]
        Session, phase and domain, where there; None where null.
    picks : dict of numpy.ndarray or Ragged
        Expert (int64), weight (float64) and outcome (int64), where there: one a row, or a list a row.
    """

    line: np.ndarray
    whole: dict[str, np.ndarray] = field(default_factory=dict)
    text: dict[str, np.ndarray] = field(default_factory=dict)
    picks: dict[str, np.ndarray | Ragged] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.line)


def parse_lists(
    texts: Iterable[str | None], lines: np.ndarray, name: str, whole: bool, wrong: Wrong
) -> Ragged:
    """Read lists that are written as text.

    Parameters
    ----------
    texts : iterable of str or None
        Such as ``[3, 1]`` or ``3 1``; empty, or None: no items.
    lines : numpy.ndarray of int64
        Place of each.
    name : str
        The column, for errors.
    whole : bool
        Whether the items are whole numbers; null is -1 then, else NaN.
    wrong : function
        Makes the error of a place.

    Returns
    -------
    Ragged

    Examples
    --------
    >>> parse_lists(["[3, 1]", "2 0;5", ""], [1, 2, 3], "ids", True, None).values.tolist()
    [3, 1, 2, 0, 5]
    """
    values: list[float | int] = []
    offsets = [0]
    for text, line in zip(texts, lines, strict=True):
        items = _ITEM.findall(text or "")
        if _BETWEEN.fullmatch(_ITEM.sub("", text or "")) is None:
            raise wrong(int(line), f"expected a list of numbers in {name}, found {str(text)[:40]!r}")
        for item in items:
            try:
                values.append(int(item) if whole else float(item))
            except ValueError:
                if item.lower() not in ("nan", "null", "none"):
                    raise wrong(int(line), f"expected whole numbers in {name}, found {item[:40]!r}") from None
                values.append(-1 if whole else np.nan)
        offsets.append(len(values))
    try:
        array = np.array(values, np.int64 if whole else np.float64)
    except OverflowError:
        raise wrong(int(lines[0]), f"a number in {name} here or below is beyond 64 bits") from None
    return Ragged(array, np.array(offsets))
