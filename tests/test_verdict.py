"""Verdicts: intervals that cover, the rule, the ladder, and both commands."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from slow.make import write
from slow.sessions import sessions_trace

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.declare.semantics import parse_routes
from replay.errors import InputError
from replay.spec.grammar import parse
from replay.trace import open_trace, write_trace
from replay.trace.cut import cut
from replay.verdict import (
    INCONCLUSIVE,
    PASSED,
    REJECTED,
    Figure,
    mean_interval,
    verdict_recorded,
    verdict_replayed,
)
from replay.verdict.ladder import changed, ladder
from replay.verdict.pool import pooled
from replay.verdict.rule import decide
from replay.verdict.session import gather

Cli = Callable[..., Outcome]

# --- intervals -------------------------------------------------------------------------------------


def normal(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Differences of normal sessions: the candidate is 0.3 better, give or take."""
    baseline = rng.normal(10, 2, 20)
    return baseline + rng.normal(-0.3, 1, 20) - baseline, -0.3


def lognormal(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Differences that are themselves lognormal: a few sessions differ much."""
    return rng.lognormal(0, 1, 20), math.exp(0.5)


def lognormal_sides(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Both sides lognormal."""
    return rng.lognormal(0.1, 1, 20) - rng.lognormal(0, 1, 20), math.exp(0.6) - math.exp(0.5)


def lognormal_scaled(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """The candidate is a noisy share of a lognormal baseline."""
    baseline = rng.lognormal(0, 0.7, 20)
    return baseline * rng.normal(0.9, 0.1, 20) - baseline, -0.1 * math.exp(0.245)


@pytest.mark.parametrize("draw", [normal, lognormal, lognormal_sides, lognormal_scaled])
def test_intervals_cover(draw: Callable[[np.random.Generator], tuple[np.ndarray, float]]) -> None:
    """2,000 seeded trials of 20 sessions: the 95% interval holds the true difference 92 to 98% of the time."""
    rng, covered = np.random.default_rng(11), 0
    for trial in range(2000):
        values, truth = draw(rng)
        _, low, high = mean_interval(values, resamples=999, seed=trial)
        covered += low <= truth <= high
    assert 0.92 <= covered / 2000 <= 0.98


def test_an_interval_is_seeded_and_moves_with_its_values() -> None:
    values = np.random.default_rng(5).lognormal(0, 1, 15)
    one = mean_interval(values, seed=3)
    assert one == mean_interval(values, seed=3) != mean_interval(values, seed=4)
    moved, grown = mean_interval(values + 100, seed=3), mean_interval(values * -8, seed=3)
    assert np.allclose(np.array(moved) - 100, one)
    assert np.allclose([grown.low, grown.high], [-8 * one.high, -8 * one.low])
    assert one.low < one.mean < one.high


def test_an_interval_without_spread_or_without_bound() -> None:
    assert mean_interval(np.array([4.0])) == (4.0, -math.inf, math.inf)
    assert mean_interval(np.full(12, -0.5)) == (-0.5, -0.5, -0.5)
    lone = mean_interval(np.array([0.0] * 11 + [5.0]))
    assert lone.low < 0 and lone.high == math.inf
    with pytest.raises(ValueError, match="no value"):
        mean_interval(np.empty(0))


def test_an_interval_of_many_sessions_is_made_in_blocks() -> None:
    values = np.random.default_rng(2).normal(1, 1, 30_000)
    low, high = mean_interval(values, resamples=300)[1:]
    assert low < values.mean() < high and high - low == pytest.approx(4 * 30_000**-0.5, rel=0.2)


# --- the rule --------------------------------------------------------------------------------------


def figures(**ends: tuple[float, float]) -> list[Figure]:
    """Figures with the given intervals."""
    return [
        Figure(name, 1.0, 1.0 + sum(pair) / 2, sum(pair) / 2, *pair, pair == (0, 0))
        for name, pair in ends.items()
    ]


UP, DOWN, SPANS, ZERO = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2), (0.0, 0.0)


@pytest.mark.parametrize(
    ("ends", "outcome", "why"),
    [
        ({"misses": DOWN, "disk_bytes": DOWN, "wait_us": DOWN}, PASSED, "demand misses fall beyond noise"),
        ({"misses": DOWN, "disk_bytes": UP, "wait_us": SPANS}, PASSED, "demand misses fall"),
        ({"misses": DOWN}, PASSED, "demand misses fall"),
        ({"misses": UP, "disk_bytes": DOWN, "wait_us": DOWN}, REJECTED, "demand misses rise beyond noise"),
        (
            {"misses": DOWN, "disk_bytes": DOWN, "wait_us": UP, "timely": DOWN},
            REJECTED,
            "timely hits into exposed",
        ),
        ({"misses": SPANS, "disk_bytes": DOWN, "wait_us": UP}, REJECTED, "lower traffic only turned"),
        ({"misses": SPANS, "disk_bytes": DOWN, "wait_us": DOWN}, INCONCLUSIVE, "demand misses spans zero"),
        ({"misses": DOWN, "disk_bytes": UP, "wait_us": UP}, INCONCLUSIVE, "exposed wait rises beyond noise"),
        (
            {"misses": ZERO, "disk_bytes": DOWN, "wait_us": DOWN},
            PASSED,
            "equal in every session; exposed wait",
        ),
        (
            {"misses": ZERO, "disk_bytes": DOWN, "wait_us": SPANS},
            INCONCLUSIVE,
            "exposed wait (us) spans zero",
        ),
        ({"misses": ZERO, "disk_bytes": DOWN, "wait_us": ZERO}, PASSED, "disk bytes fall"),
        ({"misses": ZERO, "disk_bytes": ZERO, "wait_us": ZERO}, INCONCLUSIVE, "equal in every session"),
    ],
)
def test_the_rule(ends: dict[str, tuple[float, float]], outcome: str, why: str) -> None:
    got, reasons = decide(figures(**ends), 8)
    assert got == outcome and why in "; ".join(reasons)
    assert "faster" not in "; ".join(reasons)
    assert decide(figures(**ends), 8, ["routes differ"])[0] == REJECTED


def test_fewer_than_8_sessions_are_inconclusive() -> None:
    open_ended = [replace(each, low=None, high=None) for each in figures(misses=DOWN)]
    assert decide(open_ended, 7) == (INCONCLUSIVE, ["7 sessions; at least 8 are needed"])
    assert decide(open_ended, 7, ["output hashes differ"])[0] == REJECTED


# --- the ladder ------------------------------------------------------------------------------------


def test_a_ladder_changes_one_part_a_rung() -> None:
    one, other = parse("none+lru"), parse("route:p=1,r1=0.4+decode2q+router:p=1+flat:0.35")
    kinds = changed(one, other)
    assert kinds == ["read-ahead", "eviction", "router settings", "draft retention"]
    steps = ladder(one, other)
    assert [step.change.partition(":")[0] for step in steps] == kinds
    assert steps[-1].spec is other
    before = one
    for step in steps:
        assert len(changed(before, step.spec)) == 1
        before = step.spec
    assert ladder(one, parse("none+decode2q")) == ladder(one, one) == []


# --- replayed --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verdict") / "trace"
    write(sessions_trace(), path)
    return path


def test_figures_are_paired_by_session(long: Path) -> None:
    """Each difference equals what the tables of compare give, session by session."""
    specs = ["none+lru", "unpert1:k=2+lru"]
    trace = open_trace(long)
    found = verdict_replayed([trace], *specs, slots="14")
    run = compare(trace, specs, slots="14", grid=(), clock=load_clock(None, None))
    wait = (pl.col("wait_us") + pl.col("limbo_wait_us")).alias("wait_us")
    names = ["misses", "late", "unused_bytes", "disk_bytes", "timely"]
    sums = run.windows.with_columns(wait).group_by("policy", "session").agg(pl.col(*names, "wait_us").sum())
    sides = [sums.filter(pl.col("policy") == spec).sort("session") for spec in specs]
    assert found.sessions == 10 and [group.sessions for group in found.groups] == [10, 1, 9, 0]
    for figure in found.figures:
        difference = (sides[1][figure.name] - sides[0][figure.name]) / 6
        assert figure.difference == pytest.approx(difference.mean())
        expected = mean_interval(difference.to_numpy().astype(np.float64))
        ends = [each if math.isfinite(each) else None for each in expected[1:]]
        assert [figure.low, figure.high] == [each if each is None else pytest.approx(each) for each in ends]
    assert found.outcome == PASSED and found.info["routes"] == "recorded"


def test_traces_are_pooled_and_each_has_a_cold_session(long: Path, tmp_path: Path) -> None:
    write(sessions_trace(count=4, seed=9), tmp_path / "other")
    traces = [open_trace(long), open_trace(tmp_path / "other")]
    found = verdict_replayed(traces, "none+lru", "none+fifo", slots="14")
    assert found.sessions == 14
    assert {group.name: group.sessions for group in found.groups} == {
        "all": 14,
        "cold": 2,
        "later": 12,
        "shifted": 0,
    }
    few = verdict_replayed(traces[1:], "none+lru", "none+fifo", slots="14")
    assert few.outcome == INCONCLUSIVE and few.figures[0].low is None


def test_sessions_are_told_apart(long: Path) -> None:
    """Cold, shifted, tokens: in order of the first window; one without a counted token is left out."""
    windows = replace(
        open_trace(long).windows,
        session=np.array([5, 5, 2, 2, 9, 9, 7]),
        rows=np.ones(7, np.int64),
        domain=["code", "code", None, "text", "text", None, "code"],
    )
    counted = np.array([True, True, False, False, True, False, True])
    tokens = np.array([1, 2, 1, 1, 1, 1, 3])
    misses = {"misses": np.arange(7.0)}
    found = gather(windows, counted, [tokens, tokens * 2], [misses, {**misses, "late": misses["misses"]}])
    assert found.cold.tolist() == [True, False, False] and found.shifted.tolist() == [False, False, True]
    assert found.tokens.tolist() == [[3, 1, 3], [6, 2, 6]] and list(found.figures) == ["misses"]
    assert found.differences("misses").tolist() == [1 / 6 - 1 / 3, -2.0, -1.0]


def test_specs_that_differ_in_more_than_one_part_run_the_ladder(long: Path) -> None:
    found = verdict_replayed([open_trace(long)], "none+lru", "unpert1:k=2+fifo", slots="14")
    assert [rung.policy for rung in found.ladder] == ["unpert1:k=2+lru", "unpert1:k=2+fifo"]
    total = sum(rung.figures[0].difference for rung in found.ladder)
    assert total == pytest.approx(found.figures[0].difference)
    assert any("differ in 2 parts" in note for note in found.notes)


def test_routes_are_rerouted_where_a_bonus_was_recorded(tmp_path: Path) -> None:
    write(replace(sessions_trace(), bonus=0.5), tmp_path / "trace")
    trace = open_trace(tmp_path / "trace")
    assert verdict_replayed([trace], "none+lru", "none+fifo", slots="14").info["routes"] == "rerouted"
    fixed = verdict_replayed([trace], "none+lru", "none+fifo", slots="14", routes=parse_routes("recorded"))
    assert any("resident bonus" in note for note in fixed.notes)
    assert verdict_replayed([trace], "none+lru", "oracle+lru", slots="14").info["routes"] == "recorded"


def test_the_command(long: Path, cli: Cli) -> None:
    common = ["verdict", long, "--slots", "14", "--baseline"]
    code, out, err = cli(*common, "none+lru", "--candidate", "unpert1:k=2+lru")
    assert code == 0 and "screen passed: demand misses fall beyond noise" in out and "faster" not in out + err
    code, out, err = cli(*common, "unpert1:k=2+lru", "--candidate", "none+lru")
    assert code == 1 and "rejected: demand misses rise" in out and "replay: error: rejected" in err
    code, out, _ = cli(*common, "none+lru", "--candidate", "none+lru", "--json")
    told = json.loads(out)
    assert code == 1 and told["outcome"] == INCONCLUSIVE and told["passed"] is False
    assert (
        cli("verdict", long)[0] == 2
        and cli(*common, "none+lru", "--candidate", "none+lru", "--recorded")[0] == 2
    )
    assert cli(*common, "none+lru", "--candidate", "oracle+lru", "--routes", "rerouted")[0] == 2


def test_specs_of_a_file_and_bounds_of_a_file(long: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "specs.toml").write_text('[policies]\nplain = "none+lru"\nahead = "unpert1:k=2+lru"\n')
    named = [f"@{tmp_path / 'specs.toml'}:{name}" for name in ("plain", "ahead")]
    code, out, _ = cli("verdict", long, "--slots", "14", "--baseline", named[0], "--candidate", named[1])
    assert code == 0 and "screen passed" in out
    whole = f"@{tmp_path / 'specs.toml'}"
    assert "2 policies" in cli("verdict", long, "--baseline", whole, "--candidate", named[1]).err
    (tmp_path / "budget.toml").write_text("slots = [[5, 5, 4]]\n")
    options = [
        "--baseline",
        "none+lru",
        "--candidate",
        "unpert1:k=2+lru",
        "--budget",
        tmp_path / "budget.toml",
    ]
    assert cli("verdict", long, *options)[0] == 2
    code, _, err = cli("verdict", long, *options, "--scope", "layer")
    assert code in (0, 1) and "budget.toml" in err
    assert cli("verdict", long, *options[:4], "--slots", "14", "--start", "warm:99")[0] == 2


# --- recorded --------------------------------------------------------------------------------------


def recording(
    source: Path,
    path: Path,
    factor: float,
    *,
    seed: int = 0,
    bonus: float = 0.0,
    hashes: int = 0,
    other: int = 0,
) -> Path:
    """A recording of the same windows: other counters, hashes, and picks of some rows."""
    rng = np.random.default_rng(seed)
    document = json.loads((source / "trace.json").read_text())
    tables = {name: pq.read_table(source / entry["file"]) for name, entry in document.pop("tables").items()}
    for name in ("candidates", "router_scores"):
        tables.pop(name, None)
    windows = len(tables["windows"])
    cells = windows * document["model"]["layers"]
    misses = rng.poisson(3 * factor, cells)
    tables["counters"] = pa.table(
        {
            "window": pa.array(np.arange(cells) // document["model"]["layers"], pa.uint32()),
            "layer": pa.array(np.arange(cells) % document["model"]["layers"], pa.uint16()),
            "hits": pa.array(np.zeros(cells), pa.uint32()),
            "prefetch_hits": pa.array(np.zeros(cells), pa.uint32()),
            "late": pa.array(np.zeros(cells), pa.uint32()),
            "misses": pa.array(misses, pa.uint32()),
            "wait_us": pa.array(misses * 100.0, pa.float32()),
        }
    )
    told = np.arange(windows, dtype=np.uint64)
    told[:hashes] += 1000
    tables["windows"] = tables["windows"].append_column("output_hash", pa.array(told))
    picks = tables["selections"]["experts"].to_pylist()
    for row in range(other):
        picks[row] = picks[row][1:] + [next(e for e in range(12) if e not in picks[row])]
    at = tables["selections"].schema.get_field_index("experts")
    tables["selections"] = tables["selections"].set_column(
        at, "experts", pa.array(picks, pa.list_(pa.uint16()))
    )
    document["router"]["bonus"] = bonus
    document["policy"] = {"evict": "lru", "slots": [14], "prefetch": {"name": "none"}, "scope": "global"}
    write_trace(path, document, tables)
    return path


def test_recorded_runs(long: Path, tmp_path: Path, cli: Cli) -> None:
    base = recording(long, tmp_path / "a", 1.0)
    better = recording(long, tmp_path / "b", 0.5, seed=1)
    found = verdict_recorded(open_trace(base), open_trace(better))
    assert found.outcome == PASSED and found.kind == "recorded"
    assert [figure.name for figure in found.figures] == ["misses", "late", "wait_us"]
    assert any("not recorded on both sides: unused_bytes, disk_bytes, timely" in note for note in found.notes)
    assert verdict_recorded(open_trace(better), open_trace(base)).outcome == REJECTED
    code, out, _ = cli("verdict", "--recorded", base, better)
    assert code == 0 and "screen passed" in out
    assert cli("verdict", "--recorded", base)[0] == 2


@pytest.mark.parametrize(
    ("change", "why"), [({"hashes": 3}, "output hashes differ in 3"), ({"other": 2}, "routes differ in 2")]
)
def test_recorded_runs_with_bonus_0_must_route_and_answer_alike(
    change: dict[str, int], why: str, long: Path, tmp_path: Path
) -> None:
    runs = recording(long, tmp_path / "a", 1.0), recording(long, tmp_path / "b", 0.5, seed=1, **change)
    found = verdict_recorded(*map(open_trace, runs))
    assert found.outcome == REJECTED and why in found.reasons[0]
    if "other" in change:
        assert "window 0, row 0, layer 0" in found.reasons[0]
    biased = (
        recording(long, tmp_path / "c", 1.0, bonus=0.5),
        recording(long, tmp_path / "d", 0.5, seed=1, bonus=0.5, **change),
    )
    found = verdict_recorded(*map(open_trace, biased))
    assert found.outcome == PASSED and any("differ" in note for note in found.notes)


def test_recorded_runs_of_other_windows_are_refused(long: Path, tmp_path: Path) -> None:
    write(sessions_trace(length=5), tmp_path / "short")
    base = open_trace(recording(long, tmp_path / "a", 1.0))
    with pytest.raises(InputError, match="not the same windows"):
        verdict_recorded(base, open_trace(recording(tmp_path / "short", tmp_path / "b", 1.0)))
    with pytest.raises(InputError, match="nothing to compare"):
        verdict_recorded(base, open_trace(long))


# --- what may be pooled ----------------------------------------------------------------------------


def test_a_trace_given_twice_is_no_second_sample(long: Path, tmp_path: Path, cli: Cli) -> None:
    copy = tmp_path / "copy"
    copytree(long, copy)
    options = ("--baseline", "none+lru", "--candidate", "none+fifo", "--slots", "14")
    for second in (long, copy):
        code, out, err = cli("verdict", long, second, *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{second}: holds the same selections as {long}" in err and "twice" in err


def test_the_first_windows_of_a_trace_are_no_second_sample(long: Path, tmp_path: Path) -> None:
    whole = open_trace(long)
    for name, windows in (("short", 5), ("longer", 40), ("shorter", 3)):
        cut(open_trace(tmp_path / "longer") if name == "shorter" else whole, tmp_path / name, windows)
    cuts = {name: open_trace(tmp_path / name) for name in ("short", "longer", "shorter")}
    for pair in (
        [whole, cuts["short"]],
        [cuts["short"], whole],
        [cuts["short"], cuts["longer"]],
        [cuts["short"], cuts["shorter"]],
    ):
        with pytest.raises(InputError, match=r"cut from the same recording as .* count twice"):
            pooled(pair)
    document = json.loads((tmp_path / "short" / "trace.json").read_text())
    del document["source"]["cut"]  # or who cut it did not say so
    (tmp_path / "short" / "trace.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"begins with the same windows as .* \(the first 5 are equal\)"):
        pooled([whole, open_trace(tmp_path / "short")])
    for odd in ([], {"sha256": 3}, {"sha256": {"selections": 1}, "before": "x"}):
        document["source"]["cut"] = odd
        (tmp_path / "short" / "trace.json").write_text(json.dumps(document))
        with pytest.raises(InputError, match="begins with the same windows"):
            pooled([whole, open_trace(tmp_path / "short")])
    write(sessions_trace(count=4, seed=9), tmp_path / "other")
    assert pooled([whole, open_trace(tmp_path / "other")]) == []


def test_models_are_pooled_only_when_asked(long: Path, tmp_path: Path, cli: Cli) -> None:
    write(sessions_trace(count=4, seed=9), tmp_path / "other")
    document = json.loads((tmp_path / "other" / "trace.json").read_text())
    document["model"]["name"] = "another"
    (tmp_path / "other" / "trace.json").write_text(json.dumps(document))
    options = ("--baseline", "none+lru", "--candidate", "none+fifo", "--slots", "14")
    code, out, err = cli("verdict", long, tmp_path / "other", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"another model than {long}: name 'another' against " in err and "--mixed-models" in err
    code, out, err = cli("verdict", long, tmp_path / "other", *options, "--mixed-models")
    assert code in (0, 1) and "different models are pooled" in err and "name 'another'" in err
