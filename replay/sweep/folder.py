"""A sweep's folder: ``sweep.json``, the list of its cells, and ``cells/``, a Parquet file each that is finished.

A file is written beside ``cells/`` and moved into it, so that whatever is in there is whole: programs may read that
folder while the sweep runs. A file's bytes depend on its cell alone, not on who replayed it, with what or when.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from replay.errors import InputError
from replay.trace.staging import refuse_unwritable, write_text

if TYPE_CHECKING:
    import pyarrow as pa

    from replay.sweep.cell import Cell

FILE = "sweep.json"
FORMAT, VERSION = "replay-sweep", 1
CELLS = "cells"
_STALE_S = 600.0


def refuse_other(folder: Path) -> None:
    """Refuse a place that cannot be, or become, a sweep's folder.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    InputError
        Something else is there, or nothing can be written there.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and not (folder / FILE).is_file() and not all(map(_begun, folder.iterdir())):
        raise InputError(f"{folder}: expected an empty folder, or one of a sweep ({FILE}); name another")
    refuse_unwritable(folder / FILE if folder.is_dir() else folder)


def open_folder(folder: Path) -> None:
    """Make a sweep's folder, or take one that is there; what a killed run left half-written is cleared.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    InputError
        See :func:`refuse_other`.
    """
    refuse_other(folder)
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    for path in folder.glob(".*.partial"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()


def begin(folder: Path, about: dict[str, Any], cells: Iterable[dict[str, Any]]) -> None:
    """Open a sweep's folder and write its list; where that fails, no folder is left that was not there.

    Parameters
    ----------
    folder : Path
    about : dict
    cells : iterable of dict
        See :func:`write_list`.

    Raises
    ------
    InputError
        See :func:`open_folder`.
    """
    made = [each for each in (folder / CELLS, folder, *folder.parents) if not each.exists()]
    try:
        open_folder(folder)
        write_list(folder, about, cells)
    except BaseException:
        for each in made:
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def _begun(path: Path) -> bool:
    """Whether something in a folder is what a run leaves that was killed before it had written its list."""
    if path.name == CELLS:
        return path.is_dir() and not any(each.suffix == ".parquet" for each in path.iterdir())
    return path.name.startswith(f".{FILE}.") and path.name.endswith(".partial")


def write_list(folder: Path, about: dict[str, Any], cells: Iterable[dict[str, Any]]) -> None:
    """Write ``sweep.json``: what was asked, and a line a cell.

    Parameters
    ----------
    folder : Path
    about : dict
        Command, versions, the study, its traces, what was left out.
    cells : iterable of dict
        The cells as the study names them.
    """
    head = json.dumps({"format": FORMAT, "version": VERSION, **about}, indent=1, default=str)
    lines = ",\n  ".join(json.dumps(each) for each in cells)
    write_text(folder / FILE, f'{head[:-2]},\n "cells": [\n  {lines}\n ]\n}}\n', force=True)


def read_list(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of ``sweep.json``.

    Raises
    ------
    InputError
        It is not what :func:`write_list` writes.
    """
    wrong = f"{folder / FILE}: not the list of a sweep; run `replay sweep` again, finished cells are kept"
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(wrong) from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if document.get("format") != FORMAT if isinstance(document, dict) else True:
        raise InputError(wrong)
    if not isinstance(cells, list) or not all(isinstance(each, dict) and "cell" in each for each in cells):
        raise InputError(wrong)
    return cells


def finished(folder: Path) -> set[str]:
    """Names of the cells that are there."""
    return {path.stem for path in (folder / CELLS).glob("*.parquet")}


def unfinished(folder: Path, cells: Sequence[Cell]) -> list[Cell]:
    """Those of some cells that are not there, in order."""
    there = finished(folder)
    return [cell for cell in cells if cell.name not in there]


def failures(folder: Path, names: Sequence[str]) -> int:
    """How many of some finished cells have no figures.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        Cells that are there.

    Raises
    ------
    InputError
        One of them cannot be read.
    """
    if not names:
        return 0
    import pyarrow as pa
    import pyarrow.dataset as ds

    from replay.schema.arrow import arrow_schema
    from replay.schema.result import RESULT

    files = [str(folder / CELLS / f"{name}.parquet") for name in names]
    rows = ds.dataset(files, schema=arrow_schema(RESULT["sweep"]), format="parquet")
    try:
        return int(rows.count_rows(filter=ds.field("failure").is_valid()))
    except (pa.ArrowException, OSError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"{folder / CELLS}: a finished cell cannot be read ({reason}); remove that file and run again"
        ) from None


def keep(folder: Path, name: str, rows: pa.Table) -> None:
    """Write a finished cell, whole or not at all.

    Parameters
    ----------
    folder : Path
    name : str
        The cell's.
    rows : pyarrow.Table
    """
    import pyarrow.parquet as pq

    staged = folder / f".{name}.{os.getpid()}-{token_hex(4)}.partial"
    try:
        with staged.open("xb") as file:
            pq.write_table(rows, file, compression="zstd")
        os.replace(staged, folder / CELLS / f"{name}.parquet")
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
