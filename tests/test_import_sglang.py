"""The importer of SGLang's expert distribution recorder. Only the last tests need torch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request, sglang

RNG = np.random.default_rng(4)


def record(number: int, tokens: int, mode: int, **values: Any) -> dict[str, Any]:
    """One forward pass: layer 0 is dense (-1), two layers route two of four; padded to 8 picks."""
    ids = np.full((3, tokens, 8), -1, np.int32)
    for layer in (1, 2):
        for token in range(tokens):
            ids[layer, token, :2] = RNG.permutation(4)[:2]
    return {"forward_pass_id": number, "rank": 0, "gatherer_key": "primary", "forward_mode": mode, "input_ids": [],
            "positions": [], "extend_seq_lens": None, "topk_ids_of_layer": ids} | values  # fmt: skip


RECORDS = [record(1, 3, 1), record(2, 2, 2), record(3, 1, 2), record(4, 0, 4)]


def identity(experts: int = 4) -> np.ndarray:
    return np.tile(np.arange(experts), (3, 1))


@pytest.fixture
def dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that imports a dump without torch."""

    def run(records: Any = RECORDS, request: Request | None = None, map: Any = None, **values: Any) -> Any:
        dump = {
            "records": records,
            "last_physical_to_logical_map": identity() if map is None else map,
        } | values
        monkeypatch.setattr(sglang, "load_dump", lambda _: dump)
        (tmp_path / "d.pt").write_bytes(b"PK")
        return convert("sglang", tmp_path / "d.pt", request or Request(force=True))

    return run


def expected(records: Any = RECORDS) -> list[list[int]]:
    return [
        each["topk_ids_of_layer"][layer, token, :2].tolist()
        for each in records
        for token in range(each["topk_ids_of_layer"].shape[1])
        for layer in (1, 2)
    ]


def test_a_forward_pass_is_a_window(dumped: Any) -> None:
    result, trace = dumped()
    assert list(lists(trace).values()) == expected()
    assert trace.windows.rows.tolist() == [3, 2, 1] and phases(trace) == ["prefill", "decode", "decode"]
    assert (trace.meta.layers, trace.meta.layer_ids, trace.meta.experts, trace.meta.top_k) == (
        2,
        (1, 2),
        4,
        2,
    )
    assert result.removed == {"of a layer that never routes": 6} and result.read == 18
    assert any("no request ids" in note for note in result.notes)
    assert any("keeps 8 picks of a row: a model with more lost the rest" in note for note in result.notes)
    assert any(
        "84 of 108 (77.8%)" in note or "picks are no expert (-1): left out" in note for note in result.notes
    )


def test_physical_experts_become_logical(dumped: Any) -> None:
    """Six physical experts, two of them copies."""
    table = np.tile([2, 0, 1, 3, 2, 0], (3, 1))
    physical = [{**each, "topk_ids_of_layer": each["topk_ids_of_layer"].copy()} for each in RECORDS]
    for each in physical:
        each["topk_ids_of_layer"][each["topk_ids_of_layer"] == 0] = 4
    result, trace = dumped(physical, map=table)
    found = [[table[0][4 if i == 0 else i] for i in ids] for ids in expected()]
    assert list(lists(trace).values()) == found and trace.meta.experts == 4
    assert any("translated by the last map" in note for note in result.notes)


def test_experts_that_were_moved_are_refused(dumped: Any) -> None:
    ids = np.full((3, 1, 8), -1)
    ids[1:, 0, :2] = [[0, 4], [1, 2]]
    with pytest.raises(
        InputError, match="record 1: two physical experts of one row are the same expert by the last"
    ):
        dumped([record(1, 1, 2, topk_ids_of_layer=ids)], map=np.tile([2, 0, 1, 3, 2, 0], (3, 1)))


def test_other_gatherers_and_ranks_are_left_out(dumped: Any) -> None:
    others = [record(2, 1, 2, gatherer_key="draft"), record(2, 2, 2, rank=1)]
    result, trace = dumped([*RECORDS, *others])
    assert list(lists(trace).values()) == expected()
    assert result.removed["of another gatherer or rank"] == 9


def test_modes_without_a_phase(dumped: Any) -> None:
    result, trace = dumped([record(1, 2, 3), record(2, 1, 2), record(3, 3, 5)])
    assert phases(trace) == ["unknown", "decode", "decode"]
    assert "forward modes that are neither extend nor decode have no phase: 3 (1)" in result.notes


def test_padding_and_zero_filled_rows(dumped: Any) -> None:
    padded = record(1, 4, 2)
    padded["topk_ids_of_layer"][:, 2] = -1
    padded["topk_ids_of_layer"][:, 3] = 0
    result, trace = dumped([padded, *RECORDS])
    assert trace.windows.rows.tolist() == [2, 3, 2, 1]
    assert result.removed["of a row without a pick in any layer (-1 or zero-filled)"] == 4


@pytest.mark.parametrize(
    ("values", "request_", "expected"),
    [
        ({"logical_count": np.zeros((2, 3, 4))}, None, "mode stat holds counts of picks: counts say how often"),
        ({"records": [{"global_physical_count": 1}]}, None, "mode per_pass holds counts of picks a pass (record with"),
        ({"records": 3}, None, "expected a dict with a list of records"),
        ({"records": []}, None, "no routed list in it"),
        ({"last_physical_to_logical_map": np.zeros(3, int)}, None, "expected last_physical_to_logical_map as whole"),
        ({"last_physical_to_logical_map": np.array([[1, 0]] * 3)}, None, "expected physical experts from 0 to 1"),
        ({"last_physical_to_logical_map": np.array([[1, 0, 2, 3]] * 2)}, None, "expected 2 layers as the map"),
        ({"records": [record(1, 1, 2, topk_ids_of_layer=np.zeros((3, 2)))]}, None, "expected topk_ids_of_layer"),
        ({}, Request(top_k=10), "the recorder keeps 8 picks of a row; of 10 the rest is lost"),
    ],
)  # fmt: skip
def test_refusals(dumped: Any, values: dict[str, Any], request_: Request | None, expected: str) -> None:
    with pytest.raises(InputError) as problem:
        dumped(request=request_, **values)
    assert expected in str(problem.value) and "\n" not in str(problem.value)


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "d.pt").write_bytes(b"PK")
    with pytest.raises(InputError, match="a .pt file needs torch to be read; pip install torch"):
        convert("sglang", tmp_path / "d.pt")


def test_a_real_dump(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    records = [{**each, "topk_ids_of_layer": torch.from_numpy(each["topk_ids_of_layer"])} for each in RECORDS]
    torch.save(
        {"records": records, "last_physical_to_logical_map": torch.from_numpy(identity())}, tmp_path / "d.pt"
    )
    assert list(lists(convert("sglang", tmp_path / "d.pt")[1]).values()) == expected()


def test_nothing_that_runs_is_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"records": [Path("x")]}, tmp_path / "d.pt")
    with pytest.raises(InputError, match="not a file of plain data and tensors"):
        convert("sglang", tmp_path / "d.pt")
    (tmp_path / "d.pt").write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a file of plain data and tensors"):
        convert("sglang", tmp_path / "d.pt")
