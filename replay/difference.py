"""What changed between two runs of one trace: versions, settings, and every figure of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from replay.errors import InputError
from replay.run import Run

Level = Literal["total", "layer", "window"]
TABLES: dict[Level, tuple[str, ...]] = {
    "total": ("summary",),
    "layer": ("summary", "layers", "curves", "routes"),
    "window": ("summary", "layers", "curves", "routes", "windows"),
}
"""The tables that each level compares; ``reads``, ``sensitivity`` and ``draft_sweep`` are never."""

SETTINGS = (
    "bound",
    "semantics",
    "routes",
    "grid",
    "clock",
    "baseline",
    "policies",
    "policy_files",
    "left_out",
)
ROUNDING = 1e-9
"""Relative change of a float that is no change; whole numbers are exact."""

_SIDES = ("a", "b", "whole", "a_whole", "b_whole")
_OF_A_FIGURE = ("table", "policy", "routes", "phase", "layer", "window", "capacity", "figure")


@dataclass(frozen=True)
class Difference:
    """Two runs of one trace, A and B.

    Attributes
    ----------
    trace : str
    versions, settings : list of (str, object, object)
        What is not the same: its name, in A, in B.
    figures : polars.DataFrame
        Every figure that is not the same: table, policy, routes, phase, layer, window, capacity (null: does not
        apply), figure, a, b (null: not there), whole, a_whole, b_whole (whole numbers as they are, beyond what a
        double holds too), change_ratio ((b - a) / abs(a), of a ratio b - a; null: not to be said), beyond.
    compared : int
        Figures that were compared.
    tolerance : float
    """

    trace: str
    versions: list[tuple[str, Any, Any]]
    settings: list[tuple[str, Any, Any]]
    figures: pl.DataFrame
    compared: int
    tolerance: float

    @property
    def beyond(self) -> int:
        """Figures that differ by more than the tolerance."""
        return int(self.figures["beyond"].sum())

    def by_figure(self) -> pl.DataFrame:
        """One row a table, policy and figure: where it differs, how often, and most.

        Returns
        -------
        polars.DataFrame
            table, policy, routes, figure, differ, beyond, and of the greatest change phase, layer, window, capacity,
            a, b, whole, a_whole, b_whole, change_ratio; table by table, those beyond the tolerance first.
        """
        size = pl.col("change_ratio").abs().fill_null(float("inf"))
        worst = self.figures.with_columns(size=size).sort("size", descending=True, maintain_order=True)
        groups = worst.group_by("table", "policy", "routes", "figure", maintain_order=True)
        rest = ("phase", "layer", "window", "capacity", *_SIDES, "change_ratio", "size")
        found = groups.agg(
            pl.len().alias("differ"), pl.col("beyond").sum(), *(pl.col(each).first() for each in rest)
        )
        table = pl.col("table").replace_strict({name: i for i, name in enumerate(TABLES["window"])})
        order = (table, pl.col("beyond") > 0, pl.col("size"))
        return found.sort(order, descending=[False, True, True], maintain_order=True).drop("size")

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""

        def named(rows: list[tuple[str, Any, Any]]) -> list[dict[str, Any]]:
            return [{"name": name, "a": a, "b": b} for name, a, b in rows]

        return {
            "trace": self.trace,
            "tolerance": self.tolerance,
            "compared": self.compared,
            "differ": len(self.figures),
            "beyond": self.beyond,
            "versions": named(self.versions),
            "settings": named(self.settings),
            "figures": [shown(row) for row in self.figures.iter_rows(named=True)],
        }


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row of figures with its whole numbers whole."""
    sides = {side: row[f"{side}_whole"] if row["whole"] else row[side] for side in ("a", "b")}
    hidden = ("whole", "a_whole", "b_whole")
    return {name: sides.get(name, value) for name, value in row.items() if name not in hidden}


def difference(a: Run, b: Run, *, tolerance: float = 0.0, level: Level = "layer") -> Difference:
    """Compare two runs of the same trace, figure by figure.

    Parameters
    ----------
    a, b : Run
        The earlier run and the later one.
    tolerance : float
        Relative change of a figure (of a ratio: the difference) up to which it does not count as beyond. At 0 whole
        numbers are exact and floats within ``ROUNDING``.
    level : str
        ``total``: each policy's totals; ``layer``: layers, curves and routes too; ``window``: windows too.

    Returns
    -------
    Difference

    Raises
    ------
    InputError
        The runs are of different traces, or do not say of which.
    """
    name = _one_trace(a, b)
    compared, parts = 0, []
    for table in TABLES[level]:
        left, right = _frame(a, table), _frame(b, table)
        if left is None and right is None:
            continue
        count, found = _figures(table, left, right, tolerance)
        compared += count
        parts.append(found)
    return Difference(
        trace=name,
        versions=_changed(a.info.get("versions") or {}, b.info.get("versions") or {}),
        settings=_changed(_settings(a), _settings(b)),
        figures=pl.concat(parts),
        compared=compared,
        tolerance=tolerance,
    )


def _one_trace(a: Run, b: Run) -> str:
    """The name of the trace that both runs replayed, by the hashes of its tables."""
    first, second = (run.info.get("trace") or {} for run in (a, b))
    left, right = (each.get("sha256") or {} for each in (first, second))
    if not left or not right:
        raise InputError("a run does not say which trace it replayed (run.json: trace.sha256); make it again")
    other = [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
    if other:
        raise InputError(
            f"the runs replayed different traces: {first.get('name')} and {second.get('name')} differ in the "
            f"table{'s' if len(other) > 1 else ''} {', '.join(other)}; give two runs of one trace"
        )
    return str(first.get("name"))


def _settings(run: Run) -> dict[str, Any]:
    """A run's settings, flat, by dotted name."""
    found = {name: run.info.get(name) for name in SETTINGS}
    found["policies"] = {f"{p['policy']} ({p['routes']})": p["resolved"] for p in found["policies"] or ()}
    found["baseline"] = found["baseline"] or None
    return _flat(found)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else None
        flat |= {f"{prefix}{name}": _list(value)} if inner is None else inner
    return flat


def _list(value: Any) -> Any:
    """A tuple as the list that JSON makes of it; an empty value as none."""
    return list(value) or None if isinstance(value, list | tuple | Mapping) else value


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [
        (name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)
    ]


def _frame(run: Run, table: str) -> pl.DataFrame | None:
    """A table of a run; the summary without its texts."""
    if table != "summary":
        frame: pl.DataFrame | None = getattr(run, table)
        return frame
    columns = dict.fromkeys(name for row in run.summary for name in row)
    return pl.DataFrame(
        {name: pl.Series([row.get(name) for row in run.summary], strict=False) for name in columns}
    )


def _figures(
    table: str, a: pl.DataFrame | None, b: pl.DataFrame | None, tolerance: float
) -> tuple[int, pl.DataFrame]:
    """How many figures a table has, and those that are not the same."""
    left, right = (_long(table, frame) for frame in (a, b))
    keys = [name for name in _OF_A_FIGURE if name != "table"]
    both = left.rename({"value": "a", "count": "a_whole"}).join(
        right.rename({"value": "b", "count": "b_whole"}),
        on=keys,
        how="full",
        coalesce=True,
        nulls_equal=True,
        maintain_order="left_right",
    )
    a_, b_, ratio = pl.col("a"), pl.col("b"), pl.col("figure").str.ends_with("_ratio")
    one_side = a_.is_null() != b_.is_null()
    whole = pl.col("whole").fill_null(True) & pl.col("whole_right").fill_null(True)
    by = pl.when(whole).then((pl.col("b_whole") - pl.col("a_whole")).cast(pl.Float64)).otherwise(b_ - a_)
    change = pl.when(ratio).then(b_ - a_).when(a_ != 0).then(by / a_.abs())
    size = change.abs()  # null where one is not there, or from 0 to something
    equal = pl.when(whole).then(pl.col("a_whole").eq_missing(pl.col("b_whole"))).otherwise(a_.eq_missing(b_))
    same = equal | (~whole & (size <= ROUNDING).fill_null(False))
    found = both.with_columns(
        table=pl.lit(table),
        whole=whole,
        change_ratio=change,
        beyond=one_side | (size > tolerance).fill_null(True),
    ).filter(~same)
    return len(both), found.select(*_OF_A_FIGURE, *_SIDES, "change_ratio", "beyond")


def _long(table: str, frame: pl.DataFrame | None) -> pl.DataFrame:
    """One row a figure: its key, its value, and whether it is a whole number."""
    schema = {
        "policy": pl.String, "routes": pl.String, "phase": pl.String, "layer": pl.Int64, "window": pl.Int64,
        "capacity": pl.Int64, "figure": pl.String, "value": pl.Float64, "whole": pl.Boolean,
        "count": pl.Int64,
    }  # fmt: skip
    if frame is None:
        return pl.DataFrame(schema=schema)
    if table == "curves":
        frame = frame.with_columns(capacity=pl.coalesce("capacity_slots", "capacity_bytes")).drop(
            "capacity_slots", "capacity_bytes"
        )
    keys = [name for name in schema if name in frame.columns]
    numbers = [name for name in frame.columns if name not in keys and frame.schema[name].is_numeric()]
    numbers = [name for name in numbers if table != "windows" or name not in ("session", "rows")]
    whole = {name: frame.schema[name].is_integer() for name in numbers}
    cast = frame.select(*keys, pl.col(numbers).cast(pl.Float64))
    long = cast.unpivot(numbers, index=keys, variable_name="figure", value_name="value")
    exact = [
        pl.col(name).cast(pl.Int64) if whole[name] else pl.lit(None, pl.Int64).alias(name) for name in numbers
    ]
    counts = frame.select(exact).unpivot(numbers, variable_name="figure", value_name="count")
    long = long.with_columns(counts["count"])
    long = long.with_columns(whole=pl.col("figure").replace_strict(whole, return_dtype=pl.Boolean))
    absent = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in long.columns]
    return long.with_columns(*absent).select(pl.col(name).cast(kind) for name, kind in schema.items())
