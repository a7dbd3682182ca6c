"""waste (github sqliteai/waste): ``{"tok": n, "layers": [[ids], ...]}``, one generated token a line.

- The place in ``layers`` counts MoE layers; their numbers in the model are not known.
- The engine sorts the ids: where every list ascends the rank is lost, and the trace says so.
- Tokens count up, from 0 or 1; a later start is noted, a token left out is counted, and a fall begins a session.
- ``null`` and ``[]`` are layers without a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replay.importers import Imported, Request
from replay.importers.json_lines import JsonLines, nested, whole_numbers
from replay.importers.routed.cells import DECODE, Cells
from replay.importers.routed.log import Log, convert_log

OPTIONS = ("model", "experts", "top_k", "expert_bytes")

_LISTS = 2**16  # lists of a block
CUT = "cut short by the file's end"


class WasteLog(Log):
    """A log of waste."""

    format = "waste"
    engine = "waste"
    ordinals = True
    phased = True  # it logs generated tokens only
    begins_at = 1

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._lines = JsonLines(path)
        self._gaps = self._restarts = 0
        self._ignored: set[str] = set()

    def cells(self) -> Iterator[Cells]:
        """Read the tokens."""
        self._gaps = self._restarts = 0
        before: int | None = None
        width: int | None = None
        ids: list[int] = []
        lengths: list[int] = []
        rows: list[tuple[int, int, int, int]] = []  # line, step, session, token
        for step, (line, value) in enumerate(self._lines.objects()):
            token, own, counts = self._token(line, value)
            if width is None:
                width = len(counts)
            if len(counts) != width:
                raise self.wrong(
                    line, f"expected lists of {width} layers as in the first line, found {len(counts)}"
                )
            if before is not None and token <= before:
                self._restarts += 1
            elif before is not None:
                self._gaps += token - before - 1
            before = token
            ids += own
            lengths += counts
            rows.append((line, step, self._restarts, token))
            if len(lengths) >= _LISTS:
                yield self._block(rows, width, lengths, ids)
                ids, lengths, rows = [], [], []
        if rows and width:
            yield self._block(rows, width, lengths, ids)
        if self._lines.cut:
            self.read += 1
            self.removed[CUT] = 1

    def _token(self, line: int, value: dict[str, Any]) -> tuple[int, list[int], list[int]]:
        """Check one line; its token, ids and the length of each layer's list."""
        for name in ("tok", "layers"):
            if name not in value:
                raise self.wrong(line, f"expected a key {name!r}, found {', '.join(value) or 'none'}")
        self._ignored |= value.keys() - {"tok", "layers"}
        token = value["tok"]
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < 2**40:
            raise self.wrong(line, f"expected a token number from 0, found {str(token)[:40]!r}")
        own, counts = nested(value["layers"], lambda text: self.wrong(line, text), "layers")
        return token, whole_numbers(own, lambda text: self.wrong(line, text), "layers").tolist(), counts

    def _block(
        self, rows: list[tuple[int, int, int, int]], width: int, lengths: list[int], ids: list[int]
    ) -> Cells:
        line, step, session, token = (np.repeat(each, width) for each in np.array(rows, np.int64).T)
        self.read += len(lengths)
        return Cells(
            line=line,
            step=step,
            session=session,
            phase=np.full(len(line), DECODE),
            token=token,
            layer=np.tile(np.arange(width), len(rows)),
            offsets=np.append(0, np.cumsum(lengths)),
            experts=np.array(ids, np.int64),
        )

    def remarks(self) -> list[str]:
        """Say what became of the token numbers."""
        notes = []
        if self._restarts:
            notes.append(f"token numbers restart {self._restarts} times: each begins a session")
        if self._gaps:
            notes.append(f"{self._gaps} token numbers are left out: those tokens are not in the file")
        if self._ignored:
            notes.append(f"keys ignored: {', '.join(sorted(self._ignored))}")
        return notes


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a log of waste.

    Parameters
    ----------
    source : Path
        The JSONL file.
    destination : Path
        The trace's folder.
    request : Request
        Model, experts, top-k, size of an expert, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the file cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    return convert_log(WasteLog(source, request), destination, request)
