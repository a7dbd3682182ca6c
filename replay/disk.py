"""The disk, compiled: workers, an urgent and a read-ahead queue, the link that moves pieces (semantics 6).

A clock's whole state is one flat int64 array ``m``, as :mod:`replay.arena` has its own (measured: twice as
fast as a tuple of arrays). Its parts, in order: a header, the heap of running pieces, a table from key to
the read-ahead read in flight, the read records, and what the current event named. A read's address in it is
its handle; field ``F`` of read ``x`` is ``m[x + F]``.

A read's pieces stand in a row in their queue, so the queues hold reads, not pieces: two doubly linked lists,
from which a retired read leaves in O(1). A piece's completion is known when it starts.

Pieces start at the end of every instant at which something happened; only an event that asks makes them
wait until it has cancelled, promoted and queued (:mod:`replay.timeline`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replay.fate import NEVER
from replay.jit import called

Memory = NDArray[np.int64]

# -- header
NOW, LINK_FREE, WINDOW_START = 0, 1, 2
COUNT, COUNT_AHEAD = 3, 4  # running pieces; those of them that started from the read-ahead queue
HEAD, TAIL = 5, 7  # of queue AHEAD at +0, of queue URGENT at +1; -1: empty
FREE = 9  # first free read record, linked through AFTER; -1: none
LIVE = 10  # read-ahead reads neither claimed nor retired
NEW_UNTIL, OLD_UNTIL = 11, 12  # when the last running piece of a limbo generation is done
UNFREED = 13  # 1 from an event's ask to its OP_FREE in split mode
WORKERS, AHEAD_LIMIT, PIECES, LATENCY, SPLIT, LAYERS, EXPERTS = range(14, 21)
ACTIVE, READS, CLAIMS, DEMANDS = range(21, 25)  # addresses of the parts behind the heap
AT, WRITTEN = 25, 26  # of one call: log row that the kernel stands at; records given out
CLAIMED, DEMANDED, ASKED = 27, 28, 29  # of one event: claims and demands named so far; when it asked
HEAP = 32

AHEAD, URGENT = 0, 1

# -- running piece: a binary heap at HEAP by completion, at most WORKERS of them
DONE, READ, SIZE, FROM_AHEAD = range(4)
RUNNING_SIZE = 4

# -- read
BYTES = 0
PIECE, OFFSET, WAITING = 1, 2, 3  # next piece, where it begins, pieces that wait in the queue
RUNNING, LAST_DONE, DONE_BYTES = 4, 5, 6
BEFORE, AFTER, QUEUE = 7, 8, 9  # neighbours in the queue, -1: none; which queue
CELL = 10  # event that it is counted at
PHASE = 11  # what it is now
ISSUED, STARTED = 12, 13  # when it was queued, and its first piece started
RECORD = 14  # row of its record, where reads are kept
KEY = 15
READ_SIZE = 16

RETIRED, IN_FLIGHT, NAMED = 0, 1, 2  # phases; NAMED: claimed or demanded by the current event


@called
def _push(m: Memory, done: int, read: int, size: int, ahead: int) -> None:
    """Add a running piece to the heap."""
    place = HEAP + RUNNING_SIZE * m[COUNT]
    m[COUNT] += 1
    m[COUNT_AHEAD] += ahead
    while place > HEAP:
        parent = HEAP + ((place - HEAP - RUNNING_SIZE) >> 3) * RUNNING_SIZE
        if m[parent + DONE] <= done:
            break
        for field in range(RUNNING_SIZE):
            m[place + field] = m[parent + field]
        place = parent
    m[place + DONE] = done
    m[place + READ] = read
    m[place + SIZE] = size
    m[place + FROM_AHEAD] = ahead


@called
def _pop(m: Memory) -> None:
    """Complete the running piece that is done first: its worker is free, its read has its bytes."""
    read = m[HEAP + READ]
    m[read + RUNNING] -= 1
    m[read + DONE_BYTES] += m[HEAP + SIZE]
    if m[read + RUNNING] == 0 and m[read + PHASE] == RETIRED:
        release(m, read)
    m[COUNT_AHEAD] -= m[HEAP + FROM_AHEAD]
    m[COUNT] -= 1
    last = HEAP + RUNNING_SIZE * m[COUNT]
    done = m[last + DONE]
    place = HEAP
    while True:
        child = 2 * place - HEAP + RUNNING_SIZE
        if child >= last:
            break
        other = child + RUNNING_SIZE
        if other < last and m[other + DONE] < m[child + DONE]:
            child = other
        if m[child + DONE] >= done:
            break
        for field in range(RUNNING_SIZE):
            m[place + field] = m[child + field]
        place = child
    for field in range(RUNNING_SIZE):
        m[place + field] = m[last + field]


@called
def release(m: Memory, read: int) -> None:
    """Give a read's record back."""
    m[read + AFTER] = m[FREE]
    m[FREE] = read


@called
def append(m: Memory, read: int, queue: int) -> None:
    """Put a read's waiting pieces at the end of a queue."""
    last = m[TAIL + queue]
    m[read + BEFORE] = last
    m[read + AFTER] = -1
    m[read + QUEUE] = queue
    if last < 0:
        m[HEAD + queue] = read
    else:
        m[last + AFTER] = read
    m[TAIL + queue] = read


@called
def unlink(m: Memory, read: int) -> None:
    """Take a read out of its queue."""
    before, after, queue = m[read + BEFORE], m[read + AFTER], m[read + QUEUE]
    if before < 0:
        m[HEAD + queue] = after
    else:
        m[before + AFTER] = after
    if after < 0:
        m[TAIL + queue] = before
    else:
        m[after + BEFORE] = before


@called
def start_pieces(m: Memory, stream: float, device: float) -> None:
    """Start queued pieces now, as far as workers are free: urgent first, read-ahead within its limit."""
    now = m[NOW]
    while m[COUNT] < m[WORKERS]:
        read, ahead = m[HEAD + URGENT], 0
        if read < 0:
            read, ahead = m[HEAD + AHEAD], 1
            if read < 0 or m[COUNT_AHEAD] >= m[AHEAD_LIMIT]:
                return
        begin, piece = m[read + OFFSET], m[read + PIECE]
        end = begin
        while end == begin:  # an empty piece is skipped
            piece += 1
            end = m[read + BYTES] * piece // m[PIECES]
        if begin == 0:
            m[read + STARTED] = now
        m[read + PIECE] = piece
        m[read + OFFSET] = end
        m[read + WAITING] -= 1
        if m[read + WAITING] == 0:
            unlink(m, read)
        size = end - begin
        ready = now + m[LATENCY]
        link = max(m[LINK_FREE], ready) + math.ceil(size / device)
        m[LINK_FREE] = link
        done = max(link, ready + math.ceil(size / stream))
        m[read + RUNNING] += 1
        m[read + LAST_DONE] = max(m[read + LAST_DONE], done)
        _push(m, done, read, size, ahead)


@called
def advance(m: Memory, stream: float, device: float, time: int) -> None:
    """Run every completion up to and including a time; pieces start after each instant before it."""
    while m[COUNT] > 0 and m[HEAP + DONE] <= time:
        now = m[HEAP + DONE]
        m[NOW] = now
        while m[COUNT] > 0 and m[HEAP + DONE] == now:
            _pop(m)
        if now < time:
            start_pieces(m, stream, device)
    m[NOW] = time


@called
def settle(m: Memory, stream: float, device: float, time: int) -> None:
    """Run every completion up to and including a time; pieces start after it too."""
    advance(m, stream, device, time)
    start_pieces(m, stream, device)


@called
def take(m: Memory, key: int, size: int, cell: int) -> int:
    """Open the record of a new read; none of its pieces waits in a queue yet."""
    read = m[FREE]
    m[FREE] = m[read + AFTER]
    m[read + BYTES] = size
    m[read + PIECE] = 0
    m[read + OFFSET] = 0
    m[read + WAITING] = min(size, m[PIECES])  # fewer bytes than pieces: the others are empty
    m[read + RUNNING] = 0
    m[read + LAST_DONE] = 0
    m[read + DONE_BYTES] = 0
    m[read + CELL] = cell
    m[read + PHASE] = IN_FLIGHT
    m[read + ISSUED] = m[NOW]
    m[read + STARTED] = NEVER
    m[read + RECORD] = m[WRITTEN]
    m[WRITTEN] += 1
    m[read + KEY] = key
    return read
