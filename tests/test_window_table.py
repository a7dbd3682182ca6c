"""What is kept of every window: packed without loss, made into a table only when asked for, flat in memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reliability.loads import EVICTIONS, Shape, write_trace

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.ledger.packed import BLOCK, Packed
from replay.ledger.window_table import WindowTable
from replay.run import Run, load
from replay.trace import open_trace

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ENDS = [
    (0, 0), (-1, -1), (LEAST, MOST), (LEAST, LEAST), (MOST, MOST), (-1, MOST), (0, 255), (0, 256), (0, 65_535),
    (0, 65_536), (-1, 2**32 - 1), (5, 2**32 + 5), (0, 2**53), (0, 0),
]  # fmt: skip


def kept(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Rows of columns that end where integers do; the last but one holds multiples."""
    columns = [rng.integers(low, high, shape[0], endpoint=True) for low, high in ENDS]
    columns[-2] = rng.integers(0, 500, shape[0]) * 1_769_472 - 1
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("chunk", [1, 85, BLOCK - 1, BLOCK, 3 * BLOCK])
def test_packed_columns_come_back_as_they_were(chunk: int) -> None:
    rng = np.random.default_rng(chunk)
    rows = kept((3 * BLOCK + 17, len(ENDS)), rng)
    for column, (low, high) in enumerate(ENDS[:-2]):
        rows[:: BLOCK // 2, column], rows[1 :: BLOCK // 2, column] = low, high
    names = [f"column {i}" for i in range(len(ENDS))]
    packed = Packed(names)
    for first in range(0, len(rows), chunk):
        packed.add(rows[first : first + chunk].copy())
    assert list(packed) == names
    for i, name in enumerate(names):
        assert packed[name].dtype == np.int64 and np.array_equal(packed[name], rows[:, i]), ENDS[i]


def test_packed_columns_take_no_more_than_they_need() -> None:
    rows = np.zeros((BLOCK, 3), np.int64)
    rows[:, 0], rows[:, 1] = 7, 10**12 + 1_769_472 * np.arange(BLOCK)
    rows[:, 2] = np.arange(BLOCK) % 100
    packed = Packed(["same", "bytes", "small"])
    packed.add(rows)
    assert packed.nbytes == (0 + 2 + 1) * BLOCK
    assert not len(Packed(["none"])["none"]) and Packed(["none"]).nbytes == 0


@pytest.fixture(scope="module")
def run(root: Path) -> Run:
    return compare(open_trace(root / "traces" / "py64-loop"), grid=(), clock=ClockParams())


def test_columns_and_policies_are_those_of_the_whole_table(run: Run) -> None:
    table, names = run.by_window, ("window", "policy", "wait_us", "domain", "misses")
    few, less = table.select(*names), table.without([("none+lru", "recorded")])
    whole = WindowTable(table.whole())
    assert few.equals(whole.select(*names)) and few.columns == list(names)
    assert table.columns == whole.columns == whole.whole().columns
    left = less.whole()
    assert left.equals(whole.without([("none+lru", "recorded")]).whole())
    assert left.equals(whole.whole().filter(pl.col("policy") != "none+lru")) and len(left) < len(few)


@pytest.mark.parametrize("rows", [1, 3_000, 10**6])
def test_the_table_is_written_as_it_is(
    rows: int, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.ledger.window_table.GROUP_ROWS", rows)
    run = compare(open_trace(root / "traces" / "e256-moce"), grid=())
    back = load(run.save(tmp_path / "run"))
    assert back.windows.equals(run.windows) and back.windows.schema == run.windows.schema
    again = load(run.save(tmp_path / "again"))  # held as a frame by now
    assert again.windows.equals(run.windows)


GROWN = """
import sys
from replay.comparison.comparison import compare
from replay.clock.timing import ClockParams
from replay.trace import open_trace
def peak(policies):
    run = compare(open_trace(sys.argv[1]), policies, grid=(), clock=ClockParams(), threads=1)
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024
one = peak(sys.argv[2:3])
print(peak(sys.argv[2:]) - one)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak"
)
def test_a_policy_leaves_few_bytes_of_a_window(tmp_path: Path) -> None:
    """Four policies more on a long trace: not 36 sums of eight bytes each, nor a table of 43 columns of them."""
    windows = 60_000
    path = write_trace(tmp_path / "trace", Shape(windows, 1, 16, 2))
    command = [sys.executable, "-c", GROWN, path, *EVICTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) / windows / (len(EVICTIONS) - 1) < 200
