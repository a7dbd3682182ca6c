"""Differences against the baseline, paired by session, with intervals: what of a change is beyond noise."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

from replay.report.subject import Subject
from replay.verdict.interval import Interval, mean_interval
from replay.verdict.rule import FEWEST

FIGURES = ("misses_per_token", "read_bytes_per_token", "wait_us_per_token")

Differences = Mapping[tuple[str, str], Interval]
"""Series less baseline, per committed token, by series and figure of the summary."""


def differences(subject: Subject) -> Differences:
    """Mean differences over sessions of every series against the baseline of its routes, with 95% intervals.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    dict of (str, str) to Interval
        By series and figure: ``misses_per_token``, ``read_bytes_per_token``, ``wait_us_per_token``. Left out: where
        fewer than 8 sessions are in both, where nothing bounds the mean, and where all sessions are the same.
    """
    table = _sessions(subject)
    found: dict[tuple[str, str], Interval] = {}
    if table is None:
        return found
    parts = {
        name: rows.drop("series") for (name,), rows in table.partition_by("series", as_dict=True).items()
    }
    for name, row in subject.rows.items():
        base = subject.base_of(row)
        if base is None or base is row:
            continue
        first = parts.get(subject.name(base["policy"], base["routes"]))
        if first is None or name not in parts:
            continue
        both = parts[name].join(first, on="session", suffix="_base", maintain_order="left")
        for figure in FIGURES:
            value = (both[figure] - both[f"{figure}_base"]).drop_nulls().to_numpy()
            if len(value) < FEWEST or not value.any():
                continue
            interval = mean_interval(value)
            if math.isfinite(interval.low) and math.isfinite(interval.high):
                found[name, figure] = interval
    return found


def _sessions(subject: Subject) -> pl.DataFrame | None:
    """Figures per token of every session's decode windows; None for a run whose windows do not tell their tokens."""
    windows = subject.run.by_window
    if "tokens" not in windows.columns or windows.select("session")["session"].n_unique() < FEWEST:
        return None
    read = ("disk_bytes",) if subject.timed else ("demand_bytes", "issued_bytes")
    table = subject.phase(subject.windows("session", "tokens", "misses", *read, "wait_us", "limbo_wait_us"))
    sums = {
        "misses_per_token": pl.col("misses"),
        "read_bytes_per_token": pl.sum_horizontal(*read, ignore_nulls=False),
        "wait_us_per_token": pl.col("wait_us") + pl.col("limbo_wait_us"),
    }
    tokens = pl.col("tokens").sum()
    return (
        table.group_by("series", "session", maintain_order=True)
        .agg(tokens.alias("tokens"), *(each.sum().alias(name) for name, each in sums.items()))
        .filter(pl.col("tokens") > 0)
        .select("series", "session", *(_over_tokens(subject, name) for name in sums))
    )


def _over_tokens(subject: Subject, name: str) -> pl.Expr:
    if name == "wait_us_per_token" and not subject.timed:
        return pl.lit(None, pl.Float64).alias(name)  # a sum of nulls is 0, and no wait
    return (pl.col(name) / pl.col("tokens")).alias(name)


def in_words(subject: Subject, found: Differences) -> str:
    """What the brackets of the policy table are, or why there are none; nothing where nothing is compared."""
    sessions = subject.phase(subject.windows("session"))["session"].n_unique()
    if not found:
        few = len(subject.rows) > 1 and sessions < FEWEST
        return (
            f"Differences have no intervals: they take at least {FEWEST} sessions, and this trace has {sessions}. "
            if few
            else ""
        ).strip()
    return (
        f"In brackets: the 95% interval of the difference, in the column's unit: a mean over {sessions} sessions, each "
        "paired with itself under the baseline (studentised bootstrap). The percentage is of all tokens together, so "
        "it can lie a little off the interval's middle. Noise: the interval holds 0, and no difference is shown."
    )
