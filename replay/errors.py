"""The one family of errors, and the exit code of each.

Library code raises these; only ``replay.cli`` prints them. A message is one line that says where, what was
expected, and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ReplayError(Exception):
    """Base of every error that is raised on purpose.

    Attributes
    ----------
    exit_code : int
        What the command line exits with: 1 a check did not hold, 2 misuse or bad input, 3 an internal
        identity broke.
    """

    exit_code = 2


class InputError(ReplayError):
    """Misuse, or input that cannot be used: a bad option, a damaged trace, a missing table."""

    exit_code = 2


class CheckFailed(ReplayError):
    """A check that was asked for did not hold (a verdict, an audit, a comparison)."""

    exit_code = 1


class IdentityError(ReplayError):
    """An identity that must hold by construction broke: a defect of this program, never of the input."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, and list them all.

    Parameters
    ----------
    name : str
        The name that is not known.
    known : iterable of str
        The names that are, in the order to list them.

    Returns
    -------
    str
        ``"did you mean lru? known: lru, fifo"``, without the question when nothing is near: a name that is twice as
        long as another is no slip of it.

    Examples
    --------
    >>> nearest("lruu", ["lru", "fifo"])
    'did you mean lru? known: lru, fifo'
    >>> nearest("nonsense", ["none", "lru"])
    'known: none, lru'
    >>> nearest("x", [])
    'there are none'
    """
    names = list(known)
    if not names:
        return "there are none"
    by_lower = {each.lower(): each for each in names if _lengths_near(name, each)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    question = f"did you mean {by_lower[close[0]]}? " if close else ""
    return f"{question}known: {', '.join(names)}"


def _lengths_near(one: str, other: str) -> bool:
    return max(len(one), len(other)) < 2 * min(len(one), len(other))
