"""Recorded traces of one engine: where recorded and rerouted routes must agree, and what rerouting must predict."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.declare.semantics import parse_routes
from replay.fidelity import check_fidelity
from replay.trace import Trace, open_trace

BOTH = [parse_routes("recorded"), parse_routes("rerouted")]
AGREEMENT = ["picks_made", "picks_kept"]


def opened(shared: Path, name: str) -> Trace:
    return open_trace(shared / "traces" / "recorded" / name)


def alike(trace: Trace, policies: list[str], **options) -> pl.DataFrame:
    """Check that both kinds of routes give the same tables; returns what the rerouted ones kept."""
    run = compare(trace, policies, routes=BOTH, grid=(), clock=ClockParams(), **options)
    for table in (run.layers, run.windows.drop(AGREEMENT)):
        sides = [table.filter(pl.col("routes") == each.text).drop("routes") for each in BOTH]
        assert_frame_equal(*sides, check_exact=True)
    assert run.routes is not None
    assert run.routes["picks_kept"].to_list() == run.routes["picks_made"].to_list()
    return run.routes


@pytest.mark.parametrize("name", ["e64-plain", "e64-gen", "e64-spec"])
def test_without_a_bonus_both_routes_are_the_same(name: str, shared: Path) -> None:
    """Whatever the policy and the arena: without a bonus residency has no say in the picks."""
    policies = ["none+lru", "unpert1+decode2q", "none+static:train=sessions/0-3"]
    routes = alike(opened(shared, name), policies, slots="25%")
    assert routes["picks_made"].sum() > 0
    assert routes.filter(pl.col("rows") > 0)["given_up_mean_ratio"].max() == 0


@pytest.mark.parametrize("name", ["e64-moce", "e256-moce"])
def test_the_recorded_policy_is_a_fixed_point(name: str, shared: Path) -> None:
    """With a bonus: the recorded policy rerouted makes the recorded picks, and fidelity holds of every event."""
    trace = opened(shared, name)
    routes = alike(trace, ["none+lru"])
    assert routes["given_up_mean_ratio"].min() > 0
    found = check_fidelity(trace)
    assert found.holds and found.events == len(trace.windows) * trace.meta.layers


def misses(trace: Trace, spec: str, routes: str, windows: int) -> float:
    """Demand misses per window of the first windows."""
    run = compare(trace, [spec], routes=[parse_routes(routes)], grid=(), part=False)
    return run.windows.filter(pl.col("window") < windows)["misses"].sum() / windows


def test_rerouting_predicts_the_other_engine(shared: Path) -> None:
    """One text, recorded with the bonus and without: each predicts the other's demand misses within 1%."""
    plain, biased = opened(shared, "e64-plain"), opened(shared, "e64-moce")
    windows = len(biased.windows)
    with_bonus, without = (misses(t, "none+lru", "recorded", windows) for t in (biased, plain))
    assert with_bonus < 0.8 * without
    told = misses(plain, "none+lru+router:p=3,b=0.85,r1=0", "rerouted", windows)
    assert told == pytest.approx(with_bonus, rel=0.01)
    told = misses(biased, "none+lru+router:p=3,b=0,r1=0", "rerouted", windows)
    assert told == pytest.approx(without, rel=0.01)


def test_where_the_routes_part_the_comparison_says_so(shared: Path) -> None:
    """Other evictions than the recorded ones: recorded routes are off by more than a fifth, and it is measured."""
    run = compare(opened(shared, "e64-moce"), ["none+lru", "none+decode2q"], grid=())
    parts = {each["policy"]: each for each in run.info["parting"]["policies"]}
    assert parts["none+lru"]["misses_change_ratio"] == 0 and parts["none+lru"]["picks_kept_ratio"] == 1
    assert parts["none+decode2q"]["misses_change_ratio"] < -0.2
    assert any("believe --routes rerouted" in each for each in run.warnings)
