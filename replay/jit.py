"""The one door to numba: compiled kernels whose cache follows the package's sources.

numba's own cache index watches the file of the cached function only; an edit in a file that the
function calls into leaves a stale result behind, and a changed bounds-check flag is ignored. Here every
kernel is cached in a folder named by a hash of all sources that kernels can depend on, numba's version and
its flags, so that an edit of any of them starts a fresh folder.

The decorators:

- ``kernel(signature)``: a driver, compiled at import with an explicit signature and cached on disk.
- ``loop(signature)``: the same for a driver that allocates nothing: compiled without reference counts.
- ``step``: an eviction step of signature ``STEP``; a first-class function that drivers take as argument. It allocates
  nothing.
- ``gate``: an admission gate of signature ``ASK``, likewise.
- ``inline``: a small function used inside kernels, compiled into its callers and not cached by itself.
- ``called``: a larger or rarer one, inlined only where the compiler sees fit (a copy at every call costs compile time).
  Not for a hot one that takes tuples of arrays: a call copies them word by word (lanes with read-ahead took a third
  longer).
- ``apart``: a function that allocates, called by a driver or an ``inline`` of one that does not.

``loop`` and ``step`` leave out Python's rule that -1 is the last element: no index there is negative.

Without reference counts and with inlining forced the event loop was two to six times faster: numba
counts references to every array of a tuple at every call that LLVM does not inline, atomically.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import config
from numba.core.errors import NumbaError
from numba.np import arrayobj

F = TypeVar("F", bound=Callable[..., Any])

_PIPELINE = ("Failed in", "No implementation of function", "During:")
"""How lines begin that tell where in the compiler an error came up, not what is wrong."""

FLAGS = ("BOUNDSCHECK", "DISABLE_JIT", "OPT", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "DEBUGINFO")
KEEP_DAYS = 30

MEMORY = types.Array(types.int64, 1, "C")
"""The arena's memory (see :mod:`replay.arena.record`): one flat int64 array that holds every record."""

STEP = types.int64(MEMORY, types.int64, types.int64)
"""Signature of an eviction step: ``step(memory, part, slot_or_key) -> int64``."""

STEP_TYPE = types.FunctionType(STEP)

REALS = types.Array(types.float64, 1, "C")
ASK = types.int64(types.int64, types.int64, types.int64, MEMORY, REALS)
"""Signature of a gate: ``ask(operation, at, reals_at, words, reals) -> int64`` (:mod:`replay.gate.admission`)."""

ASK_TYPE = types.FunctionType(ASK)


_IMPORT = re.compile(
    rb"^\s*(?:from\s+(replay[\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+(replay[\w.]*))", re.M
)


def kernel_sources() -> dict[str, bytes]:
    """Sources that compiled code can depend on: of the modules that import this one, and of all that those import.

    Returns
    -------
    dict of str to bytes
        By module name. Edits elsewhere (a chart, a command) leave compiled kernels as they are.

    Examples
    --------
    >>> found = kernel_sources()
    >>> "replay.engine.loop" in found, "replay.arena.record" in found, "replay.cli" in found
    (True, True, False)
    """
    root = Path(__file__).parent
    sources = {}
    for path in root.rglob("*.py"):
        name = ".".join((root.name, *path.relative_to(root).with_suffix("").parts))
        sources[name.removesuffix(".__init__")] = path.read_bytes()
    imports = {name: _imports(text, sources) for name, text in sources.items()}
    found = {__name__}
    waiting = [name for name, named in imports.items() if __name__ in named]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(imports[name])
    return {name: sources[name] for name in sorted(found)}


def _imports(text: bytes, known: Iterable[str]) -> set[str]:
    """Modules of this package that a source imports; the package itself, which only re-exports, left out."""
    named: set[str] = set()
    for outer, names, whole in _IMPORT.findall(text):
        module = (outer or whole).decode()
        named.update((module, *(f"{module}.{name}" for name in re.findall(r"\w+", names.decode()))))
    return (named & set(known)) - {__name__.partition(".")[0]}


def source_key() -> str:
    """Hash of everything a compiled kernel depends on: its sources, numba's version, flags.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for flag in FLAGS:
        digest.update(f"{flag}={getattr(config, flag, None)};".encode())
    for name, source in kernel_sources().items():
        digest.update(f"{name}={len(source)};".encode())
        digest.update(source)
    return digest.hexdigest()[:16]


def cache_folder() -> str | None:
    """Folder of this build's compiled kernels, made where needed; older builds are cleared.

    Returns
    -------
    str or None
        None where no folder can be written: kernels are then compiled anew in every process.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for parent in (Path(base) / "moe-replay", Path(tempfile.gettempdir()) / f"moe-replay-{_owner()}"):
        folder = parent / source_key()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        _clear_old(parent)
        return str(folder)
    return None


def _owner() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _clear_old(parent: Path) -> None:
    limit = time.time() - KEEP_DAYS * 86400
    for old in parent.iterdir():
        try:
            if old.stat().st_mtime < limit:
                shutil.rmtree(old, ignore_errors=True)
        except OSError:
            continue


_FOLDER = cache_folder()
_told = _FOLDER is not None and any(os.scandir(_FOLDER))
"""Whether there is nothing to say: kernels are there, or it was said."""


def _say_once() -> None:
    """Say that kernels are about to be compiled, which takes a while; goes to stderr where logging is not set up."""
    global _told
    if _told or config.DISABLE_JIT:
        return
    _told = True
    kept = (
        "once" if _FOLDER is not None else "anew in every process, as no folder can be written to keep them"
    )
    logging.getLogger("replay").warning("replay: compiling the kernels, %s: about 20 seconds", kept)


@contextmanager
def cached_as(key: str) -> Iterator[None]:
    """Cache what is compiled meanwhile in a folder of its own: a file that is no source of this package.

    Parameters
    ----------
    key : str
        Names the folder: a hash of what was compiled.
    """
    global _FOLDER
    saved = _FOLDER
    if saved is not None:
        _FOLDER = os.path.join(saved, key)
        os.makedirs(_FOLDER, exist_ok=True)
    try:
        yield
    finally:
        _FOLDER = saved


def copied(key: str, source: bytes) -> Path | None:
    """Lay a source beside what :func:`cached_as` keeps of it: the cache takes functions of files that are there only.

    Parameters
    ----------
    key : str
        As given to :func:`cached_as`.
    source : bytes

    Returns
    -------
    Path or None
        None where nothing is cached, and no file needed.
    """
    if _FOLDER is None:
        return None
    copy = Path(_FOLDER) / key / f"{key}.py"
    copy.parent.mkdir(exist_ok=True)
    handle, staged = tempfile.mkstemp(dir=copy.parent)
    with open(handle, "wb") as file:
        file.write(source)
    os.utime(staged, (0, 0))  # the cache compares times: every process's copy is the same
    os.replace(staged, copy)
    return copy


def kernel(signature: Any) -> Callable[[F], F]:
    """Compile with an explicit signature; cached on disk; runs without the interpreter lock."""
    return _compile(signature, no_cfunc_wrapper=True)


def loop(signature: Any) -> Callable[[F], F]:
    """Compile as ``kernel`` does, without reference counts and negative indices: the driver may not allocate."""
    compile_it = _compile(signature, no_cfunc_wrapper=True, _nrt=False)

    def decorate(function: F) -> F:
        with _no_negative_indices():
            return compile_it(function)

    return decorate


@contextmanager
def _no_negative_indices() -> Iterator[None]:
    """Compile without Python's rule for negative indices, three instructions at every access of the memory.

    numba has no option for it: what it calls to apply the rule is replaced meanwhile. Without that function all is
    the same, but slower.
    """
    saved = getattr(arrayobj, "fix_integer_index", None)

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    if saved is not None:
        arrayobj.fix_integer_index = as_it_is
    try:
        yield
    finally:
        if saved is not None:
            arrayobj.fix_integer_index = saved


def _compile(signature: Any, **options: bool) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        _say_once()
        saved = config.CACHE_DIR
        config.CACHE_DIR = _FOLDER or ""
        try:
            compiled: F = numba.njit(signature, cache=_FOLDER is not None, nogil=True, **options)(function)
        finally:
            config.CACHE_DIR = saved
        return compiled

    return decorate


def step(function: F) -> F:
    """Compile an eviction step of signature ``STEP``: it may not allocate, nor use negative indices."""
    with _no_negative_indices():
        return _compile(STEP, _nrt=False)(function)


def gate(function: F) -> F:
    """Compile a gate of signature ``ASK``: it may not allocate, nor use negative indices."""
    with _no_negative_indices():
        return _compile(ASK, _nrt=False)(function)


def is_step(function: Any) -> bool:
    """Whether a function is what ``step`` makes; with the compiler off every function may be."""
    if config.DISABLE_JIT:
        return callable(function)
    return getattr(function, "nopython_signatures", None) == [STEP]


def inline(function: F) -> F:
    """Compile a function that only kernels call; it becomes part of its callers, reference counts or not."""
    compiled: F = numba.njit(nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    return compiled


def called(function: F) -> F:
    """Compile a function that only kernels call, reference counts or not as its caller."""
    compiled: F = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


def apart(function: F) -> F:
    """Compile a function that allocates, for callers that do not."""
    compiled: F = numba.njit(nogil=True, _nrt=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


def compile_error(problem: BaseException, file: str) -> tuple[int | None, str] | None:
    """Line of a file and reason of a compiler's error; None where the compiler is not what failed.

    Parameters
    ----------
    problem : BaseException
        What compiling raised.
    file : str
        The file as its code objects name it.

    Returns
    -------
    tuple of int or None and str, or None
        The line where it is known, and one line of text.
    """
    if not isinstance(problem, NumbaError):
        return None
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(problem))
    name = re.escape(os.path.basename(file))
    lines = re.findall(rf'File "[^"]*?{name}", line (\d+)', text) + re.findall(rf"{name} \((\d+)\)", text)
    told = (each.strip() for each in text.splitlines())
    reason = next((each for each in told if each and not each.startswith(_PIPELINE)), type(problem).__name__)
    return (int(lines[-1]) if lines else None), reason
