"""Chunks in play: lanes that run ahead of one another, in threads, give what one lane after the other gives."""

from pathlib import Path

import pytest

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.prepare.chunk import IN_PLAY
from replay.run import Run
from replay.trace import open_trace, reader
from replay.trace.chunk import ranges

TRACE = Path(__file__).resolve().parent.parent / "traces" / "e64-moce"
POLICIES = ("none+lru", "unpert0+decode2q", "finemoe+lru", "finemoe+s3fifo", "stmoe+belady", "previous+lirs")


def played(windows: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A comparison in chunks of some windows."""
    monkeypatch.setattr(
        reader, "ranges", lambda *given: ranges(*given[:4], min(windows, given[4] or windows))
    )
    trace = open_trace(TRACE)
    return compare(trace, POLICIES, grid=(0.5,), clock=ClockParams(), threads=threads, skip=True)


@pytest.mark.parametrize(("windows", "threads"), [(3, 1), (3, 8), (50, 3)])
def test_chunks_and_threads_change_nothing(
    windows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = played(100_000, 1, monkeypatch)
    assert len(open_trace(TRACE).windows) > IN_PLAY * windows
    found = played(windows, threads, monkeypatch)
    assert found.layers.equals(whole.layers) and found.windows.equals(whole.windows)
    assert found.curves.equals(whole.curves) and found.summary == whole.summary
