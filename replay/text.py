"""Text that every file can hold: names of files may be bytes of no text, and JSON may escape half a character."""

from __future__ import annotations

import re
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_HALF = re.compile("[\ud800-\udfff]")


def as_text(name: str) -> str:
    r"""Write a name that holds bytes of no text (a folder named in another encoding), or half a character, as text.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
        With each such half as its escape.

    Examples
    --------
    >>> as_text("caf\udce9") == "caf" + chr(92) + "udce9", as_text("café")
    (True, 'café')
    """
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", name)


def no_formula(value: Any) -> Any:
    """Write a text cell of a CSV file so that a spreadsheet takes it for text: a quote before what begins a formula.

    Parameters
    ----------
    value : object
        A cell.

    Returns
    -------
    object
        Numbers and harmless texts as they are.

    Examples
    --------
    >>> no_formula("=1+1"), no_formula("none+lru"), no_formula(-1)
    ("'=1+1", 'none+lru', -1)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def all_text(document: Any) -> Any:
    """Write every text of a JSON document, keys too, as text.

    Parameters
    ----------
    document : dict, list, str or other
        What JSON holds.

    Returns
    -------
    the same
    """
    if isinstance(document, str):
        return as_text(document)
    if isinstance(document, list):
        return [all_text(each) for each in document]
    if isinstance(document, dict):
        return {as_text(name): all_text(value) for name, value in document.items()}
    return document
