"""When guesses are made: the moments of a chunk at which read-ahead acts, and the rows that each of them ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replay.engine.frame import Guesses

if TYPE_CHECKING:
    from replay.trace import Scores as RawScores

Numbers = NDArray[np.int64]

NO_I64, NO_I32, NO_F32 = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
NO_F64 = np.empty(0)


def no_guesses(windows: int, layers: int) -> Guesses:
    """Groups of a chunk without predictions."""
    at = np.zeros(windows * (layers + 1) + 1, np.int64)
    none = NO_I64
    return Guesses(at, none, none, none, none, none, np.zeros(1, np.int64), NO_I32, NO_F32, NO_F64)


def group(raw: RawScores, first: int, windows: int, layers: int) -> Guesses:
    """Group candidate rows by (window, issued_after, target layer), rows ascending; no shortlists yet."""
    window = raw.window - first
    slot = window * (layers + 1) + raw.issued_after + 1
    key = slot * layers + raw.layer
    order = np.lexsort((raw.row, key))
    key = key[order]
    new = np.flatnonzero(np.diff(key, prepend=-1))
    at = np.searchsorted(key[new] // layers, np.arange(windows * (layers + 1) + 1))
    last = np.append(new[1:], len(key)).astype(np.int64)
    return Guesses(
        at.astype(np.int64),
        np.ascontiguousarray(raw.layer[order][new]),
        new.astype(np.int64),
        last,
        np.ascontiguousarray(raw.row[order]),
        order.astype(np.int64),
        np.zeros(1, np.int64),
        NO_I32,
        NO_F32,
        NO_F64,
    )


def every_layer(windows: int, layers: int) -> Guesses:
    """Moments that no candidates table gives: after layer l-1, for l >= 1 (semantics 3, ``oracle``)."""
    counts = np.tile(np.array([0] + [1] * (layers - 1) + [0]), windows)
    at = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    groups = windows * (layers - 1)
    target = np.tile(np.arange(1, layers, dtype=np.int64), windows)
    zero = np.zeros(groups, np.int64)
    none = NO_I64
    return Guesses(at, target, zero, zero, none, none, np.zeros(1, np.int64), NO_I32, NO_F32, NO_F64)


def listed(at: Numbers, target: Numbers, offsets: Numbers, ids: NDArray[np.int32]) -> Guesses:
    """Predictions whose guesses are known before the event loop: a list a group."""
    zero = np.zeros(len(target), np.int64)
    return Guesses(at, target, zero, zero, NO_I64, NO_I64, offsets, ids, NO_F32, NO_F64)
