"""Intervals beside the changes of a report's policy table: paired by session, and only where sessions are enough."""

import numpy as np
import polars as pl
import pytest
from made_run import made_run

from replay.ledger.window_table import WindowTable
from replay.report import rendered
from replay.report.pairing import differences
from replay.report.subject import Subject
from replay.run import Run
from replay.verdict.interval import mean_interval

BASE, OTHER = "none+lru", "unpert1+lru"


def run_of(sessions: int, **options: object) -> Run:
    """A made run with so many sessions of three windows, the first window prefill."""
    run = made_run((BASE, OTHER), windows=3 * sessions, layers=2, **options)  # type: ignore[arg-type]
    run.by_window = WindowTable(run.windows.with_columns(session=pl.col("window") // 3))
    return run


@pytest.mark.parametrize("timed", [True, False])
def test_they_are_the_paired_differences_per_token(timed: bool) -> None:
    run = run_of(9, timed=timed)
    found = differences(Subject(run))
    decode = run.windows.filter(pl.col("phase") == "decode")
    for name, columns in {
        "misses_per_token": ["misses"],
        "read_bytes_per_token": ["disk_bytes"] if timed else ["demand_bytes", "issued_bytes"],
        "wait_us_per_token": ["wait_us", "limbo_wait_us"],
    }.items():
        if name.startswith("wait") and not timed:
            assert (OTHER, name) not in found
            continue
        sides = []
        for policy in (BASE, OTHER):
            mine = decode.filter(pl.col("policy") == policy)
            per_token = []
            for session in range(9):
                rows = mine.filter(pl.col("session") == session)
                per_token.append(sum(rows[each].sum() for each in columns) / rows["tokens"].sum())
            sides.append(np.array(per_token))
        assert found[OTHER, name] == pytest.approx(mean_interval(sides[1] - sides[0]))
    assert not [series for series, _ in found if series == BASE]


def test_few_sessions_have_none() -> None:
    assert differences(Subject(run_of(7))) == {}
    assert differences(Subject(run_of(8))) != {}
    old = run_of(9)
    old.by_window = WindowTable(old.windows.drop("tokens"))
    assert differences(Subject(old)) == {}


def test_equal_policies_have_none() -> None:
    run = run_of(9)
    same = run.windows.filter(pl.col("policy") == BASE).with_columns(policy=pl.lit(OTHER))
    run.by_window = WindowTable(pl.concat([run.windows.filter(pl.col("policy") == BASE), same]))
    assert differences(Subject(run)) == {}


def test_reports_show_them() -> None:
    many, few = rendered(run_of(9)), rendered(run_of(7))
    for name in ("report.md", "report.html"):
        assert "over 9 sessions, each paired" in many[name].decode()
        assert "each paired" not in few[name].decode()
    line = next(line for line in many["report.md"].decode().splitlines() if line.startswith(f"| {OTHER}"))
    assert line.count("\\[") == 3


def test_routes_have_their_own_baselines() -> None:
    run = run_of(9, routes=("recorded", "rerouted"))
    names = {series for series, _ in differences(Subject(run))}
    assert names == {f"{OTHER} (recorded)", f"{OTHER} (rerouted)"}
