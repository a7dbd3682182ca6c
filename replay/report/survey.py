"""A survey's folder: its tables, and its curves drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from replay.run import RUN_FILE
from replay.survey.survey import Survey
from replay.trace.staging import staged_folder

MOST_POINTS = 120
"""Capacities that a chart shows."""


def write_survey(survey: Survey, path: Path, force: bool = False) -> None:
    """Write a survey's tables and charts into a folder, whole or not at all.

    Parameters
    ----------
    survey : Survey
    path : Path
        The folder to make.
    force : bool
        Replace a run that is there.

    Raises
    ------
    InputError
        The folder is taken.
    """
    with staged_folder(path, RUN_FILE, force) as staged:
        survey.write(staged)
        draw_survey(survey, staged)


def draw_survey(survey: Survey, folder: Path) -> list[Path]:
    """Draw misses in total and hits by layer, a chart of each in every phase: decode, and prefill apart.

    Returns
    -------
    list of Path
        The charts that were written.
    """
    from replay.plot import save
    from replay.plot.hit_curves import plot_hit_curves
    from replay.plot.miss_curve import plot_miss_curve

    table, token = drawable(survey)
    written = []
    for phase in table["phase"].unique(maintain_order=True):
        ending = "" if phase == "decode" else f"_{phase}"
        for name, plot in (("miss_curve", plot_miss_curve), ("hit_curves", plot_hit_curves)):
            chart = folder / f"{name}{ending}.svg"
            save(plot(table, phase=phase, token=token), chart)
            written.append(chart)
    return written


def drawable(survey: Survey) -> tuple[pl.DataFrame, float]:
    """The rows that the charts draw, and one token's working set on their axis.

    Sessions and domains are left out, many capacities thinned, and those of a grid of shares shown as shares;
    decode misses get a column per token.
    """
    info, unit = survey.info, survey.info["grid"]["unit"]
    table = survey.curves.filter(pl.col("session").is_null() & pl.col("domain").is_null())
    tokens = pl.col("policy").replace_strict(info["denominators"]["tokens"], return_dtype=pl.Int64)
    if min(info["denominators"]["tokens"].values()) > 0:
        table = table.with_columns(misses_per_token=pl.col("misses") / tokens)
    shares = table["capacity_share"].unique().sort()
    if len(shares) > MOST_POINTS:
        kept = shares[np.unique(np.linspace(0, len(shares) - 1, MOST_POINTS).round().astype(int)).tolist()]
        table = table.filter(pl.col("capacity_share").is_in(kept.to_list()))
    if unit == "share":
        empty = pl.lit(None, pl.Int64)
        table = table.with_columns(capacity_slots=empty, capacity_bytes=empty)
        return table, float(info["token"]["share"])
    return table, float(info["token"]["bytes" if unit == "bytes" else "slots"])
