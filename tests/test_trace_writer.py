"""The trace writer: what is written is read back the same, whole or not at all."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_trace import Raw, healthy

from replay.errors import InputError
from replay.schema.trace import TRACE
from replay.trace import TraceWriter, open_trace, write_trace
from replay.trace.validate import validate


def tables(raw: Raw) -> dict[str, pa.Table]:
    return {name: raw.arrow(name) for name in raw.tables}


def dense(windows: int, layers: int = 2, experts: int = 8) -> Raw:
    """A trace of one-row windows with candidates for every layer."""
    rng = np.random.default_rng(windows)
    cells = [(w, layer) for w in range(windows) for layer in range(layers)]
    scores = rng.standard_normal((len(cells), experts)).astype(np.float16).astype(float)
    key = [{"window": w, "row": 0, "layer": layer} for w, layer in cells]
    raw = healthy()
    rows: dict[str, list[dict[str, Any]]] = {
        "windows": [{"window": w, "session": 0, "phase": "decode", "rows": 1} for w in range(windows)],
        "selections": [{**at, "experts": rng.permutation(experts)[:2].tolist()} for at in key],
        "candidates": [{**at, "scores": row.tolist()} for at, row in zip(key, scores, strict=True)],
    }
    types = {name: {c: t for c, t in raw.types[name].items() if c in rows[name][0]} for name in rows}
    model = {"name": "m", "layers": layers, "experts": experts, "top_k": 2}
    return Raw({"model": model, "expert_bytes": 100, "source": {}}, rows, types)


def test_the_healthy_trace_comes_back(tmp_path: Path) -> None:
    raw = healthy()
    write_trace(tmp_path / "new", raw.meta, tables(raw))
    assert validate(tmp_path / "new").valid
    for name in raw.tables:
        found = pq.read_table(tmp_path / "new" / f"{name}.parquet")
        assert found.to_pylist() == raw.tables[name], name
        declared = [column.name for column in TRACE[name].columns]
        assert found.column_names == [each for each in declared if each in found.column_names]
    document = json.loads((tmp_path / "new" / "trace.json").read_text())
    assert document["model"] == raw.meta["model"] and document["source"] == raw.meta["source"]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_types_are_the_declared_ones(tmp_path: Path) -> None:
    """Whatever width comes in; float16 scores stay, all else becomes what is declared; unknown columns stay."""
    raw = healthy()
    given = {}
    for name, table in tables(raw).items():
        wide = [
            pa.int64()
            if pa.types.is_integer(t)
            else pa.large_list(t.value_type)
            if pa.types.is_list(t)
            else t
            for t in table.schema.types
        ]
        table = table.cast(pa.schema(list(zip(table.column_names, wide, strict=True))))
        given[name] = table.append_column("note", pa.array(["x"] * table.num_rows))
    write_trace(tmp_path / "new", raw.meta, given)
    schema = pq.read_schema(tmp_path / "new" / "candidates.parquet")
    assert {field.name: str(field.type) for field in schema} == {
        "window": "uint32",
        "row": "uint16",
        "layer": "uint16",
        "issued_after": "int16",
        "scores": "list<element: halffloat>",
        "note": "string",
    }
    assert str(pq.read_schema(tmp_path / "new" / "selections.parquet").field("experts").type) == (
        "list<element: uint16>"
    )


@pytest.mark.parametrize("step", [1, 7, 64, 150, 1000])
def test_row_groups_of_scores_hold_64_windows(tmp_path: Path, step: int) -> None:
    """However the rows come: window by window, in pieces, or all at once."""
    raw = dense(150)
    with TraceWriter(tmp_path / "new", raw.meta) as writer:
        for name, table in tables(raw).items():
            for start in range(0, table.num_rows, step):
                writer.append(name, table.slice(start, step))
    file = pq.ParquetFile(tmp_path / "new" / "candidates.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(3)] == [128, 128, 44]
    assert file.metadata.num_row_groups == 3
    assert file.metadata.row_group(0).column(3).compression == "ZSTD"
    assert pq.read_table(tmp_path / "new" / "candidates.parquet").to_pylist() == raw.tables["candidates"]
    assert pq.ParquetFile(tmp_path / "new" / "selections.parquet").metadata.num_row_groups == 1


def test_the_path_has_to_be_free(tmp_path: Path) -> None:
    raw = healthy()
    write_trace(tmp_path / "new", raw.meta, tables(raw))
    before = (tmp_path / "new" / "trace.json").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_trace(tmp_path / "new", raw.meta, tables(raw))
    assert (tmp_path / "new" / "trace.json").read_bytes() == before
    write_trace(tmp_path / "new", {**raw.meta, "source": {"recorder": "again"}}, tables(raw), force=True)
    assert open_trace(tmp_path / "new").meta.source == {"recorder": "again"}
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_force_replaces_traces_only(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not lose")
    raw = healthy()
    with pytest.raises(InputError, match=r"trace\.json"):
        write_trace(tmp_path / "mine", raw.meta, tables(raw), force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "do not lose"


def test_force_follows_a_link(tmp_path: Path) -> None:
    raw = healthy()
    write_trace(tmp_path / "old", raw.meta, tables(raw))
    (tmp_path / "link").symlink_to(tmp_path / "old")
    write_trace(tmp_path / "link", {**raw.meta, "source": {"notes": "second"}}, tables(raw), force=True)
    assert (tmp_path / "link").is_symlink()
    assert open_trace(tmp_path / "old").meta.source == {"notes": "second"}


def broken(raw: Raw) -> None:
    raw.tables["selections"][4]["experts"] = [5, 5]


def test_a_trace_that_would_be_refused_is_not_written(tmp_path: Path) -> None:
    raw = healthy()
    broken(raw)
    with pytest.raises(InputError, match=r"new/selections\.parquet.*each expert once") as caught:
        write_trace(tmp_path / "new", raw.meta, tables(raw))
    assert "\n" not in str(caught.value) and ".partial" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_refused_replacement_leaves_the_old_trace(tmp_path: Path) -> None:
    raw = healthy()
    write_trace(tmp_path / "new", raw.meta, tables(raw))
    broken(raw)
    with pytest.raises(InputError):
        write_trace(tmp_path / "new", raw.meta, tables(raw), force=True)
    assert validate(tmp_path / "new").valid
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    raw = healthy()
    with pytest.raises(ZeroDivisionError), TraceWriter(tmp_path / "new", raw.meta) as writer:
        writer.append("windows", raw.arrow("windows"))
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("window", pa.table({"window": [0]}), "did you mean windows"),
        ("windows", pa.table({"window": [0]}), "expected column session"),
        ("timing", pa.table({"window": [-1], "layer": [0], "pre_us": [1.0], "post_us": [1.0]}), "do not fit"),
        (
            "timing",
            pa.table({"window": ["x"], "layer": [0], "pre_us": [1.0], "post_us": [1.0]}),
            "do not fit",
        ),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, name: str, table: pa.Table, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        write_trace(tmp_path / "new", healthy().meta, {name: table})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_later_rows_have_the_columns_of_the_first(tmp_path: Path) -> None:
    raw = healthy()
    with pytest.raises(InputError, match="do not fit"), TraceWriter(tmp_path / "new", raw.meta) as writer:
        writer.append("windows", raw.arrow("windows"))
        writer.append("windows", raw.arrow("windows").drop_columns(["domain"]))
    assert not list(tmp_path.iterdir())


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), windows=st.integers(1, 90), layers=st.integers(1, 4))
def test_random_traces_come_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int, windows: int, layers: int
) -> None:
    """Several rows a window, left-out windows and layers, short picks: all of it is read as written."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 5, windows)
    at = [(w, r, x) for w in range(windows) for r in range(rows[w]) for x in range(layers)]
    picks = [rng.permutation(9)[: rng.integers(0, 4)].tolist() for _ in at]
    shown = {(w, x) for w in range(windows) for x in range(layers) if rng.random() < 0.6}
    sparse = [
        (*key, rng.permutation(9)[: rng.integers(0, 9)].tolist()) for key in at if (key[0], key[2]) in shown
    ]
    raw = healthy()
    cells = [{"window": w, "row": r, "layer": x} for w, r, x in at]
    data = {
        "windows": [{"window": w, "session": 0, "phase": None, "rows": int(rows[w])} for w in range(windows)],
        "selections": [{**cell, "experts": ids} for cell, ids in zip(cells, picks, strict=True)],
    }
    if sparse:
        data["candidates"] = [
            {
                "window": w,
                "row": r,
                "layer": x,
                "experts": ids,
                "scores": rng.standard_normal(len(ids)).tolist(),
            }
            for w, r, x, ids in sparse
        ]
        raw.types["candidates"] |= {"experts": pa.list_(pa.uint16()), "scores": pa.list_(pa.float32())}
    types = {name: {c: t for c, t in raw.types[name].items() if c in data[name][0]} for name in data}
    meta = {"model": {"name": "m", "layers": layers, "experts": 9, "top_k": 3}, "expert_bytes": 5}
    folder = tmp_path_factory.mktemp("random") / "trace"
    random = Raw(meta, data, types)
    write_trace(folder, meta, tables(random))
    trace = open_trace(folder)
    limit = int(rng.integers(1, 9))
    parts = list(trace.chunks([name for name in data if name != "windows"], max_windows=limit))
    read = [part.selections for part in parts if part.selections is not None]
    lists = [
        part.values[a:b].tolist()
        for part in read
        for a, b in zip(part.offsets, part.offsets[1:], strict=False)
    ]
    assert lists == picks
    found = [
        (w, r, x, part.candidates.experts[a:b].tolist() if part.candidates.experts is not None else [])
        for part in parts
        if part.candidates is not None
        for w, r, x, a, b in zip(
            part.candidates.window.tolist(),
            part.candidates.row.tolist(),
            part.candidates.layer.tolist(),
            part.candidates.offsets,
            part.candidates.offsets[1:],
            strict=False,
        )
    ]
    assert found == sparse
