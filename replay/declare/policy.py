"""How a policy declares itself: its name, its kind, the options it reads and what it needs from a trace.

Every policy file holds one ``POLICY = Policy(...)``; the registry of its kind maps the name to the file. This
module knows no policy and imports nothing heavy.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from replay.declare.queue_size import SHAPE, parse_queue
from replay.errors import InputError
from replay.units import counted, parse_bytes, parse_per_token, parse_share

Kind = Literal["read-ahead", "gate", "evict", "router", "retention", "joint retention"]
Type = Literal["int", "float", "share", "bytes", "flag", "text", "queue", "price"]
_N = TypeVar("_N", int, float)
Values = Mapping[str, Any]
"""Options of one policy by name, each of its declared type."""
Value = int | float | bool | str | tuple[int | float, ...] | None

_SHAPES: dict[Type, str] = {
    "int": "a whole number",
    "float": "a number",
    "share": "a share such as 0.25 or 25%",
    "bytes": "a size such as 1.77MB",
    "flag": "0 or 1",
    "text": "a word",
    "queue": SHAPE,
    "price": "a number of microseconds a byte, or a budget such as budget:80MB/token",
}
BUDGET = "budget:"
"""How a price begins that is found so that a byte budget is met (:mod:`replay.learning.price`)."""
_INT = re.compile(r"[+-]?[0-9]{1,18}")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE]-?[0-9]+)?")

TABLES: dict[str, tuple[str, ...]] = {
    "S": ("selections",),
    "C": ("candidates",),
    "R": ("router_scores", "residents"),
    "P": ("candidates", "router_scores"),
    "D": ("drafts",),
}
"""What each need asks of a trace: one of these tables (``P``: the one that the policy names, its lists complete)."""

NEEDS: dict[str, str] = {
    "S": "selections only",
    "C": "candidate scores",
    "R": "router scores or residents",
    "P": "full score rows",
    "D": "drafts",
}


@dataclass(frozen=True)
class Option:
    """One option of a policy.

    Attributes
    ----------
    type : str
        ``int``, ``float``, ``share`` (0 to 1, or a percentage), ``bytes`` (a size), ``flag`` (its bare name
        sets it), ``text``, ``queue`` (a queue's size: :mod:`replay.declare.queue_size`) or ``price`` (a number, or a
        budget).
    default : int, float, bool, str, tuple or None
        The value where neither the spec nor the trace gives one; None means "not set".
    main : bool
        Whether a bare value in a spec is this option's (at most one option of a policy).
    recorded : tuple of str
        Where trace.json may hold the value, best first, as ``prefetch.k`` (under ``policy``) or
        ``router.bonus``; a recorded 0 counts.
    low, high : float
        Inclusive bounds of a number.
    choices : tuple of str
        The legal words of a ``text`` option; empty = any.
    many : tuple of int or None
        Least and largest length of a ``/`` list; None = a single value.
    """

    type: Type
    default: Value = None
    main: bool = False
    recorded: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    many: tuple[int, int] | None = None


@dataclass(frozen=True)
class Policy:
    """The declaration of one policy.

    Attributes
    ----------
    name : str
        Its name in a spec; unique over all kinds.
    kind : str
        ``read-ahead``, ``gate``, ``evict``, ``router``, ``retention`` or ``joint retention`` (which joins one
        of the former); a spec holds at most one of each, and any number of gates.
    summary : str
        What it does, in a few words.
    needs : str
        Letters of ``NEEDS``: what the trace must hold.
    source : str
        The paper or engine whose rule it is.
    options : mapping of str to Option
        The options it reads; any other is an error.
    environment : str or None
        The seed engine's switches that run it; empty where it is the engine's default; None where the
        engine cannot run it.
    tables : tuple of str
        Tables that it needs by name, beyond what the letters say.
    by_bytes : bool
        Whether an eviction policy is defined under a byte budget (``--bytes``, semantics 5).
    looks_ahead : str
        What it reads of the future, which only recorded routes have: ``""`` nothing, ``"next"`` the next use,
        ``"later"`` the uses after it too.
    tail : bool
        Whether an eviction policy is one list with the victim at its tail, so that ``guess=tail`` means something.
    ranked : bool
        Whether a gate reads candidate scores, so that it needs a read-ahead policy that ranks them.
    full : str
        The table whose lists must be complete where it needs ``P``.
    declines : bool
        Whether an eviction policy may decline to keep a miss: no bound on forced admission holds for it.
    """

    name: str
    kind: Kind
    summary: str
    needs: str
    source: str
    options: Mapping[str, Option] = field(default_factory=dict, hash=False)
    environment: str | None = None
    tables: tuple[str, ...] = ()
    by_bytes: bool = True
    looks_ahead: Literal["", "next", "later"] = ""
    full: str = "candidates"
    declines: bool = False
    ranked: bool = False
    tail: bool = False

    def __post_init__(self) -> None:
        if sum(each.main for each in self.options.values()) > 1:
            raise ValueError(f"policy {self.name}: more than one main option")

    @property
    def main(self) -> str | None:
        """Name of the option that a bare value is for."""
        return next((name for name, each in self.options.items() if each.main), None)


def parse_value(text: str, option: Option, where: str) -> Value:
    """Read one option's value.

    Parameters
    ----------
    text : str
        What stands after the ``=``, or the bare value.
    option : Option
        The option's declaration.
    where : str
        What an error message calls the option, such as ``'k' of unpert1``.

    Returns
    -------
    int, float, bool, str or tuple
        A tuple where the option takes a list (``/`` between its values).

    Raises
    ------
    InputError
        Not of the option's type, not finite, out of its bounds, or not one of its words.

    Examples
    --------
    >>> parse_value("25%", Option("share"), "'quota' of decode2q")
    0.25
    >>> parse_value("0.1/0.35", Option("float", many=(1, 8)), "'floors' of schedule")
    (0.1, 0.35)
    """
    if option.many is None:
        return _single(text.strip(), option, where)
    least, most = option.many
    items = text.split("/")
    if not least <= len(items) <= most:
        takes = f"takes exactly {least} values" if least == most else f"takes {least} to {most}"
        raise InputError(
            f"option {where}: {text!r} has {counted(len(items), 'value')}; it {takes}, with / between"
        )
    values = [_single(each.strip(), option, where) for each in items]
    return tuple(each for each in values if isinstance(each, int | float))


def _single(text: str, option: Option, where: str) -> int | float | bool | str:
    """Read a value that is not a list."""
    wrong = InputError(f"option {where}: {text!r} is not {_SHAPES[option.type]}")
    if option.type == "flag":
        if text not in ("0", "1"):
            raise wrong
        return text == "1"
    if option.type == "text":
        if not text:
            raise wrong
        if option.choices and text not in option.choices:
            raise InputError(f"option {where}: {text!r} is not one of {', '.join(option.choices)}")
        return text
    if option.type == "int":
        if not _INT.fullmatch(text):
            if _DIGITS.fullmatch(text):
                most = min(option.high, 10.0**18)
                raise InputError(f"option {where}: {text} is outside {option.low:g} to {most:g}")
            raise wrong
        return _bounded(int(text), option, where)
    if option.type == "queue":
        try:
            return parse_queue(text)
        except InputError as problem:
            raise InputError(f"option {where}: {problem}") from None
    if option.type == "price" and text.startswith(BUDGET):
        parse_per_token(text.removeprefix(BUDGET))
        return text
    if option.type == "bytes":
        return _bounded(parse_bytes(text), option, where)
    if option.type == "share":
        share = parse_share(text) if text.endswith("%") else _float(text, wrong)
        return _bounded(share, Option("share", low=max(0.0, option.low), high=min(1.0, option.high)), where)
    return _bounded(_float(text, wrong), option, where)


def _float(text: str, wrong: InputError) -> float:
    if not _FLOAT.fullmatch(text) or not math.isfinite(float(text)):
        raise wrong
    return float(text)


def _bounded(value: _N, option: Option, where: str) -> _N:
    if not option.low <= value <= option.high:
        raise InputError(f"option {where}: {value} is outside {option.low:g} to {option.high:g}")
    return value


def show_value(value: Value) -> str:
    """Write a value as a spec would.

    Parameters
    ----------
    value : int, float, bool, str, tuple or None
        An option's value.

    Returns
    -------
    str
        ``-`` for None.

    Examples
    --------
    >>> show_value((0.1, 0.35)), show_value(True), show_value(None)
    ('0.1/0.35', '1', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return "/".join(show_value(each) for each in value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        short = f"{value:g}"
        return (short if float(short) == value else repr(value)).replace("e+", "e")
    return str(value)


def lacking(policy: Policy, tables: Collection[str], sparse: Collection[str] = ()) -> str | None:
    """Say what a trace lacks for a policy.

    Parameters
    ----------
    policy : Policy
        The policy.
    tables : collection of str
        The tables that the trace has.
    sparse : collection of str
        Those of its tables whose score lists are not complete (one score an expert).

    Returns
    -------
    str or None
        The reason, or None where nothing is lacking.

    Examples
    --------
    >>> lacking(Policy("x", "read-ahead", "", "C", ""), {"selections"})
    'needs the table candidates'
    """
    for table in policy.tables:
        if table not in tables:
            return f"needs the table {table}"
    for letter in policy.needs:
        wanted = (policy.full,) if letter == "P" else TABLES[letter]
        if not any(each in tables for each in wanted):
            return f"needs the table {' or '.join(wanted)}"
        if letter == "P" and policy.full in sparse:
            return f"needs full score rows; this trace's {policy.full} are sparse"
    return None
