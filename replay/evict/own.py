"""A user's own eviction policy: one Python file that adds a name to the registry (``--policy-file``).

The file is what any file of this folder is (see :mod:`replay.evict`): a declaration ``POLICY`` and the steps. It is
run as Python when it is added, so it can do what its author can. The event loop takes its steps as functions and is
not compiled again; the steps are cached on disk by a hash of the file. What the file imports from other modules of
the user's is not watched: a changed inline function there needs a change of the file.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from replay import evict
from replay.declare.policy import Policy
from replay.errors import InputError

OWN: dict[str, OwnFile] = {}
"""Policies added so far, by name."""

_NAME = re.compile(r"[a-z][a-z0-9]*([_.-][a-z0-9]+)*")


@dataclass(frozen=True)
class OwnFile:
    """A policy file that was added.

    Attributes
    ----------
    file : str
        Its path as given.
    sha256 : str
        Hash of its bytes.
    source : bytes
        What was run: the file may have changed since.
    """

    file: str
    sha256: str
    source: bytes = field(repr=False)


def add_files(paths: Iterable[Path], known: Iterable[str]) -> list[str]:
    """Add policies from files; a file that was added before, unchanged, is not read again.

    Parameters
    ----------
    paths : iterable of Path
        Python files, one policy each.
    known : iterable of str
        Names that specs know already, of every kind of part.

    Returns
    -------
    list of str
        The policies' names, in the order given.

    Raises
    ------
    InputError
        A file that is missing, no Python, or no policy; a step that does not compile; a name that is taken.
    """
    taken = set(known)
    return [_add(path, taken - set(OWN)) for path in paths]


def add_source(file: str, source: bytes, known: Iterable[str]) -> str:
    """Add a policy from a file's content, in the place of another content that gave the same name before.

    Parameters
    ----------
    file : str
        Its path where it was read, which messages name.
    source : bytes
    known : iterable of str
        Names that specs know already.

    Returns
    -------
    str
        The policy's name.

    Raises
    ------
    InputError
        As :func:`add_files`.
    """
    return _added(Path(file), source, set(known) - set(OWN), replace=True)


def files_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Where the policies among some names come from that are a user's own: file and hash by name."""
    own = {name: OWN[name] for name in dict.fromkeys(names) if name in OWN}
    return {name: {"file": each.file, "sha256": each.sha256} for name, each in own.items()}


def _add(path: Path, taken: set[str]) -> str:
    try:
        source = path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}; give a Python file that holds a policy") from None
    return _added(path, source, taken, replace=False)


def _added(path: Path, source: bytes, taken: set[str], replace: bool) -> str:
    digest = hashlib.sha256(source).hexdigest()
    for name, own in OWN.items():
        if own.sha256 == digest:
            return name
    module = _run(path, source, f"replay_own_{digest[:16]}")
    policy = _checked(path, module)
    if policy.name in taken or (policy.name in OWN and not replace):
        other = f"by {OWN[policy.name].file}" if policy.name in OWN else "by a policy of this program"
        raise InputError(
            f"{path}: the name {policy.name!r} is taken {other}; give POLICY another (such as my-{policy.name})"
        )
    evict.POLICIES[policy.name] = module.__name__
    OWN[policy.name] = OwnFile(str(path), digest, source)
    return policy.name


def _run(path: Path, source: bytes, name: str) -> ModuleType:
    """Run the file as a module of its own; its steps are compiled on the way."""
    from replay.jit import cached_as

    spec = spec_from_loader(name, None, origin=str(path))
    assert spec is not None
    module = module_from_spec(spec)
    module.__file__ = str(_lying(path, source, name))
    try:
        code = compile(source, module.__file__, "exec")
    except SyntaxError as problem:
        raise InputError(f"{path}: line {problem.lineno}: not Python ({problem.msg})") from None
    except ValueError as problem:
        raise InputError(f"{path}: not Python ({problem})") from None
    sys.modules[name] = module  # where the cache looks for what the steps refer to
    try:
        with cached_as(name):
            exec(code, module.__dict__)  # noqa: S102 (the file that the user names with --policy-file)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as problem:
        del sys.modules[name]
        raise InputError(f"{path}: {_told(problem, module.__file__)}") from None
    return module


def _lying(path: Path, source: bytes, name: str) -> Path:
    """Where the source lies as a file: where it was read, or elsewhere in a copy."""
    from replay.jit import copied

    with suppress(OSError):
        if path.read_bytes() == source:
            return path.resolve()
    return copied(name, source) or path


def _told(problem: BaseException, file: str) -> str:
    """One line on what running the file raised: where in it, and what."""
    from replay.jit import compile_error

    found = compile_error(problem, file)
    lines = [each.lineno for each in traceback.extract_tb(problem.__traceback__) if each.filename == file]
    if found is not None:
        line = found[0] or (lines[-1] if lines else None)
        text = f"a step does not compile: {found[1]}"
    else:
        line = lines[-1] if lines else None
        reason = " ".join(str(problem).split()) or "no reason given"
        text = f"{type(problem).__name__}: {reason}"
    text = text if len(text) <= 300 else text[:297] + "..."
    return f"line {line}: {text}" if line else text


def _checked(path: Path, module: Any) -> Policy:
    """Check that a module is a policy, and return its declaration."""
    from replay.jit import is_step

    policy = getattr(module, "POLICY", None)
    if not isinstance(policy, Policy):
        raise InputError(f'{path}: holds no POLICY; write POLICY = Policy(name=.., kind="evict", ..)')
    if policy.kind != "evict":
        raise InputError(
            f"{path}: POLICY.kind is {policy.kind!r}; a policy file adds eviction policies (evict)"
        )
    if not isinstance(policy.name, str) or not _NAME.fullmatch(policy.name):
        raise InputError(f"{path}: POLICY.name is {policy.name!r}; expected a word such as my-policy")
    lacking = [each for each in evict.STEPS if not hasattr(module, each)]
    if lacking:
        raise InputError(
            f"{path}: lacks the step {', '.join(lacking)}; a policy has {', '.join(evict.STEPS)}"
        )
    for name in evict.STEPS:
        if not is_step(getattr(module, name)):
            raise InputError(f"{path}: {name} is no step; write @step (replay.jit) above def {name}(m, p, s)")
    return policy
