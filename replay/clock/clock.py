"""A clock over a replay: when every read happened, and what that made of it (semantics 6).

A :class:`Clock` takes the event log of each chunk of a residency pass (:mod:`replay.clock.log` lists its ops)
and answers with an :class:`~replay.fate.Account`. Its state runs through from window to window and chunk to
chunk; any number of clocks can be laid over one log, each with a state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.clock import disk, timeline
from replay.clock.timing import ClockParams, event_times, load_clock
from replay.errors import IdentityError, InputError
from replay.fate import DEMAND, EVENT_COLUMNS, Account, Reads

__all__ = ["Clock", "ClockParams", "load_clock"]

LARGEST_READ = 2**46


class Clock:
    """One clock over one residency pass.

    Parameters
    ----------
    params : ClockParams
        The disk and the compute.
    sizes : ndarray of int64, shape (layers, experts)
        Bytes of each expert.
    split : bool
        True when the log frees limbo generations with ``OP_FREE``; False (``split=0``): every event waits for
        the reads that retire at it.

    Raises
    ------
    InputError
        An expert beyond 64 TiB.

    Examples
    --------
    One layer, two experts of 6 MB. The first is read ahead, the event wants both: at 200 us the read-ahead is
    not done.

    >>> import numpy as np
    >>> from replay.clock.log import OP_ASK, OP_CLAIM, OP_DEMAND, OP_EVENT, OP_FREE, OP_ISSUE, OP_WINDOW
    >>> log = [(OP_WINDOW, 0), (OP_ISSUE, 0), (OP_EVENT, 0)]
    >>> log += [(OP_CLAIM, 0), (OP_DEMAND, 1), (OP_ASK, 0), (OP_FREE, 0)]
    >>> clock = Clock(ClockParams(), np.full((1, 2), 6_000_000))
    >>> account = clock.step(np.array(log), 0, 1)
    >>> int(account.columns["late"][0]), int(account.columns["disk_bytes"][0])
    (1, 12000000)
    """

    def __init__(self, params: ClockParams, sizes: NDArray[np.int64], *, split: bool = True) -> None:
        self.params = params
        self.split = split
        self.layers, self.experts = sizes.shape
        self.sizes = np.ascontiguousarray(sizes, np.int64).ravel()
        if self.sizes.size and self.sizes.max() > LARGEST_READ:
            raise InputError(f"experts: {self.sizes.max()} bytes: a clock takes at most {LARGEST_READ}")
        self._memory = self._new_memory(params, split)

    def _new_memory(self, params: ClockParams, split: bool) -> NDArray[np.int64]:
        ring = disk.ring_words(params.workers)
        active = disk.RING + ring
        m = np.zeros(active + self.sizes.size, np.int64)
        m[active:] = -1
        m[[disk.HEAD, disk.HEAD + 1, disk.TAIL, disk.TAIL + 1, disk.FREE]] = -1
        m[disk.WORKERS], m[disk.WRAP] = params.workers, ring - 1
        m[disk.KNOWN : disk.RING] = -1
        m[disk.AHEAD_LIMIT] = params.workers - params.reserved
        m[disk.PIECES] = params.pieces
        m[disk.LATENCY] = params.latency_ns
        m[disk.SPLIT] = split
        m[[disk.LAYERS, disk.EXPERTS]] = self.layers, self.experts
        m[disk.ACTIVE] = active
        m[[disk.READS, disk.CLAIMS, disk.DEMANDS]] = m.size
        return m

    @property
    def now_ns(self) -> int:
        """Time of the clock, in nanoseconds since the replay's start."""
        return int(self._memory[disk.NOW])

    def step(
        self,
        log: NDArray[np.int64],
        w0: int,
        w1: int,
        timing: Mapping[str, NDArray[Any]] | None = None,
        *,
        reads: bool = False,
    ) -> Account:
        """Run over the log of the next chunk.

        Parameters
        ----------
        log : ndarray of int64, shape (n, 2)
            Rows ``(OP, ARG)`` of the windows ``[w0, w1)``, whole and in order.
        w0, w1 : int
            The chunk's windows.
        timing : mapping of str to ndarray, or None
            The trace's ``timing`` rows of these windows, see :func:`event_times`.
        reads : bool
            Whether to keep every read.

        Returns
        -------
        Account
            The chunk's figures.

        Raises
        ------
        InputError
            An impossible recorded time.
        IdentityError
            The log contradicts itself; the clock cannot go on.
        """
        log = np.ascontiguousarray(log, np.int64).reshape(-1, 2)
        pre, post = event_times(self.params, timing, w0, w1, self.layers)
        count, *room = timeline.measure_log(log, self.params.workers)
        self._make_room(*room)
        cells = np.zeros(((w1 - w0) * self.layers, len(EVENT_COLUMNS)), np.int64)
        total = np.zeros(w1 - w0, np.int64)
        records = np.zeros((count if reads else 0, timeline.RECORD_FIELDS), np.int64)
        fault = timeline.run_log(
            self._memory, float(self.params.stream_gbps), float(self.params.device_gbps),
            log, w0, pre, post, self.sizes, cells, total, records,
        )  # fmt: skip
        if fault == timeline.TOO_LATE:
            raise InputError(f"windows {w0} to {w1 - 1}: the clock ran past 146 years; give it a faster disk")
        if fault:
            row = int(self._memory[disk.AT])
            where = f"row {row}: (op, arg) = {tuple(log[row].tolist())}" if log.size else "empty"
            raise IdentityError(
                f"event log of windows {w0} to {w1 - 1}, {where}: {timeline.FAULTS[fault]}; "
                "report it as a defect of this program"
            )
        kept = self._reads(records, w0) if reads else None
        return Account(w0, cells, total, kept)

    def _make_room(self, reads: int, claims: int, demands: int) -> None:
        """Grow the memory to what the next log needs; what is in flight stays where it is."""
        m = self._memory
        end = int(m[disk.CLAIMS])
        new_end = max(end, int(m[disk.READS]) + disk.READ_SIZE * reads)
        claims = max(claims, int(m[disk.DEMANDS]) - end)
        demands = max(demands, m.size - int(m[disk.DEMANDS]))
        if new_end + claims + demands == m.size:
            return
        grown = np.zeros(new_end + claims + demands, np.int64)
        grown[:end] = m[:end]
        if new_end > end:
            new = np.arange(end, new_end, disk.READ_SIZE)
            grown[new + disk.AFTER] = new + disk.READ_SIZE
            grown[new[-1] + disk.AFTER] = m[disk.FREE]
            grown[disk.FREE] = end
        grown[disk.CLAIMS] = new_end
        grown[disk.DEMANDS] = new_end + claims
        self._memory = grown

    def _reads(self, records: NDArray[np.int64], w0: int) -> Reads:
        """Order the kernel's records by their key."""
        window = w0 + records[:, timeline.R_CELL] // self.layers
        demand = records[:, timeline.R_FATE] == DEMAND
        key = (window * self.sizes.size + records[:, timeline.R_KEY]) * 2 + ~demand
        order = np.argsort(key, kind="stable")
        column = records[order].T.copy()
        return Reads(
            window=window[order],
            layer=column[timeline.R_KEY] // self.experts,
            expert=column[timeline.R_KEY] % self.experts,
            demand=demand[order],
            bytes=column[timeline.R_BYTES],
            issued_ns=column[timeline.R_ISSUED],
            started_ns=column[timeline.R_STARTED],
            done_ns=column[timeline.R_DONE],
            needed_ns=column[timeline.R_NEEDED],
            fate=column[timeline.R_FATE],
        )
