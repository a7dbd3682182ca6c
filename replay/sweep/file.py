"""Files that a study's policies play with: part of what names a cell, and sent to whoever plays it.

A spec names files by options (what a gate was calibrated to, what ``static`` learned from), the command line by
``--policy-file``. Each is read once, when the study is planned: what happens to it afterwards changes no cell. Workers
get the content, so that nothing has to lie on their machines; but a trace to learn from, and a file larger than
:data:`MOST_SENT`, must, and are held against their hashes there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from replay.comparison.provenance import OPTIONS
from replay.errors import InputError
from replay.evict.own import OWN, add_source
from replay.spec.grammar import Part, PolicySpec, names
from replay.trace.fields import FILE as TRACE_FILE

MOST_SENT = 16 << 20
"""Bytes of the largest file that is sent along."""

_NAMING = (*OPTIONS, "train")
"""Options whose value must be a file, or a trace; another option's may be one."""


@dataclass(frozen=True)
class File:
    """A file as it was when the study was planned.

    Attributes
    ----------
    name : str
        What the spec, or the command line, calls it.
    place : str
        Where it was.
    sha256 : str
        Hash of its bytes; of a trace, that of its trace.json.
    content : bytes or None
        None: it is not sent.
    policy : bool
        Whether it is a policy file (code that is run), not data.
    """

    name: str
    place: str
    sha256: str
    content: bytes | None
    policy: bool = False


def document_hash(document: Mapping[str, object]) -> str:
    """Name what a JSON document holds, whitespace and order of keys aside.

    Parameters
    ----------
    document : mapping

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def files_in(spec: PolicySpec, find: Callable[[str], Path] = Path) -> list[File]:
    """Files that a spec plays with: those that its options name, then its policy file.

    Parameters
    ----------
    spec : PolicySpec
    find : callable
        Where a path of the study leads to.

    Raises
    ------
    InputError
        An option that must name a file names none, or one that cannot be read.
    """
    found = []
    for part in spec.parts:
        for option, value in part.options.items():
            if isinstance(value, str) and "\0" not in value:
                file = _file(value, find(value))
                if file is not None:
                    found.append(file)
                elif option in _NAMING and not value.startswith("sessions/"):
                    raise InputError(
                        f"policy {spec.text}: {part.name}: {option}={value}: nothing is there; give a path from the "
                        "study file's folder or the current one"
                    )
    own = OWN.get(spec.evict.name)
    if own is not None:
        found.append(File(own.file, str(Path(own.file).resolve()), own.sha256, own.source, policy=True))
    return found


def _file(name: str, path: Path) -> File | None:
    """Read what lies at a path; None where nothing does."""
    inside = path / TRACE_FILE if path.is_dir() else path
    if not inside.is_file():
        return None
    try:
        content = inside.read_bytes()
        if inside.name == TRACE_FILE:
            return File(name, str(path.resolve()), document_hash(json.loads(content)), None)
    except OSError as problem:
        raise InputError(f"{inside}: {problem.strerror}; it is named by a policy") from None
    except (ValueError, RecursionError, AttributeError):
        raise InputError(f"{inside}: no JSON, though a policy is to learn from this trace") from None
    sent = content if len(content) <= MOST_SENT else None
    return File(name, str(path.resolve()), hashlib.sha256(content).hexdigest(), sent)


def lay_out(files: Iterable[File], scratch: Callable[[], Path]) -> dict[str, str]:
    """Make some files known to this process.

    Parameters
    ----------
    files : iterable of File
        Policy files are added to the registry, in the place of others of that name.
    scratch : callable
        Gives a folder of our own: what is not here as it was is written there.

    Returns
    -------
    dict of str to str
        Where each file of data is, by its name.

    Raises
    ------
    InputError
        One that is not sent is not here, or a policy file cannot be run here.
    """
    places = {}
    for file in files:
        if file.policy:
            add_source(file.name, file.content or b"", names())
            continue
        here = _file(file.name, Path(file.place))
        if here is not None and here.sha256 == file.sha256:
            places[file.name] = file.place
        elif file.content is None:
            what = "another one" if here is not None else "missing"
            raise InputError(
                f"{file.place}: {what} on this machine; a trace to learn from, or a file above "
                f"{MOST_SENT >> 20} MiB, must lie there as the sweep was planned with it"
            )
        else:
            copy = scratch() / file.sha256[:16] / Path(file.place).name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.content)
            places[file.name] = str(copy)
    return places


def at_places(spec: PolicySpec, places: Mapping[str, str]) -> PolicySpec:
    """A spec whose options name files where they are.

    Parameters
    ----------
    spec : PolicySpec
    places : mapping of str to str
        What :func:`lay_out` gave.

    Returns
    -------
    PolicySpec
        Its text is as before.
    """

    def at(part: Part) -> Part:
        return Part(
            part.name, {k: places.get(v, v) if isinstance(v, str) else v for k, v in part.options.items()}
        )

    return replace(
        spec, read_ahead=at(spec.read_ahead), evict=at(spec.evict), gates=tuple(map(at, spec.gates))
    )
