"""The capacities of a curve: slots, shares of the experts, or bytes (``replay curves --grid``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound, from_share, parse_slots
from replay.errors import InputError
from replay.units import parse_bytes, parse_share

DEFAULT_GRID = "2.5%..100%:40"
EVERY = "all"
MOST = 1_000_000
_WHOLE = re.compile(r"[0-9]{1,15}")
_DIGITS = re.compile(r"[0-9]+")
EXAMPLES = "100,500,4326 or 1%..60%:24 or 250MiB,500MiB"


@dataclass(frozen=True)
class Grid:
    """Capacities, ascending.

    Attributes
    ----------
    text : str
        As given.
    unit : str
        ``slots``, ``share`` or ``bytes``: what a chart's axis shows.
    bounds : tuple of Bound
    """

    text: str
    unit: str
    bounds: tuple[Bound, ...]


def _spread(text: str, option: str) -> tuple[str, str, int] | None:
    """The parts of ``A..B:N``, or None where the text is no range."""
    low, dots, rest = text.partition("..")
    if not dots:
        return None
    high, colon, count = rest.partition(":")
    if not colon or not _WHOLE.fullmatch(count) or not 2 <= int(count) <= MOST:
        raise InputError(
            f"{option}: {text!r} needs how many capacities it stands for, at least 2; write 1%..60%:24"
        )
    return low.strip(), high.strip(), int(count)


def _unit(text: str) -> str:
    if text.endswith("%"):
        return "share"
    return "slots" if _DIGITS.fullmatch(text) else "bytes"


def _value(text: str, unit: str) -> float:
    if unit == "slots" and not _WHOLE.fullmatch(text):
        raise InputError(f"--grid: {text!r} is more slots than any arena has; write {EXAMPLES}")
    return parse_share(text) if unit == "share" else int(text) if unit == "slots" else parse_bytes(text)


def _values(text: str, option: str) -> tuple[str, list[float]]:
    """Unit and numbers of a grid; a range's are evenly spaced, both ends included."""
    found: list[tuple[str, float]] = []
    for item in (each.strip() for each in text.split(",")):
        ends = _spread(item, option)
        if ends is None:
            found.append((_unit(item), _value(item, _unit(item))))
            continue
        low, high, count = ends
        if _unit(low) != _unit(high):
            raise InputError(f"{option}: the ends of {item!r} are of two kinds; write {EXAMPLES}")
        unit = _unit(low)
        found += [(unit, float(x)) for x in np.linspace(_value(low, unit), _value(high, unit), count)]
    if len({unit for unit, _ in found}) > 1:
        raise InputError(f"{option}: slots, shares and bytes do not mix; write {EXAMPLES}")
    return found[0][0], [value for _, value in found]


def parse_grid(text: str, classes: NDArray[np.uint8]) -> Grid:
    """Read ``--grid``.

    Parameters
    ----------
    text : str
        Capacities with commas between, ranges ``A..B:N`` among them; or ``all``: every number of slots.
    classes : uint8[L, E]
        Size class of every expert: a share is taken of each.

    Returns
    -------
    Grid
        Each capacity once, ascending.

    Raises
    ------
    InputError
        Not such a list, below 1, or slots where there are several size classes.

    Examples
    --------
    >>> import numpy as np
    >>> [each.slots for each in parse_grid("50%,10,", np.zeros((2, 10), np.uint8)).bounds]
    Traceback (most recent call last):
    replay.errors.InputError: --grid 50%,10,: an entry is empty; write 100,500,4326 or 1%..60%:24 or 250MiB,500MiB
    >>> [each.slots for each in parse_grid("10%..50%:3", np.zeros((2, 10), np.uint8)).bounds]
    [(2,), (6,), (10,)]
    """
    option = f"--grid {text}"
    count = int(classes.max()) + 1
    if text.strip() == EVERY:
        if count > 1:
            raise InputError(f"{option}: {count} size classes have no single number of slots; give shares")
        return Grid(text, "slots", tuple(Bound((n,), None, option) for n in range(1, classes.size + 1)))
    if not all(each.strip() for each in text.split(",")):
        raise InputError(f"{option}: an entry is empty; write {EXAMPLES}")
    unit, values = _values(text, option)
    if min(values) <= 0:
        raise InputError(f"{option}: capacities are above 0; write {EXAMPLES}")
    if unit == "slots":
        for each in text.split(",") if count > 1 else ():
            parse_slots(each.partition("..")[0], classes)
        bounds = [Bound((round(value),), None, option) for value in values]
    elif unit == "share":
        bounds = [from_share(value, classes, option) for value in values]
    else:
        bounds = [Bound(None, round(value), option) for value in values]
    once = {(each.slots, each.bytes): each for each in bounds}
    return Grid(
        text, unit, tuple(sorted(once.values(), key=lambda each: (each.total_slots or 0, each.bytes or 0)))
    )
