"""Outputs appear whole or not at all, whatever ends the program, and what a killed one left is tidied."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replay.errors import InputError
from replay.trace import place
from replay.trace.scratch import scratch
from replay.trace.staging import refuse_taken, staged_file, staged_folder, write_text

MARK = "run.json"


def fill(folder: Path, text: str) -> None:
    (folder / MARK).write_text(text)


def made(path: Path, text: str, force: bool = False) -> None:
    with staged_folder(path, MARK, force) as staged:
        fill(staged, text)


def hidden(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.startswith("."))


def child(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Run a script that prints a line when it is where it is to be killed."""
    head = "import sys, os, time\nfrom pathlib import Path\nfrom replay.trace.staging import *\n"
    run = [sys.executable, "-c", head + script, *map(str, arguments)]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"there\n"
    return process


def killed(script: str, *arguments: object) -> None:
    process = child(script, *arguments)
    process.kill()
    process.communicate(timeout=10)


HANG = """
with staged_folder(Path(sys.argv[1]), "run.json", len(sys.argv) > 2) as staged:
    (staged / "run.json").write_text("half")
    print("there", flush=True); time.sleep(60)
"""


@pytest.mark.parametrize("swaps", [True, False], ids=["swap", "aside"])
def test_force_replaces_in_one_step(swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not swaps:
        monkeypatch.setattr(place, "_rename", lambda *_: False)
    path = tmp_path / "run"
    made(path, "one")
    with pytest.raises(InputError, match="exists already"):
        made(path, "two")
    made(path, "two", force=True)
    assert (path / MARK).read_text() == "two" and hidden(tmp_path) == []
    made(tmp_path / "new", "three", force=True)
    assert (tmp_path / "new" / MARK).read_text() == "three" and hidden(tmp_path) == []


def test_a_killed_makers_leftover_goes_and_a_living_ones_stays(tmp_path: Path) -> None:
    path = tmp_path / "run"
    killed(HANG, path)
    assert len(hidden(tmp_path)) == 1 and not path.exists()
    living = child(HANG, path)
    try:
        made(path, "whole")
        assert (path / MARK).read_text() == "whole" and len(hidden(tmp_path)) == 1, (
            "only the living one's is left"
        )
    finally:
        living.kill()
        living.communicate(timeout=10)
    refuse_taken(path, MARK, True)
    assert hidden(tmp_path) == [] and (path / MARK).read_text() == "whole"


def test_a_leftover_of_a_number_that_lives_again_goes_when_it_is_old(tmp_path: Path) -> None:
    mine = tmp_path / f".run.{os.getpid()}-abc.partial"
    mine.mkdir()
    place.tidy(tmp_path / "run")
    assert mine.exists(), "a living process may be about to lock it"
    old = time.time() - 100
    os.utime(mine, (old, old))
    # ctime cannot be set: what the clock says is moved instead
    real = time.time
    place.time.time = lambda: real() + 100  # type: ignore[assignment]
    try:
        place.tidy(tmp_path / "run")
    finally:
        place.time.time = real  # type: ignore[assignment]
    assert not mine.exists()


@pytest.mark.parametrize(
    "name", ["other", ".run.partial", ".run.x-1.partial", ".run.5-a.7-b.partial", ".runs.9-a.partial"]
)
def test_what_is_not_ours_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    place.tidy(tmp_path / "run")
    assert (tmp_path / name).exists()


def test_the_old_one_comes_back_where_a_kill_came_between_two_renames(tmp_path: Path) -> None:
    """Systems without a swap keep the old one aside for a moment; a kill in it loses nothing."""
    path = tmp_path / "run"
    made(path, "old")
    script = """
import replay.trace.place as place
place._rename = lambda *_: False
real = Path.rename
def rename(self, target):
    if self.name.endswith(".partial"):
        print("there", flush=True); time.sleep(60)
    return real(self, target)
Path.rename = rename
with staged_folder(Path(sys.argv[1]), "run.json", True) as staged:
    (staged / "run.json").write_text("new")
"""
    killed(script, path)
    assert not path.exists() and len(hidden(tmp_path)) == 2
    refuse_taken(path, MARK, True)
    assert (path / MARK).read_text() == "old" and hidden(tmp_path) == []
    with pytest.raises(InputError, match="exists already"):
        refuse_taken(path, MARK, False)


def test_two_runs_into_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for swaps in (True, False):
        if not swaps:
            monkeypatch.setattr(place, "_rename", lambda *_: False)
        path = tmp_path / f"run{swaps}"
        with pytest.raises(InputError, match="was made while this run was at work"):  # noqa: SIM117
            with staged_folder(path, MARK) as staged:
                fill(staged, "loser")
                made(path, "winner")
        assert (path / MARK).read_text() == "winner" and hidden(tmp_path) == []
        with staged_folder(path, MARK, force=True) as staged:
            fill(staged, "last")
            made(path, "first", force=True)
        assert (path / MARK).read_text() == "last" and hidden(tmp_path) == []


def test_a_failure_leaves_nothing_not_even_folders_above(tmp_path: Path) -> None:
    for problem in (OSError(28, "No space left on device"), RuntimeError("x"), KeyboardInterrupt()):
        with pytest.raises(type(problem)), staged_folder(tmp_path / "a" / "b" / "c", MARK) as staged:
            fill(staged, "half")
            raise problem
        with pytest.raises(type(problem)), staged_file(tmp_path / "a" / "b" / "c.txt") as staged:
            raise problem
        assert list(tmp_path.iterdir()) == []
    made(tmp_path / "a" / "b" / "c", "whole")
    assert (tmp_path / "a" / "b" / "c" / MARK).read_text() == "whole"


def test_errors_name_the_place_not_what_lies_beside_it(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as caught,
        staged_folder(tmp_path / "run", MARK) as staged,
    ):
        raise OSError(28, "No space left on device", str(staged / "layers.parquet"))
    assert caught.value.filename == str(tmp_path / "run" / "layers.parquet")
    with pytest.raises(OSError) as caught, staged_folder(tmp_path / "run", MARK):
        raise OSError(5, "Input/output error")
    assert caught.value.filename is None, "it may have been a read"


def test_text_files(tmp_path: Path) -> None:
    file = tmp_path / "x" / "t.txt"
    write_text(file, "one\n")
    with pytest.raises(InputError, match="exists already"):
        write_text(file, "two\n")
    file.chmod(0o600)
    write_text(file, "two\n", force=True)
    assert file.read_text() == "two\n" and file.stat().st_mode & 0o777 == 0o600
    assert hidden(tmp_path / "x") == []
    with pytest.raises(InputError, match="is a folder"):
        write_text(tmp_path, "x")


def test_a_name_as_long_as_names_get(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    made(path, "one")
    made(path, "two", force=True)
    assert (path / MARK).read_text() == "two" and hidden(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    script = """
import types, replay.cli as c
def command() -> None:
    with staged_folder(Path(sys.argv[1]), "run.json") as staged:
        print("there", flush=True); time.sleep(60)
module = types.ModuleType("probe"); module.command = command; sys.modules["probe"] = module
c.COMMANDS = (("probe", "probe", "command"), ("other", "probe", "command"))
sys.exit(c.main(["probe"]))
"""
    process = child(script, tmp_path / "run")
    process.send_signal(number)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert err == f"replay: error: ended by {number.name}\n".encode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr", "all"])
def test_closed_streams(closed: str, tmp_path: Path, root: Path) -> None:
    """A stream that the caller closed is nothing to write to, and no file takes its number."""
    numbers = {"stdin": (0,), "stdout": (1,), "stderr": (2,), "all": (0, 1, 2)}[closed]

    def close() -> None:
        for each in numbers:
            os.close(each)

    run = [
        sys.executable,
        "-m",
        "replay",
        "cut",
        str(root / "traces/e64-spec"),
        str(tmp_path / "cut"),
        "--windows",
        "2",
    ]
    done = subprocess.run(run, capture_output=True, preexec_fn=close, timeout=60)  # noqa: PLW1509
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    from replay.trace import open_trace

    assert len(open_trace(tmp_path / "cut").windows) == 2
    help_run = subprocess.run(
        [sys.executable, "-m", "replay", "--help"], capture_output=True, preexec_fn=close, timeout=60
    )
    assert help_run.returncode == 0 and b"Traceback" not in help_run.stderr


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that has a scratch folder in a folder and waits."""
    program = (
        "import sys, time; from replay.trace.scratch import scratch\n"
        "with scratch('sweep', sys.argv[1]) as here:\n"
        "    (here / 'x').write_text('x'); print(here, flush=True); time.sleep(60)"
    )
    return subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)


def test_scratch_folders_of_the_killed_are_cleared_and_no_others(tmp_path: Path) -> None:
    killed, living = holder(tmp_path), holder(tmp_path)
    try:
        stale, held = (Path(each.stdout.readline().strip()) for each in (killed, living) if each.stdout)
        killed.kill()
        killed.wait()
        other = tmp_path / ".replay-traces.999999999-abc.partial"
        target = tmp_path / "kept"
        for each in (other, target):
            each.mkdir()
        link = tmp_path / ".replay-sweep.999999999-abc.partial"
        link.symlink_to(target)
        assert stale.is_dir() and held.is_dir()
        with scratch("sweep", tmp_path) as mine:
            assert {*tmp_path.iterdir()} == {held, other, target, link, mine}
            assert (held / "x").is_file() and mine.stat().st_mode & 0o777 == 0o700
        assert {*tmp_path.iterdir()} == {held, other, target, link}
    finally:
        for each in (killed, living):
            each.kill()
            each.wait()


def test_scratch_folders_of_other_users_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / ".replay-sweep.999999999-abc.partial"
    stale.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: stale.stat().st_uid + 1)
    with scratch("sweep", tmp_path):
        assert stale.is_dir()
    monkeypatch.undo()
    with scratch("sweep", tmp_path):
        assert not stale.exists()
