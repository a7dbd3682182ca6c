"""Read-ahead policies that learn from the past: what they ask for by hand, and what refuses them."""

import math

import numpy as np
import polars as pl
import pytest
from slow.history import Maps, Successors
from slow.make import write
from test_slow_twin import stream_of

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.declare.semantics import routes_of
from replay.errors import InputError
from replay.predict.maps import Maps as FastMaps
from replay.trace import open_trace


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Layer 1 wants 6 always, and 3 and 4 for two windows each in turn; layer 0 wants 2, and 0 and 1 in turn."""
    wanted = [[[w % 2, 2], [3 + w // 2 % 2, 6]] for w in range(8)]
    path = tmp_path_factory.mktemp("predict") / "trace"
    write(stream_of(wanted, layers=2), path)
    return open_trace(path)


def test_previous_repeats_the_last_decode_window(pairs):
    """Two slots: both guesses of each later window are issued; four windows repeat, three change one expert."""
    first, second = compare(pairs, ["previous+lru"], slots="2", grid=()).layers.to_dicts()
    assert (first["issued"], second["issued"], second["dropped"]) == (0, 14, 0)
    assert (second["prefetch_hits"], second["misses"]) == (11, 5)


def test_stmoe_knows_more_than_the_previous_window(pairs):
    """Its guesses hold the previous window's, and at most its successors besides."""
    rows = {
        name: compare(pairs, [f"{name}+lru"], slots="4", grid=()).layers.to_dicts()[1]
        for name in ("previous", "stmoe")
    }
    assert rows["stmoe"]["prefetch_hits"] > rows["previous"]["prefetch_hits"]


def test_successors_learn_as_stated():
    """Raise, lower, enter into a free place, replace the oldest dead one, leave the living."""
    table = Successors(stream_of([[[0], [1]]], layers=2), successors=2)

    def window(*wanted):
        table.learn(0, {0})
        table.learn(1, set(wanted))
        return table.tables[1, 0]

    assert window(5, 7, 6) == [[5, 1], [6, 1]]
    assert window(5) == [[5, 2], [6, 0]]
    assert window(6) == [[5, 1], [6, 1]]
    assert window(3) == [[6, 0], [3, 1]]
    assert window(3, 4) == [[3, 2], [4, 1]]
    assert window(3, 8) == [[3, 3], [8, 1]]
    table.learn(0, {0})
    assert table.propose(6, 1, 1) == [3, 8]


def scored(open_experts, path):
    """Two layers of four experts; a row's open experts score alike, the others are masked."""
    picks = [[ids[:1] for ids in window] for window in open_experts]
    trace = stream_of(picks, layers=2, experts=4)
    for w, window in enumerate(open_experts):
        for layer, ids in enumerate(window):
            scores = {e: 0.0 if e in ids else -math.inf for e in range(4)}
            trace.router_scores[w, 0, layer] = scores
    write(trace, path)
    return trace


def test_finemoe_reads_as_much_as_it_is_unsure(tmp_path):
    """A window like one before: its best k; one like none: the latest map's whole mass."""
    scored([[[0], [1, 2]], [[0], [1, 3]], [[3], [3, 2]]], tmp_path / "trace")
    run = compare(open_trace(tmp_path / "trace"), ["finemoe:d=1+lru"], slots="6", grid=())
    first, second = run.layers.to_dicts()
    assert first["issued"] == 0
    # window 1 guesses 1, which is resident; window 2 guesses 1 and 3, of which 3 is wanted
    assert (second["issued"], second["prefetch_hits"], second["misses"]) == (1, 1, 1)


def test_finemoe_store_is_first_in_first_out(tmp_path):
    """A store of one window forgets the one that would have matched."""
    windows = [[[0], [1]], [[3], [2]], [[0], [1]]]
    trace = scored(windows, tmp_path / "trace")
    for store, guess in ((1, [2]), (2, [1])):
        maps = Maps(trace, d=1, store=store)
        maps.end_window(0, 1)
        maps.end_window(1, 1)
        assert maps.propose(2, 1, 1) == guess
    run = compare(open_trace(tmp_path / "trace"), ["finemoe:d=1,store=1"], slots="2", grid=())
    assert run.layers.to_dicts()[1]["prefetch_hits"] == 0


@pytest.mark.parametrize(("experts", "store"), [(7, 270), (4, 1000), (9, 40)])
def test_finemoe_matches_among_many_maps(experts, store):
    """Hundreds of maps, rows by ones and twos, equal and masked scores: every list is the slow one's."""
    rng, layers, windows, d = np.random.default_rng(experts), 3, 310, 1
    rows = rng.integers(1, 4, windows)
    scores = (rng.integers(-4, 5, (int(rows.sum()), layers, experts)) / 2).astype(np.float32)
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    trace = stream_of([[[0]] * layers], layers=layers, experts=experts)
    first_row = np.concatenate([[0], np.cumsum(rows)])
    trace.router_scores = {
        (w, row, layer): dict(enumerate(scores[first_row[w] + row, layer].tolist()))
        for w in range(windows)
        for row in range(rows[w])
        for layer in range(layers)
    }
    found = FastMaps(layers, experts, trace.top_k, store, d, kept=1).lists(
        0, scores.reshape(-1, experts), first_row[:-1] * layers, rows
    )
    groups = np.split(found.ids, found.offsets[1:-1])
    slow = Maps(trace, d=d, store=store)
    for w in range(windows):
        if w in (1, 2, *range(20, windows, 17), windows - 1):
            for target in range(d, layers):
                ours = groups[(w - 1) * (layers - d) + target - d].tolist()
                assert ours == slow.propose(w, int(rows[w]), target), (w, target)
        slow.end_window(w, int(rows[w]))


def test_finemoe_needs_dense_router_scores(tmp_path):
    """It is refused by name where they are missing or sparse."""
    trace = scored([[[0], [1]]], tmp_path / "dense")
    trace.router_scores[0, 0, 1] = {1: 0.0}
    write(trace, tmp_path / "sparse")
    trace.router_scores.clear()
    write(trace, tmp_path / "none")
    with pytest.raises(
        InputError, match="finemoe needs full score rows; this trace's router_scores are sparse"
    ):
        compare(open_trace(tmp_path / "sparse"), ["finemoe"], slots="2", grid=())
    with pytest.raises(InputError, match="finemoe needs the table router_scores"):
        compare(open_trace(tmp_path / "none"), ["finemoe"], slots="2", grid=())


def test_finemoe_says_what_it_could_not_match(tmp_path):
    """A window without router scores is neither matched nor stored, and the run says so."""
    trace = scored([[[0], [1]], [[0], [1]], [[0], [1]]], tmp_path / "whole")
    del trace.router_scores[1, 0, 0], trace.router_scores[1, 0, 1]
    write(trace, tmp_path / "trace")
    run = compare(open_trace(tmp_path / "trace"), ["finemoe:d=1"], slots="1", grid=())
    assert run.layers.to_dicts()[1]["issued"] == 1
    assert "1 decode windows have no router scores: finemoe does nothing there" in run.info["warnings"]


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """Three layers of 3 MB experts; at the window's start layer 2's scores say 5, 4, 3 and so on; 5 is wanted."""
    trace = stream_of([[[0], [1], [5]]], layers=3)
    trace.sizes = dict.fromkeys(trace.sizes, 3_000_000)
    trace.has_candidates = True
    trace.candidates = {(0, 0, 2): (-1, {e: float(e) for e in range(6)})}
    path = tmp_path_factory.mktemp("ahead") / "trace"
    write(trace, path)
    return open_trace(path)


def test_seqmoe_admits_what_can_be_there_in_time(ahead):
    """Layer 2 asks after 1,800 us: 80 us and 500 us a job at 6 GB/s let three of the four candidates through."""
    wide = compare(ahead, ["seqmoe", "unpert1:k=4"], slots="20", grid=(), clock=ClockParams())
    rows = [row for row in wide.layers.to_dicts() if row["layer"] == 2]
    assert [row["issued"] for row in rows] == [3, 4]
    assert rows[0]["timely"] == 1 and rows[0]["late"] == 0
    gate = wide.gates.row(by_predicate=pl.col("layer") == 2, named=True)
    assert (gate["policy"], gate["asked"], gate["admitted"], gate["admitted_wanted"]) == ("seqmoe", 4, 3, 1)
    for device, jobs in ((1.0, 0), (2.0, 1), (4.0, 2), (6.0, 3), (12.0, 4)):
        run = compare(ahead, ["seqmoe"], slots="20", grid=(), clock=ClockParams(device_gbps=device))
        assert run.layers.to_dicts()[2]["issued"] == jobs, device
        assert any("no guess was read" in note for note in run.info["notes"]) == (jobs == 0)


def test_seqmoe_with_a_gate_behind_it(ahead):
    """What a gate withholds takes no time: of four candidates the last, worse than the best, is withheld."""
    run = compare(
        ahead, ["seqmoe:k=1,extra=3+margin:-2"], slots="20", grid=(), clock=ClockParams(device_gbps=12.0)
    )
    assert run.layers.to_dicts()[2]["issued"] == 3


@pytest.mark.parametrize("name", ["previous", "stmoe", "seqmoe"])
def test_predicted_routes_are_refused(ahead, name):
    """What ranks no candidates has no selections to offer."""
    with pytest.raises(InputError, match="predicted needs a ranked read-ahead policy"):
        compare(ahead, [f"{name}+lru"], slots="2", routes=routes_of(["predicted"]))
