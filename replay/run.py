"""A run: the tables that a comparison makes, what it was asked, and what a reader must know of it."""

from __future__ import annotations

import csv
import json
import platform
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from replay import __version__
from replay.errors import InputError
from replay.trace.staging import staged_folder

if TYPE_CHECKING:
    from replay.trace import Trace

RUN_FILE = "run.json"
TABLES = ("layers", "windows", "curves", "reads", "routes", "sensitivity", "draft_sweep")


@dataclass(repr=False)
class Run:
    """What a comparison found.

    Attributes
    ----------
    layers, windows : polars.DataFrame
        See ``schemas/``: one row a (policy, routes, phase, layer), and one a (policy, routes, window).
    curves, reads : polars.DataFrame or None
        Hits over capacities; every read. None where they were not asked for.
    routes : polars.DataFrame or None
        How far new routes leave the recorded ones, by layer; None under recorded routes only.
    sensitivity : polars.DataFrame or None
        The fates under other clocks; None where no grid of clocks was asked for.
    draft_sweep : polars.DataFrame or None
        What floors and schedules of draft retention are worth; None where the trace has no drafts.
    summary : list of dict
        One row a policy and routes: totals (integers) and figures per token.
    info : dict
        Command, versions, trace, resolved options, denominators, warnings.
    """

    layers: pl.DataFrame
    windows: pl.DataFrame
    curves: pl.DataFrame | None
    reads: pl.DataFrame | None
    summary: list[dict[str, Any]]
    info: dict[str, Any] = field(default_factory=dict)
    routes: pl.DataFrame | None = None
    sensitivity: pl.DataFrame | None = None
    draft_sweep: pl.DataFrame | None = None

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before believing a figure."""
        return list(self.info.get("warnings", ()))

    def __repr__(self) -> str:
        policies = len({row["policy"] for row in self.summary})
        arena = _arena(self.info.get("bound") or {})
        count = len(self.warnings)
        remarks = f", {count} warning{'s' if count > 1 else ''}" if count else ""
        return f"Run({self._trace}: {policies} policies, {arena}{remarks})"

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
            frame = getattr(self, name)
            if frame is not None:
                frame.write_parquet(folder / f"{name}.parquet", compression="zstd")
        (folder / "summary.json").write_text(json.dumps(self.summary, indent=1, allow_nan=False) + "\n")
        with open(folder / "summary.csv", "w", newline="", encoding="utf-8") as file:
            columns = list(dict.fromkeys(name for row in self.summary for name in row))
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(self.summary)
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


def load(path: str | Path) -> Run:
    """Read a run's folder back.

    Raises
    ------
    InputError
        The folder holds no run, or a file of it cannot be read.
    """
    folder = Path(path)
    if not (folder / RUN_FILE).is_file():
        raise InputError(f"{folder}: no {RUN_FILE} there; give a folder that `replay compare --out` wrote")
    try:
        info = json.loads((folder / RUN_FILE).read_text())
        summary = json.loads((folder / "summary.json").read_text())
        frames = {
            name: pl.read_parquet(folder / f"{name}.parquet", glob=False)
            for name in TABLES
            if (folder / f"{name}.parquet").is_file()
        }
    except (OSError, ValueError, pl.exceptions.PolarsError) as problem:
        raise InputError(f"{folder}: not a whole run ({problem}); make it again") from None
    for name in ("layers", "windows"):
        if name not in frames:
            raise InputError(f"{folder}: {name}.parquet is missing; make the run again")
    return Run(
        frames["layers"], frames["windows"], frames.get("curves"), frames.get("reads"), summary, info,
        frames.get("routes"), frames.get("sensitivity"), frames.get("draft_sweep"),
    )  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of everything that can move a figure."""
    found = {"replay": __version__, "python": platform.python_version()}
    for name in ("numba", "numpy", "polars", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def trace_info(trace: Trace) -> dict[str, Any]:
    """What identifies the trace: its name, shape, and the hashes of its tables."""
    meta, windows = trace.meta, trace.windows
    return {
        "name": trace.path.resolve().name,
        "model": meta.name,
        "layers": meta.layers,
        "experts": meta.experts,
        "top_k": meta.top_k,
        "windows": len(windows),
        "decode_windows": int((~windows.prefill).sum()),
        "sessions": len(np.unique(windows.session)),
        "sha256": {name: table.sha256 for name, table in trace.tables.items()},
    }


def command_line() -> list[str]:
    """The command as it was given, the program's own path left out."""
    return ["replay", *sys.argv[1:]]
