"""Bursts: stretches of time in which a disk worked without a gap on reads that were queued together.

All its reads were there when the first one started, so how many they are, how large, and how long they took is
all that a fit needs of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.trace import Trace

DEMAND, AHEAD, MIXED = 0, 1, 2

TOGETHER = 0.02
"""Share of a burst's length within which its last read was queued after its first one started."""


@dataclass(frozen=True)
class Bursts:
    """Bursts of reads, in the order of their start.

    Attributes
    ----------
    window : int64[n]
        Window of the first read.
    reads : int64[n]
    bytes : float64[n]
        Of all its reads.
    kind : int64[n]
        ``DEMAND`` or ``AHEAD`` where all of them are, else ``MIXED``.
    us : float64[n]
        From the start of the first read until the last is done.
    """

    window: NDArray[np.int64]
    reads: NDArray[np.int64]
    bytes: NDArray[np.float64]
    kind: NDArray[np.int64]
    us: NDArray[np.float64]

    def where(self, mask: NDArray[np.bool_]) -> Bursts:
        """Take some of them."""
        return Bursts(self.window[mask], self.reads[mask], self.bytes[mask], self.kind[mask], self.us[mask])


def read_bursts(trace: Trace) -> tuple[Bursts, int]:
    """Find the bursts of a trace's table ``reads``.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    Bursts
    int
        Most reads that were in service at one time.
    """
    parts, most = [], 0
    for table in _chunks(trace):
        found, together = _bursts(table)
        parts.append(found)
        most = max(most, together)
    names = ("window", "reads", "bytes", "kind", "us")
    return Bursts(*(np.concatenate([getattr(each, name) for each in parts]) for name in names)), most


def _chunks(trace: Trace) -> Iterator[Mapping[str, NDArray[Any]]]:
    for chunk in trace.chunks({"reads"}):
        yield chunk.tables["reads"]


def _bursts(table: Mapping[str, NDArray[Any]]) -> tuple[Bursts, int]:
    """Bursts of one chunk; those with a read whose bytes or times are not known in full are left out."""
    ran = np.flatnonzero(~np.isnan(table["started_us"]))
    order = ran[np.argsort(table["started_us"][ran], kind="stable")]
    start, done = table["started_us"][order], table["done_us"][order]
    issued, size = table["issued_us"][order], table["bytes"][order].astype(np.float64)
    vague = np.isnan(done) | np.isin(table["fate"][order], ("partial", "pending"))
    if not len(order):
        none = np.empty(0)
        return Bursts(none.astype(np.int64), none.astype(np.int64), none, none.astype(np.int64), none), 0
    until = np.maximum.accumulate(np.where(np.isnan(done), start, done))
    first = np.flatnonzero(np.concatenate([[True], start[1:] >= until[:-1]]))
    last = np.append(first[1:], len(order)) - 1
    length = until[last] - start[first]
    late = np.maximum.reduceat(np.where(np.isnan(issued), start, issued), first) - start[first]
    whole = ~np.logical_or.reduceat(vague, first) & (length > 0) & (late <= TOGETHER * length + 0.5)
    demand = table["kind"][order] == "demand"
    mixed = np.logical_or.reduceat(demand, first)
    found = Bursts(
        table["window"][order][first].astype(np.int64),
        last - first + 1,
        np.add.reduceat(size, first),
        np.where(np.logical_and.reduceat(demand, first), DEMAND, np.where(mixed, MIXED, AHEAD)),
        length,
    ).where(whole)
    ends = np.sort(done[~np.isnan(done)])
    running = np.arange(1, len(start) + 1) - np.searchsorted(ends, start, side="right")
    return found, int(running.max())
