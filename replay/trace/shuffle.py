"""The control of semantics 8: the same windows in a seeded random order within each session.

The decode windows of a session change places among themselves, with all that the tables hold of them; prefill windows
stay where they are. A session is held in memory while its windows are handed out (sessions that interleave: all of
them together).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.trace.chunk import Chunk, ResidentRows, Scores, ranges
from replay.trace.columns import Lists
from replay.trace.reader import Trace


@dataclass(repr=False)
class Shuffled(Trace):
    """A trace whose windows stand in another order.

    Attributes
    ----------
    base : Trace
        The trace as recorded.
    source : numpy.ndarray of int64, [windows]
        The recorded window that stands at each place.
    """

    base: Trace
    source: np.ndarray

    def chunks(
        self,
        tables: Collection[str],
        columns: Mapping[str, Collection[str]] | None = None,
        max_rows: int = 4096,
        max_windows: int | None = None,
        decode_only: Collection[str] = (),
        halves: bool = False,
    ) -> Iterator[Chunk]:
        """Stream the named tables once, as the trace's own ``chunks`` does, in the new order."""
        layers, cells = self.meta.layers, self.meta.layers * self.meta.experts
        waiting: list[Chunk] = []
        ends = iter(_ends(self.source))
        first, stop = 0, next(ends, 0)
        for chunk in self.base.chunks(tables, columns, max_rows, max_windows, decode_only, halves):
            waiting.append(chunk)
            while stop > first and stop <= chunk.w1:
                whole = _joined(waiting)
                pieces = ranges(self.windows.rows[first:stop], tables, cells, max_rows, max_windows)
                for low, high in pieces:
                    places = self.source[first + low : first + high] - whole.w0
                    yield _gathered(whole, places, first + low, layers)
                waiting = [_gathered(whole, np.arange(stop - whole.w0, whole.w1 - whole.w0), stop, layers)]
                if stop == whole.w1:
                    waiting = []
                first, stop = stop, next(ends, stop)


def control_seed(control: str | None, seed: int) -> int | None:
    """Read a control's name: its seed, or None where none is asked for.

    Raises
    ------
    InputError
        Another name than ``shuffled``, or a seed below 0.
    """
    if control is not None and control != "shuffled":
        raise InputError(f"--control {control}: expected shuffled")
    if seed < 0:
        raise InputError(f"--seed {seed}: expected a whole number of at least 0")
    return None if control is None else seed


def shuffled(trace: Trace, seed: int) -> Shuffled:
    """Put the decode windows of every session in a random order.

    Parameters
    ----------
    trace : Trace
    seed : int
        The same seed gives the same order.

    Returns
    -------
    Shuffled
    """
    old = trace.windows
    source, rng = np.arange(len(old)), np.random.Generator(np.random.PCG64(seed))
    for session in np.unique(old.session):
        places = np.flatnonzero((old.session == session) & ~old.prefill)
        source[places] = rng.permutation(places)
    windows = replace(
        old,
        rows=old.rows[source],
        recorded=old.recorded[source],
        domain=None if old.domain is None else [old.domain[i] for i in source],
        output_hash=None if old.output_hash is None else old.output_hash[source],
        hashed=None if old.hashed is None else old.hashed[source],
    )
    return Shuffled(trace.path, trace.meta, trace.tables, windows, trace.sizes, trace.classes, trace, source)


def _ends(source: np.ndarray) -> list[int]:
    """Places up to which the windows before are those recorded before, too: where a session is done."""
    highest = np.maximum.accumulate(source)
    return (np.flatnonzero(highest == np.arange(len(source))) + 1).tolist()


def _joined(parts: list[Chunk]) -> Chunk:
    """Consecutive chunks as one."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([np.diff(part.row_start) for part in parts])
    whole = Chunk(parts[0].w0, parts[-1].w1, np.concatenate([[0], np.cumsum(rows)]))
    if parts[0].selections is not None:
        whole.selections = _lists([part.selections for part in parts if part.selections is not None])
    for name in ("weights", "outcome"):
        known = [getattr(part, name) for part in parts]
        setattr(whole, name, None if any(each is None for each in known) else np.concatenate(known))
    for name in ("candidates", "router_scores"):
        setattr(whole, name, _scores([getattr(part, name) for part in parts]))
    snapshots = [part.residents for part in parts if part.residents is not None]
    if snapshots:
        window, layer = (
            np.concatenate([getattr(each, name) for each in snapshots]) for name in ("window", "layer")
        )
        whole.residents = ResidentRows(window, layer, _lists([each.experts for each in snapshots]))
    for table, columns in parts[0].tables.items():
        whole.tables[table] = {
            column: np.concatenate([part.tables[table][column] for part in parts]) for column in columns
        }
    return whole


def _lists(parts: list[Lists]) -> Lists:
    lengths = np.concatenate([part.lengths for part in parts])
    return Lists(np.concatenate([part.values for part in parts]), np.concatenate([[0], np.cumsum(lengths)]))


def _scores(parts: list[Scores | None]) -> Scores | None:
    known = [part for part in parts if part is not None and len(part.window)]
    if not known:
        return next((part for part in parts if part is not None), None)
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in known])
        for name in ("window", "row", "layer", "scores")
    }
    lengths = np.concatenate([np.diff(part.offsets) for part in known])
    for name in ("issued_after", "experts"):
        values = [getattr(part, name) for part in known]
        joined[name] = None if any(each is None for each in values) else np.concatenate(values)
    return Scores(offsets=np.concatenate([[0], np.cumsum(lengths)]), **joined)


def _gathered(chunk: Chunk, places: np.ndarray, first: int, layers: int) -> Chunk:
    """Windows of a chunk by their places in it, in that order, numbered from ``first``."""
    rows = np.diff(chunk.row_start)[places]
    out = Chunk(first, first + len(places), np.concatenate([[0], np.cumsum(rows)]))
    if chunk.selections is not None:
        lists = _spans(chunk.row_start[places] * layers, rows * layers)
        picks = _spans(chunk.selections.offsets[lists], chunk.selections.lengths[lists])
        lengths = chunk.selections.lengths[lists]
        out.selections = Lists(chunk.selections.values[picks], np.concatenate([[0], np.cumsum(lengths)]))
        out.weights = None if chunk.weights is None else chunk.weights[picks]
        out.outcome = None if chunk.outcome is None else chunk.outcome[picks]
    for name in ("candidates", "router_scores"):
        old = getattr(chunk, name)
        if old is not None:
            index, window = _rows_of(old.window, places + chunk.w0, first)
            values = _spans(old.offsets[index], np.diff(old.offsets)[index])
            offsets = np.concatenate([[0], np.cumsum(np.diff(old.offsets)[index])])
            after = None if old.issued_after is None else old.issued_after[index]
            experts = None if old.experts is None else old.experts[values]
            scores = Scores(
                window, old.row[index], old.layer[index], after, offsets, old.scores[values], experts
            )
            setattr(out, name, scores)
    if chunk.residents is not None:
        held = chunk.residents
        index, window = _rows_of(held.window, places + chunk.w0, first)
        lengths = held.experts.lengths[index]
        experts = held.experts.values[_spans(held.experts.offsets[index], lengths)]
        snapshots = Lists(experts, np.concatenate([[0], np.cumsum(lengths)]))
        out.residents = ResidentRows(window, held.layer[index], snapshots)
    for name, table in chunk.tables.items():
        index, window = _rows_of(table["window"], places + chunk.w0, first)
        out.tables[name] = {column: values[index] for column, values in table.items()}
        out.tables[name]["window"] = window
    return out


def _rows_of(window: np.ndarray, wanted: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a table, sorted by window, that belong to some windows in their order; and their new windows."""
    low, high = (np.searchsorted(window, wanted, side=side) for side in ("left", "right"))
    return _spans(low, high - low), np.repeat(np.arange(first, first + len(wanted)), high - low)


def _spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Indices of several spans, one after the other.

    Examples
    --------
    >>> _spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    total = np.cumsum(lengths)
    return np.arange(total[-1] if len(total) else 0) + np.repeat(starts - (total - lengths), lengths)
