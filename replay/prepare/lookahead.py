"""What comes next: for every want of a replay the time of the next one, for policies that look ahead.

Times order what a policy may be asked for: the running number of the event, window * layers + layer, times
:attr:`Future.span`, plus a place in the event. Under ``cell=sequential``, where every occurrence is a lookup of
its own, that is the occurrence's. Under ``cell=atomic`` all of an event is one moment, and places descend with
the expert's number, so that of equally far experts the lowest has the latest time.

The future exists under recorded routes only, and takes a first pass over the selections, whose ids it keeps
(4 bytes a want) beside the times (8 bytes a want, 16 with ``later``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.arena.record import FAR, HORIZON, LAST_TIME
from replay.engine.frame import Events
from replay.errors import InputError
from replay.jit import kernel

_I64, _I32 = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")


@kernel(types.Tuple((_I64, _I32))(_I64, _I64, _I64, _I32, types.int64))
def occurrences(row_start, rows_used, pick_offsets, picks, layers):
    """Every pick of the rows that count, event after event, row-major and in rank order.

    Parameters
    ----------
    row_start, rows_used : int64[W + 1], int64[W]
    pick_offsets, picks : int64[rows * L + 1], int32[n]
    layers : int

    Returns
    -------
    offsets : int64[W * L + 1]
    ids : int32[m]
    """
    windows = len(rows_used)
    offsets = np.zeros(windows * layers + 1, np.int64)
    ids = np.empty(len(picks), np.int32)
    at = np.int64(0)
    for w in range(windows):
        for layer in range(layers):
            for r in range(rows_used[w]):
                row = (row_start[w] + r) * layers + layer
                for i in range(pick_offsets[row], pick_offsets[row + 1]):
                    ids[at] = picks[i]
                    at += 1
            offsets[w * layers + layer + 1] = at
    return offsets, ids[:at].copy()


@kernel(types.void(_I64, _I32, types.int64, types.int64, types.int64, types.boolean, _I64, _I64, _I64, _I64))
def chain(offsets, ids, layers, experts, span, sequential, first, mask, next_use, later):
    """Walk the wants backwards and give each the time of the next one of its expert.

    Parameters
    ----------
    offsets, ids : int64[W * L + 1], int32[n]
        Wants of every event of the trace.
    layers, experts, span : int
    sequential : bool
        Wants are occurrences.
    first, mask : int64[L * E]
        ``FAR`` and 0; afterwards each expert's first time, and the windows after it (as ``later``).
    next_use : int64[n]
        Filled.
    later : int64[n] or int64[0]
        Filled: bit ``j - 1`` is set where the expert is wanted ``j`` windows after its next use.
    """
    deep = len(later) > 0
    for event in range(len(offsets) - 2, -1, -1):
        window, base = event // layers, (event % layers) * experts
        for i in range(offsets[event + 1] - 1, offsets[event] - 1, -1):
            key = base + ids[i]
            following = first[key]
            next_use[i] = following
            place = i - offsets[event]
            first[key] = event * span + (place if sequential else span - 1 - place)
            if deep:
                bits = mask[key]
                later[i] = bits
                gap = following // (layers * span) - window
                if following == FAR or gap > HORIZON:
                    mask[key] = 0
                elif gap > 0:
                    mask[key] = ((bits << gap) | (1 << (gap - 1))) & ((1 << HORIZON) - 1)


class Future:
    """The wants of a whole replay, and when each is wanted again.

    Parameters
    ----------
    layers, experts : int
    sequential : bool
        Wants are occurrences (``cell=sequential``), not an event's unique experts.
    deep : bool
        Tell of the windows after the next use too (``later``).

    Attributes
    ----------
    span : int
        Times in one event.
    first, first_later : int64[L * E]
        Each expert's first time (``FAR``: never wanted), and the windows after it.
    """

    def __init__(self, layers: int, experts: int, sequential: bool, deep: bool) -> None:
        self.layers, self.experts, self.sequential, self.deep = layers, experts, sequential, deep
        self.span = 1
        self.first = np.full(layers * experts, FAR, np.int64)
        self.first_later = np.zeros(layers * experts, np.int64)
        self._ids: list[NDArray[np.int32]] = []
        self._lengths: list[NDArray[np.int64]] = []

    def add(self, events: Events) -> None:
        """Take the wants of the next chunk."""
        if self.sequential:
            offsets, ids = occurrences(
                events.row_start, events.rows_used, events.pick_offsets, events.picks, self.layers
            )
        else:
            offsets, ids = events.want_offsets, events.wants
        self._ids.append(ids)
        self._lengths.append(np.diff(offsets))

    def close(self) -> Future:
        """Find every want's next one; to be called once, after the last chunk.

        Raises
        ------
        InputError
            The trace is too long.
        """
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        ids = np.concatenate([np.zeros(0, np.int32), *self._ids])
        self._ids, self._lengths = [], []
        self.span = max(int(lengths.max()), 1)
        if len(lengths) * self.span >= LAST_TIME:
            raise InputError(
                f"{len(lengths) - 1} events of up to {self.span} lookups are too many for policies that look ahead; "
                "replay fewer windows"
            )
        offsets = np.cumsum(lengths)
        self._starts = offsets[:: self.layers].copy()
        self._next_use = np.empty(len(ids), np.int64)
        self._later = np.empty(len(ids) if self.deep else 0, np.int64)
        chain(
            offsets, ids, self.layers, self.experts, self.span, self.sequential, self.first, self.first_later,
            self._next_use, self._later,
        )  # fmt: skip
        return self

    def between(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Next uses, and the windows after them, of the wants of windows ``first`` to ``last - 1``."""
        low, high = self._starts[first], self._starts[last]
        return self._next_use[low:high], self._later[low:high] if self.deep else self._later


def foresee(
    chunks: Iterable[Events], layers: int, experts: int, sequential: bool = False, deep: bool = False
) -> Future:
    """Read the future off a replay's events, chunk by chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from replay.engine.frame import Events
    >>> one, none = np.arange(4), np.empty(0, np.int64)
    >>> wants = np.array([3, 1, 3], np.int32)
    >>> rows = Events(one, np.ones(3, np.int64), np.zeros(3, np.uint8), one, wants, one, wants, none, none)
    >>> foresee([rows], 1, 4).between(0, 3)[0].tolist() == [2, FAR, FAR]
    True
    """
    future = Future(layers, experts, sequential, deep)
    for events in chunks:
        future.add(events)
    return future.close()
