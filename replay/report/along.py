"""Along the trace: windows smoothed and thinned for a line, and what each domain costs."""

from __future__ import annotations

import polars as pl

from replay.report.figure import Cell, Grid, Head, Row
from replay.report.subject import Subject
from replay.report.wording import decimals

POINTS = 400
"""Most points of a line: more than a page has pixels for is only weight."""

MOST_DOMAINS = 10

_PARTS = ("wait_us", "limbo_wait_us", "disk_bytes", "demand_bytes", "issued_bytes")
"""Columns that the waits and the bytes of a window are sums of."""


def along(subject: Subject) -> tuple[pl.DataFrame, int]:
    """Decode windows' misses, bytes and waits: means over a few windows, thinned.

    Returns
    -------
    polars.DataFrame
        series, window, misses, disk_bytes (demand and issued bytes without a clock), wait_us (null without one).
    int
        The windows that a mean is over.
    """
    table = _read(subject)
    most = int(table.group_by("series").len()["len"].max() or 0) if len(table) else 0  # type: ignore[arg-type]
    span, step = max(1, round(most / 64)), max(1, -(-most // POINTS))
    smooth = pl.col("misses", "disk_bytes", "wait_us").cast(pl.Float64)
    mean = smooth.rolling_mean(span, min_samples=1, center=True).over("series")
    table = table.with_columns(mean).filter(pl.int_range(pl.len()).over("series") % step == 0)
    return table.select("series", "window", "misses", "disk_bytes", "wait_us"), span


def _read(subject: Subject) -> pl.DataFrame:
    table = subject.phase(subject.windows("window", "domain", "misses", *_PARTS))
    wait = pl.col("wait_us") + pl.col("limbo_wait_us") if subject.sized else pl.lit(None, pl.Float64)
    asked = pl.col("demand_bytes") + pl.col("issued_bytes")
    read = pl.coalesce("disk_bytes", asked) if subject.sized else asked
    return table.with_columns(read.alias("disk_bytes"), wait.alias("wait_us"))


def marks(subject: Subject) -> pl.DataFrame:
    """Where a session begins or a domain changes."""
    first = subject.windows("window", "session", "domain").filter(pl.col("series") == subject.base_name)
    changed = (
        pl.col("session").ne_missing(pl.col("session").shift(1))
        | pl.col("domain").ne_missing(pl.col("domain").shift(1))
        | (pl.int_range(pl.len()) == 0)
    )
    return first.select("window", "session", "domain").filter(changed)


def domain_grid(subject: Subject) -> Grid | None:
    """Misses per decode window of each policy by domain; None where the trace names less than two."""
    table = _read(subject).filter(pl.col("domain").is_not_null())
    domains = table["domain"].unique(maintain_order=True).to_list()[:MOST_DOMAINS]
    if len(domains) < 2:
        return None
    means = table.group_by("series", "domain").agg(pl.col("misses").mean())
    found = {(row["series"], row["domain"]): row["misses"] for row in means.iter_rows(named=True)}
    rows = []
    for name in subject.rows:
        values = [found.get((name, each)) for each in domains]
        cells = [Cell(decimals(value, 2), value) for value in values]
        rows.append(Row(name, cells, subject.look(name), subject.note(name)))
    heads = [Head("policy", numeric=False), *(Head(each) for each in domains)]
    return Grid("Misses per decode window by domain", heads, rows)
