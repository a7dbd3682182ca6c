"""Where an output takes its place: beside it while it is made, swapped in at once, tidied after a kill.

What is being made lies beside its place as ``.NAME.PID-RANDOM.partial`` and is locked (``flock``) by its maker; a
killed maker loses the lock, so the next one into the same place knows what may go. Linux swaps old and new in one
step (``renameat2``). Where that is not possible the old one is kept aside as ``.. .old`` for the moment between
two renames, and put back by the next maker if that moment was the last.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from replay.errors import InputError

PARTIAL, ASIDE = ".partial", ".old"
_NOREPLACE, _EXCHANGE = 1, 2  # flags of renameat2
_HERE = -100  # AT_FDCWD
_LONGEST = 100  # bytes of a name that are kept as they are in a name beside it
_SETTLED = 10.0  # seconds after which a maker has surely locked what it made


def make_beside(path: Path, folder: bool) -> tuple[Path, int]:
    """Make what an output is written into, beside its place and locked.

    Parameters
    ----------
    path : Path
        The place.
    folder : bool
        Whether it is a folder, or a file.

    Returns
    -------
    Path
        An empty folder or file.
    int
        The descriptor that holds its lock; closing it gives the lock back.

    Raises
    ------
    OSError
        It cannot be made there; the place is named, not what is beside it.
    """
    prefix = f"{_prefix(path)}{os.getpid()}-"
    try:
        if folder:
            staged = tempfile.mkdtemp(prefix=prefix, suffix=PARTIAL, dir=path.parent)
            handle = os.open(staged, os.O_RDONLY)
        else:
            handle, staged = tempfile.mkstemp(prefix=prefix, suffix=PARTIAL, dir=path.parent)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(path)) from None
    with contextlib.suppress(
        OSError
    ):  # a file system without locks: leftovers there are told by the process only
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Path(staged), handle


def put(staged: Path, path: Path, force: bool) -> None:
    """Put what was made into its place, in one step.

    Parameters
    ----------
    staged : Path
        What :func:`make_beside` made, written whole.
    path : Path
        The place.
    force : bool
        Whether what is there is replaced; it is removed once the new one stands.

    Raises
    ------
    InputError
        The place is taken, by another run since this one began, and ``force`` is not given.
    """
    if force and _rename(staged, path, _EXCHANGE):
        remove(staged)
        return
    if force and path.exists():
        _put_aside(path, staged)
        return
    try:
        if not _rename(staged, path, _NOREPLACE):
            staged.rename(path)
    except OSError as problem:
        if problem.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR):
            raise InputError(
                f"{path}: exists already: it was made while this run was at work, and is kept; name another place, or "
                "replace it with --force"
            ) from None
        raise


def _put_aside(path: Path, staged: Path) -> None:
    """Keep the old one aside, locked, until the new one stands: the way of systems that cannot swap."""
    aside = staged.with_suffix(ASIDE)
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.rename(aside)
        try:
            staged.rename(path)
        except BaseException:
            aside.rename(path)
            raise
        remove(aside)
    finally:
        os.close(handle)


def tidy(path: Path) -> None:
    """Remove what killed makers left beside a place, and put back what one of them kept aside.

    Parameters
    ----------
    path : Path
        The place. Nothing beside it that a living maker holds is touched.
    """
    for left, maker in _beside(path, ASIDE):
        if _abandoned(left, maker):
            with contextlib.suppress(OSError):
                if path.exists() or path.is_symlink():
                    remove(left)
                else:
                    left.rename(path)
    for left, maker in _beside(path, PARTIAL):
        if _abandoned(left, maker):
            remove(left)


def clear(path: Path) -> None:
    """Remove folders of this user that killed makers left beside a place which nothing ever takes.

    Parameters
    ----------
    path : Path
        The place. Nothing that a living maker holds, or that is another user's, is touched.
    """
    for left, maker in _beside(path, PARTIAL):
        with contextlib.suppress(OSError):
            found = left.lstat()
            mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if mine and _abandoned(left, maker):
                remove(left)


def remove(path: Path) -> None:
    """Remove a file or a folder as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _prefix(path: Path) -> str:
    """The begin of names beside a place: a long name is cut, and told by its hash."""
    name = os.fsencode(path.name)
    if len(name) > _LONGEST:
        name = name[: _LONGEST - 20] + b"." + hashlib.sha256(name).hexdigest()[:16].encode()
    return f".{os.fsdecode(name)}."


def _beside(path: Path, suffix: str) -> Iterator[tuple[Path, int]]:
    """What lies beside a place, each with the process that made it."""
    prefix = _prefix(path)
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return
    for name in names:
        maker = _maker(name[len(prefix) :]) if name.startswith(prefix) else None
        if maker is not None and name.endswith(suffix):
            yield path.parent / name, maker


_MADE = re.compile(r"([0-9]{1,9})-[^.]+\.(?:partial|old)")


def _maker(rest: str) -> int | None:
    """The process in ``PID-RANDOM.partial``."""
    found = _MADE.fullmatch(rest)
    return None if found is None else int(found[1])


def _abandoned(left: Path, maker: int) -> bool:
    """Whether what lies beside a place is nobody's: nothing holds its lock, and its maker is gone or long past it.

    A maker locks at once what it made, so an unlocked thing of some age is not a living process's, even where one has
    the number of its maker.
    """
    try:
        handle = os.open(left, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(handle)
        old = time.time() - max(found.st_mtime, found.st_ctime) > _SETTLED
    except OSError:
        return False
    finally:
        os.close(handle)
    return old or not _lives(maker)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename with a flag of renameat2; False where the system cannot, or there is nothing to exchange with."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL) or (flag == _EXCHANGE and code == errno.ENOENT):
        return False
    raise OSError(code, os.strerror(code), str(target))
