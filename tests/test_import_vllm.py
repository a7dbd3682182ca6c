"""The importer of vLLM: three generations of returned routed experts, and logs of the VLLM_LOG_MOE patches."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request, array_file

RNG = np.random.default_rng(3)
IDS = np.stack([[RNG.permutation(8)[:3] for _ in range(4)] for _ in range(6)])  # 6 rows, 4 layers, 3 picks
IDS[0, 0] = [7, 2, 1]  # the largest id is there


def dense(ids: np.ndarray, *where: int) -> np.ndarray:
    """Rows with zero-filled layers put in."""
    for layer in where:
        ids = np.insert(ids, layer, 0, axis=1)
    return ids


def table(ids: np.ndarray, prompt: int) -> dict[tuple[int, int, int], list[int]]:
    """What a trace of rows holds: the prompt one window, then one a row."""
    found = {}
    for row, layer in np.ndindex(ids.shape[:2]):
        window, at = (0, row) if row < prompt else (row - max(prompt - 1, 0), 0)
        found[window, at, layer] = ids[row, layer].tolist()
    return found


# --- returned arrays ---------------------------------------------------------------------------------


def test_first_generation(tmp_path: Path) -> None:
    """All hidden layers, zero-filled where dense; the prompt from the token ids; the last token has no row."""
    path = tmp_path / "r.npz"
    np.savez(path, request_id="a", prompt_token_ids=np.arange(4), output_token_ids=np.arange(3),
             routed_experts=dense(IDS, 0).astype(np.int32))  # fmt: skip
    result, trace = convert("vllm", path)
    assert lists(trace) == table(IDS, 4) and phases(trace) == ["prefill", "decode", "decode"]
    assert (trace.meta.layers, trace.meta.layer_ids, trace.meta.experts) == (4, (1, 2, 3, 4), 8)
    assert result.removed == {"of a layer that never routes": 6} and result.read == 30
    assert "layers 0 never route (zero-filled or -1 in every row): taken for dense, left out" in result.notes
    assert "6 of 30 (20.0%) lists are zero-filled (every pick 0): taken for not written" in result.notes
    assert not any("dense ones" in note for note in result.notes)


def test_second_generation(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez_compressed(
        path, prompt_routed_experts=IDS[:4].astype(np.int16), routed_experts=IDS[4:].astype(np.int16)
    )
    result, trace = convert("vllm", path)
    assert lists(trace) == table(IDS, 4) and phases(trace) == ["prefill", "decode", "decode"]
    assert trace.meta.layer_ids is None and result.removed == {}
    assert (
        "layers are counted without the dense ones; their numbers in the model are not known" in result.notes
    )
    np.savez(path, prompt_routed_experts=IDS[:4])
    assert lists(convert("vllm", path, Request(force=True))[1]) == table(IDS[:4], 4)


@pytest.mark.parametrize("blocked", [False, True])
def test_third_generation(tmp_path: Path, blocked: bool) -> None:
    """Kept by KV slot, or by block: put back in the order of the tokens."""
    path = tmp_path / "r.npz"
    order = np.array([4, 1, 2, 0, 5, 3])
    if blocked:
        blocks = np.empty((3, 2, 4, 3), np.int32)
        blocks[[2, 0, 1]] = IDS.reshape(3, 2, 4, 3)
        np.savez(path, routed_experts=blocks, block_table=np.array([2, 0, 1]), prompt_token_ids=np.arange(4))
    else:
        slots = np.zeros((9, 4, 3), np.int32)
        slots[order] = IDS
        np.savez(path, routed_experts=slots, slot_mapping=order, prompt_token_ids=np.arange(4))
    result, trace = convert("vllm", path)
    assert lists(trace) == table(IDS, 4)
    assert any("kept by KV slot" in note for note in result.notes)


def test_a_plain_array_has_no_phases(tmp_path: Path) -> None:
    """Unless one says how long the prompt is; -1 is no data, however it is written."""
    path = tmp_path / "r.npy"
    ids = dense(IDS, 2).astype(np.int32)
    ids[:, 2] = -1
    ids[5] = -1
    np.save(path, ids)
    result, trace = convert("vllm", path)
    assert lists(trace) == table(IDS[:5], 0) and set(phases(trace)) == {"unknown"}
    assert trace.meta.layer_ids == (0, 1, 3, 4)
    assert result.removed == {"of a layer that never routes": 6,
                              "of a row without a pick in any layer (-1 or zero-filled)": 4}  # fmt: skip
    np.save(path, ids.astype(np.uint32))
    assert lists(convert("vllm", path, Request(force=True))[1]) == table(IDS[:5], 0)
    result, trace = convert("vllm", path, Request(force=True, prompt=3))
    assert lists(trace) == table(IDS[:5], 3) and phases(trace) == ["prefill", "decode", "decode"]


def test_a_cached_prefix_is_missing_from_the_front(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez(path, routed_experts=IDS, prompt_token_ids=np.arange(10), completion_token_ids=np.arange(4))
    result, trace = convert("vllm", path)
    assert trace.windows.rows.tolist() == [3, 1, 1, 1]
    assert any(
        note.startswith("1 requests have 7 rows fewer than tokens: a cached prefix") for note in result.notes
    )
    zeros = IDS.copy()
    zeros[:2] = 0
    np.savez(path, prompt_routed_experts=zeros[:4], routed_experts=zeros[4:])
    result, trace = convert("vllm", path, Request(force=True))
    assert trace.windows.rows.tolist() == [2, 1, 1]
    assert result.removed == {"of a row without a pick in any layer (-1 or zero-filled)": 8}


def test_rows_beyond_the_last_forward_pass(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez(path, routed_experts=IDS, prompt_token_ids=np.arange(4), output_token_ids=np.arange(2))
    result, trace = convert("vllm", path)
    assert lists(trace) == table(IDS[:5], 4)
    assert result.removed == {"of a last token, which has no forward pass": 4}


def test_a_batch_and_a_folder_are_sessions(tmp_path: Path) -> None:
    batch = np.stack([IDS, IDS[::-1]])
    batch[1, 4:] = -1
    np.save(tmp_path / "b.npy", batch)
    result, trace = convert("vllm", tmp_path / "b.npy")
    assert trace.windows.session.tolist() == [0] * 6 + [1] * 4
    folder = tmp_path / "many"
    folder.mkdir()
    for name in ("2", "10", "1"):
        np.savez(folder / f"{name}.npz", prompt_routed_experts=IDS[:4], routed_experts=IDS[4:])
    result, trace = convert("vllm", folder, destination=tmp_path / "t")
    assert trace.windows.session.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert "3 files, each a session, in the order of their names" in result.notes
    bad = IDS.copy()
    bad[2, 1] = [1, 5, 1]
    np.save(folder / "3.npy", bad)
    with pytest.raises(InputError, match=r"many/3.npy: row 3: expert 1 is picked twice"):
        convert("vllm", folder, destination=tmp_path / "u")


def test_bytes_may_be_255_or_none(tmp_path: Path) -> None:
    path = tmp_path / "r.npy"
    ids = IDS.astype(np.uint8)
    ids[5, :, 1] = 255
    np.save(path, ids)
    with pytest.raises(InputError, match=r"255 in uint8 may be expert 255 or none \(-1\); give --experts"):
        convert("vllm", path)
    found = lists(convert("vllm", path, Request(experts=8))[1])
    assert found[5, 0, 0] == [int(IDS[5, 0, 0]), int(IDS[5, 0, 2])]
    found = lists(convert("vllm", path, Request(experts=256, force=True))[1])
    assert found[5, 0, 0][1] == 255


def test_fortran_order_and_foreign_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "_BLOCK", 50)
    np.savez(tmp_path / "r.npz", np.asfortranarray(IDS), allow_pickle=False)
    with zipfile.ZipFile(tmp_path / "r.npz") as archive:
        (tmp_path / "f.npy").write_bytes(archive.read("arr_0.npy"))
    np.save(tmp_path / "b.npy", IDS.astype(">i8"))
    for name in ("f.npy", "b.npy"):
        assert lists(convert("vllm", tmp_path / name, Request(force=True))[1]) == table(IDS, 0)


def counts() -> np.ndarray:
    found = np.zeros((5, 4, 16), np.int64)
    found[..., :3] = 2
    return found


def saved(path: Path, what: Any) -> Path:
    with path.open("wb") as file:
        np.save(file, what, allow_pickle=True)
    return path


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (
            counts(),
            "20 of 20 lists repeat a number: counts an expert, not ids: counts say how often, not when",
        ),
        (
            counts().astype(float),
            "are counts, not ids: counts say how often, not when, so nothing can be replayed",
        ),
        (np.zeros((5, 4, 3), np.int32), "every list is zero-filled or -1: the engine wrote no routing"),
        (np.full((5, 4, 3), -1), "every list is zero-filled or -1"),
        (IDS[0], "expected whole numbers of shape [rows, layers, k], found int64 of shape [4, 3]"),
        (IDS.astype(bool), "found bool of shape [6, 4, 3]"),
        (
            np.array([IDS.tolist(), None], object),
            "such as Python objects; only plain numbers and text are read",
        ),
        (np.zeros((2, 1, 2**17), np.int8), "expected 1 to 65536 layers and picks"),
        (IDS - 3, "row 1: expected expert ids from 0 to 65535, or -1 for none"),
    ],
)
def test_arrays_refused(tmp_path: Path, what: Any, expected: str) -> None:
    with pytest.raises(InputError) as problem:
        convert("vllm", saved(tmp_path / "r.npy", what))
    assert expected in str(problem.value) and "\n" not in str(problem.value)
    assert [each.name for each in tmp_path.iterdir()] == ["r.npy"]


def test_files_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "r.npy", IDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match="the file is cut short"):
        convert("vllm", path)
    path.write_bytes(whole.replace(b"(6, 4, 3)", b"(6, 4, 9)"))
    with pytest.raises(InputError, match="the file is cut short"):
        convert("vllm", path)
    path.write_bytes(whole.replace(b"'<i8'", b"'|O' "))
    with pytest.raises(InputError, match="only plain numbers"):
        convert("vllm", path)
    path.write_bytes(whole.replace(b"(6, 4, 3), }" + b" " * 20, b"(99999999999, 99999, 999), }" + b" " * 4))
    with pytest.raises(InputError, match="65536 layers and picks|bytes a row|cut short"):
        convert("vllm", path)
    for head in (b"\x93NUMPY", whole[:40], whole.replace(b"(6, 4, 3)", b"(6, 4, (")):
        path.write_bytes(head)
        with pytest.raises(InputError, match="expected an npy header"):
            convert("vllm", path)
    path.write_bytes(b"PK\3\4 no archive")
    with pytest.raises(InputError, match="damaged"):
        convert("vllm", path)
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match="expected an npy or npz file"):
        convert("vllm", path)
    with pytest.raises(InputError, match="expected 1 to 1048576 npy or npz files, found 0"):
        (tmp_path / "empty").mkdir()
        convert("vllm", tmp_path / "empty")
    with pytest.raises(InputError, match="expected a file, found nothing"):
        convert("vllm", tmp_path / "none")


def test_a_damaged_member(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez_compressed(path, routed_experts=np.tile(IDS, (50, 1, 1)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged|cut short|expected"):
        convert("vllm", path)
    np.savez(path, other=IDS)
    with pytest.raises(InputError, match="expected an array routed_experts, found other"):
        convert("vllm", path)
    np.savez(path, routed_experts=IDS, slot_mapping=np.array([0, 6]))
    with pytest.raises(InputError, match="expected slots from 0 to 5, found 6"):
        convert("vllm", path)
    np.savez(path, routed_experts=IDS[:, :2], prompt_routed_experts=IDS)
    with pytest.raises(InputError, match="that agree, found"):
        convert("vllm", path)


# --- logs ------------------------------------------------------------------------------------------

META = {"type": "meta", "model_id": "olmoe", "top_k": 2, "num_experts": 8, "layers_logged": [0], "seed": 1}


def route(token: int, ids: list[int], layer: int = 0, request: str = "r0", weights: Any = (0.5, 0.25)) -> Any:
    return {"type": "route", "req_id": request, "token_idx": token, "layer": layer, "topk_ids": ids,
            "topk_weights": None if weights is None else list(weights)}  # fmt: skip


def write(path: Path, values: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in values))
    return path


PICKS = [[3, 1], [1, 2], [0, 7], [2, 3], [5, 4]]


def test_a_counter_has_a_window_a_token(tmp_path: Path) -> None:
    values = [META, *(route(i, ids) for i, ids in enumerate(PICKS))]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert list(lists(trace).values()) == PICKS and trace.windows.rows.tolist() == [1] * 5
    assert (trace.meta.name, trace.meta.experts, trace.meta.top_k) == ("olmoe", 8, 2)
    assert trace.meta.engine["config"] == {"seed": "1"}
    for text in ("forward passes are not told apart", "one layer only (0)", "req_id is always the same"):
        assert any(text in note for note in result.notes)
    assert any("sum to 0.75 to 0.75: not renormalised" in note for note in result.notes)


def test_rows_of_forward_passes(tmp_path: Path) -> None:
    """token_idx restarts with each pass, so keys repeat; a pass is a window."""
    passes = [(0, 1, 2), (0,), (0,)]
    tokens = [token for each in passes for token in each]
    values = [META, *(route(token, ids) for token, ids in zip(tokens, PICKS, strict=True))]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert trace.windows.rows.tolist() == [3, 1, 1] and list(lists(trace).values()) == PICKS
    assert "token_idx restarts 2 times, with each forward pass: a pass is a window" in result.notes
    assert any("repeats up to 3 times" in note for note in result.notes)


def test_positions_of_requests(tmp_path: Path) -> None:
    values = [META, *(route(i, [i, i + 1]) for i in range(4)), *(route(i, [i, i + 2]) for i in range(3))]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert trace.windows.rows.tolist() == [1] * 7
    assert "token_idx restarts 1 times, with a request: a token is a window" in result.notes


@pytest.mark.parametrize("counter", [False, True])
def test_several_layers(tmp_path: Path, counter: bool) -> None:
    """A pass runs layer by layer; a counter over the log does not even tell rows of two layers alike."""
    values, at = [META], 0
    for rows in ([[3, 1], [1, 2]], [[0, 7]], [[2, 3]]):
        for layer in (0, 4):
            values += [route(at + i if counter else i, ids, layer) for i, ids in enumerate(rows)]
            at += len(rows)
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert trace.windows.rows.tolist() == [2, 1, 1] and trace.meta.layer_ids == (0, 4)
    assert lists(trace)[0, 1, 1] == [1, 2]


def test_profiling_rows_are_removed_and_counted(tmp_path: Path) -> None:
    """Long runs of one list with uniform weights, or a power of two of them, and every list equal to one of these."""
    even = [route(i, [0, 1], weights=(0.5, 0.5)) for i in range(19)]
    odd = [route(i, [6, 1], weights=(0.4, 0.3)) for i in range(32)]
    again = [route(0, [6, 1], weights=(0.4, 0.3))]
    kept = [route(i, [7, 1], weights=(0.4, 0.3)) for i in range(18)]  # long, but neither
    short = [route(i, [7, 2], weights=(0.5, 0.5)) for i in range(15)]
    traffic = [route(0, ids) for ids in PICKS]
    values = [META, *even, *odd, *again, *kept, *short, *traffic]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert result.removed == {"of start-up profiling (the same list over and over), no traffic": 52}
    assert result.removed_text().startswith("52 of 90 (57.8%) of start-up profiling")
    assert list(lists(trace).values()) == [*[[7, 1]] * 18, *[[7, 2]] * 15, *PICKS]
    assert trace.meta.source["lists_removed"] == result.removed


def test_profiling_of_several_layers(tmp_path: Path) -> None:
    values = [META]
    for layer in (0, 1):
        values += [route(i, [0, 1], layer, weights=(0.5, 0.5)) for i in range(64)]
    for ids in PICKS:
        values += [route(0, ids, layer) for layer in (0, 1)]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", values))
    assert sum(result.removed.values()) == 128 and len(trace.windows) == 5


def test_requests_and_appended_runs(tmp_path: Path) -> None:
    """Each request, and each further meta line, begins a session."""
    values = [
        META,
        route(0, [0, 1], request="a"),
        route(1, [1, 2], request="a"),
        route(0, [2, 3], request="b"),
    ]
    result, trace = convert("vllm", write(tmp_path / "m.jsonl", [*values, *values, {"type": "timing"}]))
    assert trace.windows.session.tolist() == [0, 0, 1, 2, 2, 3]
    assert "1 further meta lines: runs were appended; each begins a session" in result.notes
    assert "lines of other types passed over: timing" in result.notes


def test_a_log_cut_at_its_end_without_weights(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", [META, *(route(i, ids, weights=None) for i, ids in enumerate(PICKS))])
    path.write_bytes(path.read_bytes()[:-5])
    result, trace = convert("vllm", path)
    assert result.removed == {"cut short by the file's end": 1} and len(trace.windows) == 4
    assert "weights" not in trace.tables["selections"].columns


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (route(-1, [1, 2]), "line 2: expected a whole number from 0 in token_idx, found '-1'"),
        (route(0, [1, 2]) | {"layer": None}, "line 2: expected a whole number from 0 in layer, found 'None'"),
        (route(0, [1, 2]) | {"topk_ids": 3}, "line 2: expected a list topk_ids, found '3'"),
        (route(0, [1, 2], weights=[1.0]), "line 2: expected 2 topk_weights, found '[1.0]'"),
        (route(0, [1, 2], weights=["a", "b"]), "line 2: expected numbers in topk_weights, found 'a'"),
        (route(0, [1, 1]), "line 2: expert 1 is picked twice"),
        (route(0, [1, 8]), "line 2: expected expert ids from 0 to 7, found 8"),
        (route(0, [1, 2, 3], weights=None), "line 2: expected at most 2 picks, found 3"),
    ],
)
def test_logs_refused(tmp_path: Path, value: Any, expected: str) -> None:
    with pytest.raises(InputError) as problem:
        convert("vllm", write(tmp_path / "m.jsonl", [META, value]))
    assert expected in str(problem.value)
