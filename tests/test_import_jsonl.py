"""The minimal writer's JSON lines: what is read, what is refused, and the way out and back without a change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome
from imported import convert, lists, phases
from raw_trace import healthy

from replay.errors import InputError
from replay.exporters import export_trace
from replay.importers import Request, jsonl
from replay.trace import Trace, open_trace

Cli = Callable[..., Outcome]

HEADER = {
    "format": "moe-decode-jsonl", "version": 1, "model": {"name": "m", "layers": 2, "experts": 4, "top_k": 2},
    "expert_bytes": 10,
}  # fmt: skip
LINES: tuple[dict[str, Any], ...] = (
    {"window": 0, "session": 3, "phase": "prefill", "rows": 2},
    {"layer": 0, "experts": [[3, 1], [1, 2]]},
    {"layer": 1, "experts": [[0, 2], [2, 3]]},
    {"window": 1, "session": 3, "phase": "decode", "rows": 1},
    {"layer": 0, "experts": [[0, 1]]},
    {"layer": 1, "experts": [[3, 2]]},
)
EXPECTED = {
    (0, 0, 0): [3, 1], (0, 0, 1): [0, 2], (0, 1, 0): [1, 2], (0, 1, 1): [2, 3], (1, 0, 0): [0, 1], (1, 0, 1): [3, 2],
}  # fmt: skip


def write(path: Path, lines: Any = LINES, **header: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in ({**HEADER, **header}, *lines)))
    return path


def edited(index: int, **values: Any) -> list[dict[str, Any]]:
    """The lines with one of them changed."""
    return [*LINES[:index], LINES[index] | values, *LINES[index + 1 :]]


def test_the_least_that_a_recorder_writes(tmp_path: Path) -> None:
    result, trace = convert("jsonl", write(tmp_path / "r.jsonl"))
    assert lists(trace) == EXPECTED and phases(trace) == ["prefill", "decode"]
    assert trace.windows.session.tolist() == [3, 3] and trace.meta.expert_bytes == 10
    assert sorted(trace.tables) == ["selections", "windows"]
    assert trace.tables["selections"].columns == ("window", "row", "layer", "experts")
    assert (result.windows, result.rows, result.lookups, result.read, result.removed, result.notes) == (
        2, 3, 10, 6, {}, (),
    )  # fmt: skip


def test_phase_and_session_may_be_left_out(tmp_path: Path) -> None:
    lines = [{k: v for k, v in each.items() if k not in ("phase", "session")} for each in LINES]
    trace = convert("jsonl", write(tmp_path / "r.jsonl", lines))[1]
    assert phases(trace) == ["unknown", "unknown"] and trace.windows.session.tolist() == [0, 0]


def test_every_table_has_its_place(tmp_path: Path) -> None:
    lines = [dict(each) for each in LINES]
    lines[3] |= {"domain": "code", "output_hash": 2**64 - 1, "rows": 2, "drafts": [[0.25, True]]}
    lines[4] |= {
        "experts": [[0, 1], [2, 3]], "weights": [[0.5, 0.25], None], "outcome": [[0, 1], [255, 2]], "residents": [1],
        "router_scores": [[1.5, None, 0, 0], [4, 3, 2, 1]], "candidates": [[0.5, 0.25], [4, 3]],
        "candidate_experts": [[2, 1], [0, 3]], "issued_after": -1, "pre_us": 1.5, "post_us": 2,
        "counters": {"hits": 1, "prefetch_hits": 0, "late": 0, "misses": 3, "wait_us": 4.5},
    }  # fmt: skip
    lines[5] |= {
        "experts": [[3, 2], [1, 0]], "residents": [], "router_scores": [[1, 2, 3, 4], [0, 0, 0, -1.5]],
        "candidates": [[1, 2], [3, 4]], "candidate_experts": [[0, 1], [2, 3]], "issued_after": [0, -1],
        "pre_us": 0, "post_us": 0, "counters": {"hits": 0, "prefetch_hits": 0, "late": 0, "misses": 4},
    }  # fmt: skip
    router = {"protect": 3, "bonus": 0.5, "r1_bonus": 0.0, "draft_moce": False}
    path = write(tmp_path / "r.jsonl", lines, router=router, expert_bytes=[10, 20], size_class=[0, 1],
                 engine={"name": "mine", "version": "2", "config": {}}, score_type="float16")  # fmt: skip
    result, trace = convert("jsonl", path)
    assert sorted(trace.tables) == [
        "candidates", "counters", "drafts", "experts", "residents", "router_scores", "selections", "timing", "windows",
    ]  # fmt: skip
    assert trace.sizes.tolist() == [[10] * 4, [20] * 4] and trace.classes.tolist() == [[0] * 4, [1] * 4]
    assert (
        trace.meta.router is not None
        and trace.meta.router.bonus == 0.5
        and trace.meta.engine["name"] == "mine"
    )
    chunk = list(trace.chunks(["candidates", "router_scores", "counters", "drafts", "residents", "timing"]))[
        -1
    ]
    assert chunk.router_scores is not None and chunk.router_scores.scores[:4].tolist() == [1.5, -np.inf, 0, 0]
    assert chunk.candidates is not None and chunk.candidates.issued_after is not None
    # rows come before layers in the table: row 0 of both layers, then row 1
    assert chunk.candidates.issued_after.tolist() == [-1, 0, -1, -1]
    assert chunk.tables["drafts"]["p"].tolist() == [0.25]
    assert chunk.tables["counters"]["misses"].tolist() == [3, 4]
    assert lists(trace, "outcome")[1, 1, 0] == [255, 2] and trace.windows.domain == [None, "code"]


def test_null_picks_take_their_weights_along(tmp_path: Path) -> None:
    lines = edited(
        1, experts=[[-1, 1], [1, 2**32 - 1]], weights=[[0.5, 0.25], [0.75, 0]], outcome=[[0, 1], [1, 0]]
    )
    result, trace = convert("jsonl", write(tmp_path / "r.jsonl", lines))
    assert lists(trace)[0, 0, 0] == [1] and lists(trace, "weights")[0, 1, 0] == [0.75]
    assert lists(trace, "outcome")[0, 0, 0] == [1]
    assert "2 picks (16.7%) are no expert (-1): left out" in result.notes
    assert "2 lists have fewer than 2 picks" in result.notes


def test_weights_that_are_no_number(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", edited(1, weights=[[0.5, None], [0.5, float("nan")]]))
    assert "weights" not in convert("jsonl", path)[1].tables["selections"].columns


def test_what_the_header_does_not_say(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", expert_bytes=None, extra=1, source={"recorder": "mine"})
    result, trace = convert("jsonl", path)
    assert any("1 byte stands for it" in note for note in result.notes)
    assert "keys of the header ignored: extra" in result.notes
    assert trace.meta.source["before"] == {"recorder": "mine"}
    assert trace.meta.source["importer"] == "replay import jsonl"
    trace = convert("jsonl", path, Request(expert_bytes=7, model="n", force=True))[1]
    assert (trace.meta.expert_bytes, trace.meta.name) == (7, "n")


def test_a_file_cut_at_its_end(tmp_path: Path) -> None:
    """A crash leaves whole windows; the last is left out where it is not whole, and counted."""
    path = write(tmp_path / "r.jsonl")
    path.write_bytes(path.read_bytes()[:-4])
    result, trace = convert("jsonl", path)
    assert len(trace.windows) == 1
    assert result.removed == {"of a last window that is not whole": 1, "cut short by the file's end": 1}


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = healthy()
    raw.write(tmp_path / "t")
    trace = open_trace(tmp_path / "t")
    export_trace("jsonl", trace, tmp_path / "r.jsonl")
    monkeypatch.setattr(jsonl, "_WINDOWS", 1)
    assert same(convert("jsonl", tmp_path / "r.jsonl", destination=tmp_path / "u")[1], trace) == []


# --- out and back -----------------------------------------------------------------------------------


def gathered(trace: Trace) -> dict[str, Any]:
    """Everything that a trace holds but for its reads, as plain arrays."""
    names = [name for name in trace.tables if name not in ("windows", "experts", "reads")]
    found: dict[str, list[Any]] = {}

    def put(name: str, values: Any) -> None:
        found.setdefault(name, []).extend(np.asarray(values).tolist())

    for chunk in trace.chunks(names, {"selections": ("weights", "outcome")}):
        assert chunk.selections is not None
        put("selections", chunk.selections.values)
        put("selections.lengths", chunk.selections.lengths)
        for name in ("weights", "outcome"):
            if getattr(chunk, name) is not None:
                put(name, np.nan_to_num(getattr(chunk, name), nan=-9))
        for name in ("candidates", "router_scores"):
            scores = getattr(chunk, name)
            if scores is not None:
                for part in ("window", "row", "layer", "scores", "offsets", "experts", "issued_after"):
                    if getattr(scores, part) is not None:
                        put(f"{name}.{part}", getattr(scores, part))
        if chunk.residents is not None:
            put("residents", chunk.residents.experts.values)
            put("residents.window", chunk.residents.window)
        for name, table in chunk.tables.items():
            for column, values in table.items():
                put(f"{name}.{column}", np.nan_to_num(values, nan=-9) if values.dtype.kind == "f" else values)
    windows = trace.windows
    for part in ("session", "rows", "prefill", "recorded", "domain", "output_hash", "hashed"):
        if getattr(windows, part) is not None:
            put(f"windows.{part}", getattr(windows, part))
    put("sizes", trace.sizes.ravel())
    put("classes", trace.classes.ravel())
    return found


def same(one: Trace, other: Trace) -> list[str]:
    """What differs between two traces."""
    a, b = gathered(one), gathered(other)
    return [name for name in a.keys() | b.keys() if a.get(name) != b.get(name)]


def test_out_and_back_is_the_identity(tmp_path: Path) -> None:
    """Every table but the reads; a second time the file itself is the same."""
    healthy().write(tmp_path / "t")
    trace = open_trace(tmp_path / "t")
    notes = export_trace("jsonl", trace, tmp_path / "a.jsonl")
    assert notes == ("the table reads has no place in the format",)
    result, again = convert("jsonl", tmp_path / "a.jsonl", destination=tmp_path / "u")
    assert same(trace, again) == [] and result.removed == {} and result.notes == ()
    raw, made = trace.meta.raw, again.meta.raw
    for name in ("model", "router", "policy", "io"):
        assert raw.get(name) == made.get(name), name
    assert export_trace("jsonl", again, tmp_path / "b.jsonl") == ()
    bodies = [(tmp_path / name).read_text().split("\n", 1)[1] for name in ("a.jsonl", "b.jsonl")]
    assert bodies[0] == bodies[1]


def test_samples_go_out_and_back(root: Path, tmp_path: Path, cli: Cli) -> None:
    for sample in ("e64-spec", "e256-moce"):
        source = root / "traces" / sample
        if not source.is_dir():
            pytest.skip(f"no traces/{sample}")
        cut = tmp_path / sample
        assert cli("cut", source, cut, "--windows", "12").code == 0
        assert cli("export", "jsonl", cut, tmp_path / "r.jsonl", "--force").code == 0
        again = convert("jsonl", tmp_path / "r.jsonl", Request(force=True))[1]
        assert same(open_trace(cut), again) == []


def test_llamacpp_out_and_back(tmp_path: Path) -> None:
    """Picks, phases, rows and sessions' borders; sizes and numbers of sessions have no place."""
    lines = [*LINES, *LINES[3:]]
    lines[6] = lines[6] | {"window": 2, "session": 9, "phase": None}
    lines = [
        each | ({"weights": [[0.5, 0.25]] * len(each["experts"])} if "layer" in each else {})
        for each in lines
    ]
    trace = convert("jsonl", write(tmp_path / "r.jsonl", lines))[1]
    notes = export_trace("llamacpp", trace, tmp_path / "r.csv")
    assert any("no place in the format" in note for note in notes)
    result, again = convert("llamacpp", tmp_path / "r.csv", destination=tmp_path / "u")
    assert lists(again) == lists(trace) and lists(again, "weights") == lists(trace, "weights")
    assert phases(again) == phases(trace) and again.windows.rows.tolist() == trace.windows.rows.tolist()
    assert again.windows.session.tolist() == [0, 0, 1] and result.removed == {}
    export_trace("llamacpp", again, tmp_path / "s.csv")
    assert (tmp_path / "r.csv").read_text() == (tmp_path / "s.csv").read_text()


def test_export_refuses(tmp_path: Path, cli: Cli) -> None:
    lines = [*LINES, *LINES[3:], *LINES[3:]]
    lines[6], lines[9] = lines[6] | {"window": 2, "session": 9}, lines[9] | {"window": 3}
    trace = convert("jsonl", write(tmp_path / "r.jsonl", lines))[1]
    with pytest.raises(InputError, match="windows of sessions alternate"):
        export_trace("llamacpp", trace, tmp_path / "r.csv")
    done = cli("export", "jsonl", tmp_path / "trace", tmp_path / "r.jsonl")
    assert done.code == 2 and "exists already; name another file, or replace it with --force" in done.err
    done = cli("export", "json", tmp_path / "trace", tmp_path / "x")
    assert done.code == 2 and "no exporter is called 'json'; did you mean jsonl?" in done.err
    with pytest.raises(InputError, match="is a folder; name a file"):
        export_trace("jsonl", trace, tmp_path / "trace", force=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.jsonl", "trace"]


# --- what is refused --------------------------------------------------------------------------------


def scored(**values: Any) -> list[dict[str, Any]]:
    return edited(4, **values)


REFUSALS: tuple[tuple[str, Any, dict[str, Any], str], ...] = (
    ("another format", LINES, {"format": "x"}, 'line 1: expected a header with "format": "moe-decode-jsonl"'),
    ("another version", LINES, {"version": 2}, '"version": 1'),
    ("no model", LINES, {"model": None}, "expected model with name"),
    ("a shape", LINES, {"model": {"layers": 2, "experts": 4, "top_k": 5}}, "found [2, 4, 5]"),
    ("too large", LINES, {"model": {"layers": 60000, "experts": 60000, "top_k": 1}},
     "expected layers, experts and top_k"),
    ("no size", LINES, {"expert_bytes": 0}, "expected expert_bytes as whole numbers from 1"),
    ("sizes", LINES, {"expert_bytes": [1, 2, 3]}, "2 (one a layer), or 2 lists of 4"),
    ("ragged sizes", LINES, {"expert_bytes": [[1, 2], [1]]}, "2 (one a layer), or 2 lists of 4"),
    ("a class", LINES, {"size_class": 256}, "expected size_class as whole numbers from 0"),
    ("a score type", LINES, {"score_type": "bfloat16"}, "expected score_type float16 or float32, found 'bfloat16'"),
    ("a section", LINES, {"router": 3}, "expected router as an object or null, found 3"),
    ("layer ids", LINES, {"model": {"layers": 2, "experts": 4, "top_k": 2, "layer_ids": [1]}}, "not written: "),
    ("no window", LINES[1:], {}, "line 2: expected a line with window before its layers"),
    ("window number", edited(3, window=2), {}, "line 5: expected window 1, found 2"),
    ("no rows", edited(3, rows=0), {}, "line 5: expected rows from 1 to 65535, found 0"),
    ("a session", edited(3, session=-1), {}, "line 5: expected session from 0 to 4294967295, found -1"),
    ("a phase", edited(3, phase="warm"), {}, "line 5: expected phase decode, prefill or null, found 'warm'"),
    ("a domain", edited(3, domain=3), {}, "line 5: expected domain as text, found 3"),
    ("a draft", edited(3, drafts=[[0.5]]), {}, "line 5: expected drafts as a list of [probability, matched]"),
    ("a draft's match", edited(3, drafts=[[0.5, 1]]), {}, "line 5: expected drafts as a list"),
    ("layers short", [*LINES[:2], *LINES[3:]], {}, "line 4: window 0 has 1 of 2 layers; write them all"),
    ("layers twice", [*LINES[:3], *LINES[2:]], {}, "line 5: expected a line with window after 2 layers"),
    ("layers swapped", [LINES[0], LINES[2], LINES[1]], {}, "line 3: expected layer 0, found 1"),
    ("rows differ", edited(1, experts=[[3, 1]]), {}, "line 3: expected 2 lists in experts, one a row, found 1"),
    ("no lists", edited(1, experts=[3, 1]), {}, "line 3: expected experts as a list of lists, found '3' in it"),
    ("an expert", edited(1, experts=[[3, 4], [0, 1]]), {},
     "line 3: expected expert ids from 0 to 3 in experts, found 4"),
    ("twice", edited(1, experts=[[3, 3], [0, 1]]), {}, "line 3: expert 3 is picked twice in one list"),
    ("too many", edited(1, experts=[[3, 1, 2], [0, 1]]), {}, "line 3: expected at most 2 picks, found 3"),
    ("weights", edited(1, weights=[[1, 2]]), {}, "line 3: expected 2 lists in weights, one a row"),
    ("few weights", edited(1, weights=[[1], [1, 2]]), {}, "line 3: expected 2 weights beside the experts, found [1]"),
    ("outcomes", edited(1, outcome=[[1, 3], [0, 0]]), {}, "line 3: expected outcomes 0, 1, 2 or 255, found [1, 3]"),
    ("residents", edited(1, residents=[7]), {}, "line 3: expected expert ids from 0 to 3 in residents, found 7"),
    ("scores", scored(router_scores=[[1, 2]]), {}, "not written: "),
    ("text scores", scored(router_scores=[["a"] * 4]), {}, "line 6: expected numbers in router_scores, found 'a'"),
    ("NaN scores", scored(router_scores=[[float("nan")] * 4]), {}, "not written: "),
    ("sparse ids", scored(candidates=[[1, 2]], candidate_experts=[[1]]), {}, "as many candidate_experts as candidates"),
    ("issued after", scored(candidates=[[1] * 4], issued_after=0), {},
     "line 6: expected issued_after from -1 to -1, found 0"),
    ("counters", scored(counters={"hits": 1}), {}, "line 6: expected prefetch_hits from 0 in counters, found None"),
    ("timing", scored(pre_us=1), {}, "line 6: expected post_us as a number, found None"),
    ("nothing", (), {}, "no whole window in it; nothing to import"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "lines", "header", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS]
)
def test_refusals(tmp_path: Path, what: str, lines: Any, header: dict[str, Any], expected: str) -> None:
    path = write(tmp_path / "r.jsonl", lines, **header)
    with pytest.raises(InputError) as problem:
        convert("jsonl", path)
    assert expected in str(problem.value) and "\n" not in str(problem.value)
    assert [each.name for each in tmp_path.iterdir()] == ["r.jsonl"]


def test_no_header(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("")
    with pytest.raises(InputError, match="line 1: expected a header"):
        convert("jsonl", tmp_path / "r")
