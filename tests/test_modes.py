"""The same counts with the kernels compiled, bounds-checked, and not compiled at all."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from slow.make import draw_trace, write

POLICIES = ["none", "unpert1+decode2q", "route:p=1,r1=0.25", "oracle:touch+decode2q:quota=0.5,head", "stmoe"]
SEEDS = [seed for seed in range(40) if draw_trace(seed).has_candidates][:3]


def run(trace: Path, out: Path, **environment: str) -> dict[str, pl.DataFrame]:
    """Compare in a process of its own and return the tables."""
    command = [
        sys.executable,
        "-m",
        "replay",
        "compare",
        trace,
        "--out",
        out,
        "--slots",
        "90%",
        "--no-curves",
    ]
    for policy in POLICIES:
        command += ["-p", policy]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {path.stem: pl.read_parquet(path) for path in out.glob("*.parquet")}


@pytest.mark.modes
@pytest.mark.parametrize("seed", SEEDS)
def test_counts_do_not_depend_on_the_compiler(seed: int, tmp_path: Path) -> None:
    write(draw_trace(seed), tmp_path / "trace")
    compiled = run(tmp_path / "trace", tmp_path / "compiled")
    assert {"layers", "windows"} <= set(compiled)
    for flag in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"):
        other = run(tmp_path / "trace", tmp_path / flag, **{flag: "1"})
        assert set(other) == set(compiled)
        for name, table in compiled.items():
            assert_frame_equal(other[name], table, check_exact=True)
