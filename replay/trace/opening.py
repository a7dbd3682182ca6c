"""Opening a trace: its tables' files and hashes, and the two tables that are held whole: windows and sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from replay.trace.check import Frame, Report
from replay.trace.chunk import Windows, join
from replay.trace.columns import Block
from replay.trace.failure import Failure, Sink
from replay.trace.meta import FILE, Meta
from replay.trace.stream import TableInfo, TableStream, open_table

PREFILL_ROWS = 8  # a window with more rows is prefill where its phase is not recorded
_PHASES = ("decode", "prefill")


def open_tables(root: Path, meta: Meta, sink: Sink) -> dict[str, TableInfo]:
    """Open the tables that trace.json names.

    Parameters
    ----------
    root : Path
        The trace's folder.
    meta : Meta
        What trace.json says.
    sink : Sink
        Told what is wrong.

    Returns
    -------
    dict of TableInfo
        Those that can be read.
    """
    found = {}
    for name, entry in meta.tables.items():
        info = open_table(root, entry, Report(str(root / entry.file), name, sink))
        if info is not None:
            found[name] = info
    return found


def check_hashes(tables: Collection[TableInfo], sink: Sink) -> None:
    """Compare every file with its hash.

    Parameters
    ----------
    tables : collection of TableInfo
        The tables.
    sink : Sink
        Told which differ.
    """

    def digest(info: TableInfo) -> str:
        with info.path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        for info, found in zip(tables, pool.map(digest, tables), strict=True):
            if found != info.sha256:
                sink(
                    Failure(
                        "hash",
                        str(info.path),
                        info.name,
                        "",
                        f"SHA-256 {info.sha256[:16]}.. as {FILE} says",
                        f"{found[:16]}..",
                        "the file was changed: copy or record the trace again",
                    )
                )


def read_windows(info: TableInfo, sink: Sink) -> Windows | None:
    """Read the table ``windows`` and check it.

    Parameters
    ----------
    info : TableInfo
        The table.
    sink : Sink
        Told what is wrong.

    Returns
    -------
    Windows or None
        None where it is not sound.
    """
    report = Report(str(info.path), "windows", sink)
    stream = TableStream(info, info.columns, Frame(1, 1, 1), report)
    blocks = list(stream.blocks())
    sound = stream.sound and all([_check_windows(block, report) for block in blocks])
    if not sound:
        return None
    rows = join(blocks, "rows")
    phase = join(blocks, "phase")
    recorded = phase != None  # noqa: E711 (elementwise)
    prefill = np.where(recorded, phase == "prefill", rows > PREFILL_ROWS).astype(bool)
    domain = join(blocks, "domain").tolist() if "domain" in info.columns else None
    output_hash = hashed = None
    if "output_hash" in info.columns:
        columns = [block.flat("output_hash") for block in blocks]
        output_hash = np.concatenate([column.values.astype(np.uint64) for column in columns])
        hashed = np.concatenate(
            [
                np.ones(len(column.values), bool) if column.valid is None else column.valid
                for column in columns
            ]
        )
    return Windows(join(blocks, "session"), rows, prefill, recorded.astype(bool), domain, output_hash, hashed)


def _check_windows(block: Block, report: Report) -> bool:
    numbers = block.flat("window").values
    places = np.arange(block.first, block.first + block.rows)
    sound = report.rows(
        block,
        "window-number",
        numbers != places,
        "windows numbered 0, 1, 2 .. in order",
        lambda row: f"{numbers[row]} in row number {places[row]} of the file",
        "number them as they came",
    )
    rows = block.flat("rows").values
    sound &= report.rows(
        block,
        "window-rows",
        rows < 1,
        "rows of at least 1",
        lambda row: f"{rows[row]}",
        "leave empty windows out",
    )
    phase = block.flat("phase")
    names = phase.names or ()
    known = np.array([name in _PHASES for name in names] + [True])
    return sound & report.rows(
        block,
        "phase",
        ~known[phase.values],
        "phase decode or prefill, or null",
        lambda row: repr(names[phase.values[row]]),
        "write one of the two",
    )


def read_sizes(meta: Meta, info: TableInfo | None, sink: Sink) -> tuple[np.ndarray, np.ndarray] | None:
    """Read the size and the class of each expert.

    Parameters
    ----------
    meta : Meta
        What trace.json says.
    info : TableInfo or None
        The table ``experts``, where the trace has it.
    sink : Sink
        Told what is wrong.

    Returns
    -------
    tuple of numpy.ndarray or None
        Bytes (int64) and classes (uint8), both [layers, experts]; None where a size is not known.
    """
    shape = (meta.layers, meta.experts)
    classes = np.zeros(shape, np.uint8)
    if info is None:
        if meta.expert_bytes is None:
            return None
        return np.full(shape, meta.expert_bytes, np.int64), classes
    report = Report(str(info.path), "experts", sink)
    sizes = np.zeros(shape, np.int64)
    stream = TableStream(info, info.columns, Frame(*shape, meta.top_k), report)
    for block in stream.blocks():
        if stream.sound:
            at = (block.flat("layer").values, block.flat("expert").values)
            sizes[at] = block.flat("bytes").values
            if "size_class" in block.columns:
                classes[at] = block.flat("size_class").values
    if not stream.sound:
        return None
    for layer, expert in np.argwhere(sizes == 0)[: 1 if report.counts["size"] else None]:
        if not report.counts["size"]:
            report.one(
                "size-missing",
                f"layer {layer}, expert {expert}",
                "a size for every expert",
                "none",
                "write it",
            )
    other = sizes != (meta.expert_bytes or sizes)
    for layer, expert in np.argwhere(other & (sizes > 0)):
        report.one(
            "size",
            f"layer {layer}, expert {expert}",
            f"{meta.expert_bytes} bytes as expert_bytes in {FILE} says",
            f"{sizes[layer, expert]}",
            "write one of the two",
        )
    return None if report.counts else (sizes, classes)


def frame_of(meta: Meta, windows: Windows | None, classes: np.ndarray | None) -> Frame:
    """Gather what the rows of a trace's tables are checked against.

    Parameters
    ----------
    meta : Meta
        What trace.json says.
    windows : Windows or None
        The windows, where they are sound.
    classes : numpy.ndarray of uint8 or None
        Size class of each expert, where known.

    Returns
    -------
    Frame
        With slots, where the trace has one figure for each size class.
    """
    policy = meta.policy or {}
    slots = policy.get("slots")
    usable = slots is not None and classes is not None and len(slots) > int(classes.max())
    return Frame(
        meta.layers,
        meta.experts,
        meta.top_k,
        None if windows is None else windows.rows,
        classes,
        tuple(slots) if usable else None,
        policy.get("scope") == "layer",
    )
