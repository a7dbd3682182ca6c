"""Validation: every check of the reader over every table, all failures collected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.trace.check import Frame, Report, Reports
from replay.trace.chunk import ranges
from replay.trace.cover import check_windows
from replay.trace.failure import Failure
from replay.trace.file import TableInfo
from replay.trace.meta import Meta, read_meta
from replay.trace.opening import (
    check_classes,
    check_hashes,
    frame_of,
    open_tables,
    read_sizes,
    read_windows,
)
from replay.trace.stream import TableStream


@dataclass
class Validation:
    """What validation found.

    Attributes
    ----------
    path : Path
        The trace's folder.
    failures : list of Failure
        What is refused: the first ten of each reason in a table.
    counts : Counter
        All failures in tables, told or not, by (table, reason).
    rows : dict of int
        Rows of each table that could be read.
    """

    path: Path
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether nothing is refused."""
        return not self.failures

    @property
    def total(self) -> int:
        """How many failures there are, told or not."""
        return len(self.failures) + sum(self.untold().values())

    def untold(self) -> dict[tuple[str, str], int]:
        """Count the failures that were not told one by one.

        Returns
        -------
        dict of int
            By (table, reason), where there are any.
        """
        told = Counter((failure.table, failure.reason) for failure in self.failures)
        return {key: count - told[key] for key, count in self.counts.items() if count > told[key]}

    def as_dict(self) -> dict[str, Any]:
        """Give what was found as plain data.

        Returns
        -------
        dict
            Trace, verdict, tables, failures, and counts of those not told.
        """
        untold = [
            {"table": table, "reason": reason, "count": count}
            for (table, reason), count in self.untold().items()
        ]
        return {
            "trace": str(self.path),
            "valid": self.valid,
            "rows": self.rows,
            "failures": [failure.as_dict() for failure in self.failures],
            "untold": untold,
        }


def validate(path: Path) -> Validation:
    """Check a whole trace.

    Parameters
    ----------
    path : Path
        Its folder.

    Returns
    -------
    Validation
        Everything that the reader would refuse.
    """
    found = Validation(path)
    meta = read_meta(path, found.failures.append)
    if meta is not None:
        reports = Reports(found.failures.append)
        tables = open_tables(path, meta, reports)
        check_hashes(tables.values(), reports)
        frame = _frame(path, meta, tables, reports)
        for name, info in tables.items():
            found.rows[name] = info.rows
            if name not in ("windows", "experts"):
                _check_table(info, frame, reports.of(info.path, name))
        for report in reports.made:
            for reason, count in report.counts.items():
                found.counts[report.table, reason] += count
    return found


def _frame(path: Path, meta: Meta, tables: dict[str, TableInfo], reports: Reports) -> Frame:
    """Read windows and sizes, and gather what the other tables are checked against."""
    windows = read_windows(tables["windows"], reports) if "windows" in tables else None
    sizes = None
    if "experts" in tables or "experts" not in meta.tables:
        sizes = read_sizes(meta, tables.get("experts"), reports)
    if sizes is not None:
        check_classes(path, meta, sizes[1], reports)
    return frame_of(meta, windows, None if sizes is None else sizes[1])


def _check_table(info: TableInfo, frame: Frame, report: Report) -> None:
    stream = TableStream(info, info.columns, frame, report)
    if frame.rows is not None:
        for first, stop in ranges(frame.rows, (info.name,), frame.layers * frame.experts):
            parts = stream.take(stop)
            if not stream.sound:
                break
            check_windows(parts, info.name, frame, first, stop, report)
    stream.drain()
