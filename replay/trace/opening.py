"""Opening a trace: its files and their hashes, and the two tables that are held whole, windows and sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from replay.trace.check import Frame, Report, Reports
from replay.trace.chunk import Windows
from replay.trace.columns import Block
from replay.trace.fields import FILE
from replay.trace.file import TableInfo, open_table
from replay.trace.gather import join
from replay.trace.meta import Meta
from replay.trace.stream import TableStream

PREFILL_ROWS = 8  # a window with more rows is prefill where its phase is not recorded
_PHASES = ("decode", "prefill")


def open_tables(root: Path, meta: Meta, reports: Reports) -> dict[str, TableInfo]:
    """Open the tables that trace.json names.

    Parameters
    ----------
    root : Path
        The trace's folder.
    meta : Meta
        What trace.json says.
    reports : Reports
        Told what is wrong.

    Returns
    -------
    dict of TableInfo
        Those that can be read.
    """
    found = {}
    for name, entry in meta.tables.items():
        info = open_table(root, entry, reports.of(root / entry.file, name))
        if info is not None:
            found[name] = info
    return found


def check_hashes(tables: Collection[TableInfo], reports: Reports) -> None:
    """Compare every file with its hash.

    Parameters
    ----------
    tables : collection of TableInfo
        The tables.
    reports : Reports
        Told which differ.
    """

    def digest(info: TableInfo) -> str:
        with info.path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        for info, found in zip(tables, pool.map(digest, tables), strict=True):
            if found != info.sha256:
                expected = f"SHA-256 {info.sha256[:16]}.. as {FILE} says"
                fix = "the file was changed: copy or record the trace again"
                reports.of(info.path, info.name).one("hash", "", expected, f"{found[:16]}..", fix)


def read_windows(info: TableInfo, reports: Reports) -> Windows | None:
    """Read the table ``windows`` and check it.

    Parameters
    ----------
    info : TableInfo
        The table.
    reports : Reports
        Told what is wrong.

    Returns
    -------
    Windows or None
        None where it is not sound.
    """
    report = reports.of(info.path, "windows")
    stream = TableStream(info, info.columns, Frame(1, 1, 1), report)
    blocks = list(stream.blocks())
    for block in blocks:
        _check_windows(block, report)
    if report.counts or not blocks:
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


def _check_windows(block: Block, report: Report) -> None:
    numbers, places = block.flat("window").values, np.arange(block.first, block.first + block.rows)
    expected, fix = "windows numbered 0, 1, 2 .. in order", "number them as they came"
    report.rows(
        block,
        "window-number",
        numbers != places,
        expected,
        lambda row: f"it in row number {places[row]}",
        fix,
    )
    rows = block.flat("rows").values
    report.rows(block, "window-rows", rows < 1, "at least 1 row", lambda row: f"{rows[row]}", "leave it out")
    phase = block.flat("phase")
    names = phase.names or ()
    unknown = np.array([name not in _PHASES for name in names] + [False])[phase.values]
    expected, fix = "phase decode or prefill, or null", "write one of the two"
    report.rows(block, "phase", unknown, expected, lambda row: repr(names[phase.values[row]]), fix)


def read_sizes(meta: Meta, info: TableInfo | None, reports: Reports) -> tuple[np.ndarray, np.ndarray] | None:
    """Read the size and the class of each expert.

    Parameters
    ----------
    meta : Meta
        What trace.json says.
    info : TableInfo or None
        The table ``experts``, where the trace has it.
    reports : Reports
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
    report = reports.of(info.path, "experts")
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


def check_classes(root: Path, meta: Meta, classes: np.ndarray, reports: Reports) -> None:
    """Check that the recorded slots name every size class.

    Parameters
    ----------
    root : Path
        The trace's folder.
    meta : Meta
        What trace.json says.
    classes : numpy.ndarray of uint8
        Size class of each expert.
    reports : Reports
        Told where they do not.
    """
    slots = (meta.policy or {}).get("slots")
    count = int(classes.max()) + 1
    if slots is not None and len(slots) != count:
        expected, found = f"{count} figures, one a size class", f"{len(slots)}"
        reports.of(root / FILE, "").one("field", "field policy.slots", expected, found, "write one for each")


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
        With slots where the trace has a figure for every size class.
    """
    policy = meta.policy or {}
    slots: list[int] | None = policy.get("slots")
    if slots is not None and (classes is None or len(slots) <= int(classes.max())):
        slots = None
    return Frame(
        meta.layers,
        meta.experts,
        meta.top_k,
        None if windows is None else windows.rows,
        classes,
        None if slots is None else tuple(slots),
        policy.get("scope") == "layer",
    )
