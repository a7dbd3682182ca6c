"""Sizes, shares and times as people write them: ``1.77MB``, ``4000MiB``, ``17.6%``, ``80us``.

Parsing is exact (decimal fractions, not floats) until the last step.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

from replay.errors import InputError

_NUMBER = re.compile(r"([0-9]{1,300}(?:\.[0-9]{1,300})?)\s*([A-Za-zµμ%]*)")
_INT64_MAX = 2**63 - 1

_BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_US = {
    "": Fraction(1),
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),  # micro sign
    "μs": Fraction(1),  # Greek mu
    "ms": Fraction(1000),
    "s": Fraction(10**6),
}


def _split(text: str, what: str, example: str) -> tuple[Fraction, str]:
    """Split ``12.5MB`` into its exact number and its unit."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{what} {text!r} is not a number with a unit; write it like {example}")
    return Fraction(found[1]), found[2]


def parse_per_token(text: str) -> int:
    """Read bytes a token.

    Parameters
    ----------
    text : str
        A size, then ``/token``.

    Returns
    -------
    int

    Raises
    ------
    InputError
        Not of that form.

    Examples
    --------
    >>> parse_per_token("80MB/token")
    80000000
    """
    size, slash, token = text.partition("/")
    if not slash or token != "token":
        raise InputError(f"budget {text!r} is no size a token; write it like 80MB/token")
    return parse_bytes(size)


def parse_bytes(text: str) -> int:
    """Read a size in bytes.

    Parameters
    ----------
    text : str
        A number with ``B``, decimal ``kB MB GB TB`` or binary ``KiB MiB GiB TiB``; a bare number is bytes.

    Returns
    -------
    int
        Bytes, rounded to the nearest whole one (half to even) where a unit was given.

    Raises
    ------
    InputError
        Not a size, an unknown unit, a fraction of a bare byte, or more than a signed 64-bit count holds.

    Examples
    --------
    >>> parse_bytes("1.77MB"), parse_bytes("4000MiB"), parse_bytes("123")
    (1770000, 4194304000, 123)
    """
    number, unit = _split(text, "size", "1.77MB, 4000MiB or 1770000")
    if unit not in _BYTES:
        known = " ".join(each for each in _BYTES if each)
        raise InputError(f"size {text!r} has the unknown unit {unit!r}; units (case counts): {known}")
    if _BYTES[unit] == 1 and number.denominator != 1:
        raise InputError(f"size {text!r} is not a whole number of bytes; write it like 1.77MB or 1770000")
    size = round(number * _BYTES[unit])
    if size > _INT64_MAX:
        raise InputError(f"size {text!r} is more than {_INT64_MAX} bytes")
    return size


def parse_share(text: str) -> float:
    """Read a share written in percent.

    Parameters
    ----------
    text : str
        A percentage from 0% to 100%, such as ``17.6%``.

    Returns
    -------
    float
        The share, 0 to 1: the double nearest to the exact value.

    Raises
    ------
    InputError
        Not a percentage, or above 100%.

    Examples
    --------
    >>> parse_share("17.6%")
    0.176
    """
    number, unit = _split(text, "share", "17.6%")
    if unit != "%":
        raise InputError(f"share {text!r} has no percent sign; write it like 17.6%")
    if number > 100:
        raise InputError(f"share {text!r} is above 100%")
    return float(number / 100)


def parse_time_us(text: str) -> float:
    """Read a time in microseconds.

    Parameters
    ----------
    text : str
        A number with ``ns``, ``us``, ``ms`` or ``s``; a bare number is microseconds.

    Returns
    -------
    float
        Microseconds: the double nearest to the exact value.

    Raises
    ------
    InputError
        Not a time, or an unknown unit.

    Examples
    --------
    >>> parse_time_us("80us"), parse_time_us("1.5ms"), parse_time_us("250ns")
    (80.0, 1500.0, 0.25)
    """
    number, unit = _split(text, "time", "80us or 1.5ms")
    if unit not in _US:
        raise InputError(f"time {text!r} has the unknown unit {unit!r}; units: ns us ms s")
    return float(number * _US[unit])


def format_bytes(size: int) -> str:
    """Write a size for people, in decimal units with three significant digits.

    Parameters
    ----------
    size : int
        Bytes; may be negative (a difference).

    Returns
    -------
    str
        Such as ``1.77 MB``.

    Examples
    --------
    >>> format_bytes(1770000), format_bytes(999), format_bytes(22585964544), format_bytes(999999)
    ('1.77 MB', '999 B', '22.6 GB', '1.00 MB')
    """
    if abs(size) < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB", "PB", "EB"):
        value /= 1000
        if abs(value) < 999.5 or unit == "EB":
            break
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun, in the plural but for one.

    Parameters
    ----------
    count : int
    noun : str
        In the singular; its plural ends in s.

    Examples
    --------
    >>> counted(1, "warning"), counted(0, "session"), counted(2000, "window")
    ('1 warning', '0 sessions', '2,000 windows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spans(numbers: Sequence[int], between: str = ", ") -> str:
    """Write ascending numbers as the ranges they form.

    Parameters
    ----------
    numbers : sequence of int
        Ascending.
    between : str
        What stands between two ranges.

    Examples
    --------
    >>> spans([0, 1, 2, 5, 7, 8]), spans([0, 1, 3], between=",")
    ('0-2, 5, 7-8', '0-1,3')
    """
    parts: list[list[int]] = []
    for each in numbers:
        if parts and parts[-1][1] == each - 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    return between.join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
