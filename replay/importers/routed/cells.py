"""Routed lists as flat arrays: what an importer makes of its source before windows are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

PREFILL, DECODE, UNKNOWN = 0, 1, 2
MISS, HIT, NOT_KNOWN = 0, 1, 255

_RAGGED = ("experts", "weights", "outcome")


@dataclass
class Cells:
    """Routed lists in the order they were made; one is what one row of one layer was routed to.

    Attributes
    ----------
    line : numpy.ndarray of int64, [n]
        Where each stands in its source (a line, a record, a row), from 1; names it in errors.
    step : numpy.ndarray of int64, [n]
        Number of the forward step; never falls.
    session : numpy.ndarray of int64, [n]
    phase : numpy.ndarray of int64, [n]
        ``PREFILL``, ``DECODE`` or ``UNKNOWN``; one a step.
    token : numpy.ndarray of int64, [n]
        Tells the rows of a step apart and orders them; -1: not told, the lists of each layer are rows in their
        order, and a layer with fewer of them routed the last rows.
    layer : numpy.ndarray of int64, [n]
        As the source numbers them.
    offsets : numpy.ndarray of int64, [n + 1]
        Where the picks of each begin.
    experts : numpy.ndarray of int64, [m]
        Picks, best first.
    weights : numpy.ndarray of float64, [m], or None
        Weight of each pick, NaN where not recorded.
    outcome : numpy.ndarray of int64, [m], or None
        ``MISS``, ``HIT``, 2 (first use of a read-ahead) or ``NOT_KNOWN``.
    domain : numpy.ndarray of int64, [n], or None
        Index into the domains of the source, -1 where it has none.
    """

    line: np.ndarray
    step: np.ndarray
    session: np.ndarray
    phase: np.ndarray
    token: np.ndarray
    layer: np.ndarray
    offsets: np.ndarray
    experts: np.ndarray
    weights: np.ndarray | None = None
    outcome: np.ndarray | None = None
    domain: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.line)

    @property
    def lengths(self) -> np.ndarray:
        """Picks of each list."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Index of the list that each pick belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, which: np.ndarray | slice) -> Cells:
        """Take some lists: a mask, an order, or a range."""
        if isinstance(which, slice):
            start, stop, _ = which.indices(len(self))
            stop = max(start, stop)
            picks: np.ndarray | slice = slice(self.offsets[start], self.offsets[stop])
            offsets = self.offsets[start : stop + 1] - self.offsets[start]
        else:
            index = np.flatnonzero(which) if which.dtype == bool else which
            lengths = self.lengths[index]
            offsets = np.append(0, np.cumsum(lengths))
            picks = np.repeat(self.offsets[index] - offsets[:-1], lengths) + np.arange(offsets[-1])
            which = index
        return self._with(which, picks, offsets)

    def keep_picks(self, kept: np.ndarray) -> Cells:
        """Leave out picks by a mask over them; a list may become empty."""
        offsets = np.append(0, np.cumsum(kept))[self.offsets]
        return self._with(slice(None), kept, offsets)

    def _with(self, which: np.ndarray | slice, picks: np.ndarray | slice, offsets: np.ndarray) -> Cells:
        values = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and each.name != "offsets":
                values[each.name] = value[picks] if each.name in _RAGGED else value[which]
        return Cells(**values, offsets=offsets)


def join(parts: Sequence[Cells]) -> Cells:
    """Put lists one after another; an optional column stays where any part has it.

    Parameters
    ----------
    parts : sequence of Cells
        At least one.

    Returns
    -------
    Cells
    """
    if len(parts) == 1:
        return parts[0]
    values: dict[str, np.ndarray | None] = {}
    for each in fields(Cells):
        columns = [getattr(part, each.name) for part in parts]
        if all(column is None for column in columns):
            values[each.name] = None
        elif each.name == "offsets":
            values["offsets"] = np.append(0, np.cumsum(np.concatenate([part.lengths for part in parts])))
        else:
            blank = {"weights": np.nan, "outcome": NOT_KNOWN, "domain": -1}.get(each.name, 0)
            filled = [
                np.full(len(part.experts if each.name in _RAGGED else part.line), blank)
                if column is None
                else column
                for part, column in zip(parts, columns, strict=True)
            ]
            values[each.name] = np.concatenate(filled)
    return Cells(**values)  # type: ignore[arg-type]


def table_cells(
    ids: np.ndarray,
    *,
    line: int,
    step: np.ndarray,
    session: int,
    phase: np.ndarray,
    token: np.ndarray,
    weights: np.ndarray | None = None,
) -> Cells:
    """Make the lists of whole rows.

    Parameters
    ----------
    ids : numpy.ndarray of int64, [rows, layers, k]
        Picks; a layer is its index.
    line : int
        Place of the first row in its source.
    step : numpy.ndarray of int64, [rows]
        Of each row; as are phase and token.
    session : int
    phase, token : numpy.ndarray of int64, [rows]
    weights : numpy.ndarray of float64, [rows, layers, k], optional

    Returns
    -------
    Cells
        Row after row, layer after layer.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.zeros(1, np.int64)
    >>> made = table_cells(np.array([[[3, 1], [2, 0]]]), line=1, step=one, session=0, phase=one, token=one)
    >>> made.layer.tolist(), made.offsets.tolist(), made.experts.tolist()
    ([0, 1], [0, 2, 4], [3, 1, 2, 0])
    """
    rows, layers, width = ids.shape
    return Cells(
        line=np.repeat(np.arange(line, line + rows), layers),
        step=np.repeat(step, layers),
        session=np.full(rows * layers, session),
        phase=np.repeat(phase, layers),
        token=np.repeat(token, layers),
        layer=np.tile(np.arange(layers), rows),
        offsets=np.arange(rows * layers + 1) * width,
        experts=ids.reshape(-1).astype(np.int64),
        weights=None if weights is None else weights.reshape(-1).astype(np.float64),
    )
