"""Faults of the machine: a full disk, a read-only one, no permission, inputs that vanish or shrink, too little memory.

Each answer is one clear line and exit code 2; nothing is left at the output's place or beside it, an old result stays.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from unittest import mock

from reliability.bad import Answer, run
from reliability.section import Section

NOBODY = 65534
KIB = 1024
SECONDS = 120
"""How long a command under a limit may take."""
BESIDE = "out"


class Skipped(Exception):
    """The machine does not allow this fault to be made."""


@dataclass(frozen=True)
class Inputs:
    """What the commands read: a trace, it as lines, and a run; readable for everyone."""

    trace: Path
    lines: Path
    folder: Path


@contextlib.contextmanager
def inputs() -> Iterator[Inputs]:
    """Make the inputs in a folder that everyone can enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = run(["synth", folder / "trace", "--layers", 4, "--experts", 16, "--top-k", 2, "--sessions", 2,
                    "--windows", 400])  # fmt: skip
        assert made.code == 0, made.err
        assert run(["export", "jsonl", folder / "trace", folder / "t.jsonl"]).code == 0
        yield Inputs(folder / "trace", folder / "t.jsonl", folder)


def commands(given: Inputs, out: Path) -> dict[str, list[object]]:
    """Every kind of command that writes, with its output."""
    plain = ["--slots", 20, "--no-curves", "--no-clock", "-q", "--out", out]
    return {
        "compare": ["compare", given.trace, "-p", "none+lru", *plain],
        "curves": ["curves", given.trace, "-p", "lru", "-q", "--out", out],
        "cut": ["cut", given.trace, out, "--windows", 300],
        "import": ["import", "jsonl", given.lines, out, "-q"],
        "export": ["export", "jsonl", given.trace, out],
        "synth": ["synth", out, "--layers", 4, "--experts", 16, "--top-k", 2, "--sessions", 2, "--windows", 400],
        "schema": ["schema", "--write", out],
    }  # fmt: skip


def judged(answer: Answer, words: tuple[str, ...], place: Path, old: bool = False) -> list[str]:
    """What is wrong with the answer to a fault, and with what is left."""
    wrong = []
    if answer.code != 2:
        wrong.append(f"exit code {answer.code}")
    lines = answer.err.strip().splitlines() or [""]
    if not lines[-1].startswith("replay: error: ") or "Traceback" in answer.err or ".partial" in lines[-1]:
        wrong.append(f"no clear line: {answer.err[-600:]!r}")
    elif not any(word in lines[-1] for word in words):
        wrong.append(f"the line lacks {words}: {lines[-1]}")
    left = (
        [path.name for path in place.parent.iterdir() if BESIDE in path.name] if place.parent.is_dir() else []
    )
    if left and not old:
        wrong.append(f"left: {left}")
    return wrong


@contextlib.contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """A small file system of its own, or Skipped where that is not allowed."""
    if which("mount") is None:
        raise Skipped("there is no mount")
    place = folder / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        place.rmdir()
        raise Skipped("mount is not allowed")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)
        place.rmdir()


def full_disk(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """A disk that has room for nothing, for a little, for nearly everything."""
    for size in (4, 16, 64):
        with disk(given.folder, f"size={size}k") as place:
            for name, command in commands(given, place / BESIDE).items():
                answer = run(command)
                if answer.code == 0:  # it was small enough: then it is whole, and goes
                    subprocess.run(["rm", "-rf", place / BESIDE], check=True)
                    continue
                yield f"{name}, {size} KiB", judged(answer, ("No space left", "os error 28"), place / BESIDE)


def limited_file(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """A process whose files may not grow beyond a size."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 * KIB, 10 * KIB))

    for name in ("cut", "import", "export"):
        out = given.folder / BESIDE
        answer = started(commands(given, out)[name], limit)
        yield name, judged(answer, ("File too large",), out)


def started(command: list[object], limit: Callable[[], None]) -> Answer:
    """Run a command in a process of its own under a limit."""
    words = [sys.executable, "-m", "replay", *map(str, command)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, preexec_fn=limit, errors="replace", start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = "", f"does not end in {SECONDS} s"
    return Answer(process.returncode, out, err)


def read_only(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """An output on a disk that is mounted read-only."""
    with disk(given.folder, "size=64k,ro") as place:
        for name, command in commands(given, place / BESIDE).items():
            yield name, judged(run(command), ("cannot be written to", "Read-only"), place / BESIDE)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Do something as a user without rights; a user without rights does it as he is."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def no_permission(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """An output where this user may not write, and inputs that he may not read."""
    for command in commands(
        given, given.folder / BESIDE
    ).values():  # load what is loaded late while all is allowed
        run(command)
        subprocess.run(["rm", "-rf", given.folder / BESIDE], check=True)
    place = given.folder / "closed"
    place.mkdir(mode=0o755)
    if os.geteuid() != 0:
        place.chmod(0o555)
    for name, command in commands(given, place / BESIDE).items():
        with as_nobody():
            answer = run(command)
        yield f"{name}: output", judged(answer, ("cannot be written to", "Permission denied"), place / BESIDE)
    place.chmod(0o777)
    for file in ("trace.json", "selections.parquet"):
        (given.trace / file).chmod(0)
        for name in ("compare", "cut", "export"):
            with as_nobody():
                answer = run(commands(given, place / BESIDE)[name])
            yield f"{name}: {file}", judged(answer, ("Permission denied",), place / BESIDE)
        (given.trace / file).chmod(0o644)
    given.lines.chmod(0)
    with as_nobody():
        answer = run(commands(given, place / BESIDE)["import"])
    yield "import: source", judged(answer, ("Permission denied",), place / BESIDE)
    given.lines.chmod(0o644)


def changed_input(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """A table that vanishes, shrinks or changes after the trace was opened and checked."""
    import replay.trace

    file = given.trace / "selections.parquet"
    whole, real = file.read_bytes(), replay.trace.open_trace
    middle = len(whole) // 2
    damages: dict[str, Callable[[], object]] = {
        "vanished": file.unlink,
        "cut in half": lambda: os.truncate(file, middle),
        "cut to nothing": lambda: os.truncate(file, 0),
        "overwritten": lambda: file.write_bytes(whole[:100] + b"\0" * (len(whole) - 1100) + whole[-1000:]),
    }
    for what, damage in damages.items():
        for name in ("compare", "cut", "export"):

            def opened(path: object, verify: bool = True, damage: Callable[[], object] = damage) -> object:
                trace = real(path, verify)  # type: ignore[arg-type]
                damage()
                return trace

            out = given.folder / BESIDE
            with mock.patch("replay.trace.open_trace", opened):
                answer = run(commands(given, out)[name])
            yield f"{name}: {what}", judged(answer, ("selections.parquet",), out)
            file.write_bytes(whole)


MEMORY = (700, 1030, 1400, 1800)
"""MiB of address space: too little for the libraries, and little."""


def little_memory(given: Inputs) -> Iterator[tuple[str, list[str]]]:
    """A process that may map little memory: it works, or says so."""
    out = given.folder / BESIDE
    for size in MEMORY:

        def limit(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20))

        answer = started(commands(given, out)["compare"], limit)
        if answer.code == 0:
            subprocess.run(["rm", "-rf", out], check=True)
            yield f"{size} MiB (enough)", []
            continue
        run(commands(given, out)["cut"])  # any run into the place tidies what a crash left
        subprocess.run(["rm", "-rf", out], check=True)
        yield f"{size} MiB", judged(answer, ("out of memory",), out)


FAULTS: dict[str, Callable[[Inputs], Iterator[tuple[str, list[str]]]]] = {
    "disk full": full_disk,
    "file size limited": limited_file,
    "output read-only": read_only,
    "permission denied": no_permission,
    "input changed while read": changed_input,
    "memory limited": little_memory,
}


def meet(name: str) -> tuple[Counter[str], list[str]]:
    """Make one kind of fault; how many cases were answered well, and what was wrong with the others."""
    counts: Counter[str] = Counter()
    wrong = []
    with inputs() as given:
        try:
            for case, found in FAULTS[name](given):
                counts["met"] += 1
                counts["held"] += not found
                wrong += [f"{name}: {case}: {each}" for each in found]
        except Skipped as reason:
            counts["skipped"] += 1
            print(f"{name}: skipped: {reason}", file=sys.stderr)
    return counts, wrong


def measure(scale: float) -> Section:
    """Meet every fault; ``scale`` plays no part."""
    rows, wrong = [], []
    for name in FAULTS:
        counts, found = meet(name)
        wrong += found
        held = f"{counts['held']} of {counts['met']}"
        rows.append((name, "not possible on this machine" if counts["skipped"] else held))
    about = (
        "Each fault against the commands that write. Held: exit code 2, one clear line, nothing at the output's place "
        "or beside it."
    )
    return Section("Faults of the machine", about, ("fault", "held"), rows, wrong)
