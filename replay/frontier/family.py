"""Families of specs: one option runs over a range, ``route:k=16+margin:-2..2`` or ``route:k=1..16``.

At most one option of a family is a range ``a..b``, both ends included. Whole numbers are spread evenly and each named
once; so are real numbers, by ratio where both ends are positive and at least a factor of 100 apart. A gate
``calibrated`` without a price runs over prices: at a share t of what a read ahead in time saves a byte, which admits
guesses of probability t and more where they are in time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.clock.timing import ClockParams
from replay.declare.policy import Option, show_value
from replay.errors import InputError
from replay.spec.grammar import PolicySpec, declaration, parse

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]-?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
MOST_POINTS = 200
FAR = 100.0


@dataclass(frozen=True)
class Family:
    """Specs that differ in one option.

    Attributes
    ----------
    text : str
        As given.
    option : str
        The option that runs, as ``margin:m``; empty where nothing does.
    values : tuple of float or None
        Its value in each spec.
    specs : tuple of PolicySpec
    """

    text: str
    option: str
    values: tuple[float | None, ...]
    specs: tuple[PolicySpec, ...]


def families(texts: Sequence[str], points: int, clock: ClockParams, size: float) -> list[Family]:
    """Read families.

    Parameters
    ----------
    texts : sequence of str
    points : int
        Specs of each range, at most.
    clock : ClockParams
        Of the nominal plan, which default prices are made of.
    size : float
        Bytes of an expert, for the same.

    Returns
    -------
    list of Family

    Raises
    ------
    InputError
        A spec cannot be read, holds several ranges, or a spec stands in two families.
    """
    if not 2 <= points <= MOST_POINTS:
        raise InputError(f"--points {points}: expected 2 to {MOST_POINTS}")
    found = [_family(text.strip(), points, clock, size) for text in texts]
    seen: set[str] = set()
    for family in found:
        if family.text in seen:
            raise InputError(f"policy {family.text!r} is given twice; give it once")
        seen.add(family.text)
    return found


def _family(text: str, points: int, clock: ClockParams, size: float) -> Family:
    ranges = list(_RANGE.finditer(text))
    if len(ranges) > 1:
        raise InputError(f"policy {text!r}: several options are ranges; make one of them a range")
    if ranges:
        name, key, option = _option_at(text, ranges[0])
        values = _spread(float(ranges[0][1]), float(ranges[0][2]), points, option, f"policy {text!r}")
        low, high = ranges[0].span()
        specs = tuple(parse(text[:low] + show_value(value) + text[high:]) for value in values)
        return Family(text, f"{name}:{key}", tuple(float(value) for value in values), specs)
    spec = parse(text)
    if any(part.name == "calibrated" and "price" not in part.options for part in spec.gates):
        prices = [_price(i / points, clock, size) for i in range(points)]
        specs = tuple(parse(_priced(spec, price)) for price in prices)
        return Family(text, "calibrated:price", tuple(prices), specs)
    return Family(text, "", (None,), (spec,))


def _option_at(text: str, found: re.Match[str]) -> tuple[str, str, Option]:
    """The part, the option and its declaration that a range stands for."""
    before = text[: found.start()].rpartition("+")[2]
    name, colon, options = before.partition(":")
    policy = declaration(name.strip())
    given = options.rpartition(",")[2].strip()
    key = given[:-1].strip() if given.endswith("=") else policy.main if not given and colon else None
    after = text[found.end() : found.end() + 1]
    option = policy.options.get(key) if key else None
    numeric = option is not None and option.type in ("int", "float", "share", "price") and option.many is None
    if key is None or (option is not None and not numeric) or after not in ("", "+", ","):
        raise InputError(
            f"policy {text!r}: {found[0]!r} is no range of an option that is a number; write margin:-1..1"
        )
    if option is None:
        parse(text)  # says which options there are
        raise InputError(f"policy {text!r}: {name} has no option {key!r}")
    return name, key, option


def _spread(first: float, last: float, points: int, option: Option, where: str) -> list[int | float]:
    """Values from one end to the other."""
    if not first < last:
        raise InputError(f"{where}: a range runs upwards; write the smaller end first")
    if option.type == "int":
        return sorted({round(value) for value in np.linspace(first, last, points).tolist()})
    if first > 0 and last / first >= FAR:
        values = np.geomspace(first, last, points)
    else:
        values = np.linspace(first, last, points)
    return [float(f"{value:.6g}") for value in values.tolist()]


def _price(share: float, clock: ClockParams, size: float) -> float:
    """Microseconds a byte at which a guess in time pays from a probability on."""
    saved_us = clock.latency_us + size / min(clock.stream_gbps, clock.device_gbps) / 1000.0
    return float(f"{share * saved_us / size:.6g}")


def _priced(spec: PolicySpec, price: float) -> str:
    """A spec's text with a price for its gate ``calibrated``."""
    parts = spec.text.split("+")
    at = next(i for i, part in enumerate(parts) if part.strip().partition(":")[0] == "calibrated")
    joint = "," if ":" in parts[at] else ":"
    parts[at] = f"{parts[at].strip()}{joint}price={show_value(price)}"
    return "+".join(parts)
