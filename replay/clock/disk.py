"""The disk, compiled: workers, an urgent and a read-ahead queue, the link that moves pieces (semantics 6).

A clock's whole state is one flat int64 array ``m``, as :mod:`replay.arena.record` has its own (measured: twice as
fast as a tuple of arrays). Its parts, in order: a header, known durations, the ring of running pieces, a table
from key to the read-ahead read in flight, the read records, and what the current event named. A read's address in
it is its handle; field ``F`` of read ``x`` is ``m[x + F]``.

A read's pieces stand in a row in their queue, so the queues hold reads, not pieces: two doubly linked lists,
from which a retired read leaves in O(1). A piece's completion is known when it starts: running pieces stand in a ring
by completion, which a piece enters from behind, where it mostly belongs (the link serves one after the other).
Divisions were a third of a piece's time: the bounds of a read's pieces are carried along, and what a piece of some size
takes is looked up (:data:`KNOWN`).

Pieces start at the end of every instant at which something happened; only an event that asks makes them
wait until it has cancelled, promoted and queued (:mod:`replay.clock.timeline`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replay.fate import NEVER
from replay.jit import called, inline

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
ACTIVE, READS, CLAIMS, DEMANDS = range(21, 25)  # addresses of the parts behind the ring
AT, WRITTEN = 25, 26  # of one call: log row that the kernel stands at; records given out
CLAIMED, DEMANDED, ASKED = 27, 28, 29  # of one event: claims and demands named so far; when it asked
FIRST, WRAP = 30, 31  # of the ring: offset of the piece that is done first; words, less one
KNOWN, KNOWN_BITS = 32, 5  # what pieces of some sizes take, SIZES of them at most, each at its hash's place
SIZES, KNOWN_SIZE = 1 << KNOWN_BITS, 4
RING = KNOWN + KNOWN_SIZE * SIZES

AHEAD, URGENT = 0, 1

# -- known duration
OF_SIZE, ON_LINK, ON_STREAM = range(3)  # bytes, and nanoseconds that they take on the link and in one stream

# -- running piece: in a ring at RING by completion, at most WORKERS of them
DONE, READ, SIZE, FROM_AHEAD = range(4)
RUNNING_SIZE = 4

# -- read
BYTES = 0
CARRY, OFFSET = 1, 2  # of the next piece: what is carried of REST, and its begin
WAITING = 3  # pieces that wait in the queue
RUNNING, LAST_DONE, DONE_BYTES = 4, 5, 6
BEFORE, AFTER, QUEUE = 7, 8, 9  # neighbours in the queue, -1: none; which queue
CELL = 10  # event that it is counted at
PHASE = 11  # what it is now
ISSUED, STARTED = 12, 13  # when it was queued, and its first piece started
RECORD = 14  # row of its record, where reads are kept
KEY = 15
SHARE, REST = 16, 17  # bytes of a piece, and those left over
READ_SIZE = 18

RETIRED, IN_FLIGHT, NAMED = 0, 1, 2  # phases; NAMED: claimed or demanded by the current event


def ring_words(workers: int) -> int:
    """Words of a ring for so many running pieces: a power of two."""
    return RUNNING_SIZE << (workers - 1).bit_length()


@inline
def _running(m: Memory, i: int) -> int:
    """Address of a running piece, by its place in the order of completion."""
    return RING + ((m[FIRST] + RUNNING_SIZE * i) & m[WRAP])


@inline
def first_done(m: Memory) -> int:
    """When the first running piece is done, of which there is one."""
    return m[RING + m[FIRST] + DONE]


@inline
def _enter(m: Memory, i: int, done: int, read: int, size: int, ahead: int) -> None:
    """Put a running piece into the ring, behind those of the ``i`` there that are done no later."""
    place = _running(m, i)
    while i > 0:
        before = _running(m, i - 1)
        if m[before + DONE] <= done:
            break
        for field in range(RUNNING_SIZE):
            m[place + field] = m[before + field]
        place = before
        i -= 1
    m[place + DONE] = done
    m[place + READ] = read
    m[place + SIZE] = size
    m[place + FROM_AHEAD] = ahead


@called
def _pop(m: Memory) -> None:
    """Complete the running piece that is done first: its worker is free, its read has its bytes."""
    first = RING + m[FIRST]
    read = m[first + READ]
    m[read + RUNNING] -= 1
    m[read + DONE_BYTES] += m[first + SIZE]
    if m[read + RUNNING] == 0 and m[read + PHASE] == RETIRED:
        release(m, read)
    m[COUNT_AHEAD] -= m[first + FROM_AHEAD]
    m[COUNT] -= 1
    m[FIRST] = (m[FIRST] + RUNNING_SIZE) & m[WRAP]


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


@inline
def _duration(m: Memory, size: int, stream: float, device: float) -> int:
    """Address of what a piece of some size takes on the link, and in one stream."""
    low = size & 0x7FFFFFFF  # so that the product is an int64, compiled or not
    known = KNOWN + KNOWN_SIZE * (((low * 0x9E3779B1) >> (32 - KNOWN_BITS)) & (SIZES - 1))
    if m[known + OF_SIZE] != size:
        m[known + OF_SIZE] = size
        m[known + ON_LINK] = math.ceil(size / device)
        m[known + ON_STREAM] = math.ceil(size / stream)
    return known


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
        begin, carry, size = m[read + OFFSET], m[read + CARRY], 0
        while size == 0:  # an empty piece is skipped
            size = m[read + SHARE]
            carry += m[read + REST]
            if carry >= m[PIECES]:
                carry -= m[PIECES]
                size += 1
        if begin == 0:
            m[read + STARTED] = now
        m[read + CARRY] = carry
        m[read + OFFSET] = begin + size
        m[read + WAITING] -= 1
        if m[read + WAITING] == 0:
            unlink(m, read)
        known = _duration(m, size, stream, device)
        ready = now + m[LATENCY]
        link = max(m[LINK_FREE], ready) + m[known + ON_LINK]
        m[LINK_FREE] = link
        done = max(link, ready + m[known + ON_STREAM])
        m[read + RUNNING] += 1
        m[read + LAST_DONE] = max(m[read + LAST_DONE], done)
        _enter(m, m[COUNT], done, read, size, ahead)
        m[COUNT] += 1
        m[COUNT_AHEAD] += ahead


@called
def advance(m: Memory, stream: float, device: float, time: int) -> None:
    """Run every completion up to and including a time; pieces start after each instant before it."""
    while m[COUNT] > 0 and first_done(m) <= time:
        now = first_done(m)
        m[NOW] = now
        while m[COUNT] > 0 and first_done(m) == now:
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
    m[read + SHARE] = size // m[PIECES]
    m[read + REST] = size - m[read + SHARE] * m[PIECES]
    m[read + CARRY] = 0
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
