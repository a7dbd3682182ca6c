"""The spellings of a retention policy (semantics 9): spec parts, command-line options, engine settings.

The first is ``replay.spec.grammar``'s grammar. The first two refuse what they cannot read; the third does what the
engine does: one diagnostic, and ``min_p`` alone. Chosen where the spec is silent: a number is a plain decimal
(``0.35``, ``.35``, ``3.5e-1``; no hex, no ``_``, no ``nan``), blanks are spaces and tabs around it, the flat
and the cumulative floor lie in [0, 1] like thresholds, and a setting that is not set plays no part, while one
set to nothing is malformed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from replay.errors import InputError
from replay.retain.policy import Retention, decimal
from replay.spec.grammar import Part, declaration, parse

SCHEDULE_SETTING = "STRATA_METAL_SPEC_MIN_P_SCHEDULE"
CUMULATIVE_SETTING = "STRATA_METAL_SPEC_MIN_CUM_P"
SETTINGS = (SCHEDULE_SETTING, CUMULATIVE_SETTING)

MAX_THRESHOLDS = 8
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_probability(text: str, what: str) -> float:
    """Read one threshold.

    Parameters
    ----------
    text : str
        A decimal number in [0, 1], blanks around it allowed.
    what : str
        What it is called in the error.

    Returns
    -------
    float
        The threshold.

    Raises
    ------
    InputError
        Not a decimal number, or outside [0, 1].

    Examples
    --------
    >>> parse_probability(" 0.35", "--min-p")
    0.35
    """
    number = text.strip(" \t")
    if not _NUMBER.fullmatch(number) or not 0.0 <= float(number) <= 1.0:
        raise InputError(f"{what}: {text!r} is not a number from 0 to 1; write it like 0.35")
    return float(number)


def parse_schedule(text: str, what: str) -> tuple[float, ...]:
    """Read a schedule of thresholds.

    Parameters
    ----------
    text : str
        1 to 8 thresholds, in any order, blanks around each allowed.
    what : str
        What it is called in the error.

    Returns
    -------
    tuple of float
        The thresholds.

    Raises
    ------
    InputError
        None or more than 8 of them, or one that is not a number in [0, 1].

    Examples
    --------
    >>> parse_schedule("0.10, 0.35 ,0.55", "--schedule")
    (0.1, 0.35, 0.55)
    """
    items = text.split(",")
    if not text.strip(" \t") or len(items) > MAX_THRESHOLDS:
        given = len(items) if text.strip(" \t") else 0
        raise InputError(
            f"{what}: {given} thresholds, expected 1 to {MAX_THRESHOLDS}; write it like 0.10,0.35,0.55"
        )
    return tuple(parse_probability(item, what) for item in items)


def from_parts(parts: Iterable[Part]) -> Retention:
    """Build a policy from the retention parts of a parsed spec.

    Parameters
    ----------
    parts : iterable of Part
        ``PolicySpec.retention``: at most one of ``flat`` and ``schedule``, at most one ``cumulative``.

    Returns
    -------
    Retention
        The policy; without parts, one that keeps what was recorded.
    """
    chosen: dict[str, Any] = {}
    for part in parts:
        defaults = {name: option.default for name, option in declaration(part.name).options.items()}
        chosen |= defaults | dict(part.options)
    return Retention(
        chosen.get("min_p"), chosen.get("append", False), chosen.get("thresholds", ()), chosen.get("floor")
    )


def parse_retention(text: str) -> Retention:
    """Read a policy spec that holds retention parts only.

    Parameters
    ----------
    text : str
        ``flat:P``, ``flat:P,append=1`` or ``schedule:P/P/..``; ``cumulative:P``; or both, joined by ``+``.

    Returns
    -------
    Retention
        The policy.

    Raises
    ------
    InputError
        What ``replay.spec.grammar.parse`` refuses, no retention part, or another kind of part.

    Examples
    --------
    >>> parse_retention("cumulative:0.2+schedule:0.10/0.35/0.55").name
    'schedule:0.1/0.35/0.55+cumulative:0.2'
    """
    spec = parse(text)
    others = [part for part in spec.parts if part not in (*spec.retention, *parse("none").parts)]
    if others or not spec.retention:
        raise InputError(
            f"policy {text!r}: expected retention parts only, such as flat:0.35 or cumulative:0.2"
        )
    return from_parts(spec.retention)


def read_settings(settings: Mapping[str, str], min_p: float = 0.0) -> tuple[Retention, str | None]:
    """Read the engine's two environment settings as the engine reads them.

    Parameters
    ----------
    settings : mapping of str to str
        Environment variables; only the two in ``SETTINGS`` are looked at.
    min_p : float, optional
        The engine's flat floor; its own default, 0, keeps every draft.

    Returns
    -------
    policy : Retention
        What the settings say. Without a schedule the flat floor stays; a floor of 0 is no gate.
    diagnostic : str or None
        Where either setting is bad: the one line to print. The policy then is ``flat:min_p`` alone.
    """
    schedule, floor = settings.get(SCHEDULE_SETTING), settings.get(CUMULATIVE_SETTING)
    try:
        thresholds = () if schedule is None else parse_schedule(schedule, SCHEDULE_SETTING)
        cumulative = None if floor is None else parse_probability(floor, CUMULATIVE_SETTING)
    except InputError as problem:
        ignored = f"{problem}; both settings are ignored, min_p {decimal(min_p)} is used"
        return Retention(min_p=min_p), ignored
    return Retention(None if thresholds else min_p, False, thresholds, cumulative), None
