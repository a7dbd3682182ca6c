"""How a sweep ends that cannot go on: one line, an exit code, nothing lost; and what it shows while it runs."""

import errno
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome
from loopback import loopback, wait

from replay.cli.meter import Meter
from replay.sweep import cluster as clusters
from replay.synth.make import synthesize
from replay.synth.recipe import Recipe

Cli = Callable[..., Outcome]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 cells: seconds of work."""
    folder = tmp_path_factory.mktemp("grid")
    synthesize(folder / "a", Recipe(layers=8, experts=32, top_k=4, sessions=2, windows=400, recall=0.7))
    path = folder / "grid.toml"
    path.write_text(
        f'traces = ["a"]\npolicies = ["none+lru", "unpert1+lru"]\nslots = {list(range(20, 220))}\n'
    )
    return path


def start(grid: Path, out: Path, *flags: object, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "replay", "sweep", grid, "--out", out, *flags]
    return subprocess.Popen(
        [str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, **more,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def finished(out: Path) -> int:
    return len(list((out / "cells").glob("*.parquet")))


def some_are_finished(out: Path, driver: subprocess.Popen[str]) -> None:
    wait(lambda: finished(out) >= 8 or driver.poll() is not None, 240)  # kernels may be compiled first
    assert driver.poll() is None


def test_a_scheduler_that_dies_ends_the_sweep(grid: Path, tmp_path: Path) -> None:
    """One line and what is there; on another cluster the same command ends it."""
    out = tmp_path / "out"
    (tmp_path / "1").mkdir()
    with loopback(tmp_path / "1") as cluster, start(grid, out, "--cluster", cluster.address) as driver:
        some_are_finished(out, driver)
        cluster.scheduler.kill()
        said, err = driver.communicate(timeout=60)
    there = finished(out)
    assert (driver.returncode, said) == (2, "") and 8 <= there < 400
    first, last = err.splitlines()
    assert first == f"note       {there} of 400 cells are finished"
    assert last == f"replay: error: {clusters.GONE}"
    with start(grid, out, "--workers", 2, "-q") as driver:
        said, err = driver.communicate(timeout=100)
    assert (said, err) == (f"400 cells: {400 - there} replayed, {there} were there\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_all_processes_of_a_sweep(number: signal.Signals, grid: Path, tmp_path: Path) -> None:
    """As a terminal sends them: to the driver and its workers at once."""
    out = tmp_path / "out"
    with start(grid, out, "--workers", 2) as driver:
        some_are_finished(out, driver)
        os.killpg(driver.pid, number)
        said, err = driver.communicate(timeout=60)
    assert (driver.returncode, said) == (128 + number, "")
    word = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    note = f"note       {finished(out)} of 400 cells are finished; the same command goes on\n"
    assert err == f"{note}replay: error: {word}\n"
    assert not list(out.glob(".*")), "nothing half-written"
    wait(lambda: not alive(driver.pid), 20)


def alive(session: int) -> list[str]:
    """Processes of a session that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(path.parent.name)
    return found


def test_a_cluster_without_workers(
    grid: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(tmp_path, workers=0) as cluster:
        out = tmp_path / "out"
        code, said, err = cli("sweep", grid, "--out", out, "--cluster", cluster.address, "--wait", 3)
        assert (code, said) == (2, "")
        waiting, note, error = err.splitlines()
        assert waiting.startswith("note       the cluster has no worker; waiting up to 3 s")
        assert note == "note       0 of 400 cells are finished" and "no worker for 3 s; start some" in error
        assert finished(out) == 0


def test_a_worker_without_this_package_or_the_trace(grid: Path, tmp_path: Path, cli: Cli) -> None:
    """It says so, and lives on: a task that a worker cannot even read would end it."""
    blind = tmp_path / "blind/replay"
    blind.mkdir(parents=True)
    (blind / "__init__.py").write_text('raise ModuleNotFoundError("none here")\n')
    (tmp_path / "1").mkdir()
    with loopback(tmp_path / "1", 1, {"PYTHONPATH": str(blind.parent)}) as cluster:
        for _ in range(2):
            code, _, err = cli("sweep", grid, "--out", tmp_path / "out", "--cluster", cluster.address, "-q")
            assert (code, err.count("\n")) == (2, 1)
            assert "a worker cannot play a pass (ModuleNotFoundError: none here); is this version of" in err
        assert cluster.workers[0].poll() is None
    (tmp_path / "2").mkdir()
    away, far = tmp_path / "away", tmp_path / "far.toml"
    synthesize(away, Recipe(layers=8, experts=32, top_k=4, sessions=2, windows=4))
    far.write_text(f'traces = ["{away}"]\npolicies = ["none+lru"]\n')
    with loopback(tmp_path / "2", 0) as cluster:
        with start(far, tmp_path / "out2", "--cluster", cluster.address, "-q") as driver:
            wait(lambda: (tmp_path / "out2/sweep.json").is_file())
            away.rename(tmp_path / "gone")
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.address, "--no-dashboard"]
            options = ["--no-nanny", "--local-directory", str(tmp_path)]
            with subprocess.Popen([*worker, *options], stderr=subprocess.DEVNULL) as process:
                _, err = driver.communicate(timeout=60)
                process.kill()
        assert driver.returncode == 2 and err.count("\n") == 1
        assert err.startswith("replay: error: worker tcp://") and "expected a trace folder, found noth" in err


def test_addresses_where_no_scheduler_is(
    grid: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ANSWER_S", 1.5)
    with socket.socket() as mute:  # takes connections and never answers
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        silent = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        for address in (silent, "tcp://127.0.0.1:1", "127.0.0.1", "tcp://[::1", "", "nonsense://x"):
            began = time.monotonic()
            code, _, err = cli("sweep", grid, "--out", tmp_path / "out", "--cluster", address)
            assert (code, err.count("\n")) == (2, 1), err
            assert f"--cluster {address}: no scheduler answers (" in err and time.monotonic() - began < 20
            assert not (tmp_path / "out").exists(), "nothing is begun"


def test_a_meter_tells_what_was_there_apart_and_a_steady_pace() -> None:
    now = [0.0]
    meter = Meter(100, 40, 120.0, 4.0, now=lambda: now[0])
    assert meter.line() == "40 of 100 cells, estimating; 40 were there" and meter.share == 0.4
    now[0] = 3.0
    meter.finish(2.0, failed=True)
    assert meter.line() == "41 of 100 cells, estimating; 40 were there, 1 failed", "the first of two workers"
    meter.finish(2.0, failed=False)
    now[0] = 6.0
    meter.move(12.0)  # 12 of 120 in 6 s: 54 s for the rest
    assert meter.line() == "42 of 100 cells, about 54 s left; 40 were there, 1 failed"
    now[0] = 16.0
    assert "about 44 s left" in meter.line(), "it goes down between two reports"
    now[0] = 999.0
    assert "about 1 s left" in meter.line()
    assert meter.share == pytest.approx(0.4 + 0.6 * 0.1)
    assert Meter(3, 3, 0.0).share == 1.0


def on_terminal(command: list[str]) -> str:
    """Run a command on a pseudo-terminal of 80 columns and give back what it wrote."""
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment) as process:
        os.close(side)
        written = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError as problem:
                assert problem.errno == errno.EIO
                break
            if not part:
                break
            written += part
    os.close(main)
    assert process.returncode == 0
    return written.decode()


def test_one_line_on_a_terminal_and_none_elsewhere(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "replay", "sweep", str(grid), "--out", str(out), "--threads", "1"]
    text = on_terminal(command)
    end = "400 cells: 400 replayed, 0 were there"
    shown = [each for each in text.replace("\x1b[2K", "\r").split("\r") if " of 400 cells, " in each]
    assert 2 <= len(shown) < 200 and all(len(plain(each)) < 80 for each in shown)
    lines = plain(text.rpartition("\x1b[2K")[2]).split("\n")
    assert [each.strip() for each in lines][:2] == [end, f'next: replay query {out} "select * from cells"']
    for name in sorted(path.name for path in (out / "cells").iterdir())[:300]:
        (out / "cells" / name).unlink()
    assert "; 100 were there" in on_terminal(command)
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stdout == "400 cells: 0 replayed, 400 were there\n" and piped.stderr.count("\n") == 1


def plain(text: str) -> str:
    """Text without what moves and colours it."""
    import re

    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")
