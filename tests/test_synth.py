"""Synthetic traces: what is stated comes out, the same seed gives the same bytes, and audits find nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome

from replay.audit.router import audit_router
from replay.errors import InputError
from replay.fidelity import check_fidelity
from replay.prepare.training import event_counts
from replay.synth import Recipe, synthesize
from replay.trace import Trace, open_trace
from replay.trace.look import look

Cli = Callable[..., Outcome]

SMALL = Recipe(layers=4, experts=32, top_k=4, sessions=3, windows=60)


def make(path: Path, recipe: Recipe = SMALL, **values: Any) -> Trace:
    synthesize(path, replace(recipe, **values), force=True)
    return open_trace(path)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    recipe = replace(
        SMALL, recall=0.8, scores=True, drafts=2, prompt=5, slots=60, drift=50, domains=2, seed=3
    )
    for name in ("a", "b"):
        synthesize(tmp_path / name, recipe)
    synthesize(tmp_path / "c", replace(recipe, seed=4))
    files = sorted(each.name for each in (tmp_path / "a").iterdir())
    assert len(files) == 8
    for name in files:
        one, same, other = ((tmp_path / each / name).read_bytes() for each in "abc")
        assert one == same, name
        assert one != other or name == "windows.parquet", name


@pytest.mark.parametrize("reuse", [0.3, 0.5, 0.8, 1.0])
def test_reuse_is_as_stated(tmp_path: Path, reuse: float) -> None:
    seen = look(make(tmp_path / "t", layers=8, windows=300, reuse=reuse, popularity=0.5))
    assert seen.reuse is not None and abs(seen.reuse - reuse) < 0.02


def test_popularity_is_as_stated_whatever_the_reuse(tmp_path: Path) -> None:
    """Ranked counts against draws without replacement in proportion to i^-s."""
    rng = np.random.default_rng(1)
    weights = np.arange(1, 33, dtype=float) ** -0.8
    drawn = np.argsort(-(np.log(weights) + rng.gumbel(size=(40_000, 32))), axis=1)[:, :4]
    expected = np.bincount(drawn.ravel(), minlength=32) / 40_000
    for reuse in (None, 0.7):
        trace = make(tmp_path / "t", layers=16, sessions=40, windows=50, popularity=0.8, reuse=reuse)
        counts = event_counts(trace, None).reshape(16, 32) / len(trace.windows)
        ranked = np.sort(counts, axis=1)[:, ::-1].mean(axis=0)
        np.testing.assert_allclose(ranked, np.sort(expected)[::-1], atol=0.02)
    even = event_counts(make(tmp_path / "t", popularity=0, reuse=None, windows=800), None)
    assert even.max() < 1.25 * even.mean()


def test_drift_moves_the_popularity(tmp_path: Path) -> None:
    """Between sessions; without drift the same experts stay popular."""

    def same(drift: float) -> float:
        trace = make(
            tmp_path / "t", layers=8, sessions=4, windows=500, popularity=1.2, reuse=None, drift=drift
        )
        first, last = (event_counts(trace, [(s, s)]).reshape(8, 32) for s in (0, 3))
        return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(first, last, strict=True)]))

    assert same(0) > 0.95 > 0.8 > same(0.3) > same(5)


def test_domains_have_their_own_popularity(tmp_path: Path) -> None:
    def alike(overlap: float) -> float:
        trace = make(tmp_path / "t", layers=8, sessions=4, windows=300, popularity=1.2, domains=2,
                     domain_overlap=overlap)  # fmt: skip
        assert trace.windows.domain is not None and set(trace.windows.domain) == {"domain-0", "domain-1"}
        counts = [event_counts(trace, [(s, s)]).reshape(8, 32) for s in range(4)]
        own = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(counts[0], counts[2], strict=True)])
        assert own > 0.9
        return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(counts[0], counts[1], strict=True)]))

    assert alike(0) < 0.4 < alike(0.7) < alike(1)


@pytest.mark.parametrize(("recall", "distance"), [(0.6, 1), (0.9, 2), (1.0, 1)])
def test_recall_is_as_stated(tmp_path: Path, recall: float, distance: int) -> None:
    trace = make(tmp_path / "t", layers=8, windows=100, recall=recall, distance=distance)
    found = []
    for chunk in trace.chunks({"selections", "candidates"}):
        assert chunk.candidates is not None and chunk.selections is not None
        assert chunk.candidates.issued_after is not None
        assert (chunk.candidates.issued_after == chunk.candidates.layer - distance).all()
        scores = chunk.candidates.scores.reshape(-1, 32)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :4]
        picks = chunk.selections.values.reshape(-1, 8, 4)[:, distance:].reshape(-1, 4)
        found += [len(set(a) & set(b)) / 4 for a, b in zip(best.tolist(), picks.tolist(), strict=True)]
    assert abs(np.mean(found) - recall) < (0.02 if recall < 1 else 1e-9)


@pytest.mark.parametrize("calibration", [0.5, 1.0, 2.0])
def test_drafts_match_as_their_confidence_says(tmp_path: Path, calibration: float) -> None:
    trace = make(tmp_path / "t", layers=1, experts=4, top_k=1, sessions=20, windows=400, drafts=3,
                 calibration=calibration, reuse=None)  # fmt: skip
    assert trace.windows.rows.tolist() == [4] * 8000
    p, matched = (
        np.concatenate([chunk.tables["drafts"][name] for chunk in trace.chunks({"drafts"})]).reshape(-1, 3)
        for name in ("p", "matched")
    )
    assert (matched[:, 1:] <= matched[:, :-1]).all()
    assert abs(p.mean() - 0.6) < 0.01
    for low in (0.1, 0.5, 0.8):
        own = (p[:, 0] >= low) & (p[:, 0] < low + 0.1)
        assert abs(matched[own, 0].mean() - (p[own, 0] ** calibration).mean()) < 0.06


def test_prompts_are_windows_of_their_own(tmp_path: Path) -> None:
    trace = make(tmp_path / "t", prompt=70, scores=True, recall=0.8)
    assert trace.windows.rows.tolist() == ([70] + [1] * 60) * 3
    assert trace.windows.prefill.tolist() == ([True] + [False] * 60) * 3
    chunk = next(iter(trace.chunks({"router_scores"})))
    assert chunk.router_scores is not None and 0 not in chunk.router_scores.window


@pytest.mark.parametrize("bonus", [0.0, 0.85])
def test_audits_find_nothing(tmp_path: Path, bonus: float) -> None:
    """The arena that runs along is the engine's LRU, and the router's rule makes every pick."""
    recipe = replace(SMALL, scores=True, slots=70, bonus=bonus, drafts=2, prompt=6, recall=0.8)
    trace = make(tmp_path / "t", recipe)
    assert check_fidelity(trace).holds
    audit = audit_router(trace)
    assert audit.holds and audit.rows == 3 * 60 * 3 * 4 and audit.weighed == audit.rows
    plain = make(tmp_path / "u", recipe, bonus=0.0)
    if bonus:
        hits = [
            sum(c.tables["counters"]["hits"].sum() for c in t.chunks({"counters"})) for t in (trace, plain)
        ]
        assert hits[0] > 1.1 * hits[1]


def test_groups_do_not_matter_to_the_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: windows go group after group."""
    monkeypatch.setattr("replay.synth.make._SCORES", 1000)
    trace = make(tmp_path / "t", prompt=30, drafts=1, scores=True)
    assert len(trace.windows) == 183 and audit_router(trace).holds


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"layers": 0}, "--layers: expected 1 to 65536, found 0"),
        ({"top_k": 32}, "--top-k: expected fewer picks than the 32 experts, found 32"),
        ({"layers": 60000, "experts": 60000}, "60000 layers of 60000 experts are more than 67108864"),
        ({"popularity": 3.0, "reuse": 0.2}, "--reuse 0.2: popularity alone gives 0."),
        ({"recall": 0.01}, "--recall 0.01: noise alone gives 0."),
        ({"recall": 0.9, "distance": 4}, "--distance: expected fewer than the 4 layers, found 4"),
        ({"recall": 0.9, "layers": 1}, "or leave --recall out: candidates are of a later layer"),
        ({"bonus": 0.5}, "--bonus favours residents: give --slots"),
        ({"slots": 3}, "--slots 3: an event wants 4 experts; give more slots"),
        ({"drift": float("nan")}, "--drift: expected 0 to 1000, found nan"),
        (
            {"prompt": 60000, "experts": 60000, "layers": 1},
            "--prompt: rows times layers times experts may be",
        ),
    ],
)
def test_refusals(tmp_path: Path, values: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as problem:
        synthesize(tmp_path / "t", replace(SMALL, **values))
    assert expected in str(problem.value) and not (tmp_path / "t").exists()


def test_command_line(tmp_path: Path, cli: Cli) -> None:
    done = cli("synth", tmp_path / "t", "--layers", 2, "--experts", 16, "--top-k", 2, "--sessions", 2, "--windows", 9,
               "--prompt", 3, "--drafts", 1, "--recall", "0.8", "--expert-bytes", "1.5kB", "--json")  # fmt: skip
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert (made["windows"], made["rows"]) == (20, 42) and made["noise"] > 0
    trace = open_trace(tmp_path / "t")
    assert trace.meta.expert_bytes == 1500 and trace.meta.source["recipe"]["recall"] == 0.8
    assert sorted(trace.tables) == ["candidates", "drafts", "selections", "windows"]
    assert "exists already" in cli("synth", tmp_path / "t").err
    assert cli("compare", tmp_path / "t", "-p", "unpert1", "--no-curves", "-q").code == 0
