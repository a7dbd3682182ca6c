"""The row named ``recorded``: an engine's own reads accounted like a replay's."""

import numpy as np
import pytest
from slow.draw_log import random_clock, random_log, random_sizes

from replay.clock.clock import Clock, ClockParams
from replay.errors import InputError
from replay.fate import EVENT_COLUMNS, FATES, NEVER
from replay.ledger.recorded import READ_COUNTS, account_recorded

TIMES = ("issued_us", "started_us", "done_us", "needed_us")


def as_table(reads, fate=True):
    """Write a clock's reads as a trace has them."""
    table = {"window": reads.window, "layer": reads.layer, "expert": reads.expert, "bytes": reads.bytes}
    table["kind"] = np.where(reads.demand, "demand", "prefetch").astype(object)
    table["fate"] = np.array([(*FATES, None)[code] if fate else None for code in reads.fate], object)
    for name in TIMES:
        ns = getattr(reads, name.replace("_us", "_ns"))
        table[name] = np.where(ns == NEVER, np.nan, ns / 1000.0)
    return table


def rows(*reads):
    """Build a table of rows (window, layer, kind, bytes, issued, started, done, needed, fate)."""
    names = ("window", "layer", "kind", "bytes", *TIMES, "fate")
    columns = list(zip(*reads, strict=True)) or [()] * len(names)
    table = dict(zip(names, columns, strict=True))
    for name in TIMES:
        table[name] = np.array([np.nan if each is None else each for each in table[name]], float)
    for name in ("kind", "fate"):
        table[name] = np.array(table[name], object)
    return {name: np.array(column) for name, column in table.items()}


def timing(windows, layers, pre, post):
    window, layer = np.divmod(np.arange(windows * layers), layers)
    return {
        "window": window,
        "layer": layer,
        "pre_us": np.full(window.size, pre, np.float32),
        "post_us": np.full(window.size, post, np.float32),
    }


@pytest.mark.parametrize("seed", range(60))
def test_a_clocks_own_reads_account_to_its_own_figures(seed):
    rng = np.random.default_rng(seed)
    layers, experts, windows = int(rng.integers(1, 5)), int(rng.integers(1, 7)), 4
    sizes, split = random_sizes(rng, layers, experts), bool(seed % 2)
    params = ClockParams(**random_clock(rng) | {"pre_us": 0.125, "post_us": 0.25})
    log = random_log(rng, layers, experts, 0, windows, split)
    expected = Clock(params, sizes, split=split).step(np.array(log), 0, windows, reads=True)
    table = timing(windows, layers, 0.125, 0.25)
    found = account_recorded(as_table(expected.reads), 0, windows, layers, table)
    assert found.differing == 0
    for name in set(EVENT_COLUMNS) - found.unknown:
        assert found.columns[name].tolist() == expected.columns[name].tolist(), name
    for name in found.unknown:
        assert (found.columns[name] <= expected.columns[name]).all()
    asked = np.zeros((windows, layers), bool)
    wanted = expected.reads.needed_ns != NEVER
    asked[expected.reads.window[wanted], expected.reads.layer[wanted]] = True
    spanned = asked[:, 0] & asked[:, -1]
    if not expected.columns["limbo_wait_ns"].any():
        spanned[:] = True
    elif not split:
        spanned &= expected.columns["limbo_wait_ns"].reshape(windows, layers)[:, -1] == 0
    assert found.total_ns[spanned].tolist() == expected.total_ns[spanned].tolist()


def test_without_fates_the_times_tell_all_but_partial():
    rng = np.random.default_rng(3)
    log = random_log(rng, 3, 6, 0, 6, True)
    params = ClockParams(workers=2, reserved=1, latency_us=0, pre_us=20, post_us=5)
    expected = Clock(params, np.full((3, 6), 20_000)).step(np.array(log), 0, 6, reads=True)
    found = account_recorded(as_table(expected.reads, fate=False), 0, 6, 3)
    for name in ("timely", "late", "cancelled", "wait_ns"):
        assert found.columns[name].sum() > 0
        assert found.columns[name].tolist() == expected.columns[name].tolist()
    both = expected.columns["unused"] + expected.columns["partial"]
    assert found.columns["unused"].tolist() == both.tolist()
    assert found.total_ns.tolist() == [NEVER] * 6


MIXED = rows(
    (4, 0, "prefetch", 10, 0.0, 1.0, 2.0, 3.0, "timely"),
    (4, 0, "prefetch", 20, 0.0, 1.0, 5.0, 3.0, "late"),
    (4, 0, "demand", 40, 3.0, 3.0, 6.5, None, None),
    (4, 1, "prefetch", 80, 0.0, None, None, None, "cancelled"),
    (4, 1, "prefetch", 160, 0.0, 7.0, 9.0, None, "partial"),
    (5, 0, "prefetch", 320, 9.0, 9.5, 10.0, None, "unused"),
    (5, 1, "prefetch", 640, 9.0, 9.5, 10.0, None, "pending"),
    (5, 1, "prefetch", 1280, 9.0, 9.5, None, None, "pending"),
    (5, 1, "prefetch", 2560, 9.0, None, None, None, "pending"),
)


def test_every_fate_counts_and_conserves():
    account = account_recorded(MIXED, 4, 6, 2)
    columns, counts = account.columns, account.counts
    assert set(columns) == set(EVENT_COLUMNS)
    assert set(counts) == set(READ_COUNTS)
    assert columns["timely"].tolist() == columns["late"].tolist() == [1, 0, 0, 0]
    assert columns["wait_ns"].tolist() == [3500, 0, 0, 0]
    assert columns["disk_bytes"].tolist() == [70, 0, 320, 640]
    assert columns["pending_read_bytes"].tolist() == [0, 0, 0, 640]
    assert counts["pending"].tolist() == [0, 0, 0, 3]
    assert counts["misses"].tolist() == [1, 0, 0, 0]
    kept = counts["claimed_bytes"] + counts["retired_bytes"] + counts["pending_bytes"]
    assert counts["issued_bytes"].tolist() == kept.tolist() == [30, 240, 320, 4480]
    assert (
        counts["retired"].tolist() == (columns["cancelled"] + columns["partial"] + columns["unused"]).tolist()
    )
    assert account.unknown == {
        "late_exposed_bytes", "partial_read_bytes", "partial_unread_bytes", "cancelled_bytes", "unused_bytes",
        "pending_read_bytes", "disk_bytes", "limbo_wait_ns",
    }  # fmt: skip


def test_what_is_known_is_not_null():
    table = rows(
        (0, 0, "prefetch", 20, 0.0, 3.0, 5.0, 3.0, "late"),
        (0, 0, "prefetch", 7, 0.0, None, None, None, "cancelled"),
    )
    account = account_recorded(table, 0, 1, 1)
    assert account.unknown == frozenset()
    assert account.columns["late_exposed_bytes"].tolist() == [20]
    assert account.columns["cancelled_bytes"].tolist() == [7]


def test_a_wait_without_its_times_is_unknown():
    for read in [
        (0, 0, "demand", 1, None, 1.0, 2.0, None, None),
        (0, 0, "demand", 1, 1.0, 1.0, None, 1.0, None),
    ]:
        account = account_recorded(rows(read), 0, 1, 1, timing(1, 1, 1, 1))
        assert account.unknown == {"wait_ns"}
        assert account.total_ns.tolist() == [NEVER]


def test_totals_come_from_timing_and_span_the_recorded_asks():
    table = rows(
        (0, 0, "demand", 1, 1.0, 1.0, 2.0, 1.0, None),
        (0, 2, "demand", 1, 10.0, 10.0, 11.0, 10.0, None),
        (1, 1, "demand", 1, 100.0, 100.0, 107.0, 100.0, None),
    )
    account = account_recorded(table, 0, 3, 3, timing(3, 3, 1, 2))
    # window 0 spans its asks, whatever lies between; window 1: 3 pre, 2 post and its wait; window 2: no reads
    assert account.total_ns.tolist() == [11_000, 14_000, 7_000]
    some = {name: column[1:] for name, column in timing(3, 3, 1, 2).items()}
    assert account_recorded(table, 0, 3, 3, some).total_ns.tolist() == [NEVER, 14_000, 7_000]


def test_an_empty_table_is_an_empty_account():
    account = account_recorded(rows(), 3, 5, 2)
    assert account.unknown == frozenset()
    assert all(column.tolist() == [0] * 4 for column in account.columns.values())


def test_fates_that_contradict_their_times_are_counted():
    table = rows(
        (0, 0, "prefetch", 1, 0.0, 1.0, 4.0, 3.0, "timely"),
        (0, 0, "prefetch", 1, 0.0, 1.0, 2.0, 3.0, "late"),
        (0, 0, "prefetch", 1, 0.0, 1.0, 2.0, None, "cancelled"),
        (0, 0, "prefetch", 1, 0.0, 1.0, 2.0, 3.0, "unused"),
        (0, 0, "prefetch", 1, 0.0, 1.0, 2.0, 3.0, "timely"),
        (0, 0, "prefetch", 1, None, None, None, None, "timely"),
    )
    account = account_recorded(table, 0, 1, 1)
    assert account.differing == 4
    assert account.columns["timely"].tolist() == [3]


@pytest.mark.parametrize(
    ("place", "value", "what"), [(2, "demmand", "demand"), (8, "wasted", "known: timely"), (8, "lat", "late")]
)
def test_unknown_names_are_refused(place, value, what):
    read = [0, 0, "prefetch", 1, 0.0, 1.0, 2.0, 3.0, "timely"]
    read[place] = value
    with pytest.raises(InputError, match=f"reads: window 0, layer 0.*{value}.*{what}"):
        account_recorded(rows(tuple(read)), 0, 1, 1)
