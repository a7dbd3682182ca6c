"""What became of a read: the fates, and the account of a chunk's reads by event (semantics 7).

The clock (:mod:`replay.clock.clock`) gives every read of a replay its fate; :mod:`replay.ledger.recorded` accounts an
engine's own reads with the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

TIMELY, LATE, CANCELLED, PARTIAL, UNUSED, PENDING, DEMAND = range(7)

MEANING = {
    "timely": "claimed, all pieces done when the event asked",
    "late": "claimed, not all pieces done when the event asked",
    "cancelled": "never claimed, no piece had started when it retired",
    "partial": "never claimed, some pieces had started when it retired; the rest was cancelled",
    "unused": "never claimed, all pieces had started when it retired",
    "pending": "neither claimed nor retired: only in recorded reads, as a replay's windows are whole",
}
"""The fates of a read-ahead read; a name's place is its code (``TIMELY`` .. ``PENDING``)."""

FATES = tuple(MEANING)

EVENT_COLUMNS = (
    *("timely", "late", "cancelled", "partial", "unused"),
    *("timely_bytes", "late_bytes", "late_exposed_bytes", "cancelled_bytes", "unused_bytes"),
    *("partial_read_bytes", "partial_unread_bytes", "pending_read_bytes", "disk_bytes"),
    *("wait_ns", "limbo_wait_ns"),
)
"""What an account says of each event, in order."""

NEVER = -1
"""Stands for a time that never came, in nanoseconds."""


@dataclass(frozen=True)
class Reads:
    """Reads one by one, ordered by window, layer, expert and kind (demand first).

    Attributes
    ----------
    window, layer, expert : ndarray of int64, shape (n,)
        Window of issue, target layer and expert.
    demand : ndarray of bool, shape (n,)
        True for a demand read, False for a read-ahead.
    bytes : ndarray of int64, shape (n,)
        Bytes of the whole read.
    issued_ns, started_ns, done_ns, needed_ns : ndarray of int64, shape (n,)
        When it was queued, its first piece started, its last started piece was done, and an event asked for
        it; ``NEVER`` where that did not happen.
    fate : ndarray of int64, shape (n,)
        Code of the fate, ``DEMAND`` for a demand read.
    """

    window: NDArray[np.int64]
    layer: NDArray[np.int64]
    expert: NDArray[np.int64]
    demand: NDArray[np.bool_]
    bytes: NDArray[np.int64]
    issued_ns: NDArray[np.int64]
    started_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    needed_ns: NDArray[np.int64]
    fate: NDArray[np.int64]


@dataclass(frozen=True)
class Account:
    """What the reads of one chunk's windows came to.

    Attributes
    ----------
    w0 : int
        First window.
    cells : ndarray of int64, shape (windows * layers, len(EVENT_COLUMNS))
        Event (w, l) stands at ``(w - w0) * layers + l``. Reads are counted at their target layer in the window of
        their issue, waits at the layer that waits.
    total_ns : ndarray of int64, shape (windows,)
        From the window's start to the end of its last event's wait; ``NEVER`` where a recording does not say.
    reads : Reads or None
        Every read, where they were asked for.
    counts : dict of str to ndarray of int64, shape (windows * layers,)
        ``recorded.READ_COUNTS`` of a recorded table; empty for a clock, whose replay counts them itself.
    unknown : frozenset of str
        Columns that a recording does not tell: what stands there is only the part that is known, and a result
        shows null. Empty for a clock.
    differing : int
        Recorded reads whose fate contradicts their times; the recorded fate was taken.
    """

    w0: int
    cells: NDArray[np.int64]
    total_ns: NDArray[np.int64]
    reads: Reads | None = None
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    differing: int = 0

    @property
    def columns(self) -> dict[str, NDArray[np.int64]]:
        """The columns of ``cells`` by name."""
        return dict(zip(EVENT_COLUMNS, self.cells.T, strict=True))
