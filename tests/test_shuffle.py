"""The shuffled control: a permuted trace reads as if it had been recorded so."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome
from slow.make import draw_trace, write
from slow.sessions import sessions_trace
from slow.trace import SlowTrace

import replay
from replay.comparison.comparison import compare
from replay.trace import Chunk, Trace, open_trace
from replay.trace.shuffle import shuffled
from replay.trace.view import view

SCORED = ("candidates", "router_scores")


def permuted(trace: SlowTrace, source: list[int]) -> SlowTrace:
    """The slow trace with other windows at each place."""
    place = {old: new for new, old in enumerate(source)}
    names = ("picks", "candidates", "router_scores", "residents", "timing", "counters", "weights")
    moved = {
        name: {(place[key[0]], *key[1:]): value for key, value in getattr(trace, name).items()}
        for name in names
    }
    return replace(trace, windows=[trace.windows[old] for old in source], **moved)


def flat(trace: Trace, size: int) -> list[list[object]]:
    """Everything that the chunks hold, window by window."""
    tables = {"selections", "candidates", "router_scores", "residents", "timing"} & set(trace.tables)
    found: list[list[object]] = []
    for chunk in trace.chunks(tables, {"selections": ("weights",)}, max_windows=size):
        found += [_window(chunk, w, trace.meta.layers) for w in range(chunk.w0, chunk.w1)]
    return found


def _window(chunk: Chunk, w: int, layers: int) -> list[object]:
    lists = chunk.selections
    assert lists is not None
    low, high = chunk.row_start[w - chunk.w0 : w - chunk.w0 + 2] * layers
    found: list[object] = [
        lists.values[lists.offsets[i] : lists.offsets[i + 1]].tolist() for i in range(low, high)
    ]
    if chunk.weights is not None:
        found.append(chunk.weights[lists.offsets[low] : lists.offsets[high]].tolist())
    for name in SCORED:
        rows = getattr(chunk, name)
        for i in np.flatnonzero(rows.window == w) if rows is not None else ():
            part = slice(rows.offsets[i], rows.offsets[i + 1])
            ids = None if rows.experts is None else rows.experts[part].tolist()
            after = None if rows.issued_after is None else int(rows.issued_after[i])
            found.append((name, int(rows.row[i]), int(rows.layer[i]), after, ids, rows.scores[part].tolist()))
    held = chunk.residents
    for i in np.flatnonzero(held.window == w) if held is not None else ():
        lists = held.experts
        found.append((int(held.layer[i]), lists.values[lists.offsets[i] : lists.offsets[i + 1]].tolist()))
    for name, table in chunk.tables.items():
        mine = table["window"] == w
        found.append((name, {column: values[mine].tolist() for column, values in table.items()}))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_shuffled_trace_reads_as_one_recorded_so(seed: int, tmp_path: Path) -> None:
    slow = draw_trace(300 + seed)
    write(slow, tmp_path / "trace")
    opened = open_trace(tmp_path / "trace")
    mixed = shuffled(opened, seed)
    source = mixed.source.tolist()
    assert sorted(source) == list(range(len(source)))
    for new, old in enumerate(source):
        assert slow.windows[new].session == slow.windows[old].session
        assert not slow.windows[new].prefill or new == old
    write(permuted(slow, source), tmp_path / "permuted")
    other = open_trace(tmp_path / "permuted")
    assert mixed.windows.rows.tolist() == other.windows.rows.tolist()
    for size in (1, 3, 100):
        assert flat(mixed, size) == flat(other, 4)
    assert shuffled(opened, seed).source.tolist() == source


def test_it_replays_like_one_recorded_so(tmp_path: Path) -> None:
    slow = draw_trace(11)
    write(slow, tmp_path / "trace")
    mixed = shuffled(open_trace(tmp_path / "trace"), 5)
    write(permuted(slow, mixed.source.tolist()), tmp_path / "permuted")
    other = open_trace(tmp_path / "permuted")
    found = [
        compare(each, ["none+lru", "oracle+lru"], grid=(), slots="90%").layers for each in (mixed, other)
    ]
    assert found[0].equals(found[1])
    keep = np.arange(len(slow.windows)) % 3 > 0
    found = [compare(view(each, keep), ["none+lru"], grid=(), slots="90%").layers for each in (mixed, other)]
    assert found[0].equals(found[1])


def test_compare_plays_the_control(tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    """As a comparison on the shuffled trace; the recorded order is another; it says what it is."""
    write(sessions_trace(count=6, length=20), tmp_path / "trace")
    opened = open_trace(tmp_path / "trace")
    specs = ["none+lru", "previous+lru"]
    plain = compare(shuffled(opened, 4), specs, slots="9", grid=()).layers
    run = replay.compare(opened, specs, slots=9, grid=(), control="shuffled", seed=4)
    names = [name for name in plain.columns if not name.endswith("_us")]
    counted = plain.select(name for name in names if plain[name].null_count() == 0)
    assert run.layers.select(counted.columns).equals(counted)
    assert not compare(opened, specs, slots="9", grid=()).layers.equals(plain)
    assert "shuffled within each session (seed 4)" in run.warnings[0]
    assert run.info["control"] == {"name": "shuffled", "seed": 4}
    arguments = ("compare", tmp_path / "trace", "-p", "none+lru", "--slots", "9", "--no-curves", "--json")
    done = cli(*arguments, "--control", "shuffled", "--seed", 4)
    assert done.code == 0 and json.loads(done.out)["summary"][0]["misses"] == run.summary[0]["misses"]
    done = cli(*arguments, "--control", "sorted")
    assert done.code == 2 and "expected shuffled" in done.err
