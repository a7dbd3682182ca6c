"""The disk from its bursts: latency, and the rates of the device and of one stream.

Bursts are grouped by kind and by how many reads they hold, and each group has a median size and length. The latency
and the two rates are those whose bursts (:mod:`replay.fit.model`) have the least absolute relative error to these
medians, so that a few odd groups do not pull; groups weigh as the root of their bursts (Nelder and Mead's search
from several starts). A rate that can be made four times as large, or a latency that can be left out, without
moving any group by more than 1% cannot be told from the record: a rate is then set to what limits nothing.
Reads of one size do not tell latency and stream apart where the streams limit them; either split of the two
gives the same fates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from replay.clock.timing import ClockParams
from replay.fit.burst import AHEAD, MIXED, Bursts, read_bursts
from replay.fit.heldout import HeldOut, error
from replay.fit.model import Disk, burst_us
from replay.trace import Trace

GROUPS = 24
VISIBLE = 0.01
FREE = ("latency_us", "stream_gbps", "device_gbps")


@dataclass(frozen=True)
class DiskFit:
    """A fitted disk.

    Attributes
    ----------
    latency_us, stream_gbps, device_gbps : float
    hidden : tuple of str
        Those of them that the record does not show.
    bursts : int
        Bursts fitted on.
    most_reads : int
        Most reads that were in service at one time.
    error : HeldOut
        Of the time a window's bursts took.
    """

    latency_us: float
    stream_gbps: float
    device_gbps: float
    hidden: tuple[str, ...]
    bursts: int
    most_reads: int
    error: HeldOut


@dataclass(frozen=True)
class _Groups:
    """Bursts of a kind and of as many reads together: median bytes and length, and how many bursts."""

    kind: NDArray[np.int64]
    reads: NDArray[np.int64]
    bytes: NDArray[np.float64]
    us: NDArray[np.float64]
    count: NDArray[np.int64]

    def lengths(self, disk: Disk) -> NDArray[np.float64]:
        """What a disk would take for each group's burst."""
        rows = zip(self.reads.tolist(), self.bytes.tolist(), (self.kind == AHEAD).tolist(), strict=True)
        return np.array([burst_us(disk, *row) for row in rows])


def fit_disk(trace: Trace, training: NDArray[np.bool_], clock: ClockParams) -> DiskFit | None:
    """Fit the disk.

    Parameters
    ----------
    trace : Trace
        With the table ``reads``.
    training : bool[windows]
        Windows to fit on; the error is over the others.
    clock : ClockParams
        What is not fitted: workers, reserved, pieces; and where the search starts.

    Returns
    -------
    DiskFit or None
        None where no training window has a burst.
    """
    every, most = read_bursts(trace)
    mine = every.where(training[every.window])
    if not len(mine.us):
        return None
    groups = _group(mine)
    start = Disk(
        clock.latency_us, clock.stream_gbps, clock.device_gbps, clock.workers, clock.reserved, clock.pieces
    )  # fmt: skip
    disk, hidden = _settle(_search(groups, start), groups)
    others = every.where(~training[every.window])
    fitted = _fitted(disk, others)
    count = len(trace.windows)
    sums = [np.asarray(np.bincount(others.window, each, count), np.float64) for each in (fitted, others.us)]
    rates = disk.latency_us, disk.stream_gbps, disk.device_gbps
    return DiskFit(*rates, hidden, int(groups.count.sum()), most, error(sums[0], sums[1]))


def _group(bursts: Bursts) -> _Groups:
    """Groups by kind and number of reads, the most frequent ones; those of many sizes are cut at their eighths."""
    pure = bursts.where(bursts.kind != MIXED) if (bursts.kind != MIXED).any() else bursts
    key = pure.reads * 3 + pure.kind
    if len(np.unique(pure.reads)) < 3:
        cuts = np.quantile(pure.bytes, np.linspace(0, 1, 9)[1:-1])
        key = key * 16 + np.searchsorted(np.unique(cuts), pure.bytes)
    names, counts = np.unique(key, return_counts=True)
    parts = [key == each for each in np.sort(names[np.argsort(-counts, kind="stable")[:GROUPS]])]
    return _Groups(
        np.array([pure.kind[mine][0] for mine in parts], np.int64),
        np.array([pure.reads[mine][0] for mine in parts], np.int64),
        np.array([np.median(pure.bytes[mine]) for mine in parts]),
        np.array([np.median(pure.us[mine]) for mine in parts]),
        np.array([mine.sum() for mine in parts], np.int64),
    )


def _search(groups: _Groups, start: Disk) -> Disk:
    """The disk with the least relative error, from the best of several starts.

    Each start gives the shortest group its length, by other shares of latency and stream, with a device that
    is as fast as the fastest group or is no limit.
    """
    weight = np.sqrt(groups.count) / np.sqrt(groups.count).sum()

    def loss(point: NDArray[np.float64]) -> float:
        off = groups.lengths(_at(point, start)) / groups.us - 1.0
        return float((weight * np.abs(off)).sum())

    fastest = float((groups.bytes / groups.us).max() / 1000.0)
    short = int(groups.us.argmin())
    piece, shortest = float(groups.bytes[short] / groups.reads[short] / start.pieces), float(groups.us[short])
    found = [
        _descend(
            loss,
            np.log([shortest * share, piece / (shortest * (1 - share)) / 1000.0 * loose, fastest * room]),
        )
        for share in (0.1, 0.5, 0.9)
        for loose, room in ((1.0, 4.0), (8.0, 1.1))
    ]
    return _at(min(found, key=loss), start)


def _descend(loss: Callable[[NDArray[np.float64]], float], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nelder and Mead's search, started once more from where it ended."""
    for _ in range(2):
        point = minimize(
            loss, point, method="Nelder-Mead", options={"maxiter": 250, "xatol": 1e-6, "fatol": 1e-14}
        ).x
    return point


def _at(point: NDArray[np.float64], like: Disk) -> Disk:
    """A disk at a point of the search: the logarithms of its three free parameters."""
    latency, stream, device = np.exp(np.clip(point, -12.0, 14.0)).tolist()
    return replace(like, latency_us=latency, stream_gbps=stream, device_gbps=device)


def _settle(disk: Disk, groups: _Groups) -> tuple[Disk, tuple[str, ...]]:
    """Replace what the groups do not show, and name it."""
    others = {
        "latency_us": replace(disk, latency_us=0.0),
        "stream_gbps": replace(disk, stream_gbps=4.0 * disk.stream_gbps),
        "device_gbps": replace(disk, device_gbps=4.0 * disk.device_gbps),
    }
    lengths = groups.lengths(disk)
    hidden = [
        name
        for name, other in others.items()
        if np.abs(groups.lengths(other) / lengths - 1.0).max() <= VISIBLE
    ]
    if "stream_gbps" in hidden:
        disk = replace(disk, stream_gbps=disk.device_gbps)
    if "device_gbps" in hidden:
        disk = replace(disk, device_gbps=disk.stream_gbps * disk.workers)
    return disk, tuple(hidden)


def _fitted(disk: Disk, bursts: Bursts) -> NDArray[np.float64]:
    """What the disk takes for each burst; equal ones are worked out once."""
    rows = np.stack([bursts.reads, bursts.bytes.astype(np.int64), bursts.kind == AHEAD], axis=1)
    shapes, place = np.unique(rows, axis=0, return_inverse=True)
    lengths = np.array([burst_us(disk, *shape) for shape in shapes.tolist()])
    return lengths[place.ravel()] if len(lengths) else np.empty(0)
