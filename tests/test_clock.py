"""The clock: hand-computed logs, and random ones against the slow twin of tests/slow/clock_log.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow.clock import clock_slow
from slow.clock_log import SlowClock, read_times
from slow.draw_log import random_clock, random_log, random_sizes, random_timing
from slow.make import draw_case
from slow.result import BeginWindow, Issue
from slow.twin import ArenaTooSmall, replay_slow

from replay.clock.clock import Clock, ClockParams, load_clock
from replay.clock.log import OP_ASK, OP_CLAIM, OP_DEMAND, OP_EVENT, OP_FREE, OP_ISSUE, OP_RETIRE, OP_WINDOW
from replay.clock.timing import PARAMETERS, event_times
from replay.errors import IdentityError, InputError
from replay.fate import DEMAND, EVENT_COLUMNS, FATES, NEVER

# one byte a nanosecond, so that a read of n bytes takes n ns of the link
PLAIN = {"workers": 2, "reserved": 1, "pieces": 1, "latency_us": 0, "stream_gbps": 1.0, "device_gbps": 1.0}
PLAIN |= {"pre_us": 0.1, "post_us": 0.1}


def run(log, sizes, split=True, windows=1, **clock):
    return Clock(ClockParams(**PLAIN | clock), np.array(sizes, np.int64), split=split).step(
        np.array(log, np.int64), 0, windows, reads=True
    )


def figures(account, cell=0, names=EVENT_COLUMNS):
    return {name: int(account.columns[name][cell]) for name in names if account.columns[name][cell]}


def fates(account):
    return [(*FATES, "demand")[code] for code in account.reads.fate]


# -- by hand


def test_demand_reads_share_the_link_in_order_of_their_ids():
    log = [(OP_WINDOW, 0), (OP_EVENT, 0), (OP_DEMAND, 1), (OP_DEMAND, 0), (OP_ASK, 0), (OP_FREE, 0)]
    account = run(log, [[50, 70]])
    # asks at 100; expert 0 done at 150, expert 1 at 220
    assert account.reads.done_ns.tolist() == [150, 220]
    assert account.reads.needed_ns.tolist() == account.reads.issued_ns.tolist() == [100, 100]
    assert figures(account) == {"disk_bytes": 120, "wait_ns": 120}
    assert account.total_ns.tolist() == [220]


def test_workers_limit_what_runs_at_once():
    log = [(OP_WINDOW, 0), (OP_EVENT, 0), (OP_DEMAND, 0), (OP_DEMAND, 1), (OP_ASK, 0), (OP_FREE, 0)]
    account = run(log, [[50, 50]], workers=1, reserved=0, latency_us=0.03)
    # the second piece's latency begins when the first is done: 100 + (30 + 50) + (30 + 50)
    assert account.reads.started_ns.tolist() == [100, 180]
    assert account.reads.done_ns.tolist() == [180, 260]
    account = run(log, [[50, 50]], workers=2, latency_us=0.03)
    # both are ready at 130; the link moves them one after another
    assert account.reads.done_ns.tolist() == [180, 230]


def test_stream_bounds_a_piece_and_device_all_of_them():
    log = [(OP_WINDOW, 0), (OP_EVENT, 0), (OP_DEMAND, 0), (OP_DEMAND, 1), (OP_ASK, 0), (OP_FREE, 0)]
    account = run(log, [[90, 90]], stream_gbps=0.3, device_gbps=1.0)
    assert account.reads.done_ns.tolist() == [400, 400]
    account = run(log, [[90, 90]], stream_gbps=0.3, device_gbps=0.4)
    # ceil(90 / 0.4) = 225: the link is done at 325 and 550
    assert account.reads.done_ns.tolist() == [400, 550]


def test_fates_of_read_ahead():
    # workers 2, one of them for read-ahead; pieces of 30 bytes, one after another from 0
    sizes = [[60, 60, 60, 60, 60]]
    log = [(OP_WINDOW, 0), *((OP_ISSUE, key) for key in range(5)), (OP_EVENT, 0)]
    log += [
        (OP_RETIRE, 4),
        (OP_CLAIM, 0),
        (OP_RETIRE, 2),
        (OP_CLAIM, 3),
        (OP_CLAIM, 1),
        (OP_ASK, 0),
        (OP_FREE, 0),
    ]
    account = run(log, sizes, pieces=2)
    # at 100: key 0 done at 60; key 1 has a piece done at 90 and one running until 120; the rest is queued
    assert fates(account) == ["timely", "late", "cancelled", "late", "cancelled"]
    assert account.reads.started_ns.tolist() == [0, 60, NEVER, 100, NEVER]
    # key 3 promoted: its first piece starts at 100 on the other worker behind the link (120): 150; then 180
    assert account.reads.done_ns.tolist() == [60, 120, NEVER, 180, NEVER]
    assert account.reads.needed_ns.tolist() == [100, 100, NEVER, 100, NEVER]
    assert figures(account) == {
        "timely": 1, "late": 2, "cancelled": 2, "timely_bytes": 60, "late_bytes": 120, "late_exposed_bytes": 90,
        "cancelled_bytes": 120, "disk_bytes": 180, "wait_ns": 80,
    }  # fmt: skip


def test_partial_and_unused_reads_finish():
    log = [
        (OP_WINDOW, 0),
        (OP_ISSUE, 0),
        (OP_ISSUE, 1),
        (OP_EVENT, 0),
        (OP_RETIRE, 0),
        (OP_RETIRE, 1),
        (OP_ASK, 0),
    ]
    account = run([*log, (OP_FREE, 0)], [[90, 61]], pieces=2, workers=3, reserved=0, pre_us=0.01)
    # at 10: both pieces of key 0 run (45, 90), and one piece of key 1 (120)
    assert fates(account) == ["unused", "partial"]
    assert account.reads.done_ns.tolist() == [90, 120]
    assert figures(account) == {
        "partial": 1, "unused": 1, "cancelled_bytes": 31, "unused_bytes": 120,
        "partial_read_bytes": 30, "partial_unread_bytes": 31, "disk_bytes": 120,
    }  # fmt: skip


RETIRED = [(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_EVENT, 0), (OP_RETIRE, 0), (OP_DEMAND, 1), (OP_ASK, 0)]


def test_without_split_the_event_waits_for_what_retired_at_it():
    account = run(RETIRED, [[500, 20]], split=False, stream_gbps=1.0, device_gbps=100.0)
    # asks at 100; demand done at 120; the retired read runs until 500; then post
    assert figures(account) == {
        "unused": 1, "unused_bytes": 500, "disk_bytes": 520, "wait_ns": 20, "limbo_wait_ns": 380
    }  # fmt: skip
    assert account.total_ns.tolist() == [500]


def test_with_split_the_generation_is_waited_for_after_the_next_event():
    log = [*RETIRED, (OP_FREE, 0), (OP_EVENT, 1), (OP_ASK, 1), (OP_FREE, 1)]
    account = run(log, [[500, 20], [1, 1]], stream_gbps=1.0, device_gbps=100.0)
    # event 0 ends at 220, nothing is freed yet; event 1 asks at 320 and ends at 420, then waits until 500
    assert figures(account, 0)["wait_ns"] == 20
    assert "limbo_wait_ns" not in figures(account, 0)
    assert figures(account, 1) == {"limbo_wait_ns": 80}
    assert account.total_ns.tolist() == [320]


def test_a_generation_is_freed_across_windows_and_chunks():
    clock = Clock(ClockParams(**PLAIN | {"device_gbps": 100.0}), np.array([[500, 20]], np.int64))
    first = clock.step(np.array([*RETIRED, (OP_FREE, 0)]), 0, 1)
    second = clock.step(np.array([(OP_WINDOW, 1), (OP_EVENT, 0), (OP_ASK, 0), (OP_FREE, 0)]), 1, 2)
    assert first.columns["limbo_wait_ns"].tolist() == [0]
    assert second.columns["limbo_wait_ns"].tolist() == [80]
    assert (first.total_ns.tolist(), second.total_ns.tolist()) == ([120], [100])
    assert clock.now_ns == 500


def test_a_running_read_ahead_piece_keeps_its_place_after_promotion():
    # 2 workers, 1 reserved: key 0's first piece runs from the read-ahead queue until 300 and is claimed at
    # 100: its second piece starts urgent at once; the next read-ahead waits until the first piece is done
    log = [
        (OP_WINDOW, 0),
        (OP_ISSUE, 0),
        (OP_ISSUE, 2),
        (OP_EVENT, 0),
        (OP_CLAIM, 0),
        (OP_ASK, 0),
        (OP_FREE, 0),
    ]
    log += [(OP_EVENT, 1), (OP_CLAIM, 2), (OP_ASK, 1), (OP_FREE, 1)]
    account = run(log, [[600, 1], [600, 1]], pieces=2, device_gbps=100.0)
    assert account.reads.started_ns.tolist() == [0, 300]
    # event 1 asks at 400 + 100 + 100; the piece that starts then is urgent and ends at 900
    assert account.reads.done_ns.tolist() == [400, 900]


def test_completions_at_the_ask_free_their_workers_but_start_nothing_that_retires():
    # one worker; key 0 is done at exactly 100, when the event asks: key 1 never starts, the demand does
    log = [(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_ISSUE, 1), (OP_EVENT, 0)]
    log += [(OP_CLAIM, 0), (OP_RETIRE, 1), (OP_DEMAND, 2), (OP_ASK, 0), (OP_FREE, 0)]
    account = run(log, [[100, 40, 40]], workers=1, reserved=0)
    assert fates(account) == ["timely", "cancelled", "demand"]
    assert account.reads.started_ns.tolist() == [0, NEVER, 100]
    assert account.columns["wait_ns"].tolist() == [40]


def test_a_reclaimed_read_of_another_layer_counts_at_its_target():
    log = [
        (OP_WINDOW, 0),
        (OP_ISSUE, 2),
        (OP_EVENT, 0),
        (OP_RETIRE, 2),
        (OP_DEMAND, 0),
        (OP_ASK, 0),
        (OP_FREE, 0),
    ]
    log += [(OP_ISSUE, 2), (OP_EVENT, 1), (OP_CLAIM, 2), (OP_ASK, 1), (OP_FREE, 1)]
    account = run(log, [[30, 30], [30, 30]])
    assert figures(account, 0) == {"disk_bytes": 30, "wait_ns": 30}
    assert figures(account, 1)["unused"] == figures(account, 1)["timely"] == 1
    assert account.reads.layer.tolist() == [0, 1, 1]


def test_empty_pieces_are_skipped():
    log = [(OP_WINDOW, 0), (OP_EVENT, 0), (OP_DEMAND, 0), (OP_DEMAND, 0), (OP_ASK, 0), (OP_FREE, 0)]
    account = run(log, [[2]], pieces=7, workers=9, latency_us=0.005)
    # two pieces of one byte each, for both reads of the expert
    assert account.reads.done_ns.tolist() == [107, 109]
    assert account.columns["disk_bytes"].tolist() == [4]


# -- against the slow twin


def check_against_slow(seed, shape=None):
    rng = np.random.default_rng(seed)
    layers, experts = shape or (int(rng.integers(1, 5)), int(rng.integers(1, 7)))
    split = bool(rng.random() < 0.6)
    sizes = random_sizes(rng, layers, experts)
    clocks = [random_clock(rng) for _ in range(2)]
    fast = [Clock(ClockParams(**clock), sizes, split=split) for clock in clocks]
    slow = [SlowClock(clock, sizes.tolist(), split) for clock in clocks]
    w0 = 0
    for _ in range(int(rng.integers(1, 4))):
        windows = int(rng.integers(1, 4))
        log = random_log(rng, layers, experts, w0, windows, split)
        timed = random_timing(rng, w0, windows, layers) if rng.random() < 0.5 else (None, None, None)
        for quick, plain in zip(fast, slow, strict=True):
            account = quick.step(np.array(log), w0, w0 + windows, timed[2], reads=True)
            rows, totals, reads = plain.step(log, timed[0], timed[1])
            for cell in range(windows * layers):
                expected = rows.get((w0 + cell // layers, cell % layers), {})
                found = figures(account, cell)
                assert found == {name: value for name, value in expected.items() if value}, (seed, cell)
            assert account.total_ns.tolist() == list(totals.values()), seed
            assert list_reads(account.reads) == sorted(expect_reads(reads, experts)), seed
            assert quick.now_ns == plain.disk.now
        w0 += windows


def expect_reads(reads, experts):
    for read in reads:
        needed = NEVER if read.needed is None else read.needed
        size = sum(piece.size for piece in read.pieces)
        kind = read.fate != "demand"
        fate = DEMAND if read.fate == "demand" else FATES.index(read.fate)
        layer, expert = divmod(read.key, experts)
        yield (read.window, layer, expert, kind, read.issued, *read_times(read), needed, size, fate)


def list_reads(reads):
    columns = (reads.window, reads.layer, reads.expert, ~reads.demand, reads.issued_ns)
    columns += (reads.started_ns, reads.done_ns, reads.needed_ns, reads.bytes, reads.fate)
    rows = [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    assert [row[:4] for row in rows] == sorted(row[:4] for row in rows)
    return sorted(rows)


@pytest.mark.parametrize("batch", range(10))
def test_random_logs_equal_the_slow_twin(batch):
    for seed in range(batch * 100, batch * 100 + 100):
        check_against_slow(seed)


def test_wide_events_equal_the_slow_twin():
    for seed in range(10):
        check_against_slow(seed, shape=(3, 40))


@given(st.integers(0, 2**63))
def test_any_log_equals_the_slow_twin(seed):
    check_against_slow(seed)


def log_of(result, experts, split):
    """Write the full twin's log as the program does, what an event names in reverse."""
    log, keys = [], {}
    for entry in result.log:
        if isinstance(entry, BeginWindow):
            log.append((OP_WINDOW, entry.window))
        elif isinstance(entry, Issue):
            keys[entry.read] = entry.key[0] * experts + entry.key[1]
            log.append((OP_ISSUE, keys[entry.read]))
        else:
            log.append((OP_EVENT, entry.layer))
            log += [(OP_DEMAND, layer * experts + expert) for layer, expert in reversed(entry.demanded)]
            log += [(OP_CLAIM, keys[read]) for read in reversed(entry.claimed)]
            log += [(OP_RETIRE, keys[read]) for read in entry.retired]
            log += [(OP_ASK, entry.layer)] + [(OP_FREE, entry.layer)] * split
    return log


@pytest.mark.parametrize("seed", range(40))
def test_replays_of_the_full_twin_equal_its_own_clock(seed):
    case = draw_case(seed)
    trace, split = case.trace, case.options.split
    try:
        result = replay_slow(trace, case.spec, case.options)
    except ArenaTooSmall:
        return
    given = {name: value for name, value in vars(case.clock).items() if value is not None}
    recorded = {name: value for name, value in trace.io.items() if name in PARAMETERS}
    params = ClockParams(**recorded | given, origin=dict.fromkeys(given, "clock"))
    sizes = np.array([[trace.sizes[at, e] for e in range(trace.experts)] for at in range(trace.layers)])
    at, times = list(trace.timing), np.array([*trace.timing.values()], float).reshape(-1, 2)
    table = {"window": np.array([w for w, _ in at], int), "layer": np.array([layer for _, layer in at], int)}
    table |= {"pre_us": times[:, 0], "post_us": times[:, 1]}
    log = np.array(log_of(result, trace.experts, split))
    account = Clock(params, sizes, split=split).step(log, 0, len(trace.windows), table)
    for (window, layer), expected in clock_slow(trace, result, case.clock, split).counts.items():
        cell = window * trace.layers + layer
        assert {name: int(account.columns[name][cell]) for name in expected} == expected, (window, layer)


# -- a log that contradicts itself


@pytest.mark.parametrize(
    ("log", "what"),
    [
        ([(9, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (9, 0)], "does not exist"),
        ([(OP_WINDOW, 1)], "out of range"),
        ([(OP_WINDOW, 0), (OP_WINDOW, 0)], "out of range"),
        ([(OP_ISSUE, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 4)], "out of range"),
        ([(OP_WINDOW, 0), (OP_ISSUE, -1)], "out of range"),
        ([(OP_WINDOW, 0), (OP_EVENT, 2)], "out of range"),
        ([(OP_WINDOW, 0), (OP_CLAIM, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_DEMAND, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_ISSUE, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_ASK, 1)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_ASK, 0), (OP_EVENT, 1)], "out of its place"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_DEMAND, 7)], "out of range"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_CLAIM, 0)], "not in flight"),
        ([(OP_WINDOW, 0), (OP_EVENT, 0), (OP_RETIRE, 0)], "not in flight"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_ISSUE, 0)], "already"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_EVENT, 0), (OP_CLAIM, 0), (OP_CLAIM, 0)], "not in flight"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_EVENT, 0), (OP_CLAIM, 0), (OP_RETIRE, 0)], "not in flight"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 0)], "neither claimed nor retired"),
        ([(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_WINDOW, 1)], "neither claimed nor retired"),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(log, what):
    with pytest.raises(IdentityError, match=what) as caught:
        run(log, [[1, 1], [1, 1]], windows=1 if (OP_WINDOW, 1) in log[:1] else 2)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_an_empty_log_is_an_empty_account():
    account = run([], [[1]], windows=0)
    assert account.total_ns.size == account.columns["timely"].size == 0


def test_a_read_too_large_for_the_arithmetic_is_refused():
    with pytest.raises(InputError, match="takes at most"):
        Clock(ClockParams(), np.full((1, 1), 2**47))


@pytest.mark.filterwarnings("error")  # of an overflow, where the kernels are not compiled
def test_sizes_beyond_32_bits():
    sizes = [3 * 2**32, 3 * 2**32 + 3, 2**46]
    log = [
        (OP_WINDOW, 0),
        (OP_EVENT, 0),
        *((OP_DEMAND, key) for key in (0, 1, 2, 0)),
        (OP_ASK, 0),
        (OP_FREE, 0),
    ]
    account = run(log, [sizes], pieces=3, workers=1, reserved=0)
    assert account.columns["disk_bytes"].tolist() == [sum(sizes) + sizes[0]]
    # one piece after the other, a nanosecond a byte
    assert account.columns["wait_ns"].tolist() == [sum(sizes) + sizes[0]]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 200])
def test_reads_go_by_ascending_id_whatever_the_order_of_the_log(count):
    for seed in range(20):
        keys = np.random.default_rng(seed).integers(0, 100, count).tolist()
        asks = [(OP_ASK, 0), (OP_FREE, 0)]
        account = run(
            [(OP_WINDOW, 0), (OP_EVENT, 0), *((OP_DEMAND, key) for key in keys), *asks], [[3] * 100]
        )
        assert account.reads.expert.tolist() == sorted(keys)
        assert account.reads.done_ns.tolist() == [100 + 3 * (i + 1) for i in range(count)]
        keys = sorted(set(keys))
        issues, claims = ([(op, key) for key in keys] for op in (OP_ISSUE, OP_CLAIM))
        ahead = run([(OP_WINDOW, 0), *issues[::-1], (OP_EVENT, 0), *claims[::-1], *asks], [[300] * 100])
        # the last id was issued first and runs when the event asks; the rest is promoted
        order = [keys[-1], *keys[:-1]]
        assert ahead.reads.expert[np.argsort(ahead.reads.done_ns)].tolist() == order


# -- parameters


def test_defaults():
    assert ClockParams().as_dict() == {
        "workers": 8, "reserved": 2, "pieces": 3, "latency_us": 80.0, "stream_gbps": 3.0, "device_gbps": 6.0,
        "pre_us": 200.0, "post_us": 600.0,
    }  # fmt: skip
    assert load_clock() == ClockParams()
    assert load_clock(None, None).origin == {}


def test_microseconds_round_half_to_even():
    assert [ClockParams(latency_us=us).latency_ns for us in (0.0005, 0.0015, 0.0025, 80)] == [0, 2, 2, 80000]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"workers": 0}, "workers = 0: expected a whole number from 1"),
        ({"workers": True}, "workers = True"),
        ({"workers": 2.0}, "workers = 2.0"),
        ({"reserved": -1}, "reserved = -1"),
        ({"reserved": 8}, "less than workers = 8"),
        ({"pieces": 0}, "pieces = 0"),
        ({"latency_us": -1.0}, "latency_us = -1.0: expected microseconds"),
        ({"latency_us": float("nan")}, "latency_us = nan"),
        ({"stream_gbps": 0}, "stream_gbps = 0: expected GB/s"),
        ({"device_gbps": float("inf")}, "device_gbps = inf"),
        ({"pre_us": "200"}, "pre_us = '200'"),
        ({"post_us": None}, "post_us = None"),
        ({"workers": 0, "pieces": -3}, "workers = 0.*pieces = -3"),
    ],
)
def test_impossible_parameters_are_one_line(given, what):
    with pytest.raises(InputError, match=what) as caught:
        ClockParams(**given)
    assert "\n" not in str(caught.value)


def write(tmp_path, text):
    path = tmp_path / "clock.toml"
    path.write_text(text)
    return path


def test_a_clock_file_comes_before_the_trace_and_that_before_the_defaults(tmp_path):
    path = write(tmp_path, "workers = 4\npre_us = 100\n")
    clock = load_clock(path, {"workers": 6, "pieces": 5, "latency_us": None, "queue_depth": 3, "pre_us": 7})
    assert clock == ClockParams(workers=4, pieces=5, pre_us=100)
    assert clock.origin == {"workers": "clock", "pieces": "trace", "pre_us": "clock"}


def test_reserved_gives_way_to_workers_from_a_nearer_source(tmp_path):
    assert load_clock(write(tmp_path, "workers = 1")).reserved == 0
    assert load_clock(write(tmp_path, "workers = 3"), {"workers": 16, "reserved": 8}).reserved == 2
    assert load_clock(None, {"workers": 2}).reserved == 1
    for text, io in [
        ("workers = 1\nreserved = 1", None),
        ("", {"workers": 2, "reserved": 2}),
        ("reserved = 9", None),
    ]:
        with pytest.raises(InputError, match="expected less than workers"):
            load_clock(write(tmp_path, text), io)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("worker = 8", r"clock.toml: unknown key 'worker'; did you mean workers\? known: workers, reserved"),
        ("workers = ", "not TOML"),
        ("[disk]\nworkers = 8", "unknown key 'disk'"),
        (
            "pieces = 0\nworker = 8\nlatency_us = -1",
            "unknown key 'worker'.*; pieces = 0: .*; latency_us = -1: ",
        ),
        ("worker = 8\npiece = 0", "unknown key 'worker'.*; unknown key 'piece'"),
        ("pieces = 0", r"clock.toml.*pieces = 0"),
        ("latency_us = nan", "latency_us = nan"),
        ("workers = '8'", "workers = '8'"),
    ],
)
def test_a_bad_clock_file_is_one_line(tmp_path, text, what):
    with pytest.raises(InputError, match=what) as caught:
        load_clock(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_clock_file_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="give a clock file"):
            load_clock(path)
    (tmp_path / "latin.toml").write_bytes(b"workers = 8 # \xe9")
    with pytest.raises(InputError, match="not TOML"):
        load_clock(tmp_path / "latin.toml")


def test_a_bad_io_names_the_trace():
    with pytest.raises(InputError, match="trace.json: io.*workers = 'many'"):
        load_clock(None, {"workers": "many"})


def test_parameters_are_named_once():
    assert list(ClockParams().as_dict()) == list(PARAMETERS)


TIMING = {
    "window": np.array([5, 5, 6], np.uint32),
    "layer": np.array([0, 1, 1], np.uint16),
    "pre_us": np.array([1.5, np.nan, 0.0625], np.float32),
    "post_us": np.array([2.0, 3.0, 4.0], np.float32),
}


def test_recorded_times_hold_where_the_file_does_not_say(tmp_path):
    pre, post = event_times(ClockParams(), TIMING, 5, 7, 2)
    assert pre.tolist() == [[1500, 200_000], [200_000, 62]]
    assert post.tolist() == [[2000, 3000], [600_000, 4000]]
    clock = load_clock(write(tmp_path, "post_us = 1"))
    assert event_times(clock, TIMING, 5, 7, 2)[1].tolist() == [[1000, 1000], [1000, 1000]]
    assert event_times(clock, TIMING, 5, 7, 2)[0].tolist() == pre.tolist()


@pytest.mark.parametrize("value", [-1.0, np.inf])
def test_an_impossible_recorded_time_is_refused(value):
    with pytest.raises(InputError, match="timing: window 5, layer 1: post_us"):
        event_times(ClockParams(), TIMING | {"post_us": np.array([1.0, value, 1.0])}, 5, 7, 2)
