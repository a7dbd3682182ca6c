"""The two CSV layouts: one token and layer a line, and one pick a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from replay.importers import Request
from replay.importers.routed.cells import UNKNOWN, Cells
from replay.importers.routed.log import Log
from replay.importers.routed.numbering import WARM_UP, Numbering, without_warm_up
from replay.importers.routed.phase import phase_codes
from replay.importers.routed.picks import Lists, Picks
from replay.importers.text_rows import Batch, TextRows

NO_POSITION = "with a position below 0, so of no row"
CUT = "cut short by the file's end"
_WIDE = re.compile(r"e(\d{1,5})")


class _TableLog(Log):
    """What the two have in common: positions, restarts, joined files, a warm-up row."""

    format = "llamacpp"
    engine = "llama.cpp"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._restarts = self._joined = self._comments = 0
        self._ignored: list[str] = []

    def cells(self) -> Iterator[Cells]:
        """Read the lists."""
        numbering = Numbering()
        begun = False
        with TextRows(self.path, joined=True) as rows:
            for cells, run in self._lists(rows):
                self.read += len(cells)
                placed = cells.token >= 0
                if not placed.all():
                    self.removed[NO_POSITION] += int((~placed).sum())
                    cells, run = cells.take(placed), run[placed]
                if len(cells) == 0:
                    continue
                numbering.number(cells, run)
                if not begun:
                    begun = True
                    cells, stray = without_warm_up(cells, positions=True)
                    self.removed[WARM_UP] += stray
                    numbering.restarts -= stray > 0 and numbering.restarts > 0
                yield cells
            if rows.cut:
                self.read += 1
                self.removed[CUT] = 1
            self._restarts, self._joined, self._comments = (
                numbering.restarts,
                len(rows.headers),
                rows.comments,
            )

    def _lists(self, rows: TextRows) -> Iterator[tuple[Cells, np.ndarray]]:
        """Read lists, and the run of each."""
        raise NotImplementedError

    def remarks(self) -> list[str]:
        """Say what became of positions and headers."""
        notes = []
        if self._ignored:
            notes.append(f"columns ignored: {', '.join(self._ignored)}")
        if self._comments:
            notes.append(f"{self._comments} comment lines passed over")
        if self._joined:
            notes.append(f"{self._joined} headers in mid-file: files were joined; each begins a session")
        if self._restarts:
            notes.append(f"positions restart {self._restarts} times: each begins a session")
        return notes


class WideLog(_TableLog):
    """CSV ``pos,layer,e0,e1,..``: one token at one layer a line, the best expert first."""

    def _lists(self, rows: TextRows) -> Iterator[tuple[Cells, np.ndarray]]:
        found = sorted((int(m[1]), name) for name in rows.columns if (m := _WIDE.fullmatch(name)))
        wide = [name for place, (number, name) in enumerate(found) if place == number]
        self._ignored = [name for name in rows.columns if name not in ("pos", "layer", *wide)]
        for batch in rows.batches(dict.fromkeys(("pos", "layer", *wide), int)):
            count, zeros = len(batch), np.zeros(len(batch), np.int64)
            cells = Cells(
                line=batch.line,
                step=zeros,
                session=zeros,
                phase=np.full(count, UNKNOWN),
                token=batch["pos"],
                layer=batch["layer"],
                offsets=np.arange(count + 1) * len(wide),
                experts=np.stack([batch[name] for name in wide], axis=1).reshape(-1),
            )
            yield cells, np.searchsorted(rows.headers, batch.line)


class PickLog(_TableLog):
    """CSV ``phase,token,layer,rank,expert``: one pick a line."""

    phased = True

    def _lists(self, rows: TextRows) -> Iterator[tuple[Cells, np.ndarray]]:
        types: dict[str, type] = {"token": int, "layer": int, "expert": int}
        types |= {name: kind for name, kind in _OPTIONAL.items() if name in rows.columns}
        self.phased = "phase" in types
        self._ignored = [name for name in rows.columns if name not in types]
        lists = Lists(self.refuse)
        for batch in rows.batches(types):
            yield from lists.add(self._picks(batch, rows))
        yield from lists.finish(cut=bool(rows.cut))

    def _picks(self, batch: Batch, rows: TextRows) -> Picks:
        zeros = np.zeros(len(batch), np.int64)
        phase = np.full(len(batch), UNKNOWN)
        if "phase" in batch.columns:
            phase = phase_codes(batch["phase"], batch.line, self.refuse)
        return Picks(
            line=batch.line,
            run=np.searchsorted(rows.headers, batch.line),
            step=zeros,
            session=zeros,
            phase=phase,
            token=batch["token"],
            layer=batch["layer"],
            expert=batch["expert"],
            rank=batch.columns.get("rank"),
            weight=batch.columns.get("weight"),
        )


_OPTIONAL: dict[str, type] = {"phase": str, "rank": int, "weight": float}
