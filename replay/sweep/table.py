"""A sweep's folder as tables for SQL, also while the sweep runs: ``plan``, ``layers`` and ``cells``.

``plan`` is the list of the study's cells, ``layers`` the rows of those that are finished, under the study's names, and
``cells`` a row a finished cell (none at first): sums, and the usual figures per committed token over decode windows.
Cells of another study or another version of this program that lie in the folder are not seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.schema.arrow import arrow_schema
from replay.schema.result import RESULT
from replay.sweep.folder import CELLS, FILE, finished, read_list

TABLE = "sweep"
TABLES = ("cells", "layers", "plan")
NAMES = ("cell", "trace", "policy", "routes", "bound", "clock", "seed")
PER_TOKEN = {
    "misses_per_token": "misses",
    "prefetch_hits_per_token": "prefetch_hits",
    "issued_per_token": "issued",
    "wait_us_per_token": "wait_us + limbo_wait_us",
}
"""Figures per committed token, of decode windows."""


def is_sweep(folder: Path) -> bool:
    """Whether a folder is a sweep's."""
    return (folder / FILE).is_file()


def register(connection: Any, folder: Path) -> None:
    """Make a sweep's tables known to a DuckDB connection.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    folder : Path
        A sweep's.

    Raises
    ------
    InputError
        The list cannot be read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    lines = read_list(folder)
    there = finished(folder)
    names = [name for name in dict.fromkeys(line["cell"] for line in lines) if name in there]
    types = {"seed": pa.int64()}
    columns = {
        name: pa.array([line.get(name) for line in lines], types.get(name, pa.string())) for name in NAMES
    }
    connection.register("plan", pa.table(columns))
    files = [str(folder / CELLS / f"{name}.parquet") for name in names]
    schema = arrow_schema(RESULT[TABLE])
    rows = ds.dataset(files, schema=schema, format="parquet") if files else schema.empty_table()
    connection.register("sweep_rows", rows)
    connection.execute(f"CREATE VIEW layers AS {_layers()}")
    connection.execute(f"CREATE VIEW cells AS {_cells()}")


def _summed() -> list[str]:
    """Columns that add up over layers and phases."""
    names = [each.name for each in RESULT[TABLE].columns]
    return names[names.index("lookups") :]


def _layers() -> str:
    """Rows of the finished cells under the study's names."""
    plan = ", ".join(f"plan.{name}" for name in NAMES)
    known = ", ".join(name for name in NAMES if name in {each.name for each in RESULT[TABLE].columns})
    return f"SELECT {plan}, sweep_rows.* EXCLUDE ({known}) FROM plan JOIN sweep_rows ON plan.cell = sweep_rows.cell"  # noqa: S608 (names of ours)


def _cells() -> str:
    """A row a finished cell."""
    kinds = {each.name: each.type for each in RESULT[TABLE].columns}
    keys = [*NAMES, *(name for name in kinds if name not in NAMES)]
    keys = [name for name in keys if name not in (*_summed(), "phase", "layer", "windows")]
    sums = [
        f"sum({name})::{'BIGINT' if kinds[name] == 'int64' else 'DOUBLE'} AS {name}" for name in _summed()
    ]
    decode = "FILTER (WHERE phase = 'decode')"
    rates = [
        f"(sum({what}) {decode} / nullif(any_value(tokens), 0))::DOUBLE AS {name}"
        for name, what in PER_TOKEN.items()
    ]
    read = f"sum(coalesce(disk_bytes, demand_bytes + issued_bytes)) {decode}"
    rates.append(f"({read} / nullif(any_value(tokens), 0))::DOUBLE AS read_bytes_per_token")
    rates.append("((sum(hits) + sum(prefetch_hits)) / nullif(sum(lookups), 0))::DOUBLE AS hit_ratio")
    return f"SELECT {', '.join([*keys, *rates, *sums])} FROM layers GROUP BY ALL"  # noqa: S608 (names of ours)
