"""Folders and files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.errors import InputError


def refuse_taken(path: Path, marker: str, force: bool) -> None:
    """Refuse a folder that is there and may not be replaced.

    Parameters
    ----------
    path : Path
        The folder to make.
    marker : str
        A file that a folder has to hold so that it may be replaced.
    force : bool
        Whether an old folder may be replaced.

    Raises
    ------
    InputError
        The path is taken.
    """
    taken = path.exists() or path.is_symlink()
    if taken and not force:
        raise InputError(f"{path}: exists already; name another folder, or replace it with --force")
    if taken and not (path / marker).is_file() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(
            f"{path}: expected a folder with {marker} to replace; remove it yourself if it may go"
        )


@contextmanager
def staged_folder(path: Path, marker: str, force: bool = False) -> Iterator[Path]:
    """Give a folder beside ``path`` to write into; it takes ``path``'s place when the block ends well.

    Parameters
    ----------
    path : Path
        The folder to make.
    marker : str
        A file that a folder has to hold so that it may be replaced.
    force : bool
        Whether an old folder is replaced. It stays until the new one is whole.

    Yields
    ------
    Path
        The folder to write into; it is gone when the block fails.

    Raises
    ------
    InputError
        The path is taken.
    """
    path = path.resolve()  # a link stays, what it names is replaced
    refuse_taken(path, marker, force)
    taken = path.exists() or path.is_symlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        yield staged
        staged.chmod(0o777 & ~_umask())
        if taken:
            old = staged.with_suffix(".old")
            path.rename(old)
            staged.rename(path)
            shutil.rmtree(old)
        else:
            staged.rename(path)
    finally:
        if staged.exists():
            shutil.rmtree(staged, ignore_errors=True)


def write_text(path: Path, text: str, force: bool = False) -> None:
    """Write a text file whole or not at all.

    Parameters
    ----------
    path : Path
        The file to make.
    text : str
        What goes into it.
    force : bool
        Whether an old file is replaced.

    Raises
    ------
    InputError
        The path is taken.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; name another file, or replace it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, staged = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(staged, 0o666 & ~_umask())
        os.replace(staged, path)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
