"""Importers: from what an engine already writes to a trace. One file a format, one line each in ``IMPORTERS``.

An importer's module has a function ``convert(source, destination, request) -> Imported``. It reads columns by
name, keeps what is unknown as unknown, removes nothing without counting it, and leaves the destination whole or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from replay.errors import InputError, nearest

IMPORTERS: dict[str, str] = {
    "bigmoeonedge": "replay.importers.bigmoeonedge",
}
"""Module of each format's importer."""


@dataclass(frozen=True)
class Request:
    """What a file does not say of itself, and how to write the trace.

    Attributes
    ----------
    bytes : int or None
        The byte budget that the engine ran with; None: not known.
    licence : str or None
        The source's licence; None: not known.
    note : str or None
        Where the source is from, in words.
    force : bool
        Whether an old trace at the destination is replaced.
    """

    bytes: int | None = None
    licence: str | None = None
    note: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Imported:
    """What an import wrote, and what it left out.

    Attributes
    ----------
    path : str
        The trace.
    windows, rows, lookups : int
        Windows, rows of them, and unique experts wanted, summed over events.
    read : int
        Records (lines, for a text format) read.
    removed : dict of int
        Records that are not in the trace, by reason.
    notes : tuple of str
        What to know of the trace, in words.
    """

    path: str
    windows: int
    rows: int
    lookups: int
    read: int
    removed: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def removed_text(self) -> str:
        """Say what was left out, each reason with its share.

        Examples
        --------
        >>> Imported("t", 1, 1, 1, 200, {"step below 0": 3}).removed_text()
        '3 of 200 (1.5%) step below 0'
        """
        parts = [
            f"{count} of {self.read} ({100 * count / self.read:.1f}%) {reason}"
            for reason, count in self.removed.items()
        ]
        return "; ".join(parts) or "none"


def importer(name: str) -> Callable[[Path, Path, Request], Imported]:
    """Load the importer of a format.

    Parameters
    ----------
    name : str
        The format's name.

    Returns
    -------
    function
        Its ``convert``.

    Raises
    ------
    InputError
        No importer has that name.
    """
    if name not in IMPORTERS:
        raise InputError(f"no importer is called {name!r}; {nearest(name, IMPORTERS)}")
    convert: Callable[[Path, Path, Request], Imported] = import_module(IMPORTERS[name]).convert
    return convert
