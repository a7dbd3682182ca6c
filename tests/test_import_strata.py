"""The importer of Strata's routing dumps."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request

TOKENS: tuple[Any, ...] = (
    (0, [3, 1], [0.7, 0.2]), (2, [0, 2], [0.5, 0.5]),
    (0, [1, 3], [0.6, 0.3]), (2, [2, 3], [0.9, 0.1]),
    (0, [0, 1], [0.8, 0.1]), (2, [1, 3], [0.4, 0.3]),
)  # fmt: skip


def dump(records: Any = TOKENS) -> bytes:
    return b"".join(
        struct.pack(f"<{2 + len(ids)}i{len(ids)}f", layer, len(ids), *ids, *weights)
        for layer, ids, weights in records
    )


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_token_begins_when_the_layer_falls(tmp_path: Path) -> None:
    result, trace = convert("strata", write(tmp_path / "s.bin", dump()))
    assert list(lists(trace).values()) == [ids for _, ids, _ in TOKENS]
    for found, (_, _, weights) in zip(lists(trace, "weights").values(), TOKENS, strict=True):
        np.testing.assert_array_equal(found, np.array(weights, np.float32))
    assert (trace.meta.layer_ids, trace.windows.rows.tolist(), phases(trace)) == (
        (0, 2),
        [1, 1, 1],
        ["unknown"] * 3,
    )
    assert (result.read, result.removed) == (6, {})
    assert any("prompt and generated tokens are not told apart" in note for note in result.notes)
    assert any("weights of a list sum to 0.7 to 1: not renormalised" in note for note in result.notes)
    assert any("no policy that needs candidates" in note for note in result.notes)


def test_rows_of_one_step(tmp_path: Path) -> None:
    """A layer that comes again before the number falls is another row; the last layer has the last rows."""
    prompt = [(0, [0, 1], [1, 0]), (0, [1, 2], [1, 0]), (0, [2, 3], [1, 0]), (2, [3, 0], [1, 0])]
    result, trace = convert("strata", write(tmp_path / "s.bin", dump([*prompt, *TOKENS])))
    found = lists(trace)
    assert trace.windows.rows.tolist() == [3, 1, 1, 1]
    assert (found[0, 0, 0], found[0, 0, 1], found[0, 2, 0], found[0, 2, 1]) == ([0, 1], [], [2, 3], [3, 0])
    assert "1 windows of several rows have no phase" in result.notes


def test_prompt_is_what_one_says(tmp_path: Path) -> None:
    result, trace = convert("strata", write(tmp_path / "s.bin", dump()), Request(prompt=2))
    assert phases(trace) == ["prefill", "unknown"] and trace.windows.rows.tolist() == [2, 1]


def test_one_layer_has_a_window_a_record(tmp_path: Path) -> None:
    trace = convert("strata", write(tmp_path / "s.bin", dump([each for each in TOKENS if each[0] == 0])))[1]
    assert list(lists(trace).values()) == [[3, 1], [1, 3], [0, 1]]


def test_weights_that_are_no_number(tmp_path: Path) -> None:
    result, trace = convert(
        "strata", write(tmp_path / "s.bin", dump([(0, [0, 1], [float("nan"), 1]), *TOKENS[1:]]))
    )
    assert any(
        note.startswith("1 of 6 (16.7%) lists have a weight that is no number") for note in result.notes
    )


def test_widths_may_differ(tmp_path: Path) -> None:
    """Where an engine drops ranks; -1 is no expert."""
    records = [TOKENS[0], (2, [1], [1.0]), *TOKENS[2:4], (0, [2, -1], [1, 0]), (2, [3], [1.0])]
    result, trace = convert("strata", write(tmp_path / "s.bin", dump(records)))
    assert list(lists(trace).values()) == [[3, 1], [1], [1, 3], [2, 3], [2], [3]]
    assert "3 lists have fewer than 2 picks" in result.notes


@pytest.mark.parametrize("left", [1, 2, 4, 7, 12, 23])
def test_a_file_cut_at_its_end(tmp_path: Path, left: int) -> None:
    result, trace = convert("strata", write(tmp_path / "s.bin", dump()[:-left]))
    assert len(trace.windows) == 2
    assert result.removed == {
        "cut short by the file's end": 1,
        "of a first or last step that is not whole": 1,
    }


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    records = []
    for _ in range(50):
        for layer in (0, 1, 5):
            width = int(rng.integers(1, 4))
            records.append((layer, rng.permutation(6)[:width].tolist(), rng.random(width).tolist()))
    path = write(tmp_path / "s.bin", dump(records))
    whole = lists(convert("strata", path)[1])
    monkeypatch.setattr("replay.importers.routed.log._LISTS", 3)
    monkeypatch.setattr("replay.importers.strata._BLOCK", 52)
    assert lists(convert("strata", path, Request(force=True))[1]) == whole
    assert list(whole.values()) == [ids for _, ids, _ in records]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "no routed list in it"),
        (b"no dump at all", "record 1: expected layer and k, found"),
        (dump() + struct.pack("<2i", 0, 0) + dump(), "record 7: expected layer and k, found 0 and 0"),
        (dump() + struct.pack("<2i", -1, 2) + dump(), "record 7: expected layer and k, found -1 and 2"),
        (dump() + struct.pack("<2i", 0, 2**30), "record 7: expected layer and k, found 0 and 1073741824"),
        (dump([*TOKENS[:2], (0, [1, 1], [1, 0]), *TOKENS[3:]]), "record 3: expert 1 is picked twice"),
        (
            dump([*TOKENS[:2], (0, [1, -9], [1, 0]), *TOKENS[3:]]),
            "record 3: expected expert ids from 0 to 65535, or",
        ),
        (dump([*TOKENS, *TOKENS[1:]]), "record 6: a row of session 0 has no list of layer 0"),
        (b"-1 2 4\n0 1 7\n", "a usage history holds counts of picks"),
    ],
)
def test_refusals(tmp_path: Path, content: bytes, expected: str) -> None:
    with pytest.raises(InputError) as problem:
        convert("strata", write(tmp_path / "s.bin", content))
    assert expected in str(problem.value)
    assert [each.name for each in tmp_path.iterdir()] == ["s.bin"]
