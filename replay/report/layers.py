"""Layers: what each misses under each policy, and which matter most."""

from __future__ import annotations

import polars as pl

from replay.report.figure import Cell, Grid, Head, Row
from replay.report.subject import Subject
from replay.report.wording import decimals, listing, percent

SHOWN = 8
"""Layers of the table of those that matter most."""


def by_layer(subject: Subject) -> pl.DataFrame:
    """Figures of decode windows by series and layer: what the heat map shows."""
    table = subject.phase(subject.run.layers).with_columns(pl.col("misses").alias("misses_per_token"))
    return subject.per_token(table, "misses_per_token")


def _rival(subject: Subject) -> str | None:
    """The policy to set beside the baseline: of the others that an engine can run, the one that misses least."""
    others = [
        (row["misses_per_token"], i, name)
        for i, (name, row) in enumerate(subject.rows.items())
        if name != subject.base_name and subject.runs_on_engine(name) and row["misses_per_token"] is not None
    ]
    return min(others)[2] if others else None


def worst(subject: Subject, table: pl.DataFrame) -> pl.DataFrame:
    """The baseline's layers, those that miss most first."""
    rows = table.filter(pl.col("series") == subject.base_name)
    return rows.sort(["misses", "layer"], descending=[True, False])


def layer_grid(subject: Subject, table: pl.DataFrame) -> Grid:
    """The layers that miss most under the baseline, and what the policy that misses least makes of them."""
    rival = _rival(subject)
    others = (
        {}
        if rival is None
        else {r["layer"]: r for r in table.filter(pl.col("series") == rival).iter_rows(named=True)}
    )
    base = worst(subject, table)
    total = max(int(base["misses"].sum()), 1)
    waited = base["wait_us"] + base["limbo_wait_us"] if subject.timed else None
    whole = float(waited.sum()) if waited is not None else 0.0
    base_name = subject.base_name
    heads = [
        Head("layer"),
        Head("misses per token", base_name),
        Head("of all misses", base_name),
        Head("hit ratio", base_name),
        *([Head("of all waits", base_name)] if whole else []),
        *([Head("misses per token", rival), Head("change", "in misses")] if rival else []),
    ]
    rows = []
    for row in base.head(SHOWN).iter_rows(named=True):
        hits = (row["hits"] + row["prefetch_hits"]) / row["lookups"] if row["lookups"] else None
        share = row["misses"] / total
        cells = [
            Cell(decimals(row["misses_per_token"], 2), row["misses_per_token"]),
            Cell(percent(share), share),
        ]
        cells.append(Cell(percent(hits), hits))
        if whole:
            part = (row["wait_us"] + row["limbo_wait_us"]) / whole
            cells.append(Cell(percent(part), part))
        if rival:
            cells += _beside(row, others.get(row["layer"]))
        rows.append(Row(str(row["layer"]), cells))
    words = f"under {subject.base_name}" + (f", and what {rival} makes of them" if rival else "")
    return Grid(f"The layers that miss most {words}", heads, rows)


def _beside(row: dict[str, float], other: dict[str, float] | None) -> list[Cell]:
    if other is None:
        return [Cell(decimals(None, 2))] * 2
    moved = other["misses"] / row["misses"] - 1 if row["misses"] else None
    text = decimals(None, 1) if moved is None else f"{moved:+.1%}"
    return [Cell(decimals(other["misses_per_token"], 2), other["misses_per_token"]), Cell(text, moved)]


def in_words(subject: Subject, table: pl.DataFrame) -> str:
    """The five layers that miss most under the baseline, in a sentence."""
    if not subject.decoded:
        return "No decode window is counted, so no layer misses anything per token."
    base = worst(subject, table)
    total = max(int(base["misses"].sum()), 1)
    named = [
        f"layer {row['layer']} ({row['misses'] / total:.1%})" for row in base.head(5).iter_rows(named=True)
    ]
    return f"Most misses under {subject.base_name}: {listing(named)} of all."
