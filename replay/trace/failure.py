"""What is wrong with a trace: one record a failure, told on one line."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeAlias

from replay.errors import InputError


@dataclass(frozen=True)
class Failure:
    """One thing in a trace that the format refuses.

    Attributes
    ----------
    reason : str
        Short fixed name of the kind of failure, for programs.
    file : str
        The file, with the trace's path.
    table : str
        The table; empty for trace.json.
    key : str
        The row (``window 3, row 0, layer 5``) or the field; empty where the whole file is meant.
    expected, found : str
        What the format asks for, and what is there.
    fix : str
        What to do about it.
    """

    reason: str
    file: str
    table: str
    key: str
    expected: str
    found: str
    fix: str

    def line(self) -> str:
        """Tell the failure on one line.

        Returns
        -------
        str
            Where, what was expected, what is there, what to do; escaped where something in it is not printable.
        """
        place = ", ".join(part for part in (self.table and f"table {self.table}", self.key) if part)
        where = f"{self.file}: {place}" if place else self.file
        text = f"{where}: expected {self.expected}, found {self.found}; {self.fix}"
        return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")

    def as_dict(self) -> dict[str, str]:
        """Give the failure as plain data.

        Returns
        -------
        dict
            The attributes by name.
        """
        return asdict(self)


Sink: TypeAlias = Callable[[Failure], None]


def refuse(failure: Failure) -> None:
    """Raise a failure as an error: the reader's way to take one.

    Parameters
    ----------
    failure : Failure
        What is wrong.

    Raises
    ------
    InputError
        Always, with the failure's line.
    """
    raise InputError(failure.line())
