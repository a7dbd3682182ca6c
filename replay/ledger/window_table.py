"""The table ``windows`` of a run: made policy by policy from what the replays keep, whole only for who asks for it.

It is the only table that grows with the trace. Writing it and what a report reads of it never hold all of its columns
of all policies at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replay.ledger.ledger import Tally, framed, microseconds, told
from replay.schema.result import RESULT
from replay.trace.chunk import Windows

KEY = ("policy", "routes")
GROUP_ROWS = 16_384
"""Rows from which on policies are a row group of the written table: smaller ones cost more than they hold."""

NAMES = tuple(each.name for each in RESULT["windows"].columns)


@dataclass(frozen=True)
class WindowRows:
    """What one policy's rows are made of.

    Attributes
    ----------
    policy, routes : str
    tally : Tally
        One that keeps its windows.
    windows : Windows
        The trace's.
    tokens : int64[windows]
        What each window commits.
    """

    policy: str
    routes: str
    tally: Tally
    windows: Windows
    tokens: NDArray[np.int64]

    def frame(self, names: Iterable[str] = NAMES) -> pl.DataFrame:
        """Some columns of its rows."""
        number = self.tally.by_window()["window"]
        return framed("windows", len(number), {name: self._values(name, number) for name in names})

    def _values(self, name: str, number: NDArray[np.int64]) -> Any:
        """A column as :func:`replay.ledger.ledger.framed` takes it; ``number`` are the windows that count."""
        windows, sums = self.windows, self.tally.by_window()
        if name in KEY:
            return getattr(self, name)
        if name == "window":
            return number
        if name in ("session", "rows"):
            return getattr(windows, name)[number]
        if name == "tokens":
            return self.tokens[number]
        if name == "phase":
            return pl.Series(["decode", "prefill"]).gather(windows.prefill[number].astype(np.uint32))
        if name == "domain":
            return (
                None if windows.domain is None else pl.Series(windows.domain, dtype=pl.String).gather(number)
            )
        if name == "total_us":
            return microseconds(sums["total_ns"])
        if name in ("picks_made", "picks_kept") and self.routes == "recorded":
            return None
        return told(name, sums, self.tally)


class WindowTable:
    """The rows of all policies, in their order.

    Parameters
    ----------
    source : sequence of WindowRows, or polars.DataFrame
        What the rows are made of, or the rows themselves.
    """

    def __init__(self, source: Sequence[WindowRows] | pl.DataFrame) -> None:
        self._source = source

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._source.columns if isinstance(self._source, pl.DataFrame) else list(NAMES)

    def whole(self) -> pl.DataFrame:
        """The table; from then on it is held as it was made."""
        if not isinstance(self._source, pl.DataFrame):
            self._source = pl.concat(self._frames())
        return self._source

    def select(self, *names: str) -> pl.DataFrame:
        """Some columns of the table."""
        return (
            self._source.select(names)
            if isinstance(self._source, pl.DataFrame)
            else pl.concat(self._frames(names))
        )

    def without(self, gone: Sequence[tuple[str, str]]) -> WindowTable:
        """The table without the rows of some policies and routes."""
        if isinstance(self._source, pl.DataFrame):
            keys = pl.DataFrame(gone, schema=KEY, orient="row")
            return WindowTable(self._source.join(keys, on=KEY, how="anti", maintain_order="left"))
        return WindowTable([each for each in self._source if (each.policy, each.routes) not in gone])

    def write(self, file: Path) -> None:
        """Write the table as Parquet, a few policies at a time.

        Parameters
        ----------
        file : Path

        Raises
        ------
        OSError
            The system's own error: nothing whole stands there then.
        """
        with file.open("wb") as sink:
            writer: pq.ParquetWriter | None = None
            try:
                for rows in self._groups():
                    writer = writer or pq.ParquetWriter(sink, rows.schema, compression="zstd")
                    writer.write_table(rows, max(len(rows), 1))
            finally:
                if writer is not None:
                    writer.close()

    def _groups(self) -> Iterator[pa.Table]:
        """Row groups: the next policies that have ``GROUP_ROWS`` together."""
        waiting: list[pl.DataFrame] = []
        for frame in self._frames():
            waiting.append(frame)
            if sum(map(len, waiting)) >= GROUP_ROWS:
                yield pl.concat(waiting).to_arrow()
                waiting = []
        if waiting:
            yield pl.concat(waiting).to_arrow()

    def _frames(self, names: Iterable[str] = NAMES) -> Iterator[pl.DataFrame]:
        if isinstance(self._source, pl.DataFrame):
            yield self._source
        else:
            yield from (each.frame(names) for each in self._source)
