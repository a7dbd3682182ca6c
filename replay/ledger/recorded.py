"""An engine's own ``reads`` and ``timing`` tables, accounted like a replay's: the row named ``recorded``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.errors import InputError, nearest
from replay.fate import (
    CANCELLED,
    DEMAND,
    EVENT_COLUMNS,
    FATES,
    LATE,
    NEVER,
    PARTIAL,
    PENDING,
    TIMELY,
    UNUSED,
    Account,
)

READ_COUNTS = (
    *("misses", "prefetch_hits", "issued", "retired", "pending"),
    *("demand_bytes", "issued_bytes", "claimed_bytes", "retired_bytes", "pending_bytes"),
)
"""What a recorded ``reads`` table says of the counters that a replay counts without a clock."""


@dataclass(frozen=True)
class _Recorded:
    """The rows of a recorded table as the account needs them; times are float microseconds, NaN is never."""

    cell: NDArray[np.int64]
    bytes: NDArray[np.int64]
    issued: NDArray[np.float64]
    started: NDArray[np.float64]
    done: NDArray[np.float64]
    needed: NDArray[np.float64]
    fate: NDArray[np.int64]

    def sum(self, which: NDArray[np.bool_], values: NDArray[np.int64] | int, cells: int) -> NDArray[np.int64]:
        """Add up values (one a row, or the same for all) of some rows, by event."""
        into = np.zeros(cells, np.int64)
        np.add.at(into, self.cell[which], values if isinstance(values, int) else values[which])
        return into


def account_recorded(
    reads: Mapping[str, NDArray[Any]],
    w0: int,
    w1: int,
    layers: int,
    timing: Mapping[str, NDArray[Any]] | None = None,
) -> Account:
    """Account an engine's own reads, with the columns of a clock's account.

    The table's fate is taken; where it is null the times tell. Asked for and done by then: timely, else late.
    Never asked for: cancelled when it never started, unused when it was done, else pending. A demand read has
    no fate; where its ``needed_us`` is null it was needed when it was issued.

    An event's wait runs from the time its reads were needed until the last of them was done. A window's total
    spans its recorded asks; what lies before the first and after the last comes from ``timing``, and without
    that table it is not known.

    A table holds no pieces, so some columns may be unknown (:attr:`Account.unknown`): ``late_exposed_bytes``
    when a late read had started before it was needed; the bytes of both parts of a partial read and every
    column they enter; the read part of a pending read that started and was never done; ``limbo_wait_ns``
    when a retired read had started; ``wait_ns`` when a demand or late read lacks its times.

    Parameters
    ----------
    reads : mapping of str to ndarray
        Columns ``window``, ``layer``, ``kind``, ``bytes``, ``issued_us``, ``started_us``, ``done_us``,
        ``needed_us`` and ``fate`` of the rows in range; a null is NaN, a null string None.
    w0, w1 : int
        The windows ``[w0, w1)``.
    layers : int
        Layers of the model.
    timing : mapping of str to ndarray, or None
        Columns ``window``, ``layer``, ``pre_us``, ``post_us`` of the rows in range.

    Returns
    -------
    Account
        With ``counts``; without ``reads``.

    Raises
    ------
    InputError
        A kind or fate that is none.
    """
    rows, differing = _read_rows(reads, w0, layers)
    cells = (w1 - w0) * layers
    fate, size = rows.fate, rows.bytes
    count = {name: rows.sum(fate == code, 1, cells) for code, name in enumerate(FATES)}
    moved = {name: rows.sum(fate == code, size, cells) for code, name in enumerate(FATES)}
    demand_bytes = rows.sum(fate == DEMAND, size, cells)
    began, over = ~np.isnan(rows.started), ~np.isnan(rows.done)
    whole = (fate == LATE) & ~(rows.started < rows.needed)
    pending_read = rows.sum((fate == PENDING) & over, size, cells)
    wait, asked, unseen = _waits(rows, cells)
    none = np.zeros(cells, np.int64)
    columns = {name: count[name] for name in FATES[:PENDING]} | {
        "timely_bytes": moved["timely"],
        "late_bytes": moved["late"],
        "late_exposed_bytes": rows.sum(whole, size, cells),
        "cancelled_bytes": moved["cancelled"],
        "unused_bytes": moved["unused"],
        "partial_read_bytes": none,
        "partial_unread_bytes": none.copy(),
        "pending_read_bytes": pending_read,
        "disk_bytes": demand_bytes + moved["timely"] + moved["late"] + moved["unused"] + pending_read,
        "wait_ns": wait,
        "limbo_wait_ns": none.copy(),
    }
    unknown = {
        "late_exposed_bytes": ((fate == LATE) & ~whole).any(),
        "partial_read_bytes": (fate == PARTIAL).any(),
        "pending_read_bytes": ((fate == PENDING) & began & ~over).any(),
        "limbo_wait_ns": ((fate == PARTIAL) | (fate == UNUSED)).any(),
        "wait_ns": unseen,
    }
    for name in ("partial_unread_bytes", "cancelled_bytes", "unused_bytes"):
        unknown[name] = unknown["partial_read_bytes"]
    unknown["disk_bytes"] = unknown["partial_read_bytes"] or unknown["pending_read_bytes"]
    retired = ("cancelled", "partial", "unused")
    counts = {
        "misses": rows.sum(fate == DEMAND, 1, cells),
        "prefetch_hits": count["timely"] + count["late"],
        "issued": rows.sum(fate != DEMAND, 1, cells),
        "retired": sum((count[name] for name in retired), none),
        "pending": count["pending"],
        "demand_bytes": demand_bytes,
        "issued_bytes": rows.sum(fate != DEMAND, size, cells),
        "claimed_bytes": moved["timely"] + moved["late"],
        "retired_bytes": sum((moved[name] for name in retired), none),
        "pending_bytes": moved["pending"],
    }
    total = np.full(w1 - w0, NEVER, np.int64)
    if timing is not None and not unseen:
        total = _totals(timing, asked, wait, w0, layers, total)
    return Account(
        w0, np.stack([columns[name] for name in EVENT_COLUMNS], axis=1), total, counts=counts, differing=differing,
        unknown=frozenset(name for name, hidden in unknown.items() if hidden),
    )  # fmt: skip


def _read_rows(reads: Mapping[str, NDArray[Any]], w0: int, layers: int) -> tuple[_Recorded, int]:
    """Give every row its event and its fate; count the fates that contradict their row's times."""
    window, layer = (np.asarray(reads[name]).astype(np.int64) for name in ("window", "layer"))
    names = ("issued_us", "started_us", "done_us", "needed_us")
    issued, started, done, needed = (np.asarray(reads[name]).astype(np.float64) for name in names)
    codes = _codes(reads, "kind", {"demand": 0, "prefetch": 1})
    named = _codes(reads, "fate", {name: code for code, name in enumerate(FATES)} | {None: -1})
    wanted, began, by_then = ~np.isnan(needed), ~np.isnan(started), done <= needed
    timed = np.where(began, np.where(np.isnan(done), PENDING, UNUSED), CANCELLED)
    timed = np.where(wanted, np.where(by_then, TIMELY, LATE), timed)
    fate = np.where(codes == 0, DEMAND, np.where(named >= 0, named, timed))
    against = (fate == TIMELY) & (done > needed)
    against |= (fate == LATE) & by_then
    against |= (fate == CANCELLED) & began
    against |= (fate >= CANCELLED) & (fate <= PENDING) & wanted
    size = np.asarray(reads["bytes"]).astype(np.int64)
    cell = (window - w0) * layers + layer
    return _Recorded(cell, size, issued, started, done, needed, fate), int(against.sum())


def _codes(reads: Mapping[str, NDArray[Any]], name: str, known: dict[Any, int]) -> NDArray[np.int64]:
    values = np.asarray(reads[name]).tolist()
    codes = np.array([known.get(each, len(known)) for each in values], np.int64)
    wrong = np.flatnonzero(codes == len(known))
    if wrong.size:
        row = wrong[0]
        names = [each for each in known if each is not None]
        raise InputError(
            f"reads: window {reads['window'][row]}, layer {reads['layer'][row]}: "
            f"{name} {values[row]!r}: {nearest(str(values[row]), names)}"
        )
    return codes


def _waits(rows: _Recorded, cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Each event's wait and the time it asked (``_NO_ASK`` where no read says); whether a wait is unknown."""
    wanted = (rows.fate == DEMAND) | (rows.fate == TIMELY) | (rows.fate == LATE)
    issued = np.where(rows.fate == DEMAND, rows.issued, np.nan)
    when = np.where(np.isnan(rows.needed), issued, rows.needed)
    unseen = wanted & (rows.fate != TIMELY) & (np.isnan(when) | np.isnan(rows.done))
    asked, until = np.full(cells, _NO_ASK), np.full(cells, -_NO_ASK)
    for times, into, extreme in ((when, asked, np.minimum), (rows.done, until, np.maximum)):
        there = wanted & ~np.isnan(times)
        extreme.at(into, rows.cell[there], np.rint(times[there] * 1000.0).astype(np.int64))
    known = (asked < _NO_ASK) & (until > -_NO_ASK)
    return np.where(known, np.maximum(until - asked, 0), 0), asked, bool(unseen.any())


_NO_ASK = np.int64(2**62)


def _totals(
    timing: Mapping[str, NDArray[Any]],
    asked: NDArray[np.int64],
    wait: NDArray[np.int64],
    w0: int,
    layers: int,
    total: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Each window's time: its recorded asks, and compute times around them; unknown where one is missing."""
    shape = (total.size, layers)
    at = np.asarray(timing["window"]).astype(np.int64) - w0, np.asarray(timing["layer"]).astype(np.int64)
    pre, post = np.full(shape, np.nan), np.full(shape, np.nan)
    for name, into in (("pre_us", pre), ("post_us", post)):
        into[at] = np.rint(np.asarray(timing[name]).astype(np.float64) * 1000.0)
    post[:, -1] = 0.0
    timed = ~np.isnan(pre + post).any(axis=1)
    step = np.where(timed[:, None], np.nan_to_num(pre + post), 0.0).astype(np.int64)
    nominal = np.cumsum(step, axis=1) - np.nan_to_num(post).astype(np.int64)  # an ask's time had none waited
    asked, wait = asked.reshape(shape), wait.reshape(shape)
    seen = asked < _NO_ASK
    some = seen.any(axis=1)
    window = np.arange(total.size)
    first, last = seen.argmax(axis=1), layers - 1 - seen[:, ::-1].argmax(axis=1)
    spanned = asked[window, last] + wait[window, last] - asked[window, first]
    spanned -= nominal[window, last] - nominal[window, first]
    full = nominal[:, -1] + np.where(some, spanned, 0)
    ordered = ~some | (asked[window, first] <= asked[window, last])
    return np.where(timed & ordered, full, NEVER)
