"""The command line as a process: signals that end it, streams that a caller closed, memory that a caller limits."""

import contextlib
import io
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from replay.errors import ReplayError

ENDING = (signal.SIGTERM, signal.SIGHUP)
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP, signal.SIGKILL)
_HUNGER = (
    "allocate memory",
    "can't start new thread",
    "could not spawn threads",
    "failed to map segment",
    "memory allocation",
    "bad_alloc",
    "resource temporarily unavailable",
)
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
_LEAST = 2**30
"""Bytes that the libraries map before a command begins; with less some of them end the process, or wait forever."""
_NO_LIBRARIES = {"-h", "--help", "--version"}


class Terminated(BaseException):
    """A signal that asks the process to end: what is at work cleans up on its way out."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception while a command runs; one that is ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # once is enough: the way out is not to be broken off
        raise Terminated(number)

    before = {each: signal.getsignal(each) for each in ENDING}
    before = {each: old for each, old in before.items() if old is signal.SIG_DFL}
    for each in before:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


def streams() -> None:
    """Open the standard streams that a caller closed on nothing: else the next file would take their place.

    A name that is no text (another encoding's) is written with its bytes escaped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def memory_limit() -> int | None:
    """Bytes that the process may map, where a caller limits them (``ulimit -v``); None where not."""
    found = [resource.getrlimit(each)[0] for each in _LIMITS]
    limits = [each for each in found if each != resource.RLIM_INFINITY]
    return min(limits) if limits else None


def _libraries_silent() -> None:
    """Keep stderr for Python alone: a library without memory may print thousands of lines of its own."""
    with contextlib.suppress(OSError, ValueError):  # a stderr that is no file
        sys.stderr = open(os.dup(sys.stderr.fileno()), "w", 1, errors="backslashreplace")  # noqa: SIM115
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _limited(limit: int) -> str:
    """Name the limit as every answer to it does."""
    return f"the limit of {limit} bytes (ulimit -v)"


def starved(problem: BaseException) -> str:
    """Say so where an exception comes of too little memory, or may; else nothing.

    Where memory ends, libraries and Python itself raise whatever comes to hand (a ``ValueError`` of a syntax tree, an
    ``OSError`` without a number), and a file looks broken: under a limit no exception that nothing else explains is
    surely a defect of this program.
    """
    limit = memory_limit()
    hungry = isinstance(problem, MemoryError) or isinstance(problem.__context__, MemoryError)
    if limit is None:
        return "out of memory; replay fewer policies or capacities at once" if hungry else ""
    text = str(problem).lower()
    if hungry or any(each in text for each in _HUNGER):
        return f"out of memory under {_limited(limit)}; raise it, or replay less"
    if isinstance(problem, ReplayError) or (isinstance(problem, OSError) and problem.errno is not None):
        return ""
    return (
        f"out of memory, or a defect of this program, under {_limited(limit)}: "
        f"{type(problem).__name__}: {problem}; raise it, and report what stays"
    )


def out_of_bounds(problem: BaseException) -> str:
    """Name the user's policy files where a bounds check (``NUMBA_BOUNDSCHECK=1``) stopped a step; else nothing."""
    own = sys.modules.get("replay.evict.own")
    if own is None or not isinstance(problem, IndexError) or "out of bounds" not in str(problem):
        return ""
    return ", ".join(each.file for each in own.OWN.values())


def panicked(problem: BaseException) -> bool:
    """Whether a library written in Rust gave up: no ``Exception`` of Python's."""
    return type(problem).__name__ == "PanicException"


def within_limits(work: Callable[[], int], told: Callable[[str, int], int]) -> int:
    """Run the work; under a memory limit in a process of its own, as some libraries end theirs when memory does.

    Parameters
    ----------
    work : callable
        Gives the exit code.
    told : callable
        Prints a line and gives the exit code back.

    Returns
    -------
    int
        The work's exit code; 2 where memory ended it.
    """
    limit = memory_limit()
    if limit is None or not _NO_LIBRARIES.isdisjoint(sys.argv):
        return work()
    if limit < _LEAST:
        return told(
            f"out of memory: {_limited(limit)} is less than the {_LEAST} that libraries take before anything is "
            "replayed; raise it",
            2,
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each maps 32 MiB, and waits where it cannot
    listening, telling = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(listening)
        _libraries_silent()
        code = work()
        os.write(telling, b".")  # it was we who ended: a library that exits by itself says nothing
        if code:
            os._exit(code)  # without memory the libraries' own ways out may never end
        return code
    os.close(telling)

    def pass_on(number: int, _frame: Any) -> None:
        with contextlib.suppress(OSError):
            os.kill(child, number)

    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the child too
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(listening, False)  # a worker that outlives the child holds the other end
    try:
        done = os.read(listening, 1)
    except BlockingIOError:
        done = b""
    os.close(listening)
    if status >= 0 and done:
        return status
    if status >= 0 or -status in _CRASHES:
        how = f"a library exited with {status}" if status >= 0 else signal.Signals(-status).name
        return told(f"out of memory: {how} under {_limited(limit)}; raise it, or replay less", 2)
    return 128 - status
