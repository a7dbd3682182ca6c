"""Connections over the tables of a run or a sweep, and of its trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.document import read_json
from replay.errors import InputError
from replay.query.dataset import dataset
from replay.query.desk import Desk
from replay.sweep.table import TABLES as SWEEP
from replay.sweep.table import is_sweep, register

if TYPE_CHECKING:
    from replay.trace import Trace

MEMORY = 2 << 30
"""Bytes that a query may hold; there is no disk to spill to."""

# in this order: the last line makes the others final
_LOCK = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_TRACE = "trace"


def connect(folder: Path, trace: Path | None = None, memory: int = MEMORY) -> Desk:
    """Open a locked DuckDB connection over a run's tables, and its trace's.

    Parameters
    ----------
    folder : Path
        A folder that ``replay compare --out`` wrote: each of its Parquet files is a table, ``summary`` one more; or
        a sweep's (:mod:`replay.sweep.table`), also while it runs.
    trace : Path, optional
        The trace's folder. Its tables are ``trace.selections`` and so on, and ``selections`` where the run has no
        table of that name.
    memory : int
        Bytes that a query may hold.

    Returns
    -------
    Desk

    Raises
    ------
    InputError
        No such folder, no tables in it, one that is not a whole Parquet file; a trace that cannot be read, or that
        is not the run's.
    """
    import duckdb

    sweep = is_sweep(folder)
    if sweep and trace is not None:
        raise InputError(f"--trace {trace}: {folder} is a sweep, of any number of traces; leave it out")
    found = {} if sweep else _run_tables(folder)
    opened = None if trace is None else _trace_of(folder, trace)
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{memory}B'")
    for name, table in found.items():
        connection.register(name, table)
    if sweep:
        register(connection, folder)
    tables = {name: _quoted(name) for name in (SWEEP if sweep else found)}
    if opened is not None:
        connection.execute(f"CREATE SCHEMA {_TRACE}")
        for name, info in opened.tables.items():
            connection.register(f"{_TRACE}_{name}", dataset(info.path))
            tables[f"{_TRACE}.{name}"] = _quoted(_TRACE, name)
            views = [_quoted(_TRACE, name), *([_quoted(name)] if name not in found else [])]
            for view in views:
                connection.execute(f"CREATE VIEW {view} AS FROM {_TRACE}_{name}")
    for statement in _LOCK:
        connection.execute(statement)
    return Desk(connection, tables)


def _quoted(*parts: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _run_tables(folder: Path) -> dict[str, Any]:
    """A run's tables by name: a dataset a Parquet file, and the summary's rows."""
    import pyarrow as pa

    if not folder.is_dir():
        reason = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"{folder}: {reason}; give a folder that `replay compare --out` or `replay sweep` wrote"
        )
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no tables (*.parquet); give a folder that `replay compare --out` wrote")
    for file in (*files, folder / "summary.json", folder / "run.json"):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{file}: a link that leads out of the run's folder; put the file itself there")
    found = {file.stem: dataset(file) for file in files}
    rows = _json(folder / "summary.json")
    if isinstance(rows, list) and rows and "summary" not in found:
        try:
            columns = dict.fromkeys(name for row in rows for name in row)
            found["summary"] = pa.table({name: [row.get(name) for row in rows] for name in columns})
        except (pa.ArrowException, AttributeError, TypeError, OverflowError):
            raise InputError(f"{folder / 'summary.json'}: not a list of rows; make the run again") from None
    return found


def _json(path: Path) -> Any:
    """What a JSON file of a run holds; None where it is not there."""
    return read_json(path, "a run that is whole: make it again") if path.is_file() else None


def _trace_of(folder: Path, path: Path) -> Trace:
    """The run's trace, opened; another one is refused."""
    from replay.trace import open_trace

    trace = open_trace(path, verify=False)
    info = _json(folder / "run.json")
    hashes = info.get("trace", {}).get("sha256", {}) if isinstance(info, dict) else {}
    for name, sha256 in hashes.items():
        there = trace.tables.get(name)
        if there is None or there.sha256 != sha256:
            raise InputError(
                f"--trace {path}: its table {name} is not the one that the run replayed; give the run's trace"
            )
    return trace
