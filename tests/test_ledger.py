"""The ledger: chunks add up, and one event that does not add up stops the run with its place."""

import numpy as np
import pytest

from replay.engine.frame import COUNTERS
from replay.errors import IdentityError
from replay.fate import DEMAND, EVENT_COLUMNS, NEVER, Account, Reads
from replay.ledger.ledger import Tally, reads_frame

LAYERS, WINDOWS = 3, 4


def chunk(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Account]:
    """Counters, peaks and an account of four windows that keep every identity."""
    counts = np.zeros((WINDOWS * LAYERS, len(COUNTERS)), np.int64)
    cells = np.zeros((WINDOWS * LAYERS, len(EVENT_COLUMNS)), np.int64)
    count = {name: counts[:, i] for i, name in enumerate(COUNTERS)}
    made = {name: cells[:, i] for i, name in enumerate(EVENT_COLUMNS)}
    for name in ("hits", "misses"):
        count[name][:] = rng.integers(0, 9, len(counts))
    for name in ("timely", "late", "cancelled", "unused"):
        made[name][:] = rng.integers(0, 9, len(counts))
        made[f"{name}_bytes"][:] = 10 * made[name]
    count["prefetch_hits"][:] = made["timely"] + made["late"]
    count["retired"][:] = made["cancelled"] + made["unused"]
    count["claimed_bytes"][:] = 10 * count["prefetch_hits"]
    count["retired_bytes"][:] = 10 * count["retired"]
    count["demand_bytes"][:] = 10 * count["misses"]
    count["lookups"][:] = count["hits"] + count["prefetch_hits"] + count["misses"]
    count["issued"][:] = count["prefetch_hits"] + count["retired"]
    count["issued_bytes"][:] = 10 * count["issued"]
    made["disk_bytes"][:] = count["demand_bytes"] + count["claimed_bytes"] + made["unused_bytes"]
    return counts, np.zeros((WINDOWS, 2), np.int64), Account(0, cells, np.zeros(WINDOWS, np.int64))


@pytest.mark.parametrize("warm", [0, 2, 5])
def test_chunks_add_up_by_phase_layer_and_window(warm: int) -> None:
    rng = np.random.default_rng(warm)
    tally = Tally("x", LAYERS, warm, timed=True)
    prefill = np.array([1, 0, 0, 1], np.uint8)
    both = [chunk(rng), chunk(rng)]
    for i, (counts, peaks, account) in enumerate(both):
        tally.add(WINDOWS * i, prefill, counts, peaks, account)
    whole = np.hstack(
        [
            np.concatenate([counts for counts, _, _ in both]),
            np.concatenate([account.cells for _, _, account in both]),
        ]
    ).reshape(2 * WINDOWS, LAYERS, -1)[warm:]
    phase = np.tile(prefill, 2)[warm:]
    for i, name in enumerate((*COUNTERS, *EVENT_COLUMNS)):
        if name in tally.by_layer:
            for each in (0, 1):
                assert tally.by_layer[name][each].tolist() == whole[phase == each, :, i].sum(axis=0).tolist()
            assert tally.by_window()[name].tolist() == whole[:, :, i].sum(axis=1).tolist(), name
    assert tally.by_layer["pending"].sum() == 0


@pytest.mark.parametrize(("window", "layer"), [(0, 0), (1, 2), (3, 1)])
@pytest.mark.parametrize("column", ["lookups", "issued_bytes", "disk_bytes", "timely"])
def test_an_event_that_does_not_add_up_is_named(window: int, layer: int, column: str) -> None:
    counts, peaks, account = chunk(np.random.default_rng(1))
    names, table = (COUNTERS, counts) if column in COUNTERS else (EVENT_COLUMNS, account.cells)
    table[window * LAYERS + layer, names.index(column)] += 1
    tally = Tally("unpert1", LAYERS, timed=True)
    with pytest.raises(IdentityError, match=rf"unpert1: \(window - 8, layer\), \({window}, {layer}\): "):
        tally.add(8, np.zeros(WINDOWS, np.uint8), counts, peaks, account)


def test_times_of_reads_are_the_nearest_microseconds() -> None:
    times = np.array([846_670, 430_080_100, 1, NEVER])
    zeros = np.zeros(4, np.int64)
    reads = Reads(zeros, zeros, zeros, zeros == 0, zeros + 1, times, times, times, times, zeros + DEMAND)
    table = reads_frame("x", "recorded", [reads])
    for name in ("issued_us", "started_us", "done_us", "needed_us"):
        assert table[name].to_list() == [846.67, 430080.1, 0.001, None]
    assert reads_frame("x", "recorded", []).schema == table.schema
