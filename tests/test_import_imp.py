"""The importer of imp's JSON traces."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request

ROWS = [[0, 3, 1], [2, 0, 2], [0, 1, 3], [2, 2, 3], [0, 0, 1], [2, 1, 3]]


def write(path: Path, rows: Any = ROWS, top_k: Any = 2, **more: Any) -> Path:
    path.write_text(json.dumps({"top_k": top_k, "trace": rows} | more))
    return path


def test_a_token_begins_when_the_layer_falls(tmp_path: Path) -> None:
    result, trace = convert("imp", write(tmp_path / "i.json", model="x"))
    assert list(lists(trace).values()) == [row[1:] for row in ROWS]
    assert (trace.meta.layer_ids, trace.meta.top_k) == ((0, 2), 2)
    assert (trace.windows.rows.tolist(), phases(trace)) == ([1, 1, 1], ["unknown"] * 3)
    assert (result.read, result.removed, trace.has("router_scores")) == (6, {}, False)
    for words in ("prompt and generated tokens are not told apart", "one session", "keys ignored: model"):
        assert any(words in note for note in result.notes)


def test_rows_of_one_step(tmp_path: Path) -> None:
    """A layer that comes again is another row; the last layer has a prompt's last rows only."""
    prompt = [[0, 0, 1], [0, 1, 2], [0, 2, 3], [2, 3, 0]]
    _, trace = convert("imp", write(tmp_path / "i.json", prompt + ROWS))
    assert trace.windows.rows.tolist() == [3, 1, 1, 1]
    assert (lists(trace)[0, 0, 1], lists(trace)[0, 2, 1]) == ([], [3, 0])


def test_prompt_is_what_one_says(tmp_path: Path) -> None:
    _, trace = convert("imp", write(tmp_path / "i.json"), Request(prompt=2))
    assert phases(trace) == ["prefill", "unknown"] and trace.windows.rows.tolist() == [2, 1]


def test_dropped_ranks_and_minus_one(tmp_path: Path) -> None:
    rows = [ROWS[0], [2, 1], *ROWS[2:4], [0, 2, -1], [2, 3, 2**64 - 1]]
    result, trace = convert("imp", write(tmp_path / "i.json", rows))
    assert list(lists(trace).values()) == [[3, 1], [1], [1, 3], [2, 3], [2], [3]]
    assert "3 lists have fewer than 2 picks" in result.notes


def test_sorted_ids_are_noted(tmp_path: Path) -> None:
    rows = [[layer, *sorted(ids)] for layer, *ids in ROWS * 20]
    result, _ = convert("imp", write(tmp_path / "i.json", rows))
    assert any("ascend" in note or "rank" in note for note in result.notes), result.notes


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    rows = [[layer, *rng.permutation(6)[:2].tolist()] for _ in range(40) for layer in (0, 1, 5)]
    path = write(tmp_path / "i.json", rows)
    whole = lists(convert("imp", path)[1])
    monkeypatch.setattr("replay.importers.imp._LISTS", 7)
    assert lists(convert("imp", path, Request(force=True))[1]) == whole
    assert list(whole.values()) == [row[1:] for row in rows]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "expected one whole JSON object with top_k and trace"),
        (b'{"top_k": 2, "trace": [[0, 1', "or cut short?"),
        (b"[[0, 1, 2]]", "expected a JSON object with top_k and trace"),
        (b'{"top_k": 2}', "expected a JSON object with top_k and trace"),
        (b'{"top_k": 2, "trace": []}', "no routed list in it"),
        (b'{"top_k": true, "trace": [[0, 1]]}', "expected top_k as a whole number from 1, found True"),
        (b'{"trace": [[0, 1]]}', "expected top_k as a whole number from 1, found None"),
        (b'{"top_k": 1, "trace": [[0, 1], [1, 0, 2]]}', "row 2: expected a layer and at most 1 experts"),
        (b'{"top_k": 1, "trace": [[0, 1], []]}', "row 2: expected a layer and at most 1 experts (top_k), found 0"),
        (b'{"top_k": 1, "trace": [[0, 1], 7]}', "expected trace as a list of lists"),
        (b'{"top_k": 1, "trace": [[0, 1], [1, 0.5]]}', "expected whole numbers in trace, found '0.5'"),
        (b'{"top_k": 1, "trace": [[-1, 1]]}', "row 1: expected a layer first, found -1"),
        (b'{"top_k": 2, "trace": [[0, 1, 1]]}', "row 1: expert 1 is picked twice"),
        (b'{"top_k": 1, "trace": [[0, -9]]}', "row 1: expected expert ids from 0 to 65535, or"),
        (b"-1 2 4\n0 1 7\n", "a usage history holds counts of picks"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "i.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as problem:
        convert("imp", path)
    assert expected in str(problem.value) and len(str(problem.value).splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["i.json"]


def test_a_file_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.importers.imp._BYTES", 20)
    with pytest.raises(InputError, match="expected at most 20"):
        convert("imp", write(tmp_path / "i.json"))
