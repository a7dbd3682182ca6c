"""Lopsided traces, small: many sessions, few and many layers and experts, k of 1 and of all, a window of 4,096 rows."""

from pathlib import Path

import numpy as np
import pytest
from reliability.loads import EVICTIONS, Shape, write_trace

from replay.comparison.comparison import compare
from replay.trace import open_trace
from replay.trace.validate import validate

SHAPES = {
    "10,000 sessions": Shape(10_000, 1, 16, 2, sessions=10_000),
    "1 layer": Shape(2_000, 1, 64, 4),
    "128 layers": Shape(60, 128, 64, 4),
    "1 expert": Shape(500, 3, 1, 1),
    "65,535 experts": Shape(60, 2, 65_535, 4),
    "65,536 experts": Shape(60, 2, 65_536, 4),
    "k of 1": Shape(1_000, 4, 32, 1),
    "k of all": Shape(300, 4, 16, 16),
    "k of all of 512": Shape(20, 2, 512, 512),
    "a window of 4,096 rows": Shape(3, 4, 64, 4, rows=4_096, phase="prefill"),
    "a decode window of 4,096 rows": Shape(2, 4, 64, 4, rows=4_096),
    "65,535 rows": Shape(1, 1, 8, 2, rows=65_535, phase="prefill"),
    "one window of one row": Shape(1, 1, 1, 1),
}


def unique_wanted(shape: Shape, path: Path) -> int:
    """Lookups of atomic events, counted plainly."""
    total = 0
    for chunk in open_trace(path).chunks({"selections"}):
        picks = chunk.selections
        assert picks is not None
        ids = picks.values.reshape(chunk.w1 - chunk.w0, shape.rows, shape.layers, shape.top_k)
        seen = np.zeros((chunk.w1 - chunk.w0, shape.layers, shape.experts), bool)
        for row in range(shape.rows):
            np.put_along_axis(seen, ids[:, row].astype(np.int64), True, axis=2)
        total += int(seen.sum())
    return total


@pytest.mark.parametrize("name", SHAPES)
def test_lopsided_traces(name: str, tmp_path: Path) -> None:
    """Valid, replayed by five evictions, and as many lookups as the events want."""
    shape = SHAPES[name]
    path = write_trace(tmp_path / "trace", shape)
    assert validate(path).valid
    run = compare(open_trace(path), [*EVICTIONS, "none+belady"], slots="100%", grid=())
    lookups = {row["lookups"] for row in run.summary}
    assert lookups == {unique_wanted(shape, path)}
    wanted = {row["misses"] for row in run.summary}
    assert len(wanted) == 1 and 0 < wanted.pop() <= shape.layers * shape.experts  # all fit: first uses only


def test_results_hold_every_session_and_row(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace", SHAPES["10,000 sessions"])
    run = compare(open_trace(path), ["none"], slots="4")
    assert run.windows["session"].n_unique() == 10_000 and run.info["trace"]["sessions"] == 10_000
    path = write_trace(tmp_path / "wide", SHAPES["a window of 4,096 rows"])
    run = compare(open_trace(path), ["none"], slots="100%")
    assert run.windows["rows"].to_list() == [4_096] * 3
