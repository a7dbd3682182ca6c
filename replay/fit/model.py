"""How long a burst of reads takes on the disk of semantics 6: every piece queued at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True)
class Disk:
    """What decides a burst's length.

    Attributes
    ----------
    latency_us : float
    stream_gbps, device_gbps : float
        Of one piece, and of all together.
    workers, reserved : int
        Pieces that run at once, and workers that read-ahead leaves free.
    pieces : int
        Pieces of one read.
    """

    latency_us: float
    stream_gbps: float
    device_gbps: float
    workers: int
    reserved: int
    pieces: int


def burst_us(disk: Disk, reads: int, bytes: float, ahead: bool = False) -> float:
    """Time from the start of a burst of equal reads until the last of them is done.

    Parameters
    ----------
    disk : Disk
    reads : int
    bytes : float
        Of all the reads together.
    ahead : bool
        They are read-ahead reads.

    Returns
    -------
    float
        Microseconds.

    Examples
    --------
    >>> round(burst_us(Disk(80.0, 3.0, 6.0, 8, 2, 3), 1, 1_700_000), 1)
    363.3
    """
    size = bytes / (reads * disk.pieces)
    moving, alone = size / (disk.device_gbps * 1000.0), size / (disk.stream_gbps * 1000.0)
    limit = disk.workers - disk.reserved * bool(ahead)
    running: list[float] = []
    link = now = last = 0.0
    for _ in range(reads * disk.pieces):
        if len(running) == limit:
            now = heappop(running)
        ready = now + disk.latency_us
        link = max(link, ready) + moving
        last = max(last, link, ready + alone)
        heappush(running, max(link, ready + alone))
    return last
