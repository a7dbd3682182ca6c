"""An event log in, fates, bytes and waits out: the compiled clock (semantics 6 and 7).

Residency was decided before; this kernel only lays time over it (:mod:`replay.clock.log` lists the ops).

Choices where the semantics are silent:

- An event's end, after ``post``, is a moment of its own: completions up to it free their workers and queued
  pieces start, also when ``pre`` of the next event is 0.
- A piece that started counts as read.
- With split=0 the limbo wait is part of the event's wait for a window's total.
- A limbo generation is free when the last of its running pieces is done, reclaimed slots' reads included.
- The same expert may be demanded more than once by an event (``cell=sequential``): each is a read.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.arena.sort import sort_words
from replay.clock.disk import (
    ACTIVE,
    AHEAD,
    ASKED,
    AT,
    BYTES,
    CELL,
    CLAIMED,
    CLAIMS,
    DEMANDED,
    DEMANDS,
    DONE_BYTES,
    EXPERTS,
    HEAD,
    IN_FLIGHT,
    ISSUED,
    KEY,
    LAST_DONE,
    LAYERS,
    LINK_FREE,
    LIVE,
    NAMED,
    NEW_UNTIL,
    NOW,
    OFFSET,
    OLD_UNTIL,
    PHASE,
    RECORD,
    RETIRED,
    RUNNING,
    SPLIT,
    STARTED,
    UNFREED,
    URGENT,
    WAITING,
    WINDOW_START,
    WRITTEN,
    Memory,
    advance,
    append,
    first_done,
    release,
    settle,
    start_pieces,
    take,
    unlink,
)  # fmt: skip
from replay.clock.log import OP_ASK, OP_CLAIM, OP_DEMAND, OP_EVENT, OP_FREE, OP_ISSUE, OP_RETIRE, OP_WINDOW
from replay.fate import CANCELLED, DEMAND, EVENT_COLUMNS, LATE, NEVER, PARTIAL, TIMELY, UNUSED
from replay.jit import MEMORY, called, loop

Grid = NDArray[np.int64]
_GRID = types.int64[:, ::1]

# -- columns of a read's record
R_CELL, R_KEY, R_BYTES, R_ISSUED, R_STARTED, R_DONE, R_NEEDED, R_FATE = range(8)
RECORD_FIELDS = 8

# -- columns of the output
(
    C_TIMELY, C_LATE, C_CANCELLED, C_PARTIAL, C_UNUSED,
    C_TIMELY_BYTES, C_LATE_BYTES, C_LATE_EXPOSED_BYTES, C_CANCELLED_BYTES, C_UNUSED_BYTES,
    C_PARTIAL_READ_BYTES, C_PARTIAL_UNREAD_BYTES, C_PENDING_READ_BYTES, C_DISK_BYTES,
    C_WAIT, C_LIMBO_WAIT,
) = range(len(EVENT_COLUMNS))  # fmt: skip

FAULTS = (
    "",
    "an op that does not exist",
    "an argument out of range",
    "an op out of its place",
    "a read-ahead of an expert that is being read ahead already",
    "a claim or retirement of a read-ahead that is not in flight",
    "a window that ends with read-ahead neither claimed nor retired",
    "a time beyond 146 years",
)
"""What a kernel's answer means; 0 is well. All but ``TOO_LATE`` are defects of the log's writer."""
_OK, _NO_OP, _RANGE, _PLACE, _TWICE, _NOT_IN_FLIGHT, _UNRESOLVED, TOO_LATE = range(len(FAULTS))

END_OF_TIME = 2**62


@called
def _write(m: Memory, records: Grid, read: int, fate: int) -> None:
    """Complete a read's record, where reads are kept; all its pieces that ever start have started."""
    if records.shape[0] > 0:
        record = m[read + RECORD]
        wanted = fate in (TIMELY, LATE, DEMAND)
        records[record, R_CELL] = m[read + CELL]
        records[record, R_KEY] = m[read + KEY]
        records[record, R_BYTES] = m[read + BYTES]
        records[record, R_ISSUED] = m[read + ISSUED]
        records[record, R_STARTED] = m[read + STARTED]
        records[record, R_DONE] = m[read + LAST_DONE] if m[read + STARTED] != NEVER else NEVER
        records[record, R_NEEDED] = m[ASKED] if wanted else NEVER
        records[record, R_FATE] = fate


@called
def _retire(m: Memory, out: Grid, records: Grid, read: int) -> None:
    """Drop a read's waiting pieces, count its fate; running pieces finish and hold its generation."""
    cell, size, begun = m[read + CELL], m[read + BYTES], m[read + OFFSET]
    out[cell, C_UNUSED_BYTES] += begun
    out[cell, C_CANCELLED_BYTES] += size - begun
    out[cell, C_DISK_BYTES] += begun
    if begun == 0:
        fate = CANCELLED
        out[cell, C_CANCELLED] += 1
    elif begun < size:
        fate = PARTIAL
        out[cell, C_PARTIAL] += 1
        out[cell, C_PARTIAL_READ_BYTES] += begun
        out[cell, C_PARTIAL_UNREAD_BYTES] += size - begun
    else:
        fate = UNUSED
        out[cell, C_UNUSED] += 1
    if m[read + WAITING] > 0:
        unlink(m, read)
    _write(m, records, read, fate)
    m[read + PHASE] = RETIRED
    if m[read + RUNNING] > 0:
        m[NEW_UNTIL] = max(m[NEW_UNTIL], m[read + LAST_DONE])
    else:
        release(m, read)


@called
def _claim(m: Memory, out: Grid, read: int) -> None:
    """Count what the event finds of a read that it wants, and promote the pieces that still wait."""
    cell, size = m[read + CELL], m[read + BYTES]
    out[cell, C_DISK_BYTES] += size
    exposed = size - m[read + DONE_BYTES]
    if exposed == 0:
        out[cell, C_TIMELY] += 1
        out[cell, C_TIMELY_BYTES] += size
    else:
        out[cell, C_LATE] += 1
        out[cell, C_LATE_BYTES] += size
        out[cell, C_LATE_EXPOSED_BYTES] += exposed
    if m[read + WAITING] > 0:
        unlink(m, read)
        append(m, read, URGENT)


@called
def _ask(m: Memory, stream: float, device: float, sizes: Memory, out: Grid, records: Grid, cell: int) -> None:
    """Promote and queue what the event wants, wait for all of it, and close those reads."""
    m[ASKED] = m[NOW]
    first_claim, end_claim = m[CLAIMS], m[CLAIMS] + m[CLAIMED]
    sort_words(m, first_claim, m[CLAIMED])
    for i in range(first_claim, end_claim):
        place = m[ACTIVE] + m[i]
        m[i] = m[place]
        m[place] = -1
        _claim(m, out, m[i])
    first_demand, end_demand = m[DEMANDS], m[DEMANDS] + m[DEMANDED]
    sort_words(m, first_demand, m[DEMANDED])
    for i in range(first_demand, end_demand):
        size = sizes[m[i]]
        m[i] = take(m, m[i], size, cell)
        append(m, m[i], URGENT)
        out[cell, C_DISK_BYTES] += size
    start_pieces(m, stream, device)
    while m[HEAD + URGENT] >= 0:
        settle(m, stream, device, first_done(m))
    until = m[ASKED]
    for i in range(first_claim, end_claim):
        until = max(until, m[m[i] + LAST_DONE])
    for i in range(first_demand, end_demand):
        until = max(until, m[m[i] + LAST_DONE])
    settle(m, stream, device, until)
    out[cell, C_WAIT] += until - m[ASKED]
    for i in range(first_claim, end_claim):
        _write(m, records, m[i], LATE if m[m[i] + LAST_DONE] > m[ASKED] else TIMELY)
        release(m, m[i])
    for i in range(first_demand, end_demand):
        _write(m, records, m[i], DEMAND)
        release(m, m[i])
    m[CLAIMED] = 0
    m[DEMANDED] = 0


@called
def _wait_limbo(m: Memory, stream: float, device: float, out: Grid, cell: int, until: int) -> None:
    """Wait for the running pieces of a limbo generation."""
    if until > m[NOW]:
        out[cell, C_LIMBO_WAIT] += until - m[NOW]
        settle(m, stream, device, until)


@loop(types.UniTuple(types.int64, 4)(_GRID, types.int64))
def measure_log(log: NDArray[np.int64], workers: int) -> tuple[int, int, int, int]:
    """Say how much room a log needs.

    Parameters
    ----------
    log : ndarray of int64, shape (n, 2)
        Event log of whole windows.
    workers : int
        Running pieces at most, hence retired reads that still run.

    Returns
    -------
    reads, records, claims, demands : int
        All reads of the log; read records in use at once; claims and demands of one event.
    """
    reads = live = claims = demands = most = most_claims = most_demands = 0
    for row in range(log.shape[0]):
        op = log[row, 0]
        if op == OP_ISSUE:
            reads += 1
            live += 1
        elif op == OP_DEMAND:
            reads += 1
            demands += 1
        elif op == OP_CLAIM:
            claims += 1
        elif op == OP_RETIRE:
            live -= 1
        elif op == OP_ASK:
            live -= claims
            claims = demands = 0
        most = max(most, live + demands)
        most_claims = max(most_claims, claims)
        most_demands = max(most_demands, demands)
    return reads, most + workers, most_claims, most_demands


@loop(
    types.int64(
        MEMORY, types.float64, types.float64, _GRID, types.int64, _GRID, _GRID, MEMORY, _GRID, MEMORY, _GRID
    )
)
def run_log(
    m: Memory,
    stream: float,
    device: float,
    log: Grid,
    w0: int,
    pre: Grid,
    post: Grid,
    sizes: Memory,
    out: Grid,
    total: Memory,
    records: Grid,
) -> int:
    """Run a clock over one chunk's event log.

    Parameters
    ----------
    m : ndarray of int64
        The clock, roomy enough for the log (``measure_log``); moved on to the log's end.
    stream, device : float
        Bytes per nanosecond of one piece, and of all together.
    log : ndarray of int64, shape (n, 2)
        Event log of windows ``[w0, w0 + nw)``.
    w0 : int
        First window.
    pre, post : ndarray of int64, shape (nw, L)
        Nanoseconds before an event asks, and after its wait.
    sizes : ndarray of int64, shape (L * E,)
        Bytes of each key.
    out : ndarray of int64, shape (nw * L, 16)
        ``fate.EVENT_COLUMNS`` of each event, added to.
    total : ndarray of int64, shape (nw,)
        Nanoseconds from each window's start to the end of its last event's wait, set.
    records : ndarray of int64, shape (reads, RECORD_FIELDS), or (0, RECORD_FIELDS) for none
        One row a read in the log's order of issue and ask, set.

    Returns
    -------
    int
        0, or the fault (``FAULTS``) met at log row ``m[AT]``; the clock is spoilt then.
    """
    layers, keys, active = m[LAYERS], m[LAYERS] * m[EXPERTS], m[ACTIVE]
    window, layer = -1, -1  # relative to w0, -1 before the first; the event's, -1 outside an event
    m[CLAIMED] = 0
    m[DEMANDED] = 0
    m[WRITTEN] = 0
    for row in range(log.shape[0]):
        m[AT] = row
        op, arg = log[row, 0], log[row, 1]
        if op in (OP_CLAIM, OP_RETIRE):
            if layer < 0:
                return _PLACE
            if arg < 0 or arg >= keys:
                return _RANGE
            read = m[active + arg]
            if read < 0 or m[read + PHASE] != IN_FLIGHT:
                return _NOT_IN_FLIGHT
            m[LIVE] -= 1
            if op == OP_CLAIM:
                m[read + PHASE] = NAMED
                m[m[CLAIMS] + m[CLAIMED]] = arg
                m[CLAIMED] += 1
            else:
                m[active + arg] = -1
                _retire(m, out, records, read)
        elif op == OP_DEMAND:
            if layer < 0:
                return _PLACE
            if arg < 0 or arg >= keys:
                return _RANGE
            m[m[DEMANDS] + m[DEMANDED]] = arg
            m[DEMANDED] += 1
        elif op == OP_ASK:
            if arg != layer or layer < 0:
                return _PLACE
            cell = window * layers + layer
            _ask(m, stream, device, sizes, out, records, cell)
            if m[SPLIT] == 0:
                _wait_limbo(m, stream, device, out, cell, m[NEW_UNTIL])
            total[window] = m[NOW] - m[WINDOW_START]
            settle(m, stream, device, m[NOW] + post[window, layer])
            if m[NOW] > END_OF_TIME or m[LINK_FREE] > END_OF_TIME:
                return TOO_LATE
            layer = -1
            m[UNFREED] = m[SPLIT]
        elif layer >= 0:
            return _PLACE
        elif op == OP_WINDOW:
            if arg - w0 <= window or arg - w0 >= pre.shape[0]:
                return _RANGE
            if m[LIVE] > 0:
                return _UNRESOLVED
            window = arg - w0
            m[WINDOW_START] = m[NOW]
        elif window < 0:
            return _PLACE
        elif op == OP_ISSUE:
            if arg < 0 or arg >= keys:
                return _RANGE
            if m[active + arg] >= 0:
                return _TWICE
            read = take(m, arg, sizes[arg], window * layers + arg // m[EXPERTS])
            m[active + arg] = read
            m[LIVE] += 1
            append(m, read, AHEAD)
            start_pieces(m, stream, device)
        elif op in (OP_EVENT, OP_FREE):
            if arg < 0 or arg >= layers:
                return _RANGE
            if op == OP_FREE:
                _wait_limbo(m, stream, device, out, window * layers + arg, m[OLD_UNTIL])
                m[OLD_UNTIL] = m[NEW_UNTIL]
                m[NEW_UNTIL] = 0
                m[UNFREED] = 0
            else:
                if m[UNFREED] != 0:
                    return _PLACE
                layer = arg
                advance(m, stream, device, m[NOW] + pre[window, layer])
        else:
            return _NO_OP
    if layer >= 0:
        return _PLACE
    return _UNRESOLVED if m[LIVE] > 0 else _OK
