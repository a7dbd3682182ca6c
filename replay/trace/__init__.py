"""Traces: read, check, write, look."""

from replay.trace.chunk import Chunk, ResidentRows, Scores, Windows
from replay.trace.columns import Lists
from replay.trace.failure import Failure
from replay.trace.file import TableInfo
from replay.trace.meta import Meta, RouterMeta
from replay.trace.reader import Trace, open_trace
from replay.trace.writer import TraceWriter, write_trace

__all__ = [
    "Chunk",
    "Failure",
    "Lists",
    "Meta",
    "ResidentRows",
    "RouterMeta",
    "Scores",
    "TableInfo",
    "Trace",
    "TraceWriter",
    "Windows",
    "open_trace",
    "write_trace",
]
