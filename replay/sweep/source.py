"""Where a sweep's traces are: local folders as they are, anything else that fsspec reads fetched once.

A trace is its ``trace.json`` and the tables that it names: these files are copied, nothing is listed. Whether what
came is what was recorded is checked where every trace is checked, by the hashes in ``trace.json``.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from replay.errors import InputError
from replay.trace.failure import refuse
from replay.trace.fields import FILE
from replay.trace.meta import read_meta, table_path


def is_url(text: str) -> bool:
    """Whether a trace is named by a URL, not by a path.

    Examples
    --------
    >>> is_url("memory://e64"), is_url("traces/e64-moce")
    (True, False)
    """
    return "://" in text


def local_folder(text: str, into: Path) -> Path:
    """A local folder with a trace.

    Parameters
    ----------
    text : str
        A path, or a URL that fsspec reads (``file://``, ``memory://``, and others where their package is installed).
    into : Path
        A folder of our own, where what is not local is copied to.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        fsspec is not installed, does not know the protocol, or a file cannot be read.
    """
    if not is_url(text):
        return Path(text)
    system, root = _system(text)
    if "file" in ([system.protocol] if isinstance(system.protocol, str) else system.protocol):
        return Path(root)
    into.mkdir(parents=True, exist_ok=True)
    _copy(system, text, root, PurePosixPath(FILE), into / FILE)
    meta = read_meta(into, refuse)
    assert meta is not None
    for entry in meta.tables.values():
        path = table_path(into, entry.file)
        if path is None:
            raise InputError(f"{text}: table {entry.name}: its file {entry.file!r} leads out of the trace")
        path.parent.mkdir(parents=True, exist_ok=True)
        _copy(system, text, root, PurePosixPath(entry.file), path)
    return into


def _system(text: str) -> tuple[Any, str]:
    """The filesystem of a URL, and the path on it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InputError(
            f"{text}: a URL needs fsspec; install the extra: pip install 'moe-replay[sweep]'"
        ) from None
    try:
        system, root = url_to_fs(text)
    except (
        Exception
    ) as problem:  # each filesystem raises its own: unknown protocol, missing package, bad options
        raise _unreadable(text, problem) from None
    return system, str(root)


def _copy(system: Any, text: str, root: str, name: PurePosixPath, to: Path) -> None:
    """Copy one file, piece by piece."""
    try:
        with system.open(f"{root.rstrip('/')}/{name}", "rb") as source, to.open("wb") as sink:
            shutil.copyfileobj(source, sink, 2**22)
    except FileNotFoundError:
        raise InputError(f"{text}: expected a trace, found no {name} there; check the URL") from None
    except Exception as problem:  # each filesystem raises its own: refused, timed out, ..
        raise _unreadable(f"{text}/{name}", problem) from None


def _unreadable(where: str, problem: Exception) -> InputError:
    reason = " ".join(str(problem).split()) or type(problem).__name__
    return InputError(f"{where}: cannot be read ({reason[:200]}); check the URL and what it needs")
