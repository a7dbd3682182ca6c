"""Economics of drafts: calibrated acceptance, what a policy is worth, sweeps and their held-out choices."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from slow.isotonic import curve as slow_curve

from replay import retain
from replay.plot.draft_sweep import plot_draft_sweep
from replay.retain.calibrate import folds_of

COST = retain.Cost()


def made(sessions: int = 20, length: int = 60, steps: int = 3, seed: int = 1) -> tuple[Any, retain.Recorded]:
    """Rounds whose drafts are accepted more often than their confidence says: with probability sqrt(p)."""
    rng = np.random.default_rng(seed)
    count = sessions * length
    p = np.round(rng.beta(1.5, 2.0, (count, steps)), 3)
    hits = np.logical_and.accumulate(rng.random((count, steps)) < np.sqrt(p), axis=1)
    three = np.full(count, steps)
    rounds = retain.Rounds(np.arange(count), p, three, hits.sum(axis=1), three)
    bytes_of = np.cumsum(rng.integers(1, 9, (count, steps + 1)), axis=1) * 1000
    trace = SimpleNamespace(windows=SimpleNamespace(session=np.repeat(np.arange(sessions) * 3, length)))
    return trace, retain.Recorded(rounds, bytes_of, 0)


@pytest.mark.parametrize("seed", range(8))
def test_curves_equal_the_slow_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(rng.integers(1, 120)), rng.integers(1, 4))
    hit = rng.random(len(p)) < p ** rng.choice([0.3, 1.0, 3.0])
    found = retain.fit_curve(p, hit)
    for x, y in slow_curve(p.tolist(), hit.tolist()).items():
        assert found.at(np.array([x]))[0] == pytest.approx(y, abs=1e-12)
    ends = found.at(np.array([0.0, 1.0, np.nan, 1.5, -0.1]))
    assert 0 < ends[0] <= ends[1] < 1 and ends[2:].tolist() == [0, 0, 0]
    assert np.all(np.diff(found.at(np.linspace(0, 1, 200))) >= 0)


def test_a_session_is_judged_by_the_others() -> None:
    """What a session accepted moves the curves of other folds and not its own."""
    trace, data = made()
    session = trace.windows.session
    before = retain.calibrate(data.rounds, session).accept
    mine = session == session[0]
    changed = np.where(mine, 0, data.rounds.matched)
    other = retain.Rounds(*(*vars(data.rounds).values(),)[:3], changed, data.rounds.verified)
    after = retain.calibrate(other, session).accept
    fold = folds_of(session)
    same = fold == fold[0]
    assert np.array_equal(before[same], after[same]) and not np.allclose(before[~same], after[~same])
    assert all(len(set(fold[session == each])) == 1 for each in np.unique(session))
    assert len(set(folds_of(np.zeros(300, np.int64)))) == 5


def test_calibrated_acceptance_predicts_what_is_measured() -> None:
    """Drafts that are better than they say: the curves are within 2%, the confidence is far off."""
    trace, data = made()
    found = retain.economy(trace, data, [retain.parse_retention("flat:0.3")])
    for row in found.policies:
        assert row.calibrated == pytest.approx(row.measured, rel=0.02)
        assert row.identity < 0.93 * row.measured
    best = found.policies[-1]
    assert best.policy == "best:calibrated" and best.measured >= max(row.measured for row in found.policies)
    for step in found.calibration:
        assert step.brier is not None and step.log_loss is not None
        assert step.brier[1] < step.brier[0] and step.log_loss[1] < step.log_loss[0]
        assert sum(n for _, n, _ in step.reliability) == step.drafts
        assert sum(hits for *_, hits in step.reliability) == step.accepted
    first = found.marginal[0]
    assert first.measured.gain == pytest.approx(first.calibrated.gain, rel=0.03)
    assert first.identity.gain is not None and first.measured.gain is not None
    assert first.identity.gain < 0.9 * first.measured.gain


def test_worth_is_what_the_account_says() -> None:
    trace, data = made(sessions=3)
    each = np.arange(len(data.rounds.window))
    for text in ("flat:0.3", "schedule:0.1/0.5", "cumulative:0.2"):
        policy = retain.parse_retention(text)
        kept, ran = retain.keep(data.rounds, policy)
        account = retain.account(text, data.rounds, kept, ran, COST, data.prefix_bytes)
        row = next(w for w in retain.economy(trace, data, [policy]).policies if w.policy == policy.name)
        assert row.measured == pytest.approx(account.tokens_per_cost)
        assert row.bytes_per_token == pytest.approx(account.expert_bytes_per_token)
        good = np.minimum(kept, data.rounds.matched)
        wasted = (data.prefix_bytes[each, kept] - data.prefix_bytes[each, good]).sum()
        assert row.wasted_bytes_per_token == pytest.approx(wasted / account.committed)


def test_a_sweep_and_its_choices() -> None:
    """Every point is the policy's account; a family's choice is the best on every other session."""
    trace, data = made()
    found = retain.sweep(trace, data, COST)
    assert len(found.points) == 20 + 20 + 100 + 100 and (found.training, found.held_out) == (10, 10)
    for point in found.points[::17]:
        kept, ran = retain.keep(data.rounds, retain.parse_retention(point.policy))
        account = retain.account("", data.rounds, kept, ran, COST, data.prefix_bytes)
        assert (point.kept, point.committed) == (account.kept, account.committed)
        assert point.tokens_per_cost == pytest.approx(account.tokens_per_cost)
        assert point.expert_bytes == account.expert_bytes
    halves = [np.isin(trace.windows.session, np.unique(trace.windows.session)[i::2]) for i in (0, 1)]
    parts = [part(data, half) for half in halves]
    for choice in found.choices:
        mine = [retain.parse_retention(each.policy) for each in found.points if each.family == choice.family]
        scores = [[worth(side, policy) for policy in mine] for side in parts]
        assert choice.training == pytest.approx(max(scores[0]))
        at = next(i for i, policy in enumerate(mine) if policy.name == choice.policy)
        assert choice.held_out == pytest.approx(scores[1][at]) and choice.held_out <= choice.best_held_out
        assert choice.recorded_held_out == pytest.approx(worth(parts[1], retain.Retention()))
    alone, few = made(sessions=1)
    assert retain.sweep(alone, few).choices == []


def part(data: retain.Recorded, mask: np.ndarray) -> retain.Recorded:
    """Some of the rounds."""
    values = {name: value[mask] for name, value in vars(data.rounds).items()}
    return retain.Recorded(retain.Rounds(**values), data.prefix_bytes[mask], 0)


def worth(data: retain.Recorded, policy: retain.Retention) -> float | None:
    """Tokens over cost of a policy."""
    kept, ran = retain.keep(data.rounds, policy)
    return retain.account("", data.rounds, kept, ran, COST).tokens_per_cost


def test_looser_policies_are_left_out_of_a_sweep() -> None:
    trace, data = made(sessions=2)
    recorded = np.where(data.rounds.p[:, 0] >= 0.5, data.rounds.length, 0)
    values = vars(data.rounds) | {"verified": recorded, "matched": np.minimum(data.rounds.matched, recorded)}
    short = retain.Recorded(retain.Rounds(**values), data.prefix_bytes, 0)
    flat = [each.first for each in retain.sweep(trace, short).points if each.family == "flat"]
    assert flat == [round(0.05 * i, 2) for i in range(10, 20)]


def test_the_heat_map_shows_the_sweep() -> None:
    trace, data = made(sessions=4)
    table = retain.sweep(trace, data).frame()
    axes = plot_draft_sweep(table)
    assert [panel.get_title(loc="left").split(":")[0] for panel in axes] == [
        "schedule",
        "flat and cumulative",
    ]
    for panel, family in zip(axes, ("schedule", "flat and cumulative"), strict=True):
        rows = table.filter(pl.col("family") == family).sort("first", "second")
        mesh = next(each for each in panel.collections if each.get_gid() == "cells")
        assert np.allclose(np.asarray(mesh.get_array()).ravel(), rows["tokens_per_cost"].to_numpy())
        best = next(each for each in panel.patches if each.get_gid() == "best")
        y, x = divmod(int(rows["tokens_per_cost"].arg_max() or 0), 10)
        assert (best.get_x(), best.get_y()) == (x, y)
    assert axes[0].get_xlabel() == "threshold of later drafts"


def test_the_command(shared: Path, tmp_path: Path, cli) -> None:
    trace = shared / "traces" / "recorded" / "e64-spec"
    code, out, _ = cli("drafts", trace, "--sweep", "--out", tmp_path / "sweep", "-q")
    assert code == 0 and "best:calibrated" in out and "best on training sessions" in out
    assert {path.name for path in (tmp_path / "sweep").iterdir()} == {
        "draft_sweep.parquet", "draft_sweep.svg", "drafts.json",
    }  # fmt: skip
    told = json.loads(cli("drafts", trace, "--json", "-q").out)
    rows = {row["policy"]: row for row in told["economy"]["policies"]}
    assert rows["recorded"]["measured"] == pytest.approx(1.197199, abs=1e-6)
    assert rows["recorded"]["calibrated"] == pytest.approx(rows["recorded"]["measured"], rel=0.02)
    assert rows["recorded"]["identity"] < 0.95 and "sweep" not in told
    assert cli("drafts", "--grid", "--sweep")[0] == 2
    assert cli("drafts", trace, "--out", tmp_path / "other")[0] == 2
