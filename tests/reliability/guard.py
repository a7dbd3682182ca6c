"""The bounds of one fuzzed execution: what it may raise, how long it may take, how much it may hold."""

import contextlib
import io
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replay.cli.table import shown
from replay.errors import InputError

SECONDS = 20  # one execution may take so long on a busy machine
MEMORY = 512 * 2**20  # bytes that one execution may add to the process's peak


class Hang(BaseException):
    """An execution that took too long."""


def _ring(*_: object) -> None:
    raise Hang(f"more than {SECONDS} s")


def _status(name: str) -> int:
    """A figure of this process in bytes: VmRSS, VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def attempt(act: Callable[[], Any]) -> tuple[str, str]:
    """Run once and say how it ended.

    Parameters
    ----------
    act : callable
        What to run.

    Returns
    -------
    tuple of str
        ``ok`` or ``refused``, with the message; or ``fault``, with what was wrong: another exception than
        InputError, no message, words on stdout or stderr, a warning, too long, or too much memory.
    """
    main = threading.current_thread() is threading.main_thread()
    measured, before = _reset_peak(), _status("VmRSS")
    said = io.StringIO()
    if main:
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
    start = time.monotonic()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("error")
            act()
        ending, text = "ok", ""
    except InputError as problem:
        ending, text = "refused", str(problem)
    except (Exception, Hang):
        ending, text = "fault", traceback.format_exc()
    finally:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
    if ending != "fault":
        grown = _status("VmHWM") - before if measured else 0
        if grown > MEMORY:
            return "fault", f"{grown >> 20} MiB more memory"
        if time.monotonic() - start > SECONDS:
            return "fault", f"{time.monotonic() - start:.0f} s"
        if said.getvalue():
            return "fault", f"said {said.getvalue()[:500]!r}"
        if ending == "refused" and not shown(" ".join(text.split("\n"))).strip():
            return "fault", "no message"
    return ending, text
