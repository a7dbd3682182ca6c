"""Strata ``--dump-routing``: little-endian int32 records ``layer, k, k ids, k weights`` (float32 bits).

- One record is one row at one layer. There is no token number: a new token begins when the layer falls; a layer that
  comes again before is another row of the same step.
- Prompt and generated tokens are not told apart; ``--prompt N`` says how many rows come first.
- Weights are those of the selected experts only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from replay.importers import Imported, Request
from replay.importers.counted import refuse_counts
from replay.importers.routed.cells import UNKNOWN, Cells, join
from replay.importers.routed.log import Log, convert_log
from replay.importers.routed.survey import IDS

OPTIONS = ("model", "experts", "top_k", "expert_bytes", "prompt")

CUT = "cut short by the file's end"
_BLOCK = 2**22  # bytes read at once
_WHICH = "is this a dump of --dump-routing?"


class StrataLog(Log):
    """A routing dump of Strata."""

    format = "strata"
    engine = "Strata"
    place = "record"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._step = -1
        self._layer = IDS  # of the record before

    def cells(self) -> Iterator[Cells]:
        """Read the records."""
        self._step, self._layer = -1, IDS
        rest, odd = np.empty(0, np.int32), 0
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                odd = len(block) % 4
                words = np.frombuffer(block[: len(block) - odd], "<i4")
                words = np.concatenate([rest, words])
                cells, used = self._records(words)
                if cells is not None:
                    yield cells
                rest = words[used:]
        if len(rest) or odd:
            self.read += 1
            self.removed[CUT] = 1

    def _records(self, words: np.ndarray) -> tuple[Cells | None, int]:
        """Take the whole records at the front; the lists, and how many words they took."""
        parts = []
        at = 0
        while at + 2 <= len(words):
            layer, width = int(words[at]), int(words[at + 1])
            if not (0 <= layer < IDS and 1 <= width <= IDS):
                raise self.wrong(
                    self.read + 1,
                    f"expected layer and k, found {layer} and {width}; {_WHICH}",
                )
            size = 2 + 2 * width
            table = words[at : at + (len(words) - at) // size * size].reshape(-1, size)
            other = np.flatnonzero(table[:, 1] != width)
            table = table[: other[0]] if len(other) else table
            if len(table) == 0:
                break
            parts.append(self._lists(table, width))
            at += table.size
        return (join(parts) if parts else None), at

    def _lists(self, table: np.ndarray, width: int) -> Cells:
        """Make the lists of some records of one width."""
        count = len(table)
        layer = table[:, 0].astype(np.int64)
        lines = np.arange(self.read + 1, self.read + 1 + count)
        outside = (layer < 0) | (layer >= IDS)
        self.refuse(
            lines, outside, lambda at: f"expected layer and k, found {layer[at]} and {width}; {_WHICH}"
        )
        step = self._step + np.cumsum(layer < np.append(self._layer, layer[:-1]))
        self._step, self._layer = int(step[-1]), int(layer[-1])
        self.read += count
        weights = np.ascontiguousarray(table[:, 2 + width :]).view("<f4")
        return Cells(
            line=lines,
            step=step,
            session=np.zeros(count, np.int64),
            phase=np.full(count, UNKNOWN),
            token=np.full(count, -1),
            layer=layer,
            offsets=np.arange(count + 1) * width,
            experts=table[:, 2 : 2 + width].astype(np.int64).reshape(-1),
            weights=weights.astype(np.float64).reshape(-1),
        )

    def remarks(self) -> list[str]:
        """Say what is not told."""
        return ["sequences are not told apart: all windows are of one session"]


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a routing dump of Strata.

    Parameters
    ----------
    source : Path
        The binary file.
    destination : Path
        The trace's folder.
    request : Request
        Model, experts, top-k, size of an expert, prompt, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the file cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    refuse_counts(source)
    return convert_log(StrataLog(source, request), destination, request)
