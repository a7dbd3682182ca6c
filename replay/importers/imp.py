"""imp: one JSON object ``{"top_k": k, "trace": [[layer, e0, e1, ..], ..]}``, a row a token and layer.

- There is no token number: a new token begins when the layer falls; a layer that comes again before is another row
  of the same step.
- Prompt and generated tokens are not told apart; ``--prompt N`` says how many rows come first.
- The object is one piece, so it is read whole, up to 256 MiB; one that was cut short cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.counted import refuse_counts
from replay.importers.json_lines import nested, whole_numbers
from replay.importers.routed.cells import UNKNOWN, Cells
from replay.importers.routed.log import Log, convert_log
from replay.importers.routed.survey import IDS

OPTIONS = ("model", "experts", "top_k", "expert_bytes", "prompt")

_BYTES = 2**28  # largest file
_LISTS = 2**16  # lists of a block
_BOM = b"\xef\xbb\xbf"


class ImpLog(Log):
    """A trace of imp."""

    format = "imp"
    engine = "imp"
    place = "row"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._rows: list[Any] | None = None
        self._top_k = 0
        self._ignored: list[str] = []

    def cells(self) -> Iterator[Cells]:
        """Read the rows."""
        rows = self._load() if self._rows is None else self._rows
        self._rows = rows
        step, before = -1, IDS
        for first in range(0, len(rows), _LISTS):
            part = rows[first : first + _LISTS]
            cells = self._lists(part, first + 1)
            cells.step = step + np.cumsum(cells.layer < np.append(before, cells.layer[:-1]))
            step, before = int(cells.step[-1]), int(cells.layer[-1])
            self.read += len(part)
            yield cells

    def _load(self) -> list[Any]:
        """Read the file: its rows, and what it says of itself."""
        size = self.path.stat().st_size
        if size > _BYTES:
            raise InputError(
                f"{self.path}: {size} bytes; expected at most {_BYTES}, as JSON in one piece is read whole; convert it "
                "to JSON lines (replay import table) or record less at a time"
            )
        try:
            value = json.loads(self.path.read_bytes().removeprefix(_BOM))
        except (ValueError, RecursionError):
            raise InputError(
                f"{self.path}: expected one whole JSON object with top_k and trace; is it another format, or cut short?"
            ) from None
        trace = value.get("trace") if isinstance(value, dict) else None
        if not isinstance(trace, list):
            raise InputError(
                f"{self.path}: expected a JSON object with top_k and trace, a list of rows [layer, e0, ..]"
            )
        top_k = value.get("top_k")
        if not isinstance(top_k, int) or isinstance(top_k, bool) or not 1 <= top_k <= IDS:
            raise InputError(f"{self.path}: expected top_k as a whole number from 1, found {top_k!r}")
        self._top_k = top_k
        self._ignored = sorted(set(value) - {"top_k", "trace"})
        return trace

    def _lists(self, rows: list[Any], line: int) -> Cells:
        """Make the lists of some rows, the first of which is row ``line``."""
        count = len(rows)
        lines = np.arange(line, line + count)

        def wrong(text: str) -> InputError:
            return self.wrong(line, text) if count == 1 else InputError(f"{self.path}: {text}")

        items, lengths = nested(rows, wrong, "trace")
        width = np.array(lengths, np.int64)
        self.refuse(
            lines,
            (width < 1) | (width > self._top_k + 1),
            lambda at: (
                f"expected a layer and at most {self._top_k} experts (top_k), found {width[at]} numbers"
            ),
        )
        values = whole_numbers(items, wrong, "trace")
        starts = np.cumsum(width) - width
        layer = values[starts]
        self.refuse(
            lines, (layer < 0) | (layer >= IDS), lambda at: f"expected a layer first, found {layer[at]}"
        )
        return Cells(
            line=lines,
            step=np.zeros(count, np.int64),
            session=np.zeros(count, np.int64),
            phase=np.full(count, UNKNOWN),
            token=np.full(count, -1),
            layer=layer,
            offsets=np.concatenate([[0], np.cumsum(width - 1)]),
            experts=np.delete(values, starts),
        )

    def remarks(self) -> list[str]:
        """Say what is not told."""
        notes = ["sequences are not told apart: all windows are of one session"]
        if self._ignored:
            notes.append(f"keys ignored: {', '.join(map(str, self._ignored))}")
        return notes


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a trace of imp.

    Parameters
    ----------
    source : Path
        The JSON file.
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
    return convert_log(ImpLog(source, request), destination, request)
