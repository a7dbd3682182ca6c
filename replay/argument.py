"""Arguments of the public functions: of a type that is asked for, or refused in one line."""

import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from replay.errors import InputError


class Kind(NamedTuple):
    """What an argument may be.

    Attributes
    ----------
    words : str
        What an error says was expected.
    holds : callable
        From a value to whether it is one.
    """

    words: str
    holds: Callable[[Any], bool]


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


NONE = Kind("None", lambda value: value is None)
TEXT = Kind("a str", lambda value: isinstance(value, str))
TRUTH = Kind("True or False", _is_truth)
WHOLE = Kind("a whole number", lambda value: isinstance(value, Integral) and not _is_truth(value))
NUMBER = Kind("a number", lambda value: isinstance(value, Real) and not _is_truth(value))
PATH = Kind(
    "a path", lambda value: isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
)
MAPPING = Kind("a mapping by name", lambda value: isinstance(value, Mapping) and all(map(TEXT.holds, value)))
CALLABLE = Kind("a callable", callable)


def instance(kind: type, words: str) -> Kind:
    """An instance of a class."""
    return Kind(words, lambda value: isinstance(value, kind))


def either(*kinds: Kind) -> Kind:
    """One of several kinds.

    Examples
    --------
    >>> either(TEXT, WHOLE, NONE).words
    'a str, a whole number or None'
    """
    *first, last = (each.words for each in kinds)
    words = f"{', '.join(first)} or {last}"
    return Kind(words, lambda value: any(each.holds(value) for each in kinds))


def many(kind: Kind, words: str) -> Kind:
    """A collection whose members are all of one kind; no text, no mapping, nothing that is spent by a look."""

    def holds(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not (
            hasattr(value, "__len__") and hasattr(value, "__iter__")
        ):
            return False
        return all(kind.holds(each) for each in value)

    return Kind(words, holds)


def expect(given: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Refuse the first argument that is not what its name asks for.

    Parameters
    ----------
    given : mapping of str to object
        Arguments by name.
    kinds : mapping of str to Kind

    Raises
    ------
    InputError
        An argument is of another type.

    Examples
    --------
    >>> expect({"policies": [None]}, {"policies": either(TEXT, many(TEXT, "a list of str"))})
    Traceback (most recent call last):
    replay.errors.InputError: policies: expected a str or a list of str, found [None]
    """
    for name, kind in kinds.items():
        if not kind.holds(given[name]):
            raise InputError(f"{name}: expected {kind.words}, found {_told(given[name])}")


def _told(value: Any) -> str:
    """A value on one line, its type where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"a value of type {type(value).__name__}"
