"""A view of some windows reads as a trace of those windows alone would."""

from pathlib import Path

import numpy as np
import pytest

from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.trace import open_trace
from replay.trace.view import of_sessions, view


@pytest.mark.parametrize("sample", ["e64-spec", "e256-moce"])
def test_a_view_of_the_first_windows_is_their_cut(sample: str, root: Path, tmp_path: Path) -> None:
    """Every table, and what a comparison makes of it."""
    from replay.trace.cut import cut

    trace = open_trace(root / "traces" / sample)
    count = 100
    cut(trace, tmp_path / "cut", count)
    alone = open_trace(tmp_path / "cut")
    part = view(trace, np.arange(len(trace.windows)) < count)
    policies = ["unpert1+lru", "none+decode2q"]
    slots = "1024" if sample == "e64-spec" else "721"
    runs = [compare(each, policies, slots=slots, grid=()) for each in (alone, part)]
    assert runs[0].layers.equals(runs[1].layers)
    assert runs[0].windows.equals(runs[1].windows)


def test_windows_apart_are_numbered_on(root: Path) -> None:
    """Every column of windows that are kept, and of no other."""
    trace = open_trace(root / "traces/e64-spec")
    keep = np.random.default_rng(1).random(len(trace.windows)) < 0.3
    kept = np.flatnonzero(keep)
    part = view(trace, keep)
    tables = {"selections", "candidates", "drafts"}
    wide, parts = list(trace.chunks(tables)), list(part.chunks(tables, max_windows=37))
    at = 0
    for chunk in parts:
        assert chunk.w0 == at and chunk.w1 > at
        at = chunk.w1
    assert at == len(part.windows) == len(kept)

    def picks(chunks, window: int) -> list[int]:
        chunk = next(each for each in chunks if each.w0 <= window < each.w1)
        low, high = chunk.row_start[window - chunk.w0 : window - chunk.w0 + 2] * trace.meta.layers
        lists = chunk.selections
        return lists.values[lists.offsets[low] : lists.offsets[high]].tolist()

    def scores(chunks, window: int) -> tuple[list[int], list[float]]:
        chunk = next(each for each in chunks if each.w0 <= window < each.w1)
        rows = np.flatnonzero(chunk.candidates.window == window)
        values = [
            chunk.candidates.scores[chunk.candidates.offsets[i] : chunk.candidates.offsets[i + 1]]
            for i in rows
        ]
        return chunk.candidates.layer[rows].tolist(), np.concatenate([[], *values]).tolist()

    for new, old in enumerate(kept.tolist()):
        assert picks(parts, new) == picks(wide, old)
        assert scores(parts, new) == scores(wide, old)
    drafts = [
        np.concatenate([each.tables["drafts"]["window"] for each in chunks]) for chunks in (wide, parts)
    ]
    assert kept[drafts[1]].tolist() == drafts[0][keep[drafts[0]]].tolist()


def test_sessions(root: Path) -> None:
    trace = open_trace(root / "traces/e64-spec")
    session = trace.windows.session
    assert of_sessions(trace, "0-2, 5").tolist() == np.isin(session, [0, 1, 2, 5]).tolist()
    for text, reason in (
        ("", "expected numbers and ranges"),
        ("a", "ranges such as"),
        ("0,99", "has none in 99"),
    ):
        with pytest.raises(InputError, match=reason):
            of_sessions(trace, text)
