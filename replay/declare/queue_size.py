"""How long a policy's queue is: a share of the arena's slots, a number of slots, or tokens.

One token is what one row wants of an arena: layers x top_k experts of a global one, top_k of a layer's own. A
queue that is shorter than that forgets an expert before the next token can ask for it again.
"""

import re

from replay.errors import InputError
from replay.units import parse_share

SHAPE = "a queue's size such as 0.1, 10%, 100 (slots) or 2tok"
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?|\.[0-9]{1,15}")


def parse_queue(text: str) -> str:
    """Read the size of a queue.

    Parameters
    ----------
    text : str
        A fraction below 1 or a percentage (of the slots), a whole number (slots), or a number and ``tok``.

    Returns
    -------
    str
        The size as :func:`queue_slots` reads it; sizes that are the same are written the same.

    Raises
    ------
    InputError
        Not such a size.

    Examples
    --------
    >>> parse_queue("10%"), parse_queue("0.10"), parse_queue("100"), parse_queue("2.0tok")
    ('0.1', '0.1', '100', '2tok')
    """
    text = text.strip()
    if text.endswith("%"):
        share = parse_share(text)
        return "100%" if share == 1 else _short(share)
    number = text.removesuffix("tok").strip()
    if not _NUMBER.fullmatch(number):
        raise InputError(f"{text!r} is not {SHAPE}")
    if text.endswith("tok"):
        return f"{_short(float(number))}tok"
    if "." not in number:
        return str(int(number))
    if float(number) >= 1:
        raise InputError(f"{text!r} is not {SHAPE}: a fraction is below 1, slots are whole")
    return _short(float(number))


def _short(number: float) -> str:
    """Write a number so that it reads back as the same double; a fraction keeps its point."""
    text = f"{number:g}" if float(f"{number:g}") == number else repr(number)
    if "e" in text:
        text = f"{number:.15f}".rstrip("0")
    return "0.0" if text in ("0", "0.") else text


def queue_slots(size: str, capacity: int, token: int) -> int:
    """Slots of a queue in one part of the arena; at least one.

    Parameters
    ----------
    size : str
        As :func:`parse_queue` writes it.
    capacity : int
        Slots of the part.
    token : int
        Experts that one token wants of it.

    Returns
    -------
    int
        Fractions are rounded down.

    Examples
    --------
    >>> [queue_slots(size, 1024, 480) for size in ("0.1", "100", "2tok", "0.0001")]
    [102, 100, 960, 1]
    """
    if size.endswith("tok"):
        slots = int(float(size[:-3]) * token)
    elif size.endswith("%"):
        slots = capacity
    elif "." in size:
        slots = int(capacity * float(size))
    else:
        slots = int(size)
    return max(slots, 1)
