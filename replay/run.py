"""A run: the tables that a comparison makes, what it was asked, and what a reader must know of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from replay.document import read_json
from replay.errors import InputError
from replay.ledger.window_table import WindowTable
from replay.schema.result import RESULT
from replay.text import no_formula
from replay.trace.staging import staged_folder
from replay.units import counted

if TYPE_CHECKING:
    pass

RUN_FILE = "run.json"
TABLES = ("layers", "windows", "curves", "reads", "routes", "sensitivity", "draft_sweep", "gates")


@dataclass(repr=False)
class Run:
    """What a comparison found.

    Attributes
    ----------
    layers : polars.DataFrame
        See ``schemas/``: one row a (policy, routes, phase, layer).
    by_window : WindowTable
        What ``windows`` is made of when it is asked for.
    curves, reads : polars.DataFrame or None
        Hits over capacities; every read. None where they were not asked for.
    routes : polars.DataFrame or None
        How far new routes leave the recorded ones, by layer; None under recorded routes only.
    sensitivity : polars.DataFrame or None
        The fates under other clocks; None where no grid of clocks was asked for.
    draft_sweep : polars.DataFrame or None
        What floors and schedules of draft retention are worth; None where the trace has no drafts.
    gates : polars.DataFrame or None
        What gates made of their candidates, by layer; None where no policy has any.
    summary : list of dict
        One row a policy and routes: totals (integers) and figures per token.
    info : dict
        Command, versions, trace, resolved options, denominators, warnings.
    """

    layers: pl.DataFrame
    by_window: WindowTable
    curves: pl.DataFrame | None
    reads: pl.DataFrame | None
    summary: list[dict[str, Any]]
    info: dict[str, Any] = field(default_factory=dict)
    routes: pl.DataFrame | None = None
    sensitivity: pl.DataFrame | None = None
    draft_sweep: pl.DataFrame | None = None
    gates: pl.DataFrame | None = None

    @property
    def windows(self) -> pl.DataFrame:
        """The table ``windows``, see ``schemas/``: one row a (policy, routes, window); held once it was asked for."""
        return self.by_window.whole()

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before believing a figure."""
        return list(self.info.get("warnings", ()))

    def __repr__(self) -> str:
        policies = len({row["policy"] for row in self.summary})
        arena = _arena(self.info.get("bound") or {})
        count = len(self.warnings)
        remarks = f", {counted(count, 'warning')}" if count else ""
        played = "1 policy" if policies == 1 else f"{policies} policies"
        return f"Run({self._trace}: {played}, {arena}{remarks})"

    def _repr_html_(self) -> str:
        from replay.markup import html_table

        caption = f"{self._trace}, {_arena(self.info.get('bound') or {})}"
        names = [name for name in _SHOWN if any(row.get(name) is not None for row in self.summary)]
        rows = [
            [
                row["policy"],
                row["routes"],
                *(None if (v := row.get(name)) is None else float(v) for name in names),
            ]
            for row in self.summary
        ]
        return html_table(caption, ["policy", "routes", *names], rows, self.warnings)

    @property
    def _trace(self) -> str:
        return str((self.info.get("trace") or {}).get("name", "a trace"))

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the run's tables into a folder, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The folder to make.
        force : bool
            Replace a run that is there.

        Raises
        ------
        InputError
            The folder is there and ``force`` is not given.
        """
        folder = Path(path)
        with staged_folder(folder, RUN_FILE, force) as staged:
            self.write(staged)
        return folder

    def write(self, folder: Path) -> None:
        """Write the run's files into an open folder."""
        for name in TABLES:
            if name == "windows":
                self.by_window.write(folder / f"{name}.parquet")
            elif (frame := getattr(self, name)) is not None:
                write_table(frame, folder / f"{name}.parquet")
        (folder / "summary.json").write_text(json.dumps(self.summary, indent=1, allow_nan=False) + "\n")
        with open(folder / "summary.csv", "w", newline="", encoding="utf-8") as file:
            columns = list(dict.fromkeys(name for row in self.summary for name in row))
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows({name: no_formula(each) for name, each in row.items()} for row in self.summary)
        (folder / RUN_FILE).write_text(json.dumps(self.info, indent=1, allow_nan=False) + "\n")


_SHOWN = (
    "misses_per_token", "misses_change_ratio", "prefetch_hits_per_token", "issued_per_token",
    "read_bytes_per_token", "wait_us_per_token",
)  # fmt: skip
"""Figures of the summary that a notebook shows."""


def _arena(bound: dict[str, Any]) -> str:
    if bound.get("slots"):
        return f"{'+'.join(map(str, bound['slots']))} slots"
    return f"{bound.get('bytes', 'unknown')} bytes"


def load(path: str | Path, older: bool = False) -> Run:
    """Read a run's folder back.

    Parameters
    ----------
    path : str or Path
        A folder that :meth:`Run.save` or ``replay compare --out`` wrote.
    older : bool
        Whether tables may lack columns that are no key, as those of an older version may.

    Raises
    ------
    InputError
        The folder holds no run, or a file of it cannot be read or is not what a run has.
    """
    folder = Path(path)
    if not (folder / RUN_FILE).is_file():
        raise InputError(f"{folder}: no {RUN_FILE} there; give a folder that `replay compare --out` wrote")
    info = read_json(folder / RUN_FILE, "a run that is whole: make it again")
    summary = read_json(folder / "summary.json", "a run that is whole: make it again")
    _check_info(folder / RUN_FILE, info)
    if not isinstance(summary, list) or not summary or not all(_holds(row, _ROW) for row in summary):
        raise InputError(f"{folder / 'summary.json'}: not the rows of a summary; make the run again")
    frames = {name: frame for name in TABLES if (frame := _read_table(folder, name, older)) is not None}
    for name in ("layers", "windows"):
        if name not in frames:
            raise InputError(f"{folder}: {name}.parquet is missing; make the run again")
    return Run(
        frames["layers"], WindowTable(frames["windows"]), frames.get("curves"), frames.get("reads"), summary, info,
        frames.get("routes"), frames.get("sensitivity"), frames.get("draft_sweep"), frames.get("gates"),
    )  # fmt: skip


_ROW = {"policy": str, "routes": str}
_TRACE_INFO = {"name": str, "layers": int, "experts": int, "top_k": int, "windows": int, "sessions": int}
_INFO = {
    "trace": dict, "bound": dict, "semantics": dict, "routes": list, "policies": list, "baseline": str,
    "warnings": list,
}  # fmt: skip


def _holds(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a JSON value is an object with these keys, of these types."""
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in wanted.items())


def _check_info(file: Path, info: Any) -> None:
    """Refuse a run.json that lacks what every run says."""
    wrong = ""
    if not _holds(info, _INFO):
        lacking = (
            []
            if not isinstance(info, dict)
            else [key for key in _INFO if not _holds(info, {key: _INFO[key]})]
        )
        wrong = f"expected an object with {', '.join(lacking or _INFO)}"
    elif not _holds(info["trace"], _TRACE_INFO):
        wrong = f"trace: expected {', '.join(_TRACE_INFO)}"
    elif not info["policies"] or not all(
        _holds(each, {**_ROW, "resolved": str}) for each in info["policies"]
    ):
        wrong = "policies: expected objects with policy, routes and resolved"
    elif not isinstance(info["bound"].get("slots") or info["bound"].get("bytes"), list | int):
        wrong = "bound: expected slots or bytes"
    if wrong:
        raise InputError(f"{file}: {wrong}; make the run again")


def _read_table(folder: Path, name: str, older: bool) -> pl.DataFrame | None:
    """A table of a run, None where it is not there."""
    file = folder / f"{name}.parquet"
    if not file.exists():
        return None
    try:
        with file.open("rb") as handle:  # by Arrow: polars ends the process on some damaged pages
            frame = pl.DataFrame(pq.read_table(handle, use_threads=False))
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(f"{file}: not a whole table ({reason}); make the run again") from None
    for column in RESULT[name].columns:
        needed = column.required and (not older or column.name in RESULT[name].key)
        if column.name not in frame.columns:
            if needed:
                raise InputError(f"{file}: no column {column.name}; make the run again")
            continue
        kind = frame.schema[column.name]
        if not (kind == pl.Null or _KINDS[column.type.rstrip("0123456789")](kind)):
            raise InputError(f"{file}: column {column.name} is {kind}, not {column.type}; make the run again")
    return frame


_KINDS: dict[str, Callable[[pl.DataType], bool]] = {
    "int": lambda kind: kind.is_integer(), "uint": lambda kind: kind.is_integer(),
    "float": lambda kind: kind.is_float(), "string": lambda kind: kind == pl.String,
    "bool": lambda kind: kind == pl.Boolean,
}  # fmt: skip


def write_table(frame: pl.DataFrame, file: Path) -> None:
    """Write a result table; a disk that is full is the system's own error, whatever the library would make of it.

    Parameters
    ----------
    frame : polars.DataFrame
    file : Path
        Its ending says how: ``.parquet`` or ``.csv``.
    """
    content = io.BytesIO()
    if file.suffix == ".csv":
        frame.write_csv(content)
    else:
        frame.write_parquet(content, compression="zstd")
    file.write_bytes(content.getbuffer())
