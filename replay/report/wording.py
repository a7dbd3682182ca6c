"""How figures read: fixed decimals by column, decimal units, changes with a sign."""

from __future__ import annotations

NOTHING = "–"
"""Stands where there is no figure."""


def decimals(value: float | None, digits: int) -> str:
    """Write a figure with fixed decimals and thousands apart.

    Examples
    --------
    >>> decimals(1234.5678, 2), decimals(None, 2)
    ('1,234.57', '–')
    """
    return NOTHING if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """Write a ratio as a percentage.

    Examples
    --------
    >>> percent(0.17625), percent(None)
    ('17.6%', '–')
    """
    return NOTHING if value is None else f"{value:.{digits}%}"


def change(value: float | None) -> str:
    """Write a relative change with its sign; no change has none.

    Examples
    --------
    >>> change(0.123), change(-0.5), change(0.0)
    ('+12.3%', '-50.0%', '0.0%')
    """
    if value is None:
        return NOTHING
    text = f"{value:+.1%}"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def unsigned_zero(text: str) -> str:
    """A figure that its decimals made zero, without a sign.

    Examples
    --------
    >>> unsigned_zero("-0.0"), unsigned_zero("-0.1")
    ('0.0', '-0.1')
    """
    return text if text.strip("-0.") else text.lstrip("-")


def milliseconds(value: float | None) -> str:
    """Write microseconds in milliseconds, two decimals."""
    return decimals(None if value is None else value / 1e3, 2)


def count(value: int) -> str:
    """Write a whole number with thousands apart."""
    return f"{value:,}"


def listing(names: list[str]) -> str:
    """Join names as a sentence does.

    Examples
    --------
    >>> listing(["a"]), listing(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def sentence(text: str) -> str:
    """Make a remark a sentence: a capital, but for a policy's name that begins it, and a full stop.

    Examples
    --------
    >>> sentence("left out x: no table"), sentence("none+lru: no use")
    ('Left out x: no table.', 'none+lru: no use.')
    """
    text = text.strip()
    named = text.split(" ", 1)[0].endswith(":")
    return (text if named else text[:1].upper() + text[1:]) + ("" if text.endswith((".", "!", "?")) else ".")
