"""A slow, plain twin of the compiled clock: the same event log, piece by piece, with objects and a heap.

Written from semantics 6 and 7, not from the kernel: every piece is an object that stands in a queue of its
own, waits are loops that look at every piece they wait for, and a limbo generation is a list of reads.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

OPS = ("window", "issue", "event", "claim", "demand", "retire", "ask", "free")


@dataclass(eq=False)
class Piece:
    read: Read
    size: int
    started: int | None = None
    done_at: int | None = None
    from_ahead: bool = False

    def done(self, now: int) -> bool:
        return self.done_at is not None and self.done_at <= now


@dataclass(eq=False)
class Read:
    key: int
    window: int
    issued: int
    pieces: list[Piece] = field(default_factory=list)
    needed: int | None = None
    fate: str | None = None


def half_even_ns(us: float) -> int:
    return round(Fraction(us * 1000.0))


class Disk:
    """The workers, the two queues and the link; time only moves in :meth:`run_until`."""

    def __init__(self, clock: dict[str, float]) -> None:
        self.clock = clock
        self.latency = half_even_ns(clock["latency_us"])
        self.now = 0
        self.link_free = 0
        self.urgent: deque[Piece] = deque()
        self.ahead: deque[Piece] = deque()
        self.running: list[tuple[int, int, Piece]] = []
        self.number = 0

    def start_pieces(self) -> None:
        while len(self.running) < self.clock["workers"]:
            from_ahead = sum(piece.from_ahead for _, _, piece in self.running)
            if self.urgent:
                piece = self.urgent.popleft()
            elif self.ahead and from_ahead < self.clock["workers"] - self.clock["reserved"]:
                piece = self.ahead.popleft()
                piece.from_ahead = True
            else:
                return
            ready = self.now + self.latency
            self.link_free = max(self.link_free, ready) + math.ceil(piece.size / self.clock["device_gbps"])
            piece.started = self.now
            piece.done_at = max(self.link_free, ready + math.ceil(piece.size / self.clock["stream_gbps"]))
            self.number += 1
            heapq.heappush(self.running, (piece.done_at, self.number, piece))

    def complete(self, time: int) -> None:
        """Free the workers of everything done at exactly this time."""
        self.now = time
        while self.running and self.running[0][0] == time:
            heapq.heappop(self.running)

    def run_until(self, time: int) -> None:
        """Everything before this time, and the completions at it; nothing starts at it yet."""
        while self.running and self.running[0][0] < time:
            self.complete(self.running[0][0])
            self.start_pieces()
        self.complete(time)

    def wait_for(self, pieces: list[Piece]) -> int:
        """Run until all these pieces are done; say how long that took."""
        since = self.now
        while not all(piece.done(self.now) for piece in pieces):
            self.complete(self.running[0][0])
            self.start_pieces()
        return self.now - since


def split_read(read: Read, size: int, pieces: int) -> None:
    for i in range(pieces):
        part = size * (i + 1) // pieces - size * i // pieces
        if part:
            read.pieces.append(Piece(read, part))


def count_fate(row: dict[str, int], read: Read, fate: str, now: int) -> None:
    size = sum(piece.size for piece in read.pieces)
    begun = sum(piece.size for piece in read.pieces if piece.started is not None)
    read.fate = fate
    row[fate] += 1
    if fate in ("timely", "late"):
        row[fate + "_bytes"] += size
        row["disk_bytes"] += size
        if fate == "late":
            row["late_exposed_bytes"] += sum(piece.size for piece in read.pieces if not piece.done(now))
        return
    row["disk_bytes"] += begun
    row["unused_bytes"] += begun
    row["cancelled_bytes"] += size - begun
    if fate == "partial":
        row["partial_read_bytes"] += begun
        row["partial_unread_bytes"] += size - begun


COLUMNS = (
    *("timely", "late", "cancelled", "partial", "unused"),
    *("timely_bytes", "late_bytes", "late_exposed_bytes", "cancelled_bytes", "unused_bytes"),
    *("partial_read_bytes", "partial_unread_bytes", "pending_read_bytes", "disk_bytes"),
    *("wait_ns", "limbo_wait_ns"),
)


class SlowClock:
    """One clock; :meth:`step` takes the log of whole windows and answers with plain dictionaries."""

    def __init__(self, clock: dict[str, float], sizes: list[list[int]], split: bool) -> None:
        self.clock = clock
        self.sizes = sizes
        self.split = split
        self.disk = Disk(clock)
        self.old: list[Read] = []
        self.new: list[Read] = []
        self.in_flight: dict[int, Read] = {}

    def step(
        self,
        log: list[tuple[int, int]],
        pre: dict[tuple[int, int], int] | None = None,
        post: dict[tuple[int, int], int] | None = None,
    ) -> tuple[dict[tuple[int, int], dict[str, int]], dict[int, int], list[Read]]:
        """Run a chunk.

        Returns the figures of each (window, layer), each window's total, and every read in order of issue;
        ``pre`` and ``post`` override the clock's constants for a (window, layer), in nanoseconds.
        """
        disk, experts = self.disk, len(self.sizes[0])
        rows: dict[tuple[int, int], dict[str, int]] = {}
        totals: dict[int, int] = {}
        reads: list[Read] = []
        window, window_start = -1, 0
        claims: list[int] = []
        demands: list[int] = []
        retires: list[int] = []

        def row(layer: int) -> dict[str, int]:
            return rows.setdefault((window, layer), dict.fromkeys(COLUMNS, 0))

        def new_read(key: int) -> Read:
            read = Read(key, window, disk.now)
            split_read(read, self.sizes[key // experts][key % experts], int(self.clock["pieces"]))
            reads.append(read)
            return read

        for code, arg in log:
            op = OPS[code]
            if op == "window":
                window, window_start = arg, disk.now
                totals[window] = 0
                assert not self.in_flight
            elif op == "issue":
                self.in_flight[arg] = read = new_read(arg)
                disk.ahead.extend(read.pieces)
                disk.start_pieces()
            elif op == "event":
                claims, demands, retires = [], [], []
            elif op == "claim":
                claims.append(arg)
            elif op == "demand":
                demands.append(arg)
            elif op == "retire":
                retires.append(arg)
            elif op == "ask":
                event = (window, arg)
                disk.run_until(disk.now + (pre or {}).get(event, half_even_ns(self.clock["pre_us"])))
                for key in retires:
                    read = self.in_flight.pop(key)
                    begun = [piece for piece in read.pieces if piece.started is not None]
                    disk.ahead = deque(piece for piece in disk.ahead if piece.read is not read)
                    fate = (
                        "cancelled"
                        if not begun
                        else "unused"
                        if len(begun) == len(read.pieces)
                        else "partial"
                    )
                    count_fate(row(key // experts), read, fate, disk.now)
                    self.new.append(read)
                wanted: list[Piece] = []
                for key in sorted(claims):
                    read = self.in_flight.pop(key)
                    read.needed = disk.now
                    late = not all(piece.done(disk.now) for piece in read.pieces)
                    count_fate(row(key // experts), read, "late" if late else "timely", disk.now)
                    disk.urgent.extend(piece for piece in disk.ahead if piece.read is read)
                    disk.ahead = deque(piece for piece in disk.ahead if piece.read is not read)
                    wanted += read.pieces
                for key in sorted(demands):
                    read = new_read(key)
                    read.needed, read.fate = disk.now, "demand"
                    row(arg)["disk_bytes"] += sum(piece.size for piece in read.pieces)
                    disk.urgent.extend(read.pieces)
                    wanted += read.pieces
                disk.start_pieces()
                row(arg)["wait_ns"] += disk.wait_for(wanted)
                if not self.split:
                    row(arg)["limbo_wait_ns"] += disk.wait_for(self.begun(self.new))
                    self.new = []
                totals[window] = disk.now - window_start
                disk.run_until(disk.now + (post or {}).get(event, half_even_ns(self.clock["post_us"])))
                disk.start_pieces()
            elif op == "free":
                row(arg)["limbo_wait_ns"] += disk.wait_for(self.begun(self.old))
                self.old, self.new = self.new, []
        return rows, totals, reads

    @staticmethod
    def begun(reads: list[Read]) -> list[Piece]:
        return [piece for read in reads for piece in read.pieces if piece.started is not None]


def read_times(read: Read) -> tuple[int, int]:
    """First start and last completion of a read's pieces, -1 where none started."""
    begun = [piece for piece in read.pieces if piece.started is not None]
    if not begun:
        return -1, -1
    return min(piece.started for piece in begun), max(piece.done_at for piece in begun)
