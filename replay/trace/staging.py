"""Folders and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.errors import InputError
from replay.trace.place import make_beside, put, remove, tidy


def refuse_taken(path: Path, marker: str, force: bool) -> None:
    """Refuse a folder that is there and may not be replaced, or that cannot be made.

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
        The path is taken, or nothing can be written there.
    """
    tidy(path.resolve())
    taken = path.exists() or path.is_symlink()
    ours = (path / marker).is_file() or (path.is_dir() and not any(path.iterdir()))
    if taken and not force:
        advice = "name another folder" + (", or replace it with --force" if ours else "")
        raise InputError(f"{path}: exists already; {advice}")
    if taken and not ours:
        raise InputError(
            f"{path}: expected a folder with {marker} to replace; remove it yourself if it may go"
        )
    refuse_unwritable(path)


def refuse_file(path: Path, force: bool) -> None:
    """Refuse a file that is there and may not be replaced, or that cannot be made.

    Parameters
    ----------
    path : Path
        The file to make.
    force : bool
        Whether an old file may be replaced.

    Raises
    ------
    InputError
        The path is taken, or nothing can be written there.
    """
    _refuse_file(path, force)
    refuse_unwritable(path)


def _refuse_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path}: exists already and is a folder; name a file")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; name another file, or replace it with --force")


def refuse_unwritable(path: Path) -> None:
    """Refuse a place in which nothing can be made.

    Parameters
    ----------
    path : Path
        The file or folder to make.

    Raises
    ------
    InputError
        The nearest folder above that is there cannot be written to, or is a file.
    """
    above = path.resolve().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise InputError(f"{path}: {above} is a file, so nothing can be made in it; name another place")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(
            f"{path}: {above} cannot be written to; check the permissions, or name another place"
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
        Whether an old folder is replaced. It stays until the new one is whole, and is swapped for it in one step.

    Yields
    ------
    Path
        The folder to write into; it is gone when the block fails.

    Raises
    ------
    InputError
        The path is taken.
    """
    given, path = path, path.resolve()  # a link stays, what it names is replaced
    refuse_taken(given, marker, force)
    with _beside(path, True, given) as staged:
        yield staged
        staged.chmod(0o777 & ~_umask())
        put(staged, path, force)


@contextmanager
def staged_file(path: Path, force: bool = False) -> Iterator[Path]:
    """Give an empty file beside ``path`` to write into; it takes ``path``'s place when the block ends well.

    Parameters
    ----------
    path : Path
        The file to make.
    force : bool
        Whether an old file is replaced, in one step.

    Yields
    ------
    Path
        The file to write into; it is gone when the block fails.

    Raises
    ------
    InputError
        The path is taken.
    """
    _refuse_file(path, force)
    given, path = path, path.resolve()
    tidy(path)
    with _beside(path, False, given) as staged:
        yield staged
        staged.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        if force:
            os.replace(staged, path)
        else:
            put(staged, path, False)


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
    with staged_file(path, force) as staged, staged.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)


@contextmanager
def _beside(path: Path, folder: bool, given: Path) -> Iterator[Path]:
    """Hold what is written beside a place; a block that fails leaves nothing, not even the folders above."""
    made = _make_above(path.parent, given)
    try:
        staged, handle = make_beside(path, folder)
    except OSError as problem:
        _unmake(made)
        raise OSError(problem.errno, problem.strerror, str(given)) from None
    try:
        yield staged
        made = []
    except OSError as problem:
        raise _named(problem, staged, given) from problem
    finally:
        remove(staged)
        os.close(handle)
        _unmake(made)


def _make_above(folder: Path, given: Path) -> list[Path]:
    """Make the folders above a place; those that were made, the uppermost last."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for i, each in enumerate(reversed(missing)):
        try:
            each.mkdir(exist_ok=True)
        except OSError as problem:
            _unmake(missing[len(missing) - i :])
            raise OSError(problem.errno, problem.strerror, str(given)) from None
    return missing


def _unmake(folders: list[Path]) -> None:
    for each in folders:
        with contextlib.suppress(OSError):
            each.rmdir()


_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # what only a writer meets


def _named(problem: OSError, staged: Path, path: Path) -> OSError:
    """Let an error name the place instead of what lies beside it."""
    text, place = str(staged), str(path)
    if problem.errno is None:
        return OSError(str(problem).replace(text, place))
    reason = (problem.strerror or os.strerror(problem.errno)).replace(text, place)
    file = place if problem.errno in _WRITING else None
    if problem.filename is not None:
        file = os.fsdecode(problem.filename).replace(text, place)
    return OSError(problem.errno, reason, file)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
