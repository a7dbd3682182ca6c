"""From blocks of a table to the arrays of a chunk: parts joined, items cast while they are copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.trace.chunk import Chunk, ResidentRows, Scores
from replay.trace.columns import Block, Flat, Lists
from replay.trace.half import widen


def join(parts: Sequence[Block], name: str) -> np.ndarray:
    """Join a column of single values over blocks.

    Parameters
    ----------
    parts : sequence of Block
        Consecutive rows; may be none.
    name : str
        The column.

    Returns
    -------
    numpy.ndarray
        int64 (-1 where null), float64 (NaN where null), bool, or objects (texts, None where null).
    """
    arrays = [_plain(part.flat(name)) for part in parts]
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _plain(column: Flat) -> np.ndarray:
    values = column.values
    if column.names is not None:
        return np.array([*column.names, None], object)[values]
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind == "b":
        return values
    plain = values.astype(np.int64, copy=False)
    return plain if column.valid is None else np.where(column.valid, plain, -1)


def join_lists(parts: Sequence[Block], name: str, dtype: type) -> Lists:
    """Join a column of lists over blocks, the items cast while they are copied.

    Parameters
    ----------
    parts : sequence of Block
        Consecutive rows; may be none.
    name : str
        The column.
    dtype : type
        What to cast the items to.

    Returns
    -------
    Lists
        All rows, without nulls marked. Ids are a copy, as kernels declare what they may write to; scores may be
        Arrow's own memory.
    """
    columns = [part.lists(name) for part in parts]
    if len(columns) == 1 and columns[0].values.dtype == dtype:
        values = columns[0].values
        return Lists(values.copy() if dtype is np.int32 else values, columns[0].offsets)
    values = np.empty(sum(len(column.values) for column in columns), dtype)
    offsets = np.zeros(sum(part.rows for part in parts) + 1, np.int64)
    row = item = 0
    for column in columns:
        after, end = row + len(column.offsets) - 1, item + len(column.values)
        if column.values.dtype == np.float16 and dtype is np.float32:
            widen(column.values, values[item:end])
        else:
            values[item:end] = column.values
        offsets[row + 1 : after + 1] = column.offsets[1:] + item
        row, item = after, end
    return Lists(values, offsets)


def beside(parts: Sequence[Block], name: str, picks: Lists, dtype: type, unknown: float) -> np.ndarray:
    """Join a column of lists that goes with the picks, null rows filled.

    Parameters
    ----------
    parts : sequence of Block
        Consecutive rows.
    name : str
        ``weights`` or ``outcome``.
    picks : Lists
        The joined picks.
    dtype : type
        Of the result.
    unknown : float
        What to put where a row is null.

    Returns
    -------
    numpy.ndarray
        One value a pick.
    """
    joined = join_lists(parts, name, dtype)
    if len(joined.values) == len(picks.values):
        return joined.values
    values: np.ndarray = np.full(len(picks.values), unknown, dtype)
    known = np.repeat(joined.lengths > 0, picks.lengths)
    values[known] = joined.values
    return values


def fill(
    chunk: Chunk, name: str, parts: Sequence[Block], columns: Sequence[str], halves: bool = False
) -> None:
    """Put a table's rows into a chunk.

    Parameters
    ----------
    chunk : Chunk
        What to fill.
    name : str
        The table.
    parts : sequence of Block
        Its rows of the chunk's windows.
    columns : sequence of str
        The columns that were read.
    halves : bool
        Scores that are stored as float16 stay so.
    """
    parts = [part for part in parts if not part.bare]
    if name == "selections":
        chunk.selections = join_lists(parts, "experts", np.int32)
        if "weights" in columns:
            chunk.weights = beside(parts, "weights", chunk.selections, np.float32, np.nan)
        if "outcome" in columns:
            chunk.outcome = beside(parts, "outcome", chunk.selections, np.uint8, 255)
    elif name == "candidates":
        chunk.candidates = _scores(parts, candidates=True, halves=halves)
    elif name == "router_scores":
        chunk.router_scores = _scores(parts, candidates=False, halves=halves)
    elif name == "residents":
        experts = join_lists(parts, "experts", np.int32)
        chunk.residents = ResidentRows(join(parts, "window"), join(parts, "layer"), experts)
    else:
        chunk.tables[name] = {column: join(parts, column) for column in columns}


def _scores(parts: Sequence[Block], candidates: bool, halves: bool) -> Scores:
    stored = {part.lists("scores").values.dtype.type for part in parts}
    kind = np.float16 if halves and stored == {np.float16} else np.float32
    scores = join_lists(parts, "scores", kind)
    experts = None
    if parts and "experts" in parts[0].columns:
        experts = join_lists(parts, "experts", np.int32).values
    window, row, layer = (join(parts, name) for name in ("window", "row", "layer"))
    after = None
    if candidates:
        after = np.concatenate([_issued_after(part) for part in parts]) if parts else layer
    return Scores(window, row, layer, after, scores.offsets, scores.values, experts)


def _issued_after(part: Block) -> np.ndarray:
    default = part.flat("layer").values.astype(np.int64) - 1
    if "issued_after" not in part.columns:
        return default
    column = part.flat("issued_after")
    stored = column.values.astype(np.int64)
    return stored if column.valid is None else np.where(column.valid, stored, default)
