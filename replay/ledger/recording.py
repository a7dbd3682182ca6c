"""The row named ``recorded``: what the engine itself read, from a trace's ``reads`` and ``timing`` tables.

Lookups are the unique experts of the recorded selections; demand reads are the misses, claimed read-ahead reads
the prefetch hits, and what is left are hits. What a recording does not tell (dropped guesses, pollution, peaks, some
parts of partial reads) is null in every table.
"""

from __future__ import annotations

import numpy as np

from replay.engine.frame import COUNTERS, HITS, LOOKUPS
from replay.errors import InputError
from replay.ledger.ledger import Tally
from replay.ledger.recorded import READ_COUNTS, account_recorded
from replay.prepare.union import wanted
from replay.trace import Trace

UNTOLD = frozenset({"dropped", "pollution", "peak_speculative", "peak_limbo"})


def recorded_tally(trace: Trace, warm: int = 0) -> Tally | None:
    """Account a trace's own reads.

    Parameters
    ----------
    trace : Trace
    warm : int
        First windows that are not counted.

    Returns
    -------
    Tally or None
        None where the trace has no table ``reads``.

    Raises
    ------
    InputError
        The reads contradict the selections.
    """
    if not trace.has("reads"):
        return None
    meta = trace.meta
    tally = Tally("recorded", meta.layers, warm, timed=True)
    tables = {"selections", "reads"} | ({"timing"} if trace.has("timing") else set())
    for chunk in trace.chunks(tables):
        windows = chunk.w1 - chunk.w0
        account = account_recorded(
            chunk.tables["reads"], chunk.w0, chunk.w1, meta.layers, chunk.tables.get("timing")
        )
        offsets, _ = wanted(chunk, np.diff(chunk.row_start), meta.layers, meta.experts)
        counts = np.zeros((windows * meta.layers, len(COUNTERS)), np.int64)
        for name in READ_COUNTS:
            if name in COUNTERS:
                counts[:, COUNTERS.index(name)] = account.counts[name]
        counts[:, LOOKUPS] = np.diff(offsets)
        counts[:, HITS] = counts[:, LOOKUPS] - account.counts["misses"] - account.counts["prefetch_hits"]
        wrong = np.flatnonzero(counts[:, HITS] < 0)
        if len(wrong):
            window, layer = divmod(int(wrong[0]), meta.layers)
            raise InputError(
                f"{trace.path}: table reads, window {chunk.w0 + window}, layer {layer}: more demand and claimed reads "
                f"than the {counts[wrong[0], LOOKUPS]} experts that the event wanted; record one read a miss"
            )
        prefill = trace.windows.prefill[chunk.w0 : chunk.w1].astype(np.uint8)
        tally.unknown |= account.unknown | UNTOLD
        pending = {name: account.counts[name] for name in ("pending", "pending_bytes")}
        tally.add(chunk.w0, prefill, counts, np.zeros((windows, 2), np.int64), account, pending)
    return tally
