"""A bad input: how it is made, which command meets it, and what the answer has to be.

The answer to every bad input is exit code 2, one line on stderr that names what is wrong, nothing on stdout, no
traceback, and no file that was not there before.
"""

import atexit
import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OUT = "out"  # what a command of a case may name as its output, in the case's folder

Make = Callable[[Path], list[object]]


@dataclass(frozen=True)
class Bad:
    """One bad input.

    Attributes
    ----------
    name : str
        Unique within its kind.
    kind : str
        What is damaged: ``trace``, ``spec``, ``budget``, ``clock``, ``import jsonl`` ..
    make : callable
        Writes the input into a folder and returns the command line that meets it.
    words : tuple of str
        What the line has to say.
    """

    name: str
    kind: str
    make: Make
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a command did: exit code, and its two streams."""

    code: int
    out: str
    err: str


@cache
def kept() -> Path:
    """A folder for what is made once; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="replay-kept.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def run(arguments: list[object]) -> Answer:
    """Run ``replay ARGUMENTS`` in this process."""
    from replay.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(each) for each in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


def tree(folder: Path) -> dict[str, int]:
    """Every path below a folder, links as they are, with its size."""
    return {str(path.relative_to(folder)): path.lstat().st_size for path in folder.rglob("*")}


def faults(case: Bad, folder: Path) -> list[str]:
    """Run a case in an empty folder and say what is wrong with the answer.

    Parameters
    ----------
    case : Bad
        The bad input.
    folder : Path
        An empty folder for it.

    Returns
    -------
    list of str
        Empty where it was refused as it has to be.
    """
    arguments = case.make(folder)
    before = tree(folder)
    answer = run(arguments)
    wrong = []
    if answer.code != 2:
        wrong.append(f"exit code {answer.code}")
    if answer.out:
        wrong.append(f"stdout: {answer.out[:200]!r}")
    if not answer.err.startswith("replay: error: ") or answer.err.count("\n") != 1:
        wrong.append(f"stderr is not one line of an error: {answer.err[-1500:]}")
    elif not answer.err.strip().isprintable():
        wrong.append(f"stderr is not printable: {answer.err!r}")
    elif len(answer.err) > 1000:
        wrong.append(f"stderr is {len(answer.err)} characters long")
    wrong += [f"stderr lacks {word!r}: {answer.err.strip()}" for word in case.words if word not in answer.err]
    after = tree(folder)
    wrong += [f"left behind or changed: {name}" for name in after if before.get(name) != after[name]]
    wrong += [f"gone: {name}" for name in before if name not in after]
    return wrong
