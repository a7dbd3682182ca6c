"""Cutting a trace: the first windows of every table, unchanged, with where they came from; and the samples."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from slow.make import draw_trace, write
from slow.trace import read

from replay.errors import InputError
from replay.trace import open_trace, write_trace
from replay.trace.cut import cut

Cli = Callable[..., Outcome]
SAMPLES = {
    "e256-moce": (256, "candidates,residents,counters"),
    "e64-spec": (372, "candidates,drafts"),
}


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_is_the_first_windows(tmp_path: Path, seed: int) -> None:
    """As an independent reader that stops at the same window reads the original."""
    write(draw_trace(seed), tmp_path / "whole", float16=seed % 2 == 0)
    trace = open_trace(tmp_path / "whole")
    windows = 1 + seed % len(trace.windows)
    result = cut(trace, tmp_path / "part", windows)
    expected, found = read(tmp_path / "whole", windows), read(tmp_path / "part")
    expected.has_candidates = found.has_candidates  # a table without a row in these windows is left out
    assert found == expected
    assert (result.windows, result.of_windows) == (windows, len(trace.windows))
    assert set(result.rows) | set(result.left_out) == set(trace.tables)
    score = pa.float16() if seed % 2 == 0 else pa.float32()
    for name in ("candidates", "router_scores"):
        if name in result.rows:
            assert (
                pq.read_schema(tmp_path / "part" / f"{name}.parquet").field("scores").type.value_type == score
            )


def trace_of_two_sessions(path: Path) -> Path:
    windows = {"window": [0, 1, 2, 3], "session": [5, 5, 6, 6], "phase": ["decode"] * 4, "rows": [1] * 4}
    selections = {"window": [0, 1, 2, 3], "row": [0] * 4, "layer": [0] * 4, "experts": [[0], [1], [0], [1]]}
    drafts = {"window": [3], "step": [0], "p": [0.5], "matched": [True]}
    tables = {
        "windows": pa.table(windows | {"rows": [1, 1, 1, 2]}),
        "selections": pa.table(
            {
                "window": [*selections["window"], 3],
                "row": [0, 0, 0, 0, 1],
                "layer": [0] * 5,
                "experts": [*selections["experts"], [1]],
                "extra": ["a", "b", "c", "d", "e"],
            }
        ),
        "drafts": pa.table(drafts),
    }
    model = {"name": "two", "layers": 1, "experts": 2, "top_k": 1}
    source = {"recorder": "by hand", "licence": "Apache-2.0"}
    write_trace(path, {"model": model, "expert_bytes": 7, "policy": None, "source": source}, tables)
    return path


def test_what_a_cut_says(tmp_path: Path) -> None:
    """Sessions, tables without a row left out, further columns kept, the source with what it was cut from."""
    trace = open_trace(trace_of_two_sessions(tmp_path / "whole"))
    result = cut(trace, tmp_path / "two", 2)
    assert (result.sessions, result.whole, result.left_out) == (1, True, ("drafts",))
    assert result.rows == {"windows": 2, "selections": 2}
    part = open_trace(tmp_path / "two")
    assert part.meta.source == {
        "recorder": "by hand",
        "licence": "Apache-2.0",
        "cut": {
            "of": "whole",
            "windows": 2,
            "of_windows": 4,
            "tables_left_out": ["drafts"],
            "sha256": {name: trace.tables[name].sha256 for name in ("windows", "selections")},
        },
    }
    assert part.tables["selections"].extra == ("extra",)
    assert pq.read_table(tmp_path / "two" / "selections.parquet")["extra"].to_pylist() == ["a", "b"]
    assert (part.meta.expert_bytes, part.meta.name) == (7, "two")
    assert not cut(trace, tmp_path / "three", 3).whole
    assert cut(trace, tmp_path / "four", 4).whole
    again = cut(part, tmp_path / "one", 1)
    before = open_trace(tmp_path / "one").meta.source["cut"]["before"]
    assert (again.of_windows, before["of"], before["of_windows"]) == (2, "whole", 4)


def test_tables_to_keep(tmp_path: Path) -> None:
    trace = open_trace(trace_of_two_sessions(tmp_path / "whole"))
    assert set(cut(trace, tmp_path / "a", 4).rows) == {"windows", "selections", "drafts"}
    assert cut(trace, tmp_path / "b", 4, []).left_out == ("drafts",)
    with pytest.raises(InputError, match="no table 'draft'; did you mean drafts?"):
        cut(trace, tmp_path / "c", 4, ["draft"])
    assert not (tmp_path / "c").exists()


def test_command(tmp_path: Path, cli: Cli) -> None:
    whole, part = trace_of_two_sessions(tmp_path / "whole"), tmp_path / "part"
    code, out, err = cli("cut", whole, part, "--windows", 3, "--tables", "drafts")
    assert (code, err) == (0, "")
    assert f"{part}: 3 of 4 windows, 2 sessions (the last one not to its end), " in out
    assert out.endswith("rows: windows 3, selections 3\nleft out: drafts\n")
    code, out, err = cli("cut", whole, part, "--windows", 2, "--force", "--json")
    assert err == ""
    assert (code, json.loads(out)["rows"]) == (0, {"windows": 2, "selections": 2})
    assert len(open_trace(part).windows) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["part", "--windows", "5"], "expected 1 to 4 windows to keep, found 5"),
        (["whole", "--windows", "2", "--force"], "cannot be cut into itself"),
        (["taken", "--windows", "2"], "exists already"),
        (["part", "--windows", "2", "--tables", "candidates"], "the trace has no table 'candidates'"),
    ],
)
def test_refusals(tmp_path: Path, cli: Cli, arguments: list[str], message: str) -> None:
    whole = trace_of_two_sessions(tmp_path / "whole")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = cli("cut", whole, tmp_path / arguments[0], *arguments[1:])
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before
    assert len(open_trace(whole).windows) == 4


# --- the samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_small_and_say_what_they_are(root: Path, name: str) -> None:
    folder = root / "traces" / name
    trace = open_trace(folder)
    assert sum(each.stat().st_size for each in folder.iterdir()) <= 3_000_000
    windows, tables = SAMPLES[name]
    assert len(trace.windows) == windows
    assert set(tables.split(",")) <= set(trace.tables)
    source = trace.meta.source
    assert source["licence"] == "Apache-2.0 (ours)" and source["cut"]["of"] == name
    assert (
        f"replay cut ../shared/traces/recorded/{name} traces/{name} --windows {windows} --tables {tables}"
        in (root / "traces" / "README.md").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_what_the_command_makes(root: Path, shared: Path, tmp_path: Path, name: str) -> None:
    whole = shared / "traces" / "recorded" / name
    if not whole.is_dir():
        pytest.skip(f"{name} is not in the shared folder")
    windows, tables = SAMPLES[name]
    result = cut(open_trace(whole), tmp_path / name, windows, tables.split(","))
    assert result.whole
    mine, sample = open_trace(tmp_path / name).meta, open_trace(root / "traces" / name).meta
    assert {**mine.raw, "tables": None} == {**sample.raw, "tables": None}
    for table in sample.tables:
        pair = [pq.read_table(at / name / f"{table}.parquet") for at in (tmp_path, root / "traces")]
        assert pair[0].equals(pair[1]), table
