"""Policies that are the same by construction as one row: the first of them (or the baseline) stands for all.

Nothing is lost: a row is folded away only where every figure of the summary equals that of the one that stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.run import Run

Key = tuple[str, str]


def folded(run: Run) -> tuple[Run, dict[Key, list[str]]]:
    """A run without the rows that another stands for.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Run
        Its summary and tables without those rows; ``info`` is the run's own.
    dict of (str, str) to list of str
        By policy and routes of a row that is left: the policies that it stands for besides its own.
    """
    rows = {(row["policy"], row["routes"]): row for row in run.summary}
    baseline = run.info.get("baseline")
    stands: dict[Key, list[str]] = {}
    for group in run.info.get("same_by_construction") or ():
        for routes in dict.fromkeys(routes for _, routes in rows):
            there = [name for name in group if (name, routes) in rows]
            first = next((name for name in there if name == baseline), there[0] if there else "")
            same = [n for n in there if n != first and _equal(rows[first, routes], rows[n, routes])]
            if same:
                stands[first, routes] = same
    gone = [(name, routes) for (_, routes), names in stands.items() for name in names]
    return (_without(run, gone) if gone else run), stands


def _equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return {**a, "policy": ""} == {**b, "policy": ""}


def _without(run: Run, gone: Sequence[Key]) -> Run:
    """The run without rows of some policies and routes."""
    table = pl.DataFrame(gone, schema=["policy", "routes"], orient="row")

    def left(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        if frame is None:
            return None
        return frame.join(table, on=["policy", "routes"], how="anti", maintain_order="left")

    layers = left(run.layers)
    assert layers is not None
    return replace(
        run, layers=layers, by_window=run.by_window.without(gone), curves=left(run.curves), routes=left(run.routes),
        sensitivity=left(run.sensitivity), gates=left(run.gates),
        summary=[row for row in run.summary if (row["policy"], row["routes"]) not in set(gone)],
    )  # fmt: skip
