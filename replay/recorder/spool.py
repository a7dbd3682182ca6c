"""The recording on its way to disk: Arrow streams that a crash leaves readable, and the trace made of them.

Parquet has its index at the end, so a torn file is lost whole. While recording, each table is an Arrow IPC stream
in ``NAME.partial``, one batch a flush, the same windows in every table; what is whole in all of them is a prefix of
the recording. Closing, and ``replay recover``, write the trace from there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from replay.document import read_json
from replay.errors import InputError
from replay.schema.trace import TRACE
from replay.text import all_text
from replay.trace.fields import FILE
from replay.trace.staging import refuse_taken
from replay.trace.writer import TraceWriter

HEAD = "recording.json"
_FORMAT = "replay-recording"
_VERSION = 1


def partial_path(path: str | os.PathLike[str]) -> Path:
    """Where the recording of a trace lies until it is whole.

    Parameters
    ----------
    path : path
        The trace's folder.

    Returns
    -------
    Path

    Examples
    --------
    >>> partial_path("runs/olmoe").as_posix()
    'runs/olmoe.partial'
    """
    path = Path(path)
    return path.with_name(path.name + ".partial")


class Spool:
    """Writes a recording's streams.

    Parameters
    ----------
    path : path
        The trace's folder; the streams lie beside it.
    force : bool
        Whether an old trace may be replaced in the end.

    Raises
    ------
    InputError
        The path, or its partial, is taken.
    """

    def __init__(self, path: str | os.PathLike[str], force: bool = False):
        self.path = Path(path)
        self.folder = partial_path(path)
        self.force = force
        refuse_taken(self.path, FILE, force)
        if self.folder.exists():
            raise InputError(
                f"{self.folder}: an unfinished recording is there; keep it with `replay recover`, or remove it"
            )
        self._files: dict[str, tuple[Any, Any]] = {}
        self.flushes = 0

    def write(self, meta: Mapping[str, Any], batches: Mapping[str, pa.RecordBatch]) -> None:
        """Write one flush: a batch of every table, whole windows.

        Parameters
        ----------
        meta : mapping
            trace.json as far as known, without its tables.
        batches : mapping of str to pyarrow.RecordBatch
            The same tables at every flush.
        """
        if not self._files:
            self.folder.mkdir(parents=True)
        _write_head(self.folder, meta)
        for name, batch in batches.items():
            if name not in self._files:
                handle = (self.folder / f"{name}.arrows").open("wb")
                self._files[name] = (handle, pa.ipc.new_stream(handle, batch.schema))
            handle, stream = self._files[name]
            stream.write_batch(batch)
            handle.flush()
        self.flushes += 1

    def close(self) -> None:
        """End the streams; they stay."""
        for handle, stream in self._files.values():
            stream.close()
            handle.close()
        self._files = {}

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Write the trace and remove the streams."""
        self.close()
        _write_head(self.folder, meta)
        _write_trace(self.folder, self.path, meta, self.flushes, self.force)
        (self.folder / HEAD).unlink()  # first: what is left of the streams after a kill is no recording
        shutil.rmtree(self.folder)


def _write_head(folder: Path, meta: Mapping[str, Any]) -> None:
    text = json.dumps(
        {"format": _FORMAT, "version": _VERSION, "meta": all_text(meta)}, ensure_ascii=False, allow_nan=False
    )
    new = folder / f"{HEAD}.new"
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(folder / HEAD)


def _batches(file: Path, flushes: int | None = None) -> Iterator[pa.RecordBatch]:
    """Whole batches of a stream, up to where it is torn."""
    with file.open("rb") as handle:
        try:
            stream = pa.ipc.open_stream(handle)
        except (pa.ArrowException, OSError, MemoryError):
            return
        count = 0
        while flushes is None or count < flushes:
            try:
                batch = stream.read_next_batch()
                batch.validate(full=True)  # offsets that point nowhere would end the process
            except (
                StopIteration,
                pa.ArrowException,
                OSError,
                MemoryError,
            ):  # torn: its sizes may be any number
                return
            count += 1
            yield batch


def _write_trace(
    folder: Path, path: Path, meta: Mapping[str, Any], flushes: int, force: bool
) -> dict[str, int]:
    rows: dict[str, int] = {}
    with TraceWriter(path, meta, force) as writer:
        for name in TRACE:
            file = folder / f"{name}.arrows"
            for batch in _batches(file, flushes) if file.is_file() else ():
                if batch.num_rows:
                    writer.append(name, pa.Table.from_batches([batch]))
                    rows[name] = rows.get(name, 0) + batch.num_rows
    return rows


def recover(
    partial: str | os.PathLike[str], destination: str | os.PathLike[str], force: bool = False
) -> dict[str, int]:
    """Make a trace of what an interrupted recording left.

    Parameters
    ----------
    partial : path
        The folder ``NAME.partial``; it stays as it is.
    destination : path
        The trace's folder, made here.
    force : bool
        Whether an old trace there is replaced.

    Returns
    -------
    dict of int
        Rows of each table.

    Raises
    ------
    InputError
        No such recording, nothing whole in it, or the destination is taken.
    """
    folder = Path(partial)
    meta = _read_head(folder)
    streams = sorted(file for file in folder.glob("*.arrows") if file.is_file())
    names = {file.stem for file in streams}
    if not {"windows", "selections"} <= names or not names <= set(TRACE):
        raise InputError(
            f"{folder}: expected streams windows.arrows and selections.arrows, found {sorted(names)}"
        )
    flushes = min(sum(1 for _ in _batches(file)) for file in streams)
    if not flushes:
        raise InputError(f"{folder}: no window was written whole; there is nothing to recover")
    source = meta.get("source")
    source = source if isinstance(source, dict) else {}
    before = source.get("notes")
    notes = [
        *(before if isinstance(before, list) else []),
        "recovered from an interrupted recording: its first windows",
    ]
    return _write_trace(
        folder, Path(destination), meta | {"source": source | {"notes": notes}}, flushes, force
    )


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / HEAD
    if not file.is_file():
        raise InputError(
            f"{folder}: expected the folder NAME.partial of a recording, with {HEAD}; check the path"
        )
    try:
        head = read_json(file, "the folder that a recording left")
        known = head["format"] == _FORMAT and head["version"] == _VERSION and isinstance(head["meta"], dict)
    except (KeyError, TypeError):
        known = False
    if not known:
        raise InputError(
            f"{file}: expected format {_FORMAT!r}, version {_VERSION}; was it written by this program?"
        )
    return head["meta"]
