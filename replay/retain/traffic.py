"""The rounds of a whole trace, and the expert bytes that a prefix of a round's rows wants (semantics 9)."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from replay.errors import InputError
from replay.retain.rounds import Ints, Rounds, read_rounds

if TYPE_CHECKING:
    from replay.trace import Trace

Picks = npt.NDArray[np.integer]
COLUMNS = ("window", "step", "p", "matched")


class Recorded(NamedTuple):
    """A trace's rounds.

    Attributes
    ----------
    rounds : Rounds
        Every round.
    prefix_bytes : int64[rounds, steps + 1]
        Bytes of the unique experts of rows 0..k, layer by layer; meaningful up to the verified drafts.
    undrafted : int
        Decode windows without drafts, which no policy changes and no figure counts.
    """

    rounds: Rounds
    prefix_bytes: Ints
    undrafted: int


def prefix_bytes(
    values: Picks, offsets: Ints, row_start: Ints, windows: Ints, sizes: Ints, steps: int
) -> Ints:
    """Count the bytes of the unique experts that rows 0..k of some windows want.

    Parameters
    ----------
    values : int[picks]
        Selected experts of all rows, list after list.
    offsets : int64[lists + 1]
        Where each list begins; list ``row * L + layer``.
    row_start : int64[windows + 1]
        First row of each window.
    windows : int64[rounds]
        The windows to count, as indices into ``row_start``, ascending.
    sizes : int64[L, E]
        Bytes of each expert.
    steps : int
        Most drafts of a window.

    Returns
    -------
    int64[rounds, steps + 1]
        Each expert once a (window, layer) event, at the first row that wants it, summed over rows 0..k.
    """
    layers, experts = sizes.shape
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    row, layer = lists // layers, lists % layers
    window = np.searchsorted(row_start, row, side="right") - 1
    index = np.full(len(row_start) - 1, -1)
    index[windows] = np.arange(len(windows))
    at = np.flatnonzero(index[window] >= 0)
    event = index[window[at]] * layers + layer[at]
    # rows of a window come in order, so the first occurrence of a key is the first row that wants it
    _, first = np.unique(event * experts + values[at], return_index=True)
    at = at[first]
    wanted = np.zeros((len(windows), steps + 1), np.int64)
    np.add.at(wanted, (index[window[at]], row[at] - row_start[window[at]]), sizes[layer[at], values[at]])
    return wanted.cumsum(axis=1)


def read_drafts(trace: "Trace") -> dict[str, npt.NDArray[Any]]:
    """Read the whole table ``drafts``, as ``rows_used`` and ``committed`` take it.

    Parameters
    ----------
    trace : Trace
        An open trace.

    Returns
    -------
    dict of str to array
        Its columns.

    Raises
    ------
    InputError
        The trace has no table ``drafts``.
    """
    _require_drafts(trace)
    tables = [chunk.tables["drafts"] for chunk in trace.chunks({"drafts"})]
    return {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}


def _require_drafts(trace: "Trace") -> None:
    if not trace.has("drafts"):
        raise InputError(
            f"{trace.path}: no table drafts, which retention needs; policies without retention parts replay "
            "it, and `replay drafts --grid` needs no trace"
        )


def read_recorded(trace: "Trace") -> Recorded:
    """Read every round of a trace in one pass.

    Parameters
    ----------
    trace : Trace
        An open trace with the table ``drafts``.

    Returns
    -------
    Recorded
        Its rounds and their bytes.

    Raises
    ------
    InputError
        No table ``drafts``, or rounds that ``read_rounds`` refuses.
    """
    _require_drafts(trace)
    parts, traffic, undrafted = [], [], 0
    for chunk in trace.chunks({"selections", "drafts"}):
        here = slice(chunk.w0, chunk.w1)
        rows, prefill = trace.windows.rows[here], trace.windows.prefill[here]
        rounds = read_rounds(chunk.tables["drafts"], rows, prefill, chunk.w0)
        picks = chunk.selections
        assert picks is not None
        steps = rounds.p.shape[1]
        local = rounds.window - chunk.w0
        parts.append(rounds)
        traffic.append(prefix_bytes(picks.values, picks.offsets, chunk.row_start, local, trace.sizes, steps))
        undrafted += int((~prefill).sum()) - len(local)
    return Recorded(_join(parts), _stack(traffic, 0), undrafted)


def _stack(blocks: list[npt.NDArray[Any]], padding: float) -> npt.NDArray[Any]:
    """Put blocks of different widths below each other, padded on the right."""
    width = max((block.shape[1] for block in blocks), default=0)
    wide = [np.pad(block, ((0, 0), (0, width - block.shape[1])), constant_values=padding) for block in blocks]
    return np.concatenate(wide) if wide else np.zeros((0, 0))


def _join(parts: list[Rounds]) -> Rounds:
    """Join the rounds of consecutive chunks."""
    flat = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("window", "length", "matched", "verified")
    }
    return Rounds(p=_stack([part.p for part in parts], np.nan), **flat)
