"""A view of some windows of a trace: a trace of its own to whoever reads it, numbered from 0, nothing copied.

Sessions that are left out are as if they had never been: a replay of the view starts cold and plays its windows one
after the other, in the trace's order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from replay.errors import InputError
from replay.trace.chunk import Chunk, ResidentRows, Scores
from replay.trace.reader import Trace

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass
class View(Trace):
    """Some windows of a trace.

    Attributes
    ----------
    base : Trace
        The whole trace.
    kept : numpy.ndarray of int64, [n]
        The windows of it that this one has, ascending.
    """

    base: Trace
    kept: np.ndarray

    def chunks(
        self,
        tables: Collection[str],
        columns: Mapping[str, Collection[str]] | None = None,
        max_rows: int = 4096,
        max_windows: int | None = None,
        decode_only: Collection[str] = (),
        halves: bool = False,
    ) -> Iterator[Chunk]:
        """Stream the named tables once, as the trace's own ``chunks`` does, without the other windows."""
        done = 0
        source = self.base.chunks(tables, columns, max_rows, max_windows, decode_only, halves)
        for chunk in source:
            keep = np.zeros(chunk.w1 - chunk.w0, bool)
            last = int(np.searchsorted(self.kept, chunk.w1))
            keep[self.kept[done:last] - chunk.w0] = True
            if last > done:
                yield chunk if keep.all() and done == chunk.w0 else _some(chunk, keep, done, self.meta.layers)
            done = last
            if done == len(self.kept):
                source.close()  # type: ignore[attr-defined]
                return


def view(trace: Trace, keep: np.ndarray) -> View:
    """View some windows of a trace.

    Parameters
    ----------
    trace : Trace
    keep : numpy.ndarray of bool, [windows]
        Those that it has; at least one.

    Returns
    -------
    View
    """
    kept, old = np.flatnonzero(keep), trace.windows
    some = replace(
        old,
        session=old.session[kept],
        rows=old.rows[kept],
        prefill=old.prefill[kept],
        recorded=old.recorded[kept],
        domain=None if old.domain is None else [old.domain[i] for i in kept],
        output_hash=None if old.output_hash is None else old.output_hash[kept],
        hashed=None if old.hashed is None else old.hashed[kept],
    )
    return View(trace.path, trace.meta, trace.tables, some, trace.sizes, trace.classes, trace, kept)


def whole(trace: Trace) -> Trace:
    """The recorded trace that a view, or windows in another order, are of; a trace itself where it is none."""
    while isinstance(base := getattr(trace, "base", None), Trace):
        trace = base
    return trace


def of_sessions(trace: Trace, text: str) -> np.ndarray:
    """Windows of some sessions.

    Parameters
    ----------
    trace : Trace
    text : str
        Sessions and ranges of them, both ends included: ``0-9`` or ``0,3,5-7``.

    Returns
    -------
    numpy.ndarray of bool, [windows]

    Raises
    ------
    InputError
        Not of that form, or a part of it names no session of the trace.
    """
    session = trace.windows.session
    keep = np.zeros(len(session), bool)
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise InputError(f"sessions {text!r}: expected numbers and ranges such as 0-9 or 0,3,5-7")
        first, last = int(found[1]), int(found[2] or found[1])
        chosen = (session >= first) & (session <= last)
        if not chosen.any():
            raise InputError(
                f"sessions {text!r}: {trace.path} has none in {part.strip()}; its sessions are {session.min()} to "
                f"{session.max()}"
            )
        keep |= chosen
    return keep


def _some(chunk: Chunk, keep: np.ndarray, first: int, layers: int) -> Chunk:
    """Some windows of a chunk, numbered from ``first``."""
    rows = np.diff(chunk.row_start)
    number = np.cumsum(keep) - 1 + first
    lists = np.repeat(keep, rows * layers)
    out = Chunk(first, first + int(keep.sum()), np.concatenate([[0], np.cumsum(rows[keep])]))
    if chunk.selections is not None:
        out.selections = chunk.selections.where(lists)
        picks = np.repeat(lists, chunk.selections.lengths)
        out.weights = None if chunk.weights is None else chunk.weights[picks]
        out.outcome = None if chunk.outcome is None else chunk.outcome[picks]
    for name in ("candidates", "router_scores"):
        scores = getattr(chunk, name)
        if scores is not None:
            setattr(out, name, _some_scores(scores, keep, number, chunk.w0))
    if chunk.residents is not None:
        old = chunk.residents
        mask = keep[old.window - chunk.w0]
        out.residents = ResidentRows(
            number[old.window[mask] - chunk.w0], old.layer[mask], old.experts.where(mask)
        )
    for name, table in chunk.tables.items():
        mask = keep[table["window"] - chunk.w0]
        out.tables[name] = {column: values[mask] for column, values in table.items()}
        out.tables[name]["window"] = number[table["window"][mask] - chunk.w0]
    return out


def _some_scores(old: Scores, keep: np.ndarray, number: np.ndarray, w0: int) -> Scores:
    mask = keep[old.window - w0]
    values = np.repeat(mask, np.diff(old.offsets))
    offsets = np.concatenate([[0], np.cumsum(np.diff(old.offsets)[mask])])
    after = None if old.issued_after is None else old.issued_after[mask]
    experts = None if old.experts is None else old.experts[values]
    window = number[old.window[mask] - w0]
    return Scores(window, old.row[mask], old.layer[mask], after, offsets, old.scores[values], experts)
