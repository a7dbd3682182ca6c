"""The clock and disk of semantics 6 and the fates of semantics 7, over the log of the slow twin.

Time is an integer count of nanoseconds. Everything happens in the order of the text: at the instant that an
event asks, completions up to and including that instant, cancellations, promotions (ascending id), demand
reads (ascending id, repeats stay), and only then starts. Everywhere else the completions of one instant free
their workers, then queued pieces start at that instant.

Choices where the semantics are silent
--------------------------------------
- The limbo wait is counted at the layer that waits: with split=1 the one after which a generation is freed.
- A window's `total_us` runs from the end of the previous window's last step to the end of its own, so a
  limbo wait after the last layer is in it, and issues at the window's start cost nothing.
- Fates, waits and bytes of warm windows are not counted; their reads still use the disk, and time runs.
- A layer or window without recorded timing has the default pre and post.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .result import BeginWindow, Event, Issue, SlowResult
from .trace import SlowTrace

COUNTS = (
    "timely",
    "late",
    "cancelled",
    "partial",
    "unused",
    "timely_bytes",
    "late_bytes",
    "late_exposed_bytes",
    "cancelled_bytes",
    "unused_bytes",
    "partial_read_bytes",
    "partial_unread_bytes",
    "disk_bytes",
    "wait_ns",
    "limbo_wait_ns",
)


def nanoseconds(us: float) -> int:
    """Microseconds times 1000, rounded half to even."""
    return round(us * 1000)


@dataclass(frozen=True)
class SlowClock:
    """Disk and compute times; None takes the trace's (`io`, `timing`), then the defaults of semantics 6."""

    workers: int | None = None
    reserved: int | None = None
    pieces: int | None = None
    latency_us: float | None = None
    stream_gbps: float | None = None
    device_gbps: float | None = None
    pre_us: float | None = None
    post_us: float | None = None

    def resolve(self, name: str, recorded: dict[str, float]) -> Any:
        """Value of one option, by the order clock, trace, default."""
        mine = getattr(self, name)
        return mine if mine is not None else recorded.get(name, DEFAULTS[name])


DEFAULTS: dict[str, float] = {
    "workers": 8,
    "reserved": 2,
    "pieces": 3,
    "latency_us": 80.0,
    "stream_gbps": 3.0,
    "device_gbps": 6.0,
    "pre_us": 200.0,
    "post_us": 600.0,
}


@dataclass
class Piece:
    """One piece of a read; times are None until it starts."""

    size: int
    started: int | None = None
    done: int | None = None

    def is_done(self, now: int) -> bool:
        """Whether the piece is complete at `now`, that instant included."""
        return self.done is not None and self.done <= now


@dataclass
class Read:
    """One read: its non-empty pieces."""

    window: int
    layer: int
    expert: int
    size: int
    issued_ns: int
    pieces: list[Piece]

    def bytes_where(self, condition: Any) -> int:
        """Bytes of the pieces that fulfil a condition."""
        return sum(piece.size for piece in self.pieces if condition(piece))


@dataclass
class Fate:
    """How one read-ahead read ended, at `settled_ns` (the instant at which its event asked)."""

    window: int
    layer: int
    expert: int
    size: int
    issued_ns: int
    settled_ns: int
    fate: str
    exposed: int = 0
    unread: int = 0


@dataclass
class SlowTimes:
    """What a slow clock found.

    Attributes
    ----------
    counts
        (window, layer) to the integers of `COUNTS`; counted windows only. Waits are in nanoseconds.
    total_ns
        window to the time from its start to the end of its last event's wait; counted windows only.
    fates
        Issue number to its fate, warm windows included.
    """

    counts: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    total_ns: dict[int, int] = field(default_factory=dict)
    fates: dict[int, Fate] = field(default_factory=dict)


class Disk:
    """Workers, queues and the link."""

    def __init__(self, clock: SlowClock, recorded: dict[str, float]) -> None:
        self.workers: int = clock.resolve("workers", recorded)
        self.ahead_workers: int = self.workers - clock.resolve("reserved", recorded)
        self.pieces: int = clock.resolve("pieces", recorded)
        self.latency = nanoseconds(clock.resolve("latency_us", recorded))
        self.stream: float = clock.resolve("stream_gbps", recorded)
        self.device: float = clock.resolve("device_gbps", recorded)
        self.urgent: deque[Piece] = deque()
        self.ahead: deque[Piece] = deque()
        self.running: list[tuple[int, int, bool]] = []
        self.ahead_running = 0
        self.starts = 0
        self.link_free = 0

    def cut(self, size: int) -> list[Piece]:
        """Pieces of a read; empty ones are skipped."""
        n = self.pieces
        spans = [size * (i + 1) // n - size * i // n for i in range(n)]
        return [Piece(span) for span in spans if span > 0]

    def start(self, now: int) -> None:
        """Start queued pieces while workers are free, urgent first."""
        while len(self.running) < self.workers:
            if self.urgent:
                self.run(self.urgent.popleft(), now, ahead=False)
            elif self.ahead and self.ahead_running < self.ahead_workers:
                self.run(self.ahead.popleft(), now, ahead=True)
            else:
                return

    def run(self, piece: Piece, now: int, ahead: bool) -> None:
        """Start one piece: its latency, then its turn on the device, at no more than the stream's rate."""
        ready = now + self.latency
        self.link_free = max(self.link_free, ready) + math.ceil(piece.size / self.device)
        piece.started = now
        piece.done = max(self.link_free, ready + math.ceil(piece.size / self.stream))
        self.starts += 1
        heapq.heappush(self.running, (piece.done, self.starts, ahead))
        self.ahead_running += ahead

    def free_workers(self, now: int) -> None:
        """Take the completions of one instant."""
        while self.running and self.running[0][0] == now:
            self.ahead_running -= heapq.heappop(self.running)[2]

    def advance(self, until: int, start_at_end: bool) -> None:
        """Let time run to `until`: completions of an instant free workers, then queued pieces start there.

        At `until` itself queued pieces start only with `start_at_end`.
        """
        while self.running and self.running[0][0] <= until:
            now = self.running[0][0]
            self.free_workers(now)
            if now < until or start_at_end:
                self.start(now)

    def wait(self, now: int, pieces: list[Piece]) -> int:
        """Let time run until the pieces are done; returns that instant, `now` when they are."""
        while not all(piece.is_done(now) for piece in pieces):
            now = self.running[0][0]
            self.advance(now, start_at_end=True)
        return now


class _Run:
    """One clock laid over one log."""

    def __init__(self, trace: SlowTrace, clock: SlowClock, split: bool, warm: int) -> None:
        self.trace, self.clock, self.split, self.warm = trace, clock, split, warm
        self.disk = Disk(clock, trace.io)
        self.now = 0
        self.window_start: tuple[int, int] | None = None
        self.reads: dict[int, Read] = {}
        self.generation: list[Piece] = []
        self.times = SlowTimes()

    def count(self, window: int, layer: int) -> dict[str, int]:
        """Counts of one (window, layer); a warm one's go nowhere."""
        if window < self.warm:
            return dict.fromkeys(COUNTS, 0)
        return self.times.counts.setdefault((window, layer), dict.fromkeys(COUNTS, 0))

    def begin_window(self, window: int | None) -> None:
        """Begin a window."""
        self.window_start = None if window is None else (window, self.now)

    def issue(self, entry: Issue) -> None:
        """Queue a read-ahead read now; its pieces start at once where they may."""
        pieces = self.disk.cut(entry.size)
        self.reads[entry.read] = Read(entry.window, *entry.key, entry.size, self.now, pieces)
        self.disk.ahead.extend(pieces)
        self.disk.start(self.now)

    def compute(self, event: Event) -> tuple[int, int]:
        """Pre and post of one event, in nanoseconds."""
        timing = self.trace.timing.get((event.window, event.layer), (DEFAULTS["pre_us"], DEFAULTS["post_us"]))
        pre = timing[0] if self.clock.pre_us is None else self.clock.pre_us
        post = timing[1] if self.clock.post_us is None else self.clock.post_us
        return nanoseconds(pre), nanoseconds(post)

    def event(self, event: Event) -> None:
        """Run one event and what follows it up to the issues of its `after_layer`."""
        pre, post = self.compute(event)
        count = self.count(event.window, event.layer)
        self.now += pre
        self.disk.advance(self.now, start_at_end=False)
        retired = self.retire(event)
        wanted = self.promote(event) + self.demand(event, count)
        self.disk.start(self.now)
        self.wait(count, "wait_ns", wanted)
        if not self.split:
            self.wait(count, "limbo_wait_ns", retired)
        if self.window_start is not None and event.window >= self.warm:
            self.times.total_ns[event.window] = self.now - self.window_start[1]
        self.now += post
        self.disk.advance(self.now, start_at_end=True)
        if self.split:
            self.wait(count, "limbo_wait_ns", self.generation)
            self.generation = retired
        self.disk.start(self.now)

    def wait(self, count: dict[str, int], name: str, pieces: list[Piece]) -> None:
        """Wait for pieces and count it."""
        then = self.disk.wait(self.now, pieces)
        count[name] += then - self.now
        self.now = then

    def settle(self, number: int, fate: str, exposed: int = 0, unread: int = 0) -> dict[str, int]:
        """Note a read's fate; returns the counts of the read's own layer, its count raised."""
        r = self.reads.pop(number)
        self.times.fates[number] = Fate(
            r.window, r.layer, r.expert, r.size, r.issued_ns, self.now, fate, exposed, unread
        )
        count = self.count(r.window, r.layer)
        count[fate] += 1
        return count

    def retire(self, event: Event) -> list[Piece]:
        """Cancel the queued pieces of the reads that retire; returns the pieces that started."""
        started: list[Piece] = []
        for number in event.retired:
            read = self.reads[number]
            mine = [piece for piece in read.pieces if piece.started is not None]
            unread = read.bytes_where(lambda piece: piece.started is None)
            self.disk.ahead = deque(p for p in self.disk.ahead if not any(p is q for q in read.pieces))
            fate = "unused" if not unread else "partial" if mine else "cancelled"
            count = self.settle(number, fate, unread=unread)
            count["cancelled_bytes"] += unread
            count["unused_bytes"] += read.size - unread
            count["disk_bytes"] += read.size - unread
            if fate == "partial":
                count["partial_read_bytes"] += read.size - unread
                count["partial_unread_bytes"] += unread
            started += mine
        return started

    def promote(self, event: Event) -> list[Piece]:
        """Move the queued pieces of the wanted reads to the end of the urgent queue, ascending id."""
        wanted: list[Piece] = []
        for number in sorted(event.claimed, key=lambda n: self.reads[n].expert):
            read = self.reads[number]
            exposed = read.bytes_where(lambda piece: not piece.is_done(self.now))
            self.disk.urgent.extend(p for p in read.pieces if p.started is None)
            self.disk.ahead = deque(p for p in self.disk.ahead if not any(p is q for q in read.pieces))
            fate = "late" if exposed else "timely"
            count = self.settle(number, fate, exposed=exposed)
            count[fate + "_bytes"] += read.size
            count["disk_bytes"] += read.size
            count["late_exposed_bytes"] += exposed
            wanted += read.pieces
        return wanted

    def demand(self, event: Event, count: dict[str, int]) -> list[Piece]:
        """Queue the demand reads urgent, ascending id."""
        wanted: list[Piece] = []
        for key in sorted(event.demanded):
            count["disk_bytes"] += self.trace.sizes[key]
            pieces = self.disk.cut(self.trace.sizes[key])
            self.disk.urgent.extend(pieces)
            wanted += pieces
        return wanted


def clock_slow(
    trace: SlowTrace, result: SlowResult, clock: SlowClock, split: bool = True, warm: int = 0
) -> SlowTimes:
    """Lay one clock over a slow replay's log.

    Parameters
    ----------
    split, warm
        As the replay had them.
    """
    run = _Run(trace, clock, split, warm)
    for entry in result.log:
        if isinstance(entry, BeginWindow):
            run.begin_window(entry.window)
        elif isinstance(entry, Issue):
            run.issue(entry)
        else:
            run.event(entry)
    run.begin_window(None)
    assert not run.reads
    return run.times
