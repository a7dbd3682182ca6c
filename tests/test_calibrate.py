"""calibrate: labels as the slow twin's, figures that are what they are called, files that are the same each time."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from conftest import Outcome
from slow.label import labels
from slow.make import draw_trace, write
from slow.sessions import sessions_trace
from slow.spec import Ranking as SlowRanking
from slow.spec import SlowOptions, SlowSpec
from slow.trace import SlowTrace
from slow.twin import replay_slow

from replay.calibration import metric
from replay.calibration.coverage import described, fit_coverage, loss, suffices
from replay.calibration.example import Examples
from replay.calibration.file import read_coverage, read_q
from replay.calibration.fit import Model, features, one_thread
from replay.calibration.table import bins, tabulate
from replay.calibration.whole import calibrate, deal
from replay.errors import InputError
from replay.learning.label import examples
from replay.predict.ranking import Ranking
from replay.trace import open_trace

Cli = Callable[..., Outcome]
COLUMNS = ("layer", "expert", "rank", "raw_rank", "rows", "resident", "queue", "selected")


def check(found: Examples, expected: list[dict[str, float]], sessions: list[int]) -> None:
    assert len(found) == len(expected)
    for name in COLUMNS:
        assert getattr(found, name).tolist() == [each[name] for each in expected], name
    assert [sessions[i] for i in found.session] == [each["session"] for each in expected]
    assert found.wanted[found.prediction].tolist() == [each["wanted"] for each in expected]
    for name in ("margin", "precision", "softmax"):
        assert getattr(found, name) == pytest.approx([each[name] for each in expected], abs=1e-9), name


@pytest.mark.parametrize("seed", range(40))
def test_labels_are_those_of_the_slow_twin(seed: int, tmp_path: Path) -> None:
    """Ties, masked scores, sparse rows, several rows and targets, windows without residents."""
    trace, rng = draw_trace(1000 + seed), Random(seed)
    trace.has_candidates = bool(trace.candidates)
    trace.residents = {
        (w, layer): sorted(rng.sample(range(trace.experts), rng.randint(0, trace.experts // 2)))
        for w in range(len(trace.windows))
        if w % 5 or not w
        for layer in range(trace.layers)
    }
    write(trace, tmp_path / "trace")
    k, p, b, r1 = rng.randint(1, 6), rng.randint(0, 4), rng.choice([0.5, 1.25]), rng.choice([0.0, 0.75])
    expected = labels(trace, SlowRanking(k, p, b, r1), trace.residents)
    opened = open_trace(tmp_path / "trace")
    if not expected:
        with pytest.raises(InputError, match="no decode window has candidates|needs the table candidates"):
            examples([opened], Ranking(k, p, b, r1))
        return
    found = examples([opened], Ranking(k, p, b, r1))
    check(found, expected, sorted({window.session for window in trace.windows}))


def test_without_snapshots_the_residents_are_a_replays(tmp_path: Path) -> None:
    trace = sessions_trace(drafts=1)
    trace.bonus = 0.5
    write(trace, tmp_path / "trace")
    slots = round(0.176 * trace.layers * trace.experts)
    played = replay_slow(trace, SlowSpec(), SlowOptions(slots={0: slots}, keep_residents=True))
    expected = labels(trace, SlowRanking(4, 1, 0.5, 0.0), played.residents)
    found = examples([open_trace(tmp_path / "trace")] * 2, Ranking(4, 1, 0.5))
    assert len(found) == 2 * len(expected) and len(np.unique(found.session)) == 20
    check(found.where(found.session < 10), expected, list(range(10)))


def test_figures_are_scikit_learns() -> None:
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    rng = np.random.default_rng(1)
    p = np.round(rng.random(4000), 2)
    y = rng.random(4000) < p**2
    assert metric.brier(p, y) == pytest.approx(brier_score_loss(y, p))
    assert metric.log_loss(p, y) == pytest.approx(log_loss(y, np.clip(p, 1e-6, 1 - 1e-6)))
    assert metric.auc(p, y) == pytest.approx(roc_auc_score(y, p))
    assert metric.auc(p, np.ones(4000, bool)) is None
    diagram = metric.reliability(p, y)
    apart = [each["count"] * abs(each["p"] - each["selected"]) for each in diagram]
    assert metric.calibration_error(p, y) == pytest.approx(sum(apart) / 4000, abs=1e-6)
    assert sum(each["count"] for each in diagram) == 4000
    assert metric.metrics(p[:0], y[:0])["brier"] is None


def drawn(count: int = 40_000, layers: int = 3, ranks: int = 4, seed: int = 5) -> tuple[Examples, np.ndarray]:
    """Examples whose probability is known."""
    rng = np.random.default_rng(seed)
    layer, rank = rng.integers(0, layers, count), rng.integers(0, ranks, count)
    margin, resident = rng.normal(0, 2, count), rng.random(count) < 0.3
    true = 1 / (1 + np.exp(-(0.5 * layer - rank + 1.5 * margin + 1.0 * resident)))
    zero = np.zeros(count, np.int64)
    made = Examples(
        session=np.arange(count) * 20 // count, prediction=np.arange(count), layer=layer, expert=zero, rank=rank,
        raw_rank=rank, margin=margin, rows=zero + 1, resident=resident, queue=zero, precision=np.full(count, 0.5),
        softmax=np.full(count, 0.1), selected=rng.random(count) < true, wanted=zero + 1,
    )  # fmt: skip
    return made, true


def test_the_fit_finds_the_probabilities() -> None:
    """Held out: q told apart by margin is calibrated; the absent ones' table is theirs."""
    made, true = drawn()
    found = calibrate(made, 3, 4)
    assert found.scores["q"]["ece"] < 0.02 and found.asked["q"]["ece"] < 0.02
    assert found.scores["softmax"]["ece"] > 0.2
    assert found.scores["q"]["brier"] < found.scores["base_rate"]["brier"]
    test = np.isin(made.session, found.held_out) & ~made.resident
    told = found.table.of(made.where(test), absent=True)
    assert np.abs(told - true[test]).mean() < 0.03
    assert found.table.counts.sum() == np.isin(made.session, found.train).sum()
    assert [each["layer"] for each in found.by_layer] == [0, 1, 2]
    assert sum(each["count"] for each in found.by_layer) == found.scores["q"]["count"]


def test_a_small_stratum_is_shrunk_to_the_pooled_fit() -> None:
    made, _ = drawn(20_000)
    keep = (made.layer < 2) | (np.arange(len(made)) % 400 == 0)
    few = made.where(keep)
    with one_thread():
        model = Model(few, 3, 4)
    own = model._own[2].reshape(3, 4)
    assert (own[:2] > 0.6).all() and (own[2] < 0.1).all()
    p = model.probability(few.layer, few.rank, features(few))
    assert ((p >= 0) & (p <= 1)).all()


def test_strata_and_layers_without_examples_have_probabilities() -> None:
    made, _ = drawn(3000)
    with one_thread():
        table = tabulate(made.where((made.layer > 0) & (made.rank < 3)), 4, 4)
    assert table.q.shape == (4, 4, len(table.edges) + 1) and ((table.q >= 0) & (table.q <= 1)).all()
    assert not table.counts[0].any() and not table.counts[:, 3].any()
    steady = made.where(made.margin > 99)
    assert not len(steady) and bins(table.edges, np.array([np.inf, -np.inf])).tolist() == [
        len(table.edges),
        0,
    ]


def test_one_outcome_is_no_error() -> None:
    made, _ = drawn(2000)
    sure = Examples(**{**made.__dict__, "selected": np.ones(2000, bool)})
    found = calibrate(sure, 3, 4)
    assert found.scores["q"]["auc"] is None and found.scores["q"]["brier"] < 0.01


def test_sessions_are_dealt_by_seed() -> None:
    sessions = np.array([7, 3, 5, 11, 2])
    train, held_out = deal(sessions, 1)
    assert sorted([*train, *held_out]) == [2, 3, 5, 7, 11] and len(held_out) == 2
    assert deal(sessions[::-1], 1)[1].tolist() == held_out.tolist()
    assert len({tuple(deal(sessions, seed)[1]) for seed in range(9)}) > 3
    assert [len(each) for each in deal(np.array([1, 2]), 0)] == [1, 1]
    with pytest.raises(InputError, match="at least 2"):
        deal(np.array([4]), 0)


def coverage_examples(seed: int = 2, count: int = 3000) -> Examples:
    """Predictions of six candidates, top 2; what is wanted stands deeper where the lead is small."""
    rng = np.random.default_rng(seed)
    lead = rng.random(count)
    extra = np.minimum(rng.geometric(0.25 + 0.6 * lead) - 1, 6)
    prediction, rank = np.repeat(np.arange(count), 6), np.tile(np.arange(6), count)
    selected = (rank == 0) | (rank == extra[prediction] + 1)
    zero = np.zeros(len(rank), np.int64)
    return Examples(
        session=zero, prediction=prediction, layer=zero, expert=rank, rank=rank, raw_rank=rank,
        margin=np.where(rank == 0, lead[prediction], 0.0), rows=zero + 1, resident=rank == 0, queue=zero,
        precision=np.zeros(len(rank)), softmax=np.zeros(len(rank)), selected=selected, wanted=np.full(count, 2),
    )  # fmt: skip


def test_coverage_is_the_least_loss() -> None:
    """Against scipy's derivative-free search over plain parameters; what suffices, from the definition."""
    from scipy.optimize import minimize

    made = coverage_examples()
    theta, w = fit_coverage(made, 2, 6)
    assert len(theta) == 5 and (np.diff(theta) >= 0).all()
    q, y = described(made, 2)[1], suffices(made, 2, 6)
    for d in range(5):
        plain = [
            int(made.selected[at : at + 6][: 2 + d].sum()) == made.wanted[i]
            for i, at in enumerate(range(0, len(made), 6))
        ]
        assert y[:, d].tolist() == plain
    best = minimize(lambda x: loss(np.cumsum([x[0], *np.abs(x[1:5])]), np.array([x[5], 0, 0, 0]), q, y), np.ones(6),
                    method="Nelder-Mead", options={"maxiter": 6000, "maxfev": 6000, "fatol": 1e-10})  # fmt: skip
    assert loss(theta, w, q, y) <= best.fun + 1e-3
    assert w[0] < 0  # a larger lead needs fewer
    with pytest.raises(InputError, match="fewer than the model's top-2"):
        fit_coverage(made, 2, 1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrate") / "trace"
    made: SlowTrace = sessions_trace(count=12, length=20, drafts=1)
    write(made, path)
    return path


def test_the_command_writes_the_same_bytes(recorded: Path, tmp_path: Path, cli: Cli) -> None:
    files = []
    for name in ("a", "b"):
        q, coverage = tmp_path / f"{name}.json", tmp_path / f"{name}-coverage.json"
        chart = tmp_path / f"{name}.svg"
        done = cli(
            "calibrate",
            recorded,
            "--policy",
            "route:k=5,b=0.5",
            "--out",
            q,
            "--coverage",
            coverage,
            "--chart",
            chart,
        )
        assert done.code == 0, done.err
        assert "router's softmax" in done.out and "held out   trace: sessions" in done.err
        files.append((q.read_bytes(), coverage.read_bytes(), chart.read_bytes()))
    assert files[0] == files[1]
    table = read_q(tmp_path / "a.json", 3, 12, 3, ranks=5)
    assert table.ranking == {"policy": "route", "k": 5, "p": 1, "b": 0.5, "r1": 0.0}
    content = json.loads(files[0][0])
    parts = [content[name][0]["sessions"] for name in ("trained_on", "held_out")]
    assert len(parts[0]) == 8 and sorted(parts[0] + parts[1]) == list(range(12))
    assert np.array(content["counts"]).sum() > 0 and set(content["metrics"]["held_out"]) > {"q", "softmax"}
    assert len(read_coverage(tmp_path / "a-coverage.json", 3, 12, 3, ranks=5).theta) == 3
    other = cli(
        "calibrate", recorded, "--policy", "route:k=5,b=0.5", "--out", tmp_path / "c.json", "--seed", 1
    )
    assert other.code == 0 and (tmp_path / "c.json").read_bytes() != files[0][0]


def test_the_command_takes_sessions_and_prints_json(recorded: Path, cli: Cli) -> None:
    done = cli("calibrate", recorded, recorded, "--train", "0-5", "--policy", "unpert1:k=4", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert [each["sessions"] for each in said["trained_on"]] == [[0, 1, 2, 3, 4, 5]] * 2
    assert said["ranking"]["k"] == 4 and said["metrics"]["held_out"]["q"]["count"] > 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--policy", "oracle"], "expected a ranking alone"),
        (["--policy", "route+decode2q"], "expected a ranking alone"),
        (["--policy", "route:k=0"], "ranks nothing"),
        (["--train", "0-11"], "some left over to score on"),
        (["--train", "40"], "--train: sessions '40'"),
        (["--policy", "route:k=2", "--coverage", "{}/c.json"], "fewer than the model's top-3"),
    ],
)
def test_misuse_is_one_line(more: list[str], says: str, recorded: Path, tmp_path: Path, cli: Cli) -> None:
    done = cli("calibrate", recorded, *(each.format(tmp_path) for each in more))
    assert done.code == 2 and says in done.err and done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_scikit_learn_it_says_so(recorded: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "threadpoolctl", None)
    done = cli("calibrate", recorded)
    assert done.code == 2 and "needs scikit-learn" in done.err and "moe-replay[calibrate]" in done.err


def test_a_file_that_is_there_stays(recorded: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "q.json").write_text("mine")
    done = cli("calibrate", recorded, "--out", tmp_path / "q.json")
    assert done.code == 2 and "--force" in done.err and (tmp_path / "q.json").read_text() == "mine"


def test_nothing_is_fitted_for_a_file_that_cannot_be_written(
    recorded: Path, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "taken").write_text("mine")
    q = tmp_path / "z.json"
    for chart, says in (
        ("x.bmp", "written as .svg or .png"),
        ("taken/x.svg", "is a file"),
        ("z.json", "is named twice"),
    ):
        done = cli("calibrate", recorded, "--out", q, "--chart", tmp_path / chart)
        assert done.code == 2 and says in done.err and done.err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_the_arena_is_given(tmp_path: Path, cli: Cli) -> None:
    write(sessions_trace(count=4, length=9), tmp_path / "trace")
    done = cli("calibrate", tmp_path / "trace", "--policy", "route:k=5", "--slots", 1)
    assert done.code == 2 and "(the arena: 1 slots" in done.err and "--slots or --bytes" in done.err
    few, many = (
        cli("calibrate", tmp_path / "trace", "--policy", "route:k=5,b=0.5", "--slots", n, "--json")
        for n in (9, 36)
    )
    assert few.code == many.code == 0 and few.out != many.out


def test_a_folder_that_cannot_be_written_to(
    recorded: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode == os.R_OK)
    done = cli("calibrate", recorded, "--out", tmp_path / "new/q.json")
    assert done.code == 2 and f"{tmp_path} cannot be written to; check the permissions" in done.err


@pytest.mark.parametrize("name", ["e256-moce", "e64-moce"])
def test_q_is_calibrated_on_held_out_sessions(name: str, shared: Path, cli: Cli) -> None:
    done = cli("calibrate", shared / "traces" / "recorded" / name, "--policy", "route:k=8", "--json")
    scores = json.loads(done.out)["metrics"]["held_out"]
    assert scores["q"]["ece"] < 0.02 and scores["softmax"]["ece"] > 0.1
