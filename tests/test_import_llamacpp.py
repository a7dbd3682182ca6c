"""The importer of the llama.cpp family: five layouts of one small run, and the traps of each."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request

# a prompt of three tokens whose last layer routes only the last, then two generated tokens; layers 1 and 2 of a model
PROMPT = {1: [[3, 1], [1, 2], [3, 0]], 2: [[2, 0]]}
TOKENS = ({1: [[0, 1]], 2: [[3, 2]]}, {1: [[2, 3]], 2: [[2, 3]]})
STEPS = (PROMPT, *TOKENS)
EXPECTED = {
    (0, 0, 0): [3, 1], (0, 1, 0): [1, 2], (0, 2, 0): [3, 0], (0, 0, 1): [], (0, 1, 1): [], (0, 2, 1): [2, 0],
    (1, 0, 0): [0, 1], (1, 0, 1): [3, 2], (2, 0, 0): [2, 3], (2, 0, 1): [2, 3],
}  # fmt: skip
FIRST = {1: 0, 2: 2}  # position of a layer's first row in the prompt


def wide(steps: Any = STEPS, header: str = "pos,layer,e0,e1", start: int = 0) -> str:
    lines, pos = [header], start
    for step in steps:
        tokens = max(map(len, step.values()))
        for layer, rows in step.items():
            lines += [
                f"{pos + tokens - len(rows) + i},{layer},{','.join(map(str, ids))}"
                for i, ids in enumerate(rows)
            ]
        pos += tokens
    return "\n".join(lines) + "\n"


def picks(steps: Any = STEPS) -> str:
    lines, pos = ["phase,token,layer,rank,expert"], 0
    for step in steps:
        tokens = max(map(len, step.values()))
        for layer, rows in step.items():
            for i, ids in enumerate(rows):
                phase = "prefill" if tokens > 1 else "decode"
                where = f"{phase},{pos + tokens - len(rows) + i},{layer}"
                lines += [f"{where},{rank},{expert}" for rank, expert in enumerate(ids)]
        pos += tokens
    return "\n".join(lines) + "\n"


def text(steps: Any = STEPS, slot: int = 5) -> str:
    lines = ["loading the model"]
    for number, step in enumerate(steps):
        for layer, rows in step.items():
            pairs = " ".join(f"{expert}:{-1 if expert == 3 else slot}" for ids in rows for expert in ids)
            lines.append(f"route {number} {layer} {len(rows[0])} {len(rows)} {pairs}")
    return "\n".join(lines) + "\n"


def events(steps: Any = STEPS, kind: str = "experts", flat: bool = True) -> str:
    lines = []
    for number, step in enumerate(steps):
        for layer, rows in step.items():
            ids = [expert for row in rows for expert in row] if flat else rows
            value: dict[str, Any] = {"layer": layer, "n_tokens": len(rows)}
            if kind == "experts":
                slots = [-1 if expert == 3 else 7 for row in rows for expert in row]
                value |= {"seq": number, "n_expert_used": len(rows[0]), "experts": ids, "slots": slots}
            else:
                value |= {"n_experts": 4, "expert_ids": ids, "elapsed_us": 12.5}
            lines.append(json.dumps(value))
    return "\n".join(lines) + "\n"


def binary(steps: Any = STEPS) -> bytes:
    return b"".join(
        struct.pack(f"<3i{len(rows) * len(rows[0])}i", layer, len(rows), len(rows[0]), *np.ravel(rows))
        for step in steps
        for layer, rows in step.items()
    )


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


LAYOUTS: dict[str, Any] = {
    "wide": wide, "picks": picks, "text": text, "events": events, "ids": lambda s=STEPS: events(s, "expert_ids"),
    "nested": lambda s=STEPS: events(s, flat=False), "binary": binary,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_trace(tmp_path: Path, layout: str) -> None:
    result, trace = convert("llamacpp", write(tmp_path / "r", LAYOUTS[layout]()))
    assert lists(trace) == EXPECTED
    assert (trace.meta.layer_ids, trace.meta.experts, trace.meta.top_k) == ((1, 2), 4, 2)
    assert trace.windows.rows.tolist() == [3, 1, 1]
    assert phases(trace) == (["prefill", "decode", "decode"] if layout == "picks" else ["unknown"] * 3)
    assert (result.read, result.removed) == (8, {})
    assert "layer 2 has no list in 2 of 5 (40.0%) rows: empty ones stand there" in result.notes


@pytest.mark.parametrize("layout", ["text", "events"])
def test_slots_are_outcomes(tmp_path: Path, layout: str) -> None:
    """At an expert's first place in its event; repeats inside it are 255."""
    result, trace = convert("llamacpp", write(tmp_path / "r", LAYOUTS[layout]()))
    found = lists(trace, "outcome")
    assert (found[0, 0, 0], found[0, 1, 0], found[0, 2, 0]) == ([0, 1], [255, 1], [255, 1])
    assert found[1, 0, 1] == [0, 1]
    assert any("a read-ahead cannot be told from a hit" in note for note in result.notes)


def test_prompt_marks_the_first_steps(tmp_path: Path) -> None:
    one = [{1: [[0, 1]], 2: [[3, 2]]}] * 4
    result, trace = convert("llamacpp", write(tmp_path / "r", wide(one)), Request(prompt=2))
    assert phases(trace) == ["prefill", "unknown", "unknown"] and trace.windows.rows.tolist() == [2, 1, 1]
    assert "2 prompt rows came one by one: those of one prompt are one window" in result.notes


def test_positions_below_0_are_removed_and_counted(tmp_path: Path) -> None:
    lines = wide().splitlines()
    lines[5:5] = ["-1,1,0,1", "-7,2,0,1"]
    result, trace = convert("llamacpp", write(tmp_path / "r", "\n".join(lines) + "\n"))
    assert lists(trace) == EXPECTED
    assert result.removed == {"with a position below 0, so of no row": 2}
    assert result.removed_text() == "2 of 10 (20.0%) with a position below 0, so of no row"


@pytest.mark.parametrize("layout", ["wide", "picks"])
def test_joined_files_are_sessions(tmp_path: Path, layout: str) -> None:
    """What `cat a.csv b.csv` makes: a header in mid-file."""
    one = LAYOUTS[layout]()
    result, trace = convert("llamacpp", write(tmp_path / "r", one + one))
    assert trace.windows.session.tolist() == [0, 0, 0, 1, 1, 1]
    assert "1 headers in mid-file: files were joined; each begins a session" in result.notes
    # without the header the positions tell
    result, trace = convert(
        "llamacpp", write(tmp_path / "r", one + one.split("\n", 1)[1]), Request(force=True)
    )
    assert trace.windows.session.tolist() == [0, 0, 0, 1, 1, 1]
    assert "positions restart 1 times: each begins a session" in result.notes


def test_names_in_quotes(tmp_path: Path) -> None:
    """As Arrow writes them; in a joined file as well."""
    body = picks().split("\n", 1)[1]
    header = ",".join(f'"{name}"' for name in picks().split("\n", 1)[0].split(",")) + "\n"
    result, trace = convert("llamacpp", write(tmp_path / "r", header + body + header + body))
    assert trace.windows.session.tolist() == [0, 0, 0, 1, 1, 1]


WARM = ({1: [[0, 1]], 2: [[0, 1]]},)
WARM_ALL = ({1: [[0, 1, 2, 3]], 2: [[0, 1, 2, 3]]},)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stray_warm_up_row_is_removed(tmp_path: Path, layout: str) -> None:
    """One row before the prompt; records that tell their width may show all experts picked."""
    if layout in ("wide", "picks"):
        content = LAYOUTS[layout](WARM) + LAYOUTS[layout]().split("\n", 1)[1]
        content = content.replace("decode,0,", "prefill,0,")
    else:
        content = LAYOUTS[layout]((*WARM_ALL, *STEPS))
    result, trace = convert("llamacpp", write(tmp_path / "r", content))
    assert lists(trace) == EXPECTED
    assert result.removed == {"of a warm-up row before the first prompt": 2}
    assert not any("restart" in note for note in result.notes)


@pytest.mark.parametrize("layout", ["wide", "picks", "text", "events", "binary"])
def test_a_file_cut_at_its_end(tmp_path: Path, layout: str) -> None:
    content = LAYOUTS[layout]()
    content = content.encode() if isinstance(content, str) else content
    result, trace = convert("llamacpp", write(tmp_path / "r", content[:-4]))
    assert lists(trace) == {key: ids for key, ids in EXPECTED.items() if key[0] < 2}
    assert result.removed["cut short by the file's end"] == 1
    assert result.removed["of a first or last step that is not whole"] >= 1


def test_a_recording_that_begins_in_mid_step(tmp_path: Path) -> None:
    lines = wide(TOKENS, start=40).splitlines()
    result, trace = convert("llamacpp", write(tmp_path / "r", "\n".join([lines[0], *lines[2:]]) + "\n"))
    assert len(trace.windows) == 1 and result.removed == {"of a first or last step that is not whole": 1}
    assert "the source begins at position 40: what came before is not in it" in result.notes


def test_a_selection_bias_is_noted(tmp_path: Path) -> None:
    """Ranked by other scores than it weighs by: the order stays."""
    rows = picks(TOKENS).replace("rank,expert", "rank,expert,weight").splitlines()
    weighed = [rows[0], *(f"{row},{0.3 if row.split(',')[3] == '0' else 0.6}" for row in rows[1:])]
    result, trace = convert("llamacpp", write(tmp_path / "r", "\n".join(weighed) + "\n"))
    assert lists(trace)[0, 0, 0] == [0, 1]
    assert any(note.startswith("4 of 4 (100.0%) lists have weights that rise") for note in result.notes)
    assert any("weights of a list sum to 0.9 to 0.9: not renormalised" in note for note in result.notes)
    np.testing.assert_allclose(lists(trace, "weights")[0, 0, 0], [0.3, 0.6])


def test_weights_that_are_no_number(tmp_path: Path) -> None:
    rows = picks(TOKENS).replace("rank,expert", "rank,expert,weight").splitlines()
    weighed = [rows[0], *(f"{row},{'nan' if i == 0 else 0.5}" for i, row in enumerate(rows[1:]))]
    result, trace = convert("llamacpp", write(tmp_path / "r", "\n".join(weighed) + "\n"))
    assert any(
        note.startswith("1 of 4 (25.0%) lists have a weight that is no number") for note in result.notes
    )
    assert lists(trace, "weights")[0, 0, 1] == [0.5, 0.5]


def test_ranks_give_the_order(tmp_path: Path) -> None:
    swapped = picks(TOKENS).replace("decode,0,1,0,0\ndecode,0,1,1,1", "decode,0,1,1,1\ndecode,0,1,0,0")
    assert lists(convert("llamacpp", write(tmp_path / "r", swapped))[1])[0, 0, 0] == [0, 1]


def test_one_layer_has_a_window_a_token(tmp_path: Path) -> None:
    """Its number cannot fall: outside a prompt every token is a step."""
    one = [{4: [[0, 1]]}, {4: [[3, 2]]}, {4: [[2, 0]]}]
    for layout in ("wide", "picks", "text", "events", "binary"):
        trace = convert("llamacpp", write(tmp_path / "r", LAYOUTS[layout](one)), Request(force=True))[1]
        assert list(lists(trace).values()) == [[0, 1], [3, 2], [2, 0]]


def test_events_of_a_prompt_that_hold_their_experts_only(tmp_path: Path) -> None:
    """Not a multiple of the tokens, or fewer picks than single tokens have: the prompt is left out, and counted."""
    union = [{"layer": 1, "n_tokens": 3, "n_experts": 4, "expert_ids": [0, 1, 2, 3]},
             {"layer": 2, "n_tokens": 3, "n_experts": 3, "expert_ids": [0, 1, 2]}]  # fmt: skip
    content = "".join(json.dumps(each) + "\n" for each in union) + events(TOKENS, "expert_ids")
    result, trace = convert("llamacpp", write(tmp_path / "r", content))
    assert list(lists(trace).values()) == [[0, 1], [3, 2], [2, 3], [2, 3]]
    assert result.removed == {"of a prompt whose events have their experts only, not each token's": 6}


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files larger than a block give the same trace."""
    monkeypatch.setattr("replay.importers.routed.log._LISTS", 3)
    monkeypatch.setattr("replay.importers.text_rows._BLOCK", 61)
    monkeypatch.setattr("replay.importers.llamacpp.events._LISTS", 3)
    rng = np.random.default_rng(1)
    steps = [{layer: [rng.permutation(8)[:2].tolist() for _ in range(count)] for layer in (0, 3, 4)}
             for count in (5, 1, 1, 1, 4, 1, 1)]  # fmt: skip
    made = [
        lists(convert("llamacpp", write(tmp_path / "r", LAYOUTS[each](steps)), Request(force=True))[1])
        for each in LAYOUTS
    ]
    assert all(each == made[0] for each in made) and len(made[0]) == 3 * 14


REFUSALS = (
    ("another file", "hello\n", "begins with 'hello'; expected CSV pos,layer,e0"),
    ("a table of others", "a,b\n1,2\n", "other tables go through `replay import table`"),
    ("empty", "", "begins with ''"),
    ("a list twice", wide(TOKENS * 3).replace("2,2,3,2", "2,2,3,2\n2,2,3,2"), "token 2 of session 1 has no list"),
    ("a gap", wide(TOKENS * 3).replace("2,1,0,1\n", ""), "line 6: token 2 of session 0 has no list of layer 1"),
    ("an expert twice", wide().replace("2,1,3,0", "2,1,3,3"), "line 4: expert 3 is picked twice in one list"),
    ("below -1", wide().replace("2,1,3,0", "2,1,3,-2"), "line 4: expected expert ids from 0 to 65535, or -1 for none"),
    ("a text", wide().replace("2,1,3,0", "2,1,3,x"), "line 4: expected a whole number in e1, found 'x'"),
    ("a phase", picks().replace("decode,3,1,0", "warm,3,1,0"), "expected phase prefill or decode, found 'warm'"),
    ("a rank twice", picks().replace("decode,3,1,1,1", "decode,3,1,0,1"), "rank 0 of one token and layer"),
    ("a rank below 0", picks().replace("decode,3,1,1,1", "decode,3,1,-1,1"), "expected a rank from 0, found -1"),
    ("too few pairs", text().replace("route 1 1 2 1 0:5 1:5", "route 1 1 2 1 0:5"), "line 4: expected route <step>"),
    ("no pair", text().replace("route 1 1 2 1 0:5 1:5", "route 1 1 2 1 0:5 1"), "line 4: expected route <step>"),
    ("no key", '{"layer": 1}\n', "line 1: expected layer and experts (or expert_ids), found layer"),
    ("other slots", events().replace('"slots": [-1, 7]', '"slots": [7]', 1), "expected as many slots as experts"),
    ("other picks", events().replace('"n_expert_used": 2', '"n_expert_used": 1', 1), "expected 1 picks of 3 tokens"),
    ("lists and numbers", events(flat=False).replace("[1, 2]", "1", 1), "expected 3 lists of one length in experts"),
    ("no layer", events().replace('"layer": 1', '"layer": null', 1), "expected a whole number in layer, found 'None'"),
    ("more tokens", events(({0: [[0, 1]], 1: [[0, 1], [1, 2]]},)), "line 2: expected at most the 1 tokens"),
    ("huge", struct.pack("<3i", 0, 2**20, 2**16), "1048576 tokens of 65536 picks are more than 67108864"),
    ("no tokens", struct.pack("<4i", 0, 0, 2, 1), "record 1: expected tokens from 1 to 1048576, found 0"),
    ("an imatrix", b"GGUF\3\0\0\0", "an imatrix holds counts of rows an expert: counts say how often, not when"),
    ("a history", "-1 2 4\n0 1 7\n", "a usage history holds counts of picks: counts say how often"),
)  # fmt: skip


@pytest.mark.parametrize(("what", "content", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_refusals(tmp_path: Path, what: str, content: str | bytes, expected: str) -> None:
    path = write(tmp_path / "r", content)
    with pytest.raises(InputError) as problem:
        convert("llamacpp", path)
    assert (
        expected in str(problem.value) and str(path) in str(problem.value) and "\n" not in str(problem.value)
    )
    assert [each.name for each in tmp_path.iterdir()] == ["r"]
