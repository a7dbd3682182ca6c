"""What a reader refuses in any table's rows: nulls, values, keys and their order.

Every check asks one cheap question of a whole array first and looks for the rows only when the answer is
bad. The reader raises at the first failure that is told; validation collects them all: same checks, another
sink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from replay.schema.table import INTEGERS
from replay.trace.columns import Block, Flat, Lists
from replay.trace.failure import Failure, Sink

KEPT = 10  # failures told one by one, for each reason in a table; the rest are counted
_BITS = {"uint32": 32, "uint16": 16, "uint8": 8}


@dataclass
class Report:
    """Where the failures of one table go.

    Attributes
    ----------
    file, table : str
        Where the failures are.
    sink : Sink
        Told the first ``KEPT`` failures of each reason.
    counts : Counter
        Failures of each reason, told or not.
    """

    file: str
    table: str
    sink: Sink
    counts: Counter[str] = field(default_factory=Counter)

    def one(self, reason: str, key: str, expected: str, found: str, fix: str) -> None:
        """Tell one failure."""
        self.counts[reason] += 1
        if self.counts[reason] <= KEPT:
            self.sink(Failure(reason, self.file, self.table, key, expected, found, fix))

    def rows(
        self,
        block: Block,
        reason: str,
        where: np.ndarray,
        expected: str,
        found: Callable[[int], str],
        fix: str,
    ) -> None:
        """Tell a failure for every row of a block where a mask is true."""
        rows = np.flatnonzero(where)
        if len(rows) == 0:
            return
        kept = max(KEPT - self.counts[reason], 0)
        for row in rows[:kept]:
            self.one(reason, block.key(int(row)), expected, found(int(row)), fix)
        self.counts[reason] += len(rows[kept:])


class Reports:
    """Makes the reports of a trace's tables, all with one sink, and keeps them.

    Parameters
    ----------
    sink : Sink
        Told about every failure.

    Attributes
    ----------
    made : list of Report
        The reports, in the order they were asked for.
    """

    def __init__(self, sink: Sink):
        self.sink = sink
        self.made: list[Report] = []

    def of(self, file: object, table: str) -> Report:
        """Make the report of a table's file."""
        self.made.append(Report(str(file), table, self.sink))
        return self.made[-1]


@dataclass
class Frame:
    """What the rows of every table are checked against.

    Attributes
    ----------
    layers, experts, top_k : int
        The model's.
    rows : numpy.ndarray of int64, optional
        Rows of each window; None where the table ``windows`` is not sound: nothing is then checked by window.
    classes : numpy.ndarray of uint8, [layers, experts], optional
        Size class of each expert.
    slots : tuple of int, optional
        Slots of each class, where the trace says what the engine had.
    by_layer : bool
        Whether each layer has slots of its own.
    """

    layers: int
    experts: int
    top_k: int
    rows: np.ndarray | None = None
    classes: np.ndarray | None = None
    slots: tuple[int, ...] | None = None
    by_layer: bool = False


def check_values(block: Block, report: Report) -> np.ndarray | None:
    """Check that nothing is null that must not be, and that values fit the declared types.

    Parameters
    ----------
    block : Block
        Any table's rows.
    report : Report
        Told what is wrong.

    Returns
    -------
    numpy.ndarray of bool or None
        Which rows can be looked at further; None: all of them.
    """
    wrong: list[np.ndarray] = []
    for name, column in block.columns.items():
        declared = block.table.column(name)
        if column.valid is not None and not declared.nullable:
            wrong.append(~column.valid)
            expected = f"a value in {name}"
            report.rows(block, "null", wrong[-1], expected, lambda _: "null", "write every value")
        if isinstance(column, Lists):
            if column.holes is not None:
                wrong.append(np.isin(np.arange(block.rows), column.row_of(column.holes)))
                expected = f"no null inside the list {name}"
                report.rows(block, "null-item", wrong[-1], expected, lambda _: "one", "leave the item out")
        elif declared.type in INTEGERS:
            outside = _check_span(block, report, name, column, declared.type)
            wrong += [] if outside is None else [outside]
    return ~np.any(wrong, axis=0) if wrong else None


def _check_span(block: Block, report: Report, name: str, column: Flat, type: str) -> np.ndarray | None:
    values = column.values
    largest = INTEGERS[type] if name == "output_hash" else min(INTEGERS[type], 2**63 - 1)
    least = -INTEGERS[type] - 1 if type.startswith("int") else 0
    if int(values.min()) >= least and int(values.max()) <= largest:
        return None
    outside = (values > largest) | ((values < least) if values.dtype.kind == "i" else False)
    expected = f"{name} from {least} to {largest}"
    report.rows(block, "value", outside, expected, _telling(values), "write what was recorded, unsigned")
    return outside


def check_key(block: Block, frame: Frame, report: Report) -> None:
    """Check that the key names windows, layers, experts and rows that there are.

    Parameters
    ----------
    block : Block
        Rows of any table but ``windows``, whose values fit.
    frame : Frame
        What there is.
    report : Report
        Told what is wrong.
    """
    limits = {"layer": frame.layers, "expert": frame.experts}
    if frame.rows is not None:
        limits["window"] = len(frame.rows)
    for name in block.table.key:
        values = block.columns[name].values
        limit = limits.get(name)
        if limit is not None and int(values.max()) >= limit:
            fix = "correct it, or what trace.json and windows say"
            expected = f"{name} below {limit}"
            report.rows(block, f"unknown-{name}", values >= limit, expected, _telling(values), fix)
    name = block.table.key[1]
    if frame.rows is not None and name in ("row", "step"):
        window = block.flat("window").values
        values = block.flat(name).values.astype(np.int64)
        rows = frame.rows[np.minimum(window, len(frame.rows) - 1)]
        report.rows(
            block,
            "unknown-row",
            (values + (name == "step") >= rows) & (window < len(frame.rows)),
            "a row of the window" + (" (draft j is row j+1)" if name == "step" else ""),
            lambda row: f"{name} {values[row]} in a window of {rows[row]} rows",
            "correct it, or windows.rows",
        )


def _telling(values: np.ndarray) -> Callable[[int], str]:
    return lambda row: f"{values[row]}"


def pack_key(block: Block) -> np.ndarray:
    """Pack the key into one number a row that sorts as the key does.

    Parameters
    ----------
    block : Block
        Rows whose values fit; windows below 2**31.

    Returns
    -------
    numpy.ndarray of uint64
        Ascending exactly where the rows are.
    """
    packed = np.zeros(block.rows, np.uint64)
    for name in block.table.key:
        column = block.flat(name)
        if column.names is not None:
            later = np.array([text == "prefetch" for text in column.names], np.uint64)
            packed = (packed << np.uint64(1)) + later[column.values]
        else:
            bits = _BITS[block.table.column(name).type]
            packed = (packed << np.uint64(bits)) + column.values.astype(np.uint64)
    return packed


def check_order(block: Block, previous: int | None, report: Report) -> int:
    """Check that rows are sorted by their key and that no key comes twice.

    Parameters
    ----------
    block : Block
        Rows whose values fit.
    previous : int or None
        Packed key of the row before the block; None at the file's start.
    report : Report
        Told what is wrong.

    Returns
    -------
    int
        Packed key of the last row.
    """
    packed = pack_key(block)
    falls, same = np.zeros(block.rows, bool), np.zeros(block.rows, bool)
    falls[1:], same[1:] = packed[1:] < packed[:-1], packed[1:] == packed[:-1]
    if previous is not None:
        falls[0], same[0] = packed[0] < previous, packed[0] == previous
    names = ", ".join(block.table.key)
    if same.any():
        expected = f"one row for each {names}"
        report.rows(
            block, "duplicate", same, expected, lambda _: "another of this key", "write each key once"
        )
    if falls.any():
        expected = f"rows sorted by {names}"
        report.rows(block, "unsorted", falls, expected, lambda _: "a row after a later one", "sort the table")
    return int(packed[-1])
