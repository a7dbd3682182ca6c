"""One table of a trace, streamed: batch after batch is decoded and checked, and handed out by window."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from replay.trace.check import Frame, Report, check_key, check_order, check_values
from replay.trace.columns import Block, decode
from replay.trace.content import CONTENTS
from replay.trace.file import TableInfo, brief, open_parquet

_BATCH_ITEMS = 2**21  # items (numbers) decoded at once
_BATCH_ROWS = 2**16
_BATCH_LEAST = 64
_TRUSTED = 16  # times the safe number of rows that the footer's word is taken for


class TableStream:
    """Reads a table once, checks every row as it passes, and hands out the rows of windows.

    Parameters
    ----------
    info : TableInfo
        The table.
    names : sequence of str
        The columns to read, the key's among them.
    frame : Frame
        What the rows are checked against.
    report : Report
        Told what is wrong.
    skip : numpy.ndarray of bool, optional
        Windows whose rows are checked and then left out, but for their keys.

    Attributes
    ----------
    sound : bool
        False once a row was found whose place by window is not known.
    """

    def __init__(
        self,
        info: TableInfo,
        names: Sequence[str],
        frame: Frame,
        report: Report,
        skip: np.ndarray | None = None,
    ):
        self.info = info
        self.names = names
        self.frame = frame
        self.report = report
        self.skip = skip
        self.sound = True
        self._last: int | None = None
        self._blocks = self.blocks()
        self._waiting: Block | None = None
        self._start = 0

    def blocks(self) -> Generator[Block]:
        """Read the table from its start, in blocks that passed the checks of single rows."""
        first = 0
        try:
            for batch in self._batches():
                block = decode(self.info.table, batch, first, self.names)
                first += block.rows
                self._check(block)
                yield block
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            self.sound = False
            self.report.one(
                "unreadable",
                f"after row number {first} of the file",
                "readable pages",
                brief(problem),
                "copy or record the table again",
            )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Read batches of rows, the next one always in the making while one is worked on."""
        file = open_parquet(self.info.path, self.info.metadata)
        batches = file.iter_batches(self._batch_rows(), columns=list(self.names))
        pool = ThreadPoolExecutor(1)
        try:
            ahead = pool.submit(next, batches, None)
            while (batch := ahead.result()) is not None:
                ahead = pool.submit(next, batches, None)
                if batch.num_rows:
                    yield batch
        finally:
            # never wait: the garbage collector may be what closes this, in a thread that must not join another
            pool.shutdown(wait=False, cancel_futures=True)

    def _batch_rows(self) -> int:
        """Rows of a batch: by the longest lists that the table may have; more where its footer tells of shorter."""
        lists = [name for name in self.names if self.info.table.column(name).item is not None]
        longest = self.frame.top_k if self.info.name == "selections" else self.frame.experts
        safe = _BATCH_ITEMS // (1 + longest * len(lists))
        told = _BATCH_ITEMS // (1 + self._items_told(lists))
        return max(min(told, _TRUSTED * safe, _BATCH_ROWS), _BATCH_LEAST)

    def _items_told(self, lists: Sequence[str]) -> int:
        """Items of a row's lists, as the footer tells of the first row group."""
        if self.info.metadata.num_row_groups == 0:
            return 0
        group = self.info.metadata.row_group(0)
        chunks = (group.column(i) for i in range(group.num_columns))
        items = sum(each.num_values for each in chunks if each.path_in_schema.partition(".")[0] in lists)
        return max(int(items), 0) // max(group.num_rows, 1)

    def _check(self, block: Block) -> None:
        """Check every row; rows whose values do not fit are told once and looked at no further."""
        report, frame = self.report, self.frame
        before = report.counts.total()
        fitting = check_values(block, report)
        if fitting is not None:
            block = block.where(fitting)
        if block.rows and block.table.name != "windows":
            check_key(block, frame, report)
            self._last = check_order(block, self._last, report)
        self.sound &= report.counts.total() == before
        if block.rows and block.table.name in CONTENTS:
            CONTENTS[block.table.name](block, frame, report)

    def close(self) -> None:
        """Stop reading, wherever it stands."""
        self._blocks.close()

    def drain(self) -> None:
        """Read what is left, for its checks."""
        for _ in self._blocks:
            pass

    def take(self, stop: int) -> list[Block]:
        """Take the rows of all windows below ``stop`` that were not taken before.

        Parameters
        ----------
        stop : int
            First window that is left for later.

        Returns
        -------
        list of Block
            In order; empty where the table does not cover these windows.
        """
        taken: list[Block] = []
        while True:
            if self._waiting is None:
                self._waiting = next(self._blocks, None)
                self._start = 0
            block, start = self._waiting, self._start
            if block is None:
                return taken
            window = block.flat("window").values
            if int(window[-1]) >= stop:
                self._start = int(np.searchsorted(window, window.dtype.type(stop)))
                if self._start > start:
                    taken += self._kept(block.part(start, self._start))
                return taken
            taken += self._kept(block.part(start, block.rows))
            self._waiting = None

    def _kept(self, block: Block) -> list[Block]:
        """Leave only the keys of rows whose windows are to be skipped."""
        if self.skip is None:
            return [block]
        skipped = self.skip[block.flat("window").values]
        cuts = [0, *(np.flatnonzero(skipped[1:] != skipped[:-1]) + 1).tolist(), block.rows]
        parts = [block.part(start, stop) for start, stop in zip(cuts[:-1], cuts[1:], strict=True)]
        for part, cut in zip(parts, cuts[:-1], strict=True):
            if skipped[cut]:
                part.columns = {name: part.columns[name] for name in block.table.key}
        return parts
