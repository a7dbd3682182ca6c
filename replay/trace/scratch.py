"""Scratch folders among temporary files: gone with their maker, after ``kill -9`` with the next one of their kind.

They are made, locked and told to be nobody's like outputs under way (:mod:`replay.trace.place`):
``.replay-KIND.PID-RANDOM.partial``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.trace.place import clear, make_beside, remove


@contextmanager
def scratch(kind: str, within: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A scratch folder for the block; first, those that killed makers of the same kind left are removed.

    Parameters
    ----------
    kind : str
        What it is for.
    within : path, optional
        Where; among the system's temporary files by default.

    Yields
    ------
    Path
        An empty folder that only this user can read.
    """
    place = Path(within or tempfile.gettempdir()) / f"replay-{kind}"
    clear(place)
    folder, handle = make_beside(place, folder=True)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(handle)
