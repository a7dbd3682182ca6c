"""What routes change about the picks: the softmax mass given up, the drift, and how far two kinds part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from slow.make import draw_trace, write

from replay.comparison.comparison import compare
from replay.comparison.parting import sentence
from replay.declare.semantics import parse_routes
from replay.engine.frame import COUNTERS
from replay.ledger.agreement import BINS, GivenUp, drift
from replay.ledger.ledger import Tally
from replay.run import load
from replay.trace import Trace, open_trace

ROUTES = [parse_routes("recorded"), parse_routes("rerouted")]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Trace]:
    """A drawn trace with router scores of every window, as if recorded with and without a bonus."""
    drawn = next(t for t in map(draw_trace, range(200)) if t.layers > 2 and t.experts > 12 and _scored(t))
    found = {}
    for bonus in (0.0, 0.85):
        path = tmp_path_factory.mktemp("drawn") / "trace"
        write(replace(drawn, bonus=bonus, r1_bonus=0.0), path)
        found[bonus] = open_trace(path)
    return found


def _scored(trace) -> bool:
    decode = {w for w, each in enumerate(trace.windows) if not each.prefill}
    return len(decode) > 15 and decode <= {w for w, _, _ in trace.router_scores}


def test_the_mass_is_exact_in_its_mean_and_to_the_bin_in_its_tail() -> None:
    rng = np.random.default_rng(3)
    shares = rng.beta(0.3, 5, (500, 4)).astype(np.float32)
    shares[rng.random((500, 4)) < 0.2] = np.nan
    prefill = (np.arange(100) % 7 == 0).astype(np.uint8)
    whole, cut = GivenUp(4, warm=3), GivenUp(4, warm=3)
    starts = np.arange(101) * 5
    whole.add(0, starts, prefill, shares.ravel())
    for first in range(0, 100, 30):
        part = slice(first, min(first + 30, 100))
        mine = shares[first * 5 : part.stop * 5]
        cut.add(first, starts[: part.stop - first + 1], prefill[part], mine.ravel())
    assert np.array_equal(whole.counts, cut.counts) and np.allclose(whole.total, cut.total)
    rows = np.repeat(prefill, 5)
    for phase in (0, 1):
        means, tails = whole.by_layer(phase)
        for layer in range(4):
            mine = shares[15:, layer][rows[15:] == phase]
            mine = np.sort(mine[~np.isnan(mine)])
            assert whole.rows[phase, layer] == len(mine)
            assert means[layer] == pytest.approx(mine.mean())
            assert tails[layer] == pytest.approx(mine[-(-99 * len(mine) // 100) - 1], abs=0.51 / BINS)
    assert GivenUp(4).mean() is GivenUp(4).p99() is None


def test_the_drift_is_by_tenths_of_the_decode_windows() -> None:
    tally = Tally("x", 1)
    counts = np.zeros((44, len(COUNTERS)), np.int64)
    counts[:, -1] = 10  # made
    counts[:, -2] = np.arange(44) // 5  # kept
    prefill = np.zeros(44, bool)
    prefill[::11] = True
    counts[prefill] = 0
    tally.add(0, prefill.astype(np.uint8), counts, np.zeros((44, 2), np.int64))
    tenths = drift(tally, prefill)
    assert len(tenths) == 10 and tenths == sorted(tenths) and tenths[0] < 0.1 < 0.7 < tenths[-1]
    assert drift(Tally("y", 1, keep_windows=False), prefill) == []


def test_the_tables_survive_a_save_with_both_kinds_of_routes(
    traces: dict[float, Trace], tmp_path: Path
) -> None:
    run = compare(traces[0.85], ["none+lru"], slots="60%", routes=ROUTES, grid=())
    back = load(run.save(tmp_path / "run"))
    assert back.routes is not None and run.routes is not None and back.routes.equals(run.routes)
    assert back.routes["routes"].unique().to_list() == ["rerouted"]
    made = back.windows.group_by("routes").agg(pl.col("picks_made").sum()).sort("routes")
    assert made["picks_made"].to_list() == [0, run.summary[1]["picks_made"]]
    assert "given_up_p99_ratio" in (tmp_path / "run" / "summary.csv").read_text().splitlines()[0]


def test_the_parting_is_measured_unasked_where_it_is_cheap(traces: dict[float, Trace]) -> None:
    specs = ["none+lru", "none+decode2q"]
    asked = compare(traces[0.85], specs, slots="60%", routes=ROUTES, grid=()).info["parting"]
    unasked = compare(traces[0.85], specs, slots="60%", grid=())
    assert asked == unasked.info["parting"] and asked["measured"] and len(asked["policies"]) == 2
    assert any("rout" in each and "part" in each for each in unasked.warnings)
    silent = compare(traces[0.85], specs, slots="60%", grid=(), part=False)
    assert silent.info["parting"] == {"measured": False, "policies": []}
    assert any("--routes recorded,rerouted" in each for each in silent.warnings)
    assert silent.summary == unasked.summary


def test_without_a_bonus_the_question_does_not_arise(traces: dict[float, Trace]) -> None:
    assert compare(traces[0.0], ["none+lru"], slots="60%", grid=()).info["parting"] is None


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.004, "at most 0.4% of misses: either will do"), (-0.22, "lru: -22.0% misses, 80.0% of picks kept")],
)
def test_the_sentence_says_which_to_believe(change: float, text: str) -> None:
    part = {"policy": "lru", "misses_change_ratio": change, "picks_kept_ratio": 0.8}
    said = sentence({"measured": True, "policies": [part]})
    assert said is not None and text in said
    assert sentence(None) is None


def test_router_settings_change_the_picks_at_a_cost(traces: dict[float, Trace]) -> None:
    """Without a bonus nothing is given up; a larger bonus gives up more and misses less."""
    specs = [f"none+lru+router:p=0,b={b},r1=0" for b in (0, 1, 4)]
    rows = compare(traces[0.85], specs, slots="60%", routes=ROUTES[1:], grid=()).summary
    given_up = [row["given_up_mean_ratio"] for row in rows]
    assert given_up[0] == 0 < given_up[1] < given_up[2]
    misses = [row["misses"] for row in rows]
    assert misses[0] >= misses[1] >= misses[2] < misses[0]
