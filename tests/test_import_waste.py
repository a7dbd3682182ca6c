"""The importer of waste's logs, and what it shares with every importer of routed lists."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome
from imported import convert, lists

from replay.errors import InputError
from replay.importers import Request
from replay.trace import open_trace
from replay.trace.look import look

Cli = Callable[..., Outcome]

TOKENS: tuple[dict[str, Any], ...] = (
    {"tok": 1, "layers": [[3, 1], [0, 2]]},
    {"tok": 2, "layers": [[1, 3], [2, 3]]},
    {"tok": 3, "layers": [[0, 1], [1, 3]]},
)


def write(path: Path, tokens: Any = TOKENS) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in tokens))
    return path


def test_each_line_is_a_window(tmp_path: Path) -> None:
    request = Request(model="m", experts=8, top_k=2, expert_bytes=10, licence="Apache-2.0", note="by hand")
    result, trace = convert("waste", write(tmp_path / "w.jsonl"), request)
    assert lists(trace) == {
        (0, 0, 0): [3, 1], (0, 0, 1): [0, 2], (1, 0, 0): [1, 3], (1, 0, 1): [2, 3], (2, 0, 0): [0, 1],
        (2, 0, 1): [1, 3],
    }  # fmt: skip
    meta = trace.meta
    assert (meta.name, meta.layers, meta.experts, meta.top_k, meta.expert_bytes) == ("m", 2, 8, 2, 10)
    assert trace.windows.session.tolist() == [0, 0, 0] and not trace.windows.prefill.any()
    assert (result.windows, result.rows, result.lookups, result.read, result.removed) == (3, 3, 12, 6, {})
    assert result.unit == "lists" and result.removed_text() == "none"
    assert meta.source["licence"] == "Apache-2.0" and meta.source["notes"].startswith("by hand; ")
    assert (meta.source["importer"], meta.source["lists_read"]) == ("replay import waste", 6)
    assert result.notes == (
        "layers are counted without the dense ones; their numbers in the model are not known",
    )


def test_what_is_not_said_is_said_to_be_so(tmp_path: Path) -> None:
    result, trace = convert("waste", write(tmp_path / "w.jsonl"))
    assert (trace.meta.name, trace.meta.experts, trace.meta.top_k, trace.meta.expert_bytes) == ("w", 4, 2, 1)
    assert (
        "the number of experts is not stated: 4, the largest id and one; give --experts if there are more"
        in result.notes
    )
    assert "top-k is not stated: 2, the longest list" in result.notes
    assert any("size of an expert is not known: 1 byte stands for it" in note for note in result.notes)


def test_sorted_ids_are_noted(tmp_path: Path) -> None:
    ordered = [{"tok": each["tok"], "layers": [sorted(ids) for ids in each["layers"]]} for each in TOKENS]
    note = "the ids of every list ascend: they were sorted, and the rank is lost"
    assert note in convert("waste", write(tmp_path / "w.jsonl", ordered))[0].notes
    assert note not in convert("waste", write(tmp_path / "w.jsonl"), Request(force=True))[0].notes


def test_token_numbers(tmp_path: Path) -> None:
    """A later start, a gap and a restart are accepted and noted."""
    tokens = [dict(TOKENS[0], tok=7), dict(TOKENS[1], tok=9), dict(TOKENS[2], tok=0)]
    result, trace = convert("waste", write(tmp_path / "w.jsonl", tokens))
    assert trace.windows.session.tolist() == [0, 0, 1]
    assert "the source begins at position 7: what came before is not in it" in result.notes
    assert "1 token numbers are left out: those tokens are not in the file" in result.notes
    assert "token numbers restart 1 times: each begins a session" in result.notes


@pytest.mark.parametrize("null", [-1, 65535, 2**32 - 1, 2**64 - 1])
def test_minus_one_is_null_however_it_is_written(tmp_path: Path, null: int) -> None:
    tokens = [*TOKENS[:2], {"tok": 3, "layers": [[0, null], [1, 3]]}]
    result, trace = convert("waste", write(tmp_path / "w.jsonl", tokens))
    assert lists(trace)[2, 0, 0] == [0] and trace.meta.experts == 4
    written = -1 if null == 2**64 - 1 else null
    assert f"1 of 12 (8.3%) picks are no expert ({written}): left out" in result.notes
    assert "1 lists have fewer than 2 picks" in result.notes


def test_layers_without_lists(tmp_path: Path) -> None:
    """A layer that never routes is dense; one that once does not has an empty list there; a row without is removed."""
    tokens = [
        {"tok": 0, "layers": [None, [3, 1], [0, 2]]},
        {"tok": 1, "layers": [[], [], [2, 3]]},
        {"tok": 2, "layers": [[-1, -1], [], None]},
    ]
    result, trace = convert("waste", write(tmp_path / "w.jsonl", tokens))
    assert lists(trace) == {(0, 0, 0): [3, 1], (0, 0, 1): [0, 2], (1, 0, 0): [], (1, 0, 1): [2, 3]}
    assert trace.meta.layer_ids == (1, 2)
    assert result.removed == {
        "of a layer that never routes": 3,
        "of a row without a pick in any layer (-1 or zero-filled)": 2,
    }
    assert result.removed_text().startswith(
        "3 of 9 (33.3%) of a layer that never routes; 2 of 9 (22.2%) of a row"
    )
    assert trace.meta.source["lists_removed"] == result.removed
    assert "layers 0 never route (empty or -1 in every row): taken for dense, left out" in result.notes


def test_a_file_cut_in_its_last_line(tmp_path: Path) -> None:
    path = write(tmp_path / "w.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    result, trace = convert("waste", path)
    assert result.windows == 2 and result.removed == {"cut short by the file's end": 1}


def test_blanks_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "w ü[1]*.jsonl")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert len(lists(convert("waste", path)[1])) == 6


REFUSALS = (
    ("no JSON", "x\n", "line 1: expected a JSON object, found 'x'"),
    ("no object", "[1]\n", "line 1: expected a JSON object"),
    ("deep", "[" * 100_000 + "\n", "line 1: expected a JSON object"),
    ("no key", '{"token": 1, "layers": []}\n', "line 1: expected a key 'tok', found token, layers"),
    ("a token below 0", '{"tok": -1, "layers": [[1]]}\n', "expected a token number from 0, found '-1'"),
    ("no lists", '{"tok": 1, "layers": [1]}\n', "expected layers as a list of lists, found '1' in it"),
    ("a text", '{"tok": 1, "layers": [["a"]]}\n', "expected whole numbers in layers, found 'a'"),
    ("a fraction", '{"tok": 1, "layers": [[1.5]]}\n', "expected whole numbers in layers, found '1.5'"),
    ("a huge number", '{"tok": 1, "layers": [[1e400, 18446744073709551616]]}\n', "line 1: expected"),
    ("below -1", '{"tok": 1, "layers": [[1, -2]]}\n', "from 0 to 65535, or -1 for none, found -2"),
    ("too large", '{"tok": 1, "layers": [[1, 65536]]}\n', "or -1 for none, found 65536"),
    ("twice", '{"tok": 1, "layers": [[1, 2, 1]]}\n', "line 1: expert 1 is picked twice in one list"),
    ("other layers", '{"tok": 1, "layers": [[1], [2]]}\n{"tok": 2, "layers": [[1]]}\n', "line 2: expected lists of 2"),
    ("nothing", "", "no routed list in it; nothing to import"),
    ("silent", '{"tok": 1, "layers": [[-1], [-1]]}\n', "every list is zero-filled or -1"),
)  # fmt: skip


@pytest.mark.parametrize(("what", "text", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_refusals(tmp_path: Path, what: str, text: str, expected: str) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text(text)
    with pytest.raises(InputError) as problem:
        convert("waste", path)
    assert (
        expected in str(problem.value) and str(path) in str(problem.value) and "\n" not in str(problem.value)
    )
    assert [each.name for each in tmp_path.iterdir()] == ["w.jsonl"]


def test_stated_shapes_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "w.jsonl")
    with pytest.raises(InputError, match="line 1: expected expert ids from 0 to 2, found 3"):
        convert("waste", path, Request(experts=3))
    with pytest.raises(InputError, match="line 1: expected at most 1 picks, found 2"):
        convert("waste", path, Request(top_k=1))
    with pytest.raises(InputError, match="found 4 experts, top-5"):
        convert("waste", path, Request(top_k=5))
    with pytest.raises(InputError, match="give --experts"):
        convert("waste", write(tmp_path / "v", [{"tok": 0, "layers": [[0]] * 1025}]), Request(experts=65536))


def test_command_line(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "w.jsonl")
    done = cli(
        "import", "waste", path, tmp_path / "t", "--experts", 8, "--expert-bytes", "1.5kB", "--model", "m"
    )
    assert (
        done.code == 0 and "3 windows, 3 rows, 12 lookups" in done.out and "lists removed: none" in done.out
    )
    assert "replay: note: top-k is not stated: 2" in done.err
    assert open_trace(tmp_path / "t").meta.expert_bytes == 1500
    assert "exists already" in cli("import", "waste", path, tmp_path / "t").err
    assert cli("import", "waste", path, tmp_path / "t", "--force", "-q").err == ""
    wrong = cli("import", "waste", path, tmp_path / "u", "--bytes", "1MB")
    assert (
        wrong.code == 2
        and "--bytes says nothing to the importer waste; it reads --model, --experts" in wrong.err
    )
    wrong = cli("import", "waste", path, tmp_path / "u", "--map", "token")
    assert wrong.code == 2 and "expected WHAT=COLUMN" in wrong.err
    assert cli("import", "wast", path, tmp_path / "u").err.startswith(
        "replay: error: no importer is called 'wast'; did"
    )


def test_published_figures(shared: Path, tmp_path: Path, cli: Cli) -> None:
    """Next-token reuse, and the hits of a global LRU at three shares of the slots."""
    source = shared / "traces" / "external" / "waste" / "trace_olmoe_299.jsonl"
    if not source.is_file():
        pytest.skip("no ../shared/traces/external/waste")
    result, trace = convert("waste", source, destination=tmp_path / "olmoe")
    assert (result.windows, trace.meta.layers, trace.meta.experts, trace.meta.top_k) == (299, 16, 64, 8)
    seen = look(trace)
    assert seen.reuse is not None and round(100 * seen.reuse, 1) == 43.5
    found = {}
    for share in ("12.5%", "25%", "50%"):
        done = cli("compare", tmp_path / "olmoe", "-p", "none+lru", "--slots", share, "--cell", "sequential",
                   "--no-curves", "--no-clock", "--json", "-q")  # fmt: skip
        row = json.loads(done.out)["summary"][0]
        found[share] = round(100 * row["hits"] / row["lookups"], 1)
    assert found == {"12.5%": 31.9, "25%": 56.5, "50%": 78.4}
