"""The grid of clocks: one residency pass, each clock as a run of its own would have it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from conftest import Outcome
from slow.make import write
from slow.sessions import sessions_trace

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.comparison.sensitivity import moves, parse_grid
from replay.errors import InputError
from replay.run import load
from replay.trace import open_trace

Cli = Callable[..., Outcome]
SPECS = ["none+lru", "unpert1:k=3+lru"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sense") / "trace"
    write(sessions_trace(), path)
    return path


def test_each_clock_is_as_a_run_of_its_own(source: Path, tmp_path: Path) -> None:
    trace = open_trace(source)
    base = ClockParams(pre_us=50.0, post_us=80.0)
    clocks = parse_grid("rate=0.1/1,latency_us=10/900,workers=3", replace(base, reserved=1))
    run = compare(trace, SPECS, slots="14", grid=(), clock=base, clock_grid=clocks)
    table = run.sensitivity
    assert table is not None and len(table) == len(SPECS) * 4
    for params in clocks:
        alone = compare(trace, SPECS, slots="14", grid=(), clock=params)
        for row in alone.summary:
            mine = table.filter(pl.col("policy") == row["policy"])
            for name, value in params.as_dict().items():
                mine = mine.filter(pl.col(name) == value)
            assert len(mine) == 1
            names = (
                "timely",
                "late",
                "cancelled",
                "partial",
                "unused",
                "disk_bytes",
                "wait_us",
                "limbo_wait_us",
            )
            assert {n: mine[n][0] for n in names} == {n: row[n] for n in names}
            assert mine["tokens"][0] == row["tokens"] and mine["issued"][0] == row["issued"]
    plain = compare(trace, SPECS, slots="14", grid=(), clock=base)
    assert plain.summary == run.summary and plain.sensitivity is None
    back = load(run.save(tmp_path / "run")).sensitivity
    assert back is not None and back.equals(table)


def test_moves_say_what_depends_on_the_clock(source: Path) -> None:
    trace = open_trace(source)
    clocks = parse_grid("rate=0.002/1000,latency=0.01", ClockParams())
    run = compare(trace, SPECS, slots="14", grid=(), clock=ClockParams(), clock_grid=clocks)
    assert run.sensitivity is not None
    plain, ahead = moves(run.sensitivity)
    assert plain.shares["timely"] is None and plain.moving == []
    assert "timely" in ahead.moving and "late" in ahead.moving
    assert ahead.shares["timely"] is not None and ahead.shares["timely"][0] < 0.5 < ahead.shares["timely"][1]
    assert plain.least + ahead.least >= 2
    assert ahead.wait_us_per_token is not None and ahead.wait_us_per_token[1] > ahead.wait_us_per_token[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rats=1", "did you mean rate"),
        ("rate", "each name once with values"),
        ("rate=1,rate=2", "each name once"),
        ("rate=1/x", "'x' of rate is no number"),
        ("workers=1.5", "workers"),
        ("rate=" + "/".join(map(str, range(1, 102))), "at most 100"),
    ],
)
def test_a_grid_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_grid(text, ClockParams())


def test_auto_scales_the_clock_and_keeps_each_once() -> None:
    clocks = parse_grid("auto", ClockParams(latency_us=100.0))
    assert len(clocks) == 15 and {each.latency_us for each in clocks} == {25.0, 100.0, 400.0}
    assert {each.device_gbps / each.stream_gbps for each in clocks} == {2.0}
    assert len(parse_grid("rate=1/1.0,pieces=3", ClockParams())) == 1
    timed = parse_grid("post_us=0/900", ClockParams())
    assert all(each.origin.get("post_us") == "clock" for each in timed)


def test_the_command(source: Path, tmp_path: Path, cli: Cli) -> None:
    common = ["compare", source, "-p", SPECS[1], "--slots", "14", "--no-curves", "-q"]
    code, out, _ = cli(*common, "--clock-grid", "auto", "--out", tmp_path / "run")
    assert code == 0 and "of 15" in out and "moving" in out
    assert (tmp_path / "run" / "sensitivity.parquet").is_file()
    assert cli(*common, "--clock-grid", "auto", "--no-clock")[0] == 2
    assert cli(*common, "--clock-grid", "rate=0")[0] == 2
