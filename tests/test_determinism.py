"""The same inputs give the same bytes of every result table: across runs, threads, and with the JIT on or off.

``run.json`` holds the versions and the command and is compared as far as it holds results; the tables and the summary
are compared byte for byte.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from raw_trace import healthy

ROOT = Path(__file__).resolve().parent.parent
POLICIES = (
    "none+lru",
    "unpert1+decode2q",
    "route:p=1,r1=0.25+lfuda",
    "oracle+belady",
    "none+random",
    "unpert0+s3fifo",
)
WAYS: dict[str, tuple[str, ...]] = {
    "recorded, clock, curves": ("--reads",),
    "rerouted": ("--routes", "rerouted", "--skip", "--no-curves"),
    "bytes, rows": ("--bytes", "9kB", "--order", "rows", "--no-clock", "--no-curves", "--skip"),
    "layer scope, sequential": ("--scope", "layer", "--cell", "sequential", "--no-clock", "--no-curves"),
}


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each result table, and of the summary in both forms."""
    names = [*sorted(each.name for each in folder.glob("*.parquet")), "summary.json", "summary.csv"]
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def results(folder: Path) -> dict[str, object]:
    """What run.json says that is neither of the machine nor of the command."""
    info = json.loads((folder / "run.json").read_text())
    return {name: value for name, value in info.items() if name not in ("command", "versions")}


def compare(
    trace: Path, out: Path, *options: str, **environment: str
) -> tuple[dict[str, str], dict[str, object]]:
    """Compare in a process of its own."""
    command = [sys.executable, "-m", "replay", "compare", str(trace), "--out", str(out), "-q", *options]
    command += [part for each in POLICIES for part in ("-p", each)]
    if "--bytes" not in options and "--slots" not in options:
        command += ["--slots", "14"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return digests(out), results(out)


@pytest.mark.parametrize("way", WAYS)
def test_runs_and_threads_give_the_same_bytes(way: str, tmp_path: Path) -> None:
    trace = healthy().write(tmp_path / "trace")
    first = compare(trace, tmp_path / "first", *WAYS[way], "--threads", "1")
    assert {"layers.parquet", "windows.parquet"} <= set(first[0])
    again = compare(trace, tmp_path / "again", *WAYS[way], "--threads", "1", PYTHONHASHSEED="7")
    two = compare(trace, tmp_path / "two", *WAYS[way], "--threads", "2", POLARS_MAX_THREADS="1")
    assert first == again == two


@pytest.mark.modes
def test_the_compiler_changes_no_byte(tmp_path: Path) -> None:
    trace = healthy().write(tmp_path / "trace")
    compiled = compare(trace, tmp_path / "compiled")
    assert compare(trace, tmp_path / "plain", NUMBA_DISABLE_JIT="1") == compiled
    assert compare(trace, tmp_path / "checked", NUMBA_BOUNDSCHECK="1") == compiled


def test_a_larger_trace_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    """Chunks and threads of a recorded sample, whose tables are more than one row group."""
    options = ("--no-curves", "--slots", "900")
    trace = root / "traces" / "e64-moce"
    one = compare(trace, tmp_path / "one", *options, "--threads", "1")
    assert compare(trace, tmp_path / "two", *options, "--threads", "2", OMP_NUM_THREADS="2") == one
