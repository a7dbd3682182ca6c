"""The importer of router logits that transformers returned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request, hf_logits

RNG = np.random.default_rng(5)
LOGITS = RNG.standard_normal((3, 7, 8)).astype(np.float32)  # layers, rows, experts
TOP = Request(top_k=2, expert_bytes=10, force=True)


def write(path: Path, layers: Any = LOGITS, **others: Any) -> Path:
    np.savez(path, **{f"layer_{n}": each for n, each in enumerate(layers)}, **others)
    return path


def best(logits: np.ndarray = LOGITS) -> list[list[int]]:
    """The two largest of each row and layer, ties to the lower id."""
    order = np.argsort(-logits.astype(np.float64), axis=-1, kind="stable")[..., :2]
    return order.transpose(1, 0, 2).reshape(-1, 2).tolist()


def scores(trace: Any) -> np.ndarray:
    found = [chunk.router_scores.scores for chunk in trace.chunks({"router_scores"})]
    return np.concatenate(found).reshape(-1, trace.meta.layers, trace.meta.experts)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_picks_are_the_best_scores(tmp_path: Path, kind: Any) -> None:
    logits = LOGITS.astype(kind)
    result, trace = convert("hf-logits", write(tmp_path / "l.npz", logits), TOP)
    assert list(lists(trace).values()) == best(logits)
    np.testing.assert_array_equal(scores(trace), logits.transpose(1, 0, 2).astype(np.float32))
    assert trace.windows.rows.tolist() == [1] * 7 and set(phases(trace)) == {"unknown"}
    assert (trace.meta.layers, trace.meta.layer_ids, trace.meta.top_k) == (3, None, 2)
    assert trace.meta.router is not None and trace.meta.router.bonus == 0
    assert (result.lookups, result.read, result.removed) == (42, 21, {})
    assert any("places in the returned tuple" in note for note in result.notes)


def test_ties_go_to_the_lower_id_and_are_counted(tmp_path: Path) -> None:
    logits = np.round(LOGITS)
    result, trace = convert("hf-logits", write(tmp_path / "l.npz", logits), TOP)
    assert list(lists(trace).values()) == best(logits)
    cut = np.sort(-logits, axis=-1)
    ties = int((cut[..., 1] == cut[..., 2]).sum())
    assert ties and any(
        note.startswith(f"{ties} of 21 (") and "tie at rank 2" in note for note in result.notes
    )


def test_probabilities_become_logarithms(tmp_path: Path) -> None:
    """Softmaxed 'logits' rank alike; a probability of 0 is a masked expert."""
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=-1, keepdims=True)
    p[0, 0, 3] = 0
    p[0, 0] /= p[0, 0].sum()
    result, trace = convert("hf-logits", write(tmp_path / "l.npz", p), TOP)
    assert list(lists(trace).values()) == best(p)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(scores(trace), np.log(p).transpose(1, 0, 2), rtol=1e-5)
    assert any("the scores are probabilities" in note for note in result.notes)


def test_dense_layers_are_none(tmp_path: Path) -> None:
    path = write(tmp_path / "l.npz", [None, LOGITS[0], LOGITS[1], None], note="a")
    result, trace = convert("hf-logits", path, TOP)
    assert (trace.meta.layers, trace.meta.layer_ids) == (2, (1, 2))
    assert (
        "None for 2 layers: dense ones, left out" in result.notes and "arrays ignored: note" in result.notes
    )


def test_batches_are_sessions_and_prompts_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = np.stack([LOGITS, LOGITS[:, ::-1]], axis=1)  # layers, sequences, rows, experts
    path = write(tmp_path / "l.npz", both)
    request = Request(top_k=2, prompt=3, force=True)
    result, trace = convert("hf-logits", path, request)
    assert trace.windows.session.tolist() == [0] * 5 + [1] * 5
    assert trace.windows.rows.tolist() == [3, 1, 1, 1, 1] * 2 and phases(trace)[:2] == ["prefill", "decode"]
    assert list(lists(trace).values()) == [*best(), *best(LOGITS[:, ::-1])]
    wanted = sum(
        len(set().union(*(lists(trace)[w, r, layer] for r in range(rows))))
        for w, rows in enumerate(trace.windows.rows.tolist())
        for layer in range(3)
    )
    assert result.lookups == wanted
    monkeypatch.setattr(hf_logits, "_SCORES", 30)
    again, other = convert("hf-logits", path, request)
    assert lists(other) == lists(trace) and again.lookups == result.lookups


def test_masked_experts_are_not_picked(tmp_path: Path) -> None:
    logits = LOGITS.copy()
    logits[1, 2, 1:] = -np.inf
    result, trace = convert("hf-logits", write(tmp_path / "l.npz", logits), TOP)
    assert lists(trace)[2, 0, 1] == [0]
    assert "1 lists have fewer than 2 picks: the others are masked" in result.notes


def broken(value: float) -> np.ndarray:
    logits = LOGITS.copy()
    logits[1, 4, 3] = value
    return logits


@pytest.mark.parametrize(
    ("layers", "request_", "expected"),
    [
        (LOGITS, Request(), "logits do not say how many experts a token picks; give --top-k"),
        (
            LOGITS[..., :2],
            TOP,
            "expected more than 2 scores a row, found 2: are these the scores of the",
        ),
        (broken(np.nan), TOP, "layer_1: row 5: expected finite logits, or -inf for a masked expert"),
        (broken(np.inf), TOP, "layer_1: row 5: expected finite logits"),
        (
            1 / (1 + np.exp(-LOGITS)),
            TOP,
            "21 of 21 (100.0%) rows are from 0 to 1 and do not sum to 1: sigmoids",
        ),
        (
            [np.full((7, 8), 0.125), *LOGITS[1:]],
            TOP,
            "7 of 21 (33.3%) rows are probabilities, the others are not",
        ),
        ([LOGITS[0], LOGITS[1, :5]], TOP, "layer_1: layer 1 has another shape than the first"),
        ([LOGITS[0], LOGITS[1].astype(int)], TOP, "found int64 of shape [7, 8]; these are ids, not logits"),
        ([LOGITS[0], LOGITS[1, 0]], TOP, "found float32 of shape [8]"),
        ([None], TOP, "expected arrays layer_<n> [rows, experts], found none"),
        ([np.zeros((0, 8))], TOP, "expected rows of 2 to 65536 experts, found shape [0, 8]"),
        ([np.array([1, None], object)], TOP, "found object of shape [2]"),
    ],
)
def test_refusals(tmp_path: Path, layers: Any, request_: Request, expected: str) -> None:
    path = write(tmp_path / "l.npz", layers)
    with pytest.raises(InputError) as problem:
        convert("hf-logits", path, request_)
    assert expected in str(problem.value) and "\n" not in str(problem.value)
    assert [each.name for each in tmp_path.iterdir()] == ["l.npz"]
