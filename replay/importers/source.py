"""The file that an importer reads."""

from __future__ import annotations

from pathlib import Path

from replay.errors import InputError


def expect_file(path: Path) -> None:
    """Refuse what is no file.

    Parameters
    ----------
    path : Path
        What was given.

    Raises
    ------
    InputError
        A folder, or nothing there.
    """
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        raise InputError(f"{path}: expected a file, found {found}; check the path")
