"""What charts and tables share: a run's tables as they show them, made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.report.along import along, marks
from replay.report.capacity import per_token
from replay.report.layers import by_layer
from replay.report.policies import bytes_by_series
from replay.report.subject import Subject


@dataclass(frozen=True)
class Prepared:
    """Tables of one run, each row with its series.

    Attributes
    ----------
    fates : polars.DataFrame
        Bytes per token by fate.
    curves : polars.DataFrame or None
        Curves of decode windows, with misses per token.
    layers : polars.DataFrame
        Counters and misses per token by layer.
    lines : polars.DataFrame
        Misses, bytes and waits along the trace, smoothed over ``span`` windows and thinned.
    span : int
    marks : polars.DataFrame
        Where sessions begin and domains change.
    drafts : dict or None
        The survey of draft retention.
    sweep : polars.DataFrame or None
        What each floor and schedule of drafts is worth.
    """

    fates: pl.DataFrame
    curves: pl.DataFrame | None
    layers: pl.DataFrame
    lines: pl.DataFrame
    span: int
    marks: pl.DataFrame
    drafts: dict[str, Any] | None
    sweep: pl.DataFrame | None


def prepare(subject: Subject) -> Prepared:
    """Make a run's tables."""
    lines, span = along(subject)
    survey = subject.run.info.get("drafts")
    return Prepared(
        fates=bytes_by_series(subject),
        curves=None if subject.run.curves is None else per_token(subject),
        layers=by_layer(subject),
        lines=lines,
        span=span,
        marks=marks(subject),
        drafts=survey if survey and survey["policies"] else None,
        sweep=subject.run.draft_sweep,
    )
