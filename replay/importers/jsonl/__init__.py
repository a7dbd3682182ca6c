"""``moe-decode-jsonl``: the trace format as JSON lines, for an engine without a Parquet library.

A header line, then for every window a line of its own and one line a layer; ``schemas/README.md`` has the page for
engine authors. Every table but ``reads`` has its place in it. ``replay export jsonl`` writes the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.json_lines import JsonLines
from replay.importers.jsonl.block import Block
from replay.importers.jsonl.event import check_event
from replay.importers.jsonl.header import Header, check_window, read_header
from replay.importers.routed.provenance import file_hash, provenance
from replay.trace import TraceWriter

OPTIONS = ("model", "expert_bytes")

UNFINISHED = "of a last window that is not whole"
CUT = "cut short by the file's end"
_LISTS = 2**15  # lists of a block
_SCORES = 2**21  # scores of a block
_WINDOWS = 64  # windows of a block


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert JSON lines of the minimal writer.

    Parameters
    ----------
    source : Path
        The file.
    destination : Path
        The trace's folder.
    request : Request
        Model, size of an expert where the header says none, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the file is not as the format says, or the destination is taken; nothing is written then.
    """
    lines = JsonLines(source)
    objects = lines.objects()
    header = read_header(source, next(objects, None), request)
    with TraceWriter(destination, {}, request.force) as writer:
        reading = _Reading(header, writer)
        for line, value in objects:
            reading.add(line, value)
        reading.finish()
        if not reading.windows:
            raise InputError(f"{source}: no whole window in it; nothing to import")
        if header.tables is not None:
            writer.append("experts", header.tables)
        removed = {reason: count for reason, count in reading.removed.items() if count}
        if lines.cut:
            removed[CUT] = 1
        result = Imported(
            str(destination), reading.windows, reading.rows, reading.lookups, reading.read + lines.cut, removed,
            (*header.notes, *reading.notes()), unit="lists",
        )  # fmt: skip
        own = provenance("jsonl", source, file_hash(source), result, request)
        writer.meta.update(
            header.meta | {"source": own | ({"before": header.source} if header.source else {})}
        )
    return result


class _Reading:
    """Lines put together to windows, and windows to blocks."""

    def __init__(self, header: Header, writer: TraceWriter):
        self.header = header
        self.windows = self.rows = self.lookups = self.read = 0
        self.removed: Counter[str] = Counter()
        self._writer = writer
        self._block = Block(header)
        self._window: dict[str, Any] | None = None
        self._events: list[dict[str, Any]] = []
        self._ignored: set[str] = set()
        self._nulls = self._picks = self._short = 0

    def add(self, line: int, value: dict[str, Any]) -> None:
        """Take a line: a window's, or a layer's."""
        if "window" in value:
            self._end(line)
            self._window = check_window(self.header, line, value, self.windows, self._ignored)
            return
        if self._window is None:
            raise self.header.wrong(line, "expected a line with window before its layers")
        layer, rows = len(self._events), self._window["rows"]
        if layer == self.header.layers:
            raise self.header.wrong(
                line, f"expected a line with window after {layer} layers, found another layer"
            )
        event = check_event(self.header, line, value, layer, rows, self._ignored)
        self.read += rows
        self._nulls += event["nulls"]
        self._picks += sum(map(len, event["experts"]))
        self._short += sum(0 < len(ids) < self.header.top_k for ids in event["experts"])
        self._events.append(event)

    def _end(self, line: int) -> None:
        """Take the window that is over."""
        if self._window is None:
            return
        if len(self._events) < self.header.layers:
            raise self.header.wrong(
                line,
                f"window {self.windows} has {len(self._events)} of {self.header.layers} layers; write them all",
            )
        self._block.add(self.windows, self._window, self._events)
        self.windows += 1
        self.rows += self._window["rows"]
        self.lookups += sum(len(set().union(*event["experts"])) for event in self._events)
        self._window, self._events = None, []
        full = self._block.lists >= _LISTS or self._block.scores >= _SCORES
        if full or self._block.windows == _WINDOWS:
            self._write()

    def _write(self) -> None:
        for name, table in self._block.tables():
            self._writer.append(name, table)
        self._block = Block(self.header)

    def finish(self) -> None:
        """Take the last window, unless it is not whole."""
        if self._window is not None and len(self._events) < self.header.layers:
            self.removed[UNFINISHED] += len(self._events) * self._window["rows"]
        else:
            self._end(0)
        if self._block.windows:
            self._write()

    def notes(self) -> list[str]:
        """Say what to know of the trace."""
        notes = []
        if self._ignored:
            notes.append(f"keys ignored: {', '.join(sorted(self._ignored))}")
        if self._nulls:
            share = 100 * self._nulls / (self._nulls + self._picks)
            notes.append(f"{self._nulls} picks ({share:.1f}%) are no expert (-1): left out")
        if self._short:
            notes.append(f"{self._short} lists have fewer than {self.header.top_k} picks")
        return notes
