"""Small files of settings and results: read whole within a bound, and refused in one line when they are none."""

import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replay.errors import InputError
from replay.text import all_text

LONGEST = 64 * 2**20
"""Bytes of a document that is still read."""


def read_toml(path: Path, wanted: str) -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path : Path
        The file.
    wanted : str
        What to give instead, such as ``"a TOML file of policies"``: the end of an error.

    Returns
    -------
    dict
        Its content; a whole number in it may have any size.

    Raises
    ------
    InputError
        No such file, or not TOML.

    Examples
    --------
    >>> read_toml(Path("nowhere.toml"), "a clock file")
    Traceback (most recent call last):
    replay.errors.InputError: nowhere.toml: No such file or directory; give a clock file
    """
    return _read(path, "TOML", wanted, tomllib.loads)


def read_json(path: Path, wanted: str) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
        The file.
    wanted : str
        What to do instead, as for :func:`read_toml`.

    Returns
    -------
    object
        Its content.

    Raises
    ------
    InputError
        No such file, or not JSON.
    """
    return _read(path, "JSON", wanted, parse_json)


def parse_json(text: str) -> Any:
    """Parse JSON as its standard has it: no NaN, no infinity, no number beyond a double.

    Parameters
    ----------
    text : str

    Returns
    -------
    object

    Raises
    ------
    ValueError
        Not JSON; RecursionError where it is nested too deep.

    Examples
    --------
    >>> parse_json('{"a": 1e999}')
    Traceback (most recent call last):
    ValueError: 1e999, which is more than a double holds
    """
    found = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    return all_text(found) if _HALF.search(text) else found


_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # may be half a character


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]}, which is more than a double holds")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def _read(path: Path, form: str, wanted: str, parse: Callable[[str], Any]) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise ValueError(f"more than {LONGEST} bytes")
        return parse(data.decode("utf-8"))
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}; give {wanted}") from None
    except RecursionError:
        raise InputError(f"{path}: not {form} (nested too deep); give {wanted}") from None
    except ValueError as problem:  # not UTF-8, not of the form, or a number of thousands of digits
        reason = " ".join(str(problem).split())[:200]
        raise InputError(f"{path}: not {form} ({reason}); give {wanted}") from None
