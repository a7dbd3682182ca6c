"""The look of a trace and ``replay info``: each sign on a trace made to show it, shares against slow counts."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from raw_trace import healthy

from replay.errors import InputError
from replay.trace import Trace, open_trace, write_trace
from replay.trace.info import describe
from replay.trace.look import look

LAYERS, EXPERTS, K = 3, 16, 4


def make(
    folder: Path,
    picks: np.ndarray,
    weights: np.ndarray | None = None,
    scores: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    sessions: np.ndarray | None = None,
    **meta: Any,
) -> Trace:
    """Write a trace of one-row windows: picks [windows, LAYERS, K], scores [windows, LAYERS, EXPERTS]."""
    windows = len(picks)
    number = np.arange(windows, dtype=np.uint32)
    cells = windows * LAYERS
    lengths = np.full(cells, K) if lengths is None else lengths
    kept = (np.arange(K) < lengths[:, None]).ravel()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    key = {
        "window": np.repeat(number, LAYERS),
        "row": np.zeros(cells, np.uint16),
        "layer": np.tile(np.arange(LAYERS, dtype=np.uint16), windows),
    }

    def listed(values: np.ndarray, type: pa.DataType) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()[kept], type))

    selections = {**key, "experts": listed(picks, pa.uint16())}
    if weights is not None:
        selections["weights"] = listed(weights, pa.float32())
    tables = {
        "windows": pa.table(
            {
                "window": number,
                "session": np.zeros(windows, np.uint32) if sessions is None else sessions,
                "phase": ["decode"] * windows,
                "rows": np.ones(windows, np.uint16),
            }
        ),
        "selections": pa.table(selections),
    }
    if scores is not None:
        rows = pa.ListArray.from_arrays(
            np.arange(cells + 1, dtype=np.int32) * EXPERTS, pa.array(scores.ravel())
        )
        tables["router_scores"] = pa.table({**key, "scores": rows})
    model = {"name": "made", "layers": LAYERS, "experts": EXPERTS, "top_k": K}
    write_trace(folder, {"model": model, "expert_bytes": 100, **meta}, tables)
    return open_trace(folder)


def draw(windows: int, seed: int = 0, skew: float = 0.0, stay: float = 0.0) -> np.ndarray:
    """Picks by Gumbel top-k over a popularity; ``stay`` keeps part of the noise from window to window."""
    rng = np.random.default_rng(seed)
    popular = skew * rng.standard_normal((LAYERS, EXPERTS))
    noise = rng.gumbel(size=(windows, LAYERS, EXPERTS))
    for window in range(1, windows):
        kept = rng.random((LAYERS, EXPERTS)) < stay
        noise[window][kept] = noise[window - 1][kept]
    return np.argsort(-(popular + noise), axis=-1)[..., :K]


def kinds(trace: Trace) -> set[str]:
    return {warning.kind for warning in look(trace).warnings}


def test_real_looking_picks_raise_no_warning(tmp_path: Path) -> None:
    assert kinds(make(tmp_path / "t", draw(1200, skew=0.5, stay=0.5))) == set()


def test_even_independent_picks(tmp_path: Path) -> None:
    found = look(make(tmp_path / "t", draw(1200)))
    assert {warning.kind for warning in found.warnings} == {"popularity", "reuse"}
    assert found.independent == pytest.approx(K / EXPERTS, rel=0.02)
    assert found.popularity == pytest.approx(1, abs=0.01)


def test_popular_independent_picks(tmp_path: Path) -> None:
    found = look(make(tmp_path / "t", draw(1200, skew=1.0)))
    assert {warning.kind for warning in found.warnings} == {"reuse"}
    assert found.popularity is not None and found.popularity > 1.2


def test_reuse_and_popularity_are_the_slow_counts(tmp_path: Path) -> None:
    """Over several chunks and sessions: overlap with the window before, of the same session."""
    picks = draw(1200, seed=3, skew=0.7, stay=0.4)
    sessions = (np.arange(1200) // 100).astype(np.uint32)
    found = look(make(tmp_path / "t", picks, sessions=sessions))
    sets = [[set(layer) for layer in window] for window in picks.tolist()]
    shared = [
        sum(len(a & b) for a, b in zip(one, two, strict=True)) / (LAYERS * K)
        for number, (one, two) in enumerate(pairwise(sets))
        if sessions[number] == sessions[number + 1]
    ]
    assert found.reuse == pytest.approx(np.mean(shared), rel=1e-12)
    total = 0
    for layer in range(LAYERS):
        counts = np.bincount(picks[:, layer].ravel(), minlength=EXPERTS)
        total += sum(int(c) * (int(c) - 1) for c in counts)
    assert found.independent == pytest.approx(total / (1200 * 1199) / (LAYERS * K), rel=1e-12)


def test_sorted_ids(tmp_path: Path) -> None:
    found = look(make(tmp_path / "t", np.sort(draw(100, stay=0.5, skew=1), axis=-1)))
    assert [(warning.kind, warning.share) for warning in found.warnings] == [("sorted", 1.0)]


def test_sorted_share_is_the_slow_count(tmp_path: Path) -> None:
    picks = draw(300)
    lengths = np.random.default_rng(5).integers(0, K + 1, 300 * LAYERS)
    found = look(make(tmp_path / "t", picks, lengths=lengths))
    lists = [ids[:count] for ids, count in zip(picks.reshape(-1, K).tolist(), lengths, strict=True)]
    several = [ids for ids in lists if len(ids) > 1]
    assert found.sorted == sum(ids == sorted(ids) for ids in several) / len(several)
    assert found.short == sum(len(ids) < K for ids in lists) / len(lists)
    assert "short" in {warning.kind for warning in found.warnings}


@pytest.mark.parametrize(("length", "share"), [(7, 0.0), (8, 8 / 600), (40, 40 / 600)])
def test_long_runs_of_identical_rows(tmp_path: Path, length: int, share: float) -> None:
    picks = draw(600, skew=1, stay=0.3)
    picks[500 : 500 + length] = picks[500]
    found = look(make(tmp_path / "t", picks))
    assert found.runs == pytest.approx(share)
    assert ("runs" in {warning.kind for warning in found.warnings}) == (share > 0)


def test_rows_without_picks_are_no_run(tmp_path: Path) -> None:
    lengths = np.full(600 * LAYERS, K)
    lengths[: 30 * LAYERS] = 0
    found = look(make(tmp_path / "t", draw(600, skew=1, stay=0.3), lengths=lengths))
    assert found.runs == 0 and found.short == 30 / 600


def test_uniform_weights(tmp_path: Path) -> None:
    weights = np.sort(np.random.default_rng(1).random((200, LAYERS, K)), axis=-1)
    weights[:50] = 1 / K
    weights[60, 0] = np.nan
    lengths = np.full(200 * LAYERS, K)
    lengths[1::7] = 1
    found = look(make(tmp_path / "t", draw(200, skew=1, stay=0.5), weights=weights, lengths=lengths))
    several = (lengths > 1) & ~np.isnan(weights.reshape(-1, K)).any(axis=1)
    even = several & (np.arange(200 * LAYERS) < 50 * LAYERS)
    assert found.uniform == even.sum() / several.sum()
    assert "uniform" in {warning.kind for warning in found.warnings}


def test_ties_are_counted_among_the_best(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 60, (150, LAYERS, EXPERTS)).astype(np.float32)
    scores[:10] = -np.inf
    scores[10:20, :, 3:] = -np.inf
    found = look(make(tmp_path / "t", draw(150, skew=1, stay=0.5), scores=scores))
    best = np.sort(scores.reshape(-1, EXPERTS), axis=1)[:, ::-1][:, : K + 1]
    tied = [any(a == b > -np.inf for a, b in pairwise(row)) for row in best.tolist()]
    assert 0 < found.ties["router_scores"] == sum(tied) / len(tied)


def test_ties_of_sparse_rows(tmp_path: Path) -> None:
    raw = healthy()
    raw.types["candidates"]["experts"] = pa.list_(pa.uint16())
    for number, row in enumerate(raw.tables["candidates"]):
        count = number % 4
        row |= {"experts": list(range(count)), "scores": [1.0, 1.0 if number == 3 else 0.5, 0.25][:count]}
    found = look(open_trace(raw.write(tmp_path / "t")))
    assert found.ties["candidates"] == 1 / 8


def test_one_expert_and_one_pick(tmp_path: Path) -> None:
    raw = healthy()
    raw.meta |= {"model": {"name": "m", "layers": 3, "experts": 1, "top_k": 1}, "expert_bytes": 9}
    for row in raw.tables["selections"]:
        row["experts"] = [0]
    raw.tables = {name: raw.tables[name] for name in ("windows", "selections")}
    raw.types["selections"] = {
        c: t for c, t in raw.types["selections"].items() if c not in ("weights", "outcome")
    }
    found = look(open_trace(raw.write(tmp_path / "t")))
    assert found.warnings == [] and found.sorted is None


def test_description(tmp_path: Path) -> None:
    raw = healthy()
    found = describe(open_trace(raw.write(tmp_path / "trace")))
    assert found["windows"] == {
        "count": 4,
        "decode": 3,
        "decode_rows": 4,
        "prefill": 1,
        "prefill_rows": 3,
        "widest_rows": 3,
        "phase_not_recorded": 1,
        "sessions": 2,
        "domains": ["text"],
    }
    assert found["sizes"]["bytes"] == 3 * sum(range(1000, 1008)) and found["sizes"]["classes"] == {0: 24}
    assert (
        found["tables"]["candidates"]["windows"] == 3 and found["tables"]["candidates"]["scores"] == "dense"
    )
    text = " ".join(found["warnings"])
    assert "resident bonus (0.85)" in text and "1 windows without a phase" in text


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    raw = healthy()
    raw.meta |= {"router": None, "policy": None}
    text = " ".join(describe(open_trace(raw.write(tmp_path / "trace")))["warnings"])
    assert "bonus is not known" in text and "policy is not known" in text


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command(tmp_path: Path, cli: Callable[..., tuple[int, str, str]], as_json: bool) -> None:
    raw = healthy()
    del raw.tables["candidates"]
    folder = raw.write(tmp_path / "a trace")
    code, out, err = cli("info", folder, *["--json"] * as_json)
    assert code == 0 and not err
    if as_json:
        found = json.loads(out)
        assert found["policies"]["lru"] is None and "candidates" in found["policies"]["unpert1"]
        assert found["model"]["layers"] == 3 and found["look"]["windows"] == 4
    else:
        assert "3 layers of 8 experts, top 2" in out and "needs the table candidates" in out
        assert f"next: replay compare '{folder}'" in out


def test_the_command_refuses_what_the_reader_refuses(
    tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    raw = healthy()
    raw.tables["selections"][4]["experts"] = [5, 5]
    code, out, err = cli("info", raw.write(tmp_path / "trace"))
    assert code == 2 and not out and len(err.splitlines()) == 1 and "each expert once" in err


def test_a_table_that_covers_what_is_not_there(tmp_path: Path) -> None:
    raw = healthy()
    raw.tables["timing"][-1]["window"] = 9
    with pytest.raises(InputError, match="replay validate"):
        describe(open_trace(raw.write(tmp_path / "trace")))


def test_recorded_traces_look_real(shared: Path) -> None:
    for folder in sorted((shared / "traces" / "recorded").iterdir()):
        if folder.is_dir():
            assert {kind.split("-")[0] for kind in kinds(open_trace(folder))} <= {"ties"}
