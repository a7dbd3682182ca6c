"""The trace reader: every way a table may be stored gives the same arrays; chunks are whole windows."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_trace import EXPERTS, LAYERS, ROWS, TOP_K, Raw, entry, healthy

from replay.comparison.comparison import compare
from replay.declare.semantics import Semantics, parse_routes
from replay.errors import InputError
from replay.trace import Chunk, Scores, Trace, open_trace
from replay.trace import stream as stream_module
from replay.trace.check import Reports
from replay.trace.failure import refuse
from replay.trace.file import open_parquet
from replay.trace.half import widen
from replay.trace.reach import past_end
from replay.trace.stream import TableStream

TABLES = ("selections", "candidates", "router_scores", "residents", "counters", "reads", "timing", "drafts")
COLUMNS = {"selections": ("weights", "outcome")}


def chunks(trace: Trace, **options: Any) -> list[Chunk]:
    return list(trace.chunks(TABLES, COLUMNS, **options))


def flat(chunk: Chunk) -> dict[str, np.ndarray]:
    """All arrays of a chunk by name."""
    assert chunk.selections and chunk.candidates and chunk.router_scores and chunk.residents
    found = {"row_start": chunk.row_start, "weights": chunk.weights, "outcome": chunk.outcome}
    found |= {"picks": chunk.selections.values, "offsets": chunk.selections.offsets}
    for name in ("candidates", "router_scores"):
        found |= {f"{name}.{key}": value for key, value in vars(getattr(chunk, name)).items()}
    found |= {"residents.window": chunk.residents.window, "residents.layer": chunk.residents.layer}
    found |= {"residents": chunk.residents.experts.values, "in": chunk.residents.experts.offsets}
    for name, columns in chunk.tables.items():
        found |= {f"{name}.{key}": value for key, value in columns.items()}
    return {name: value for name, value in found.items() if value is not None}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.dtype == other[name].dtype, name
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, np.ndarray]:
    """The healthy trace's arrays, read from its plainest form."""
    (only,) = chunks(open_trace(healthy().write(tmp_path / "plain")))
    return flat(only)


def test_the_arrays_hold_what_the_tables_say(tmp_path: Path) -> None:
    raw = healthy()
    trace = open_trace(raw.write(tmp_path / "trace"))
    assert (trace.meta.layers, trace.meta.experts, trace.meta.top_k) == (LAYERS, EXPERTS, TOP_K)
    assert trace.windows.rows.tolist() == ROWS and trace.windows.session.tolist() == [0, 0, 1, 1]
    assert trace.windows.prefill.tolist() == [False, True, False, False]
    assert trace.windows.recorded.tolist() == [True, True, True, False]
    assert trace.windows.domain == ["text"] * 4
    assert trace.windows.output_hash is not None and trace.windows.output_hash.tolist() == [0, 1, 2, 3]
    assert trace.sizes.tolist() == [[1000 + e for e in range(EXPERTS)]] * LAYERS
    (chunk,) = chunks(trace)
    assert chunk.selections is not None and chunk.candidates is not None and chunk.residents is not None
    assert (chunk.w0, chunk.w1, chunk.row_start.tolist()) == (0, 4, [0, 1, 4, 6, 7])
    picks = [row["experts"] for row in raw.tables["selections"]]
    assert chunk.selections.values.reshape(-1, TOP_K).tolist() == picks
    assert chunk.weights is not None and chunk.weights.tolist() == [0.75, 0.25] * len(picks)
    assert chunk.outcome is not None and chunk.outcome.tolist() == [0, 1] * len(picks)
    scores = [row["scores"] for row in raw.tables["candidates"]]
    assert chunk.candidates.scores.reshape(-1, EXPERTS).tolist() == scores
    for name in ("window", "row", "layer", "issued_after"):
        assert getattr(chunk.candidates, name).tolist() == [row[name] for row in raw.tables["candidates"]]
    assert chunk.candidates.experts is None
    assert chunk.residents.experts.offsets.tolist() == list(range(0, 25, 2))
    reads = chunk.tables["reads"]
    assert reads["kind"].tolist() == ["demand"] * 12 and reads["fate"].tolist() == [None] * 12
    assert np.isnan(reads["done_us"]).all() and reads["issued_us"].tolist() == [1.0] * 12
    assert chunk.tables["drafts"]["matched"].tolist() == [True]
    assert chunk.tables["counters"]["hits"].dtype == np.int64


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    trace = open_trace(healthy().write(tmp_path / "trace"))
    (chunk,) = trace.chunks(["selections"])
    assert chunk.selections is not None and chunk.candidates is None and not chunk.tables
    assert chunk.weights is None and chunk.outcome is None
    (chunk,) = trace.chunks({"selections"}, {"selections": ["outcome"]})
    assert chunk.weights is None and chunk.outcome is not None


WIDE: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "wider": lambda type: {pa.uint16(): pa.uint32(), pa.uint32(): pa.uint64()}.get(type, type),
    "signed": lambda type: {pa.uint16(): pa.int16(), pa.uint32(): pa.int32(), pa.uint8(): pa.int8()}.get(
        type, type
    ),
    "int32": lambda type: pa.int32() if pa.types.is_integer(type) and type != pa.uint64() else type,
    "int64": lambda type: pa.int64() if pa.types.is_integer(type) else type,
    "narrower": lambda type: pa.uint8() if pa.types.is_integer(type) and type != pa.int16() else type,
    "float32 scores": lambda type: pa.float32() if pa.types.is_float16(type) else type,
    "dictionary texts": lambda type: pa.dictionary(pa.int32(), pa.string()) if type == pa.string() else type,
    "large texts": lambda type: pa.large_string() if type == pa.string() else type,
    "float64 times": lambda type: pa.float64() if type == pa.float32() else type,
}


def stored(raw: Raw, name: str) -> Raw:
    """The same trace in other types."""
    if name == "narrower":  # bytes that a uint8 holds
        for table in ("experts", "reads"):
            for row in raw.tables[table]:
                row["bytes"] = 3
    widen = WIDE[name]
    for columns in raw.types.values():
        for column, type in columns.items():
            nested = pa.types.is_list(type)
            columns[column] = pa.list_(widen(type.value_type)) if nested else widen(type)
    return raw


@pytest.mark.parametrize("name", WIDE)
def test_types_of_other_width(tmp_path: Path, plain: dict[str, np.ndarray], name: str) -> None:
    (chunk,) = chunks(open_trace(stored(healthy(), name).write(tmp_path / "trace")))
    found = flat(chunk)
    if name == "narrower":
        found["reads.bytes"] = plain["reads.bytes"]
    same(found, plain)


@pytest.mark.parametrize(
    ("name", "sparse"), [*((name, False) for name in WIDE), ("int32", True), ("float32 scores", True)]
)
def test_types_of_other_width_replay_alike(tmp_path: Path, name: str, sparse: bool) -> None:
    """Kernels take what the reader gives: Arrow's own memory, which numpy may not write to, is not for all of them."""
    raw = healthy()
    if sparse:
        for table in ("candidates", "router_scores"):
            raw.types[table]["experts"] = pa.list_(pa.uint16())
            for row in raw.tables[table]:
                row["experts"] = np.argsort(row["scores"])[::-1].tolist()
                row["scores"] = np.sort(row["scores"])[::-1].tolist()
    found = []
    for trace in (raw.copy().write(tmp_path / "plain"), stored(raw, name).write(tmp_path / "other")):
        run = compare(
            open_trace(trace),
            ["unpert0+lru", "none+decode2q", "none+belady", "previous+confidence+lru"],
            semantics=Semantics(start="recorded"),
            grid=(),
        )
        away = compare(
            open_trace(trace), ["route+margin:0+lru"], routes=[parse_routes("rerouted")], slots="6", grid=()
        )
        counts = ("lookups", "hits", "prefetch_hits", "misses", "issued", "retired", "dropped")
        found.append([[row[each] for each in counts] for row in (*run.summary, *away.summary)])
    assert found[0] == found[1]


LISTS: dict[str, Callable[[pa.DataType, int], pa.DataType]] = {
    "large_list": lambda item, _: pa.large_list(item),
    "fixed_size_list": lambda item, size: pa.list_(item, size),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_other_kinds(tmp_path: Path, plain: dict[str, np.ndarray], name: str) -> None:
    raw = healthy()
    for columns in raw.types.values():
        for column, type in columns.items():
            if pa.types.is_list(type):
                size = EXPERTS if column == "scores" else TOP_K
                columns[column] = LISTS[name](type.value_type, size)
    (chunk,) = chunks(open_trace(raw.write(tmp_path / "trace")))
    same(flat(chunk), plain)


OPTIONS: dict[str, dict[str, Any]] = {
    "byte stream split": {"use_dictionary": False, "use_byte_stream_split": ["scores.list.element"]},
    "many row groups": {"row_group_size": 2},
    "small pages": {"data_page_size": 1, "write_batch_size": 1},
    "no statistics": {"write_statistics": False},
    "second data page version": {"data_page_version": "2.0"},
    "without Arrow's own schema": {"store_schema": False},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_other_ways_to_write(tmp_path: Path, plain: dict[str, np.ndarray], name: str) -> None:
    raw = healthy()
    folder = raw.write(tmp_path / "trace")
    for table in raw.tables if name != "byte stream split" else ("candidates", "router_scores"):
        pq.write_table(raw.arrow(table), folder / f"{table}.parquet", **OPTIONS[name])
    rewritten(folder, raw)
    (chunk,) = chunks(open_trace(folder))
    same(flat(chunk), plain)


def rewritten(folder: Path, raw: Raw) -> None:
    """Write trace.json anew for the files as they are."""
    import json

    tables = {name: entry(folder / f"{name}.parquet") for name in raw.tables}
    (folder / "trace.json").write_text(json.dumps({**raw.meta, "tables": tables}))


def test_columns_in_any_order_and_unknown_ones(tmp_path: Path, plain: dict[str, np.ndarray]) -> None:
    raw = healthy()
    shuffled = {}
    for name in raw.tables:
        table = raw.arrow(name)
        table = table.append_column("zz.note", pa.array(["x"] * table.num_rows))
        shuffled[name] = table.select(table.column_names[::-1])
    trace = open_trace(raw.write(tmp_path / "trace", **shuffled))
    assert trace.tables["selections"].extra == ("zz.note",)
    (chunk,) = chunks(trace)
    same(flat(chunk), plain)


@pytest.mark.parametrize("type", ["list", "null"])
def test_an_all_null_optional_column_is_absent(tmp_path: Path, type: str) -> None:
    raw = healthy()
    lists = {"candidates": ["experts"], "router_scores": ["experts"], "selections": ["weights", "outcome"]}
    flats = {
        "windows": ["domain", "output_hash"],
        "counters": ["issued", "wait_us"],
        "candidates": ["issued_after"],
    }
    for table, columns in [*lists.items(), *flats.items()]:
        for column in columns:
            known = pa.list_(pa.uint16()) if table in lists else pa.uint32()
            raw.types[table][column] = pa.null() if type == "null" else raw.types[table].get(column, known)
            for row in raw.tables[table]:
                row[column] = None
    if type == "list":
        raw.types["counters"]["wait_us"] = pa.float32()
    trace = open_trace(raw.write(tmp_path / "trace"))
    (chunk,) = chunks(trace)
    assert chunk.weights is None and chunk.outcome is None
    assert chunk.candidates is not None and chunk.candidates.experts is None
    assert chunk.candidates.issued_after is not None
    assert (chunk.candidates.issued_after == chunk.candidates.layer - 1).all()
    assert set(chunk.tables["counters"]) == set(healthy().types["counters"])
    assert trace.windows.domain is None and trace.windows.output_hash is None


def test_nulls_in_some_rows_of_optional_columns(tmp_path: Path) -> None:
    raw = healthy()
    raw.tables["selections"][2] |= {"weights": None, "outcome": None}
    raw.tables["candidates"][1]["issued_after"] = None
    raw.tables["windows"][1] |= {"domain": None, "output_hash": None}
    raw.types["counters"] |= {"issued": pa.uint32(), "wait_us": pa.float32()}
    for number, row in enumerate(raw.tables["counters"]):
        row |= {"issued": None if number else 7, "wait_us": None if number else 0.5}
    trace = open_trace(raw.write(tmp_path / "trace"))
    (chunk,) = chunks(trace)
    assert chunk.weights is not None and np.isnan(chunk.weights).nonzero()[0].tolist() == [4, 5]
    assert chunk.outcome is not None and (chunk.outcome == 255).nonzero()[0].tolist() == [4, 5]
    assert chunk.candidates is not None and chunk.candidates.issued_after is not None
    assert chunk.candidates.issued_after.tolist()[:2] == [0, 1]
    assert trace.windows.domain == ["text", None, "text", "text"]
    assert trace.windows.hashed is not None and trace.windows.hashed.tolist() == [True, False, True, True]
    assert chunk.tables["counters"]["issued"].tolist() == [7] + [-1] * 11
    assert np.isnan(chunk.tables["counters"]["wait_us"]).sum() == 11


def test_masked_scores_and_short_rows_are_legal(tmp_path: Path) -> None:
    raw = healthy()
    raw.tables["candidates"][0]["scores"] = [float("-inf")] * EXPERTS
    raw.tables["selections"][2] |= {"experts": [], "weights": [], "outcome": []}
    raw.tables["residents"][0]["experts"] = []
    (chunk,) = chunks(open_trace(raw.write(tmp_path / "trace")))
    assert chunk.candidates is not None and np.isneginf(chunk.candidates.scores[:EXPERTS]).all()
    assert chunk.selections is not None and chunk.selections.lengths.tolist() == [2, 2, 0, *[2] * 18]


def test_sparse_scores(tmp_path: Path) -> None:
    raw = healthy()
    raw.types["candidates"]["experts"] = pa.list_(pa.uint16())
    for number, row in enumerate(raw.tables["candidates"]):
        row |= {"experts": [7, 2, 0][: number % 4], "scores": row["scores"][: number % 4]}
    trace = open_trace(raw.write(tmp_path / "trace"))
    (chunk,) = chunks(trace)
    assert chunk.candidates is not None and chunk.candidates.experts is not None
    assert np.diff(chunk.candidates.offsets).tolist() == [number % 4 for number in range(8)]
    assert chunk.candidates.experts.tolist() == [7, 7, 2, 7, 2, 0, 7, 7, 2, 7, 2, 0]
    assert "experts" in trace.tables["candidates"].columns


def test_scores_widen_exactly(tmp_path: Path) -> None:
    raw = healthy()
    values = np.array([65504.0, -65504.0, 6e-8, 0.1, -0.0, 1.0, np.float16(2.0**-24), -np.inf], np.float16)
    raw.tables["candidates"][0]["scores"] = values.astype(float).tolist()
    (chunk,) = chunks(open_trace(raw.write(tmp_path / "trace")))
    assert chunk.candidates is not None and chunk.candidates.scores.dtype == np.float32
    np.testing.assert_array_equal(chunk.candidates.scores[:EXPERTS], values.astype(np.float32))


def test_every_half_widens_exactly() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        wide = halves.astype(np.float32)
    for part in (
        slice(None),
        slice(0, 0x7C00),
        slice(0x8000, 0xFC00),
        slice(0, 1),
        slice(5, 5),
        slice(3, 40_001),
    ):
        floats = np.empty(len(halves[part]), np.float32)
        widen(halves[part], floats)
        np.testing.assert_array_equal(floats, wide[part])
        assert (np.signbit(floats) == np.signbit(wide[part])).all()


@pytest.mark.parametrize("limit", [{"max_windows": 1}, {"max_windows": 3}, {"max_rows": 1}, {"max_rows": 3}])
def test_chunks_are_whole_windows_and_join_to_the_whole(
    tmp_path: Path, plain: dict[str, np.ndarray], limit: dict[str, int]
) -> None:
    trace = open_trace(healthy().write(tmp_path / "trace"))
    parts = chunks(trace, **limit)
    assert [part.w0 for part in parts] == [0, *[part.w1 for part in parts][:-1]] and parts[-1].w1 == 4
    for part in parts:
        rows = ROWS[part.w0 : part.w1]
        assert part.row_start.tolist() == np.cumsum([0, *rows]).tolist()
        assert len(part.row_start) == 2 or sum(rows) <= limit.get("max_rows", 99)
        assert part.selections is not None and len(part.selections.offsets) - 1 == sum(rows) * LAYERS
    for name in ("picks", "weights", "candidates.window", "candidates.scores", "residents", "reads.expert"):
        joined = np.concatenate([flat(part)[name] for part in parts])
        np.testing.assert_array_equal(joined, plain[name], err_msg=name)


def test_prefill_rows_can_be_left_out(tmp_path: Path) -> None:
    raw = healthy()
    trace = open_trace(raw.write(tmp_path / "trace"))
    (chunk,) = chunks(trace, decode_only=("residents",))
    assert chunk.residents is not None
    assert sorted(set(chunk.residents.window.tolist())) == [0, 2, 3]
    assert len(chunk.residents.experts.offsets) == 10
    rows = [row for row in raw.tables["residents"] if row["window"] != 1]
    assert chunk.residents.experts.values.tolist() == [e for row in rows for e in row["experts"]]


def test_prefill_where_the_phase_is_not_recorded(tmp_path: Path) -> None:
    """More than 8 rows mean prefill then."""
    rows = [8, 9, 9]
    tables = {
        "windows": [
            {"window": w, "session": 0, "phase": "decode" if w == 2 else None, "rows": count}
            for w, count in enumerate(rows)
        ],
        "selections": [
            {"window": w, "row": r, "layer": 0, "experts": [1]}
            for w, count in enumerate(rows)
            for r in range(count)
        ],
    }
    raw = healthy()
    types = {name: {c: t for c, t in raw.types[name].items() if c in tables[name][0]} for name in tables}
    meta = {**raw.meta, "model": {"name": "m", "layers": 1, "experts": 4, "top_k": 1}, "expert_bytes": 10}
    trace = open_trace(Raw(meta, tables, types).write(tmp_path / "trace"))
    assert trace.windows.prefill.tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["a b", "[1]*?", "naïve-Δ", "100%25", "~x", "-p"])
def test_odd_paths(tmp_path: Path, name: str) -> None:
    raw = healthy()
    folder = raw.write(tmp_path / name)
    (folder / "counters.parquet").rename(folder / f"{name}.parquet")
    text = (folder / "trace.json").read_text()
    (folder / "trace.json").write_text(text.replace('"counters.parquet"', '"' + name + '.parquet"'))
    assert len(chunks(open_trace(folder))) == 1


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    raw = healthy()
    del raw.tables["drafts"]
    trace = open_trace(raw.write(tmp_path / "trace"))
    assert not trace.has("drafts") and trace.has("reads")
    with pytest.raises(InputError, match="has no table drafts"):
        next(trace.chunks(["drafts"]))
    with pytest.raises(InputError, match="did you mean drafts"):
        next(trace.chunks(["draft"]))


def test_the_hash_is_compared_only_when_asked(tmp_path: Path) -> None:
    folder = healthy().write(tmp_path / "trace")
    text = (folder / "trace.json").read_text()
    (folder / "trace.json").write_text(text.replace(entry(folder / "reads.parquet")["sha256"], "0" * 64))
    with pytest.raises(InputError, match="SHA-256"):
        open_trace(folder)
    assert len(chunks(open_trace(folder, verify=False))) == 1


def test_ending_a_stream_does_not_wait_for_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may end a half-read stream in any thread; waiting there for another can lock up."""
    trace = open_trace(healthy().write(tmp_path / "trace"))
    info = trace.tables["selections"]
    released = threading.Event()

    class Slow:
        def iter_batches(self, *_: Any, **__: Any) -> Iterator[pa.RecordBatch]:
            yield from open_parquet(info.path).iter_batches()
            released.wait(60)

    monkeypatch.setattr(stream_module, "open_parquet", lambda *_: Slow())
    stream = TableStream(info, info.columns, trace.frame, Reports(refuse).of(info.path, "selections"))
    assert stream.take(1)
    ending = threading.Thread(target=stream.close)
    ending.start()
    ending.join(20)
    waited = ending.is_alive()
    released.set()
    assert not waited


RECORDED = ("e256-moce", "e64-gen", "e64-moce", "e64-plain", "e64-spec")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_read_as_pyarrow_reads_them(shared: Path, name: str) -> None:
    folder = shared / "traces" / "recorded" / name
    trace = open_trace(folder)
    parts = list(trace.chunks([each for each in TABLES if trace.has(each)], COLUMNS))
    for table, column in (("selections", "experts"), ("candidates", "scores"), ("router_scores", "scores")):
        whole = pq.read_table(folder / f"{table}.parquet", columns=[column]).column(0).combine_chunks()
        values = whole.flatten().to_numpy(zero_copy_only=False)
        if table == "selections":
            read = np.concatenate([part.selections.values for part in parts if part.selections])
        else:
            read = np.concatenate([getattr(part, table).scores for part in parts])
        np.testing.assert_array_equal(read, values)
    assert sum(len(part.row_start) - 1 for part in parts) == len(trace.windows)


def test_selected_probabilities_of_a_public_trace(shared: Path) -> None:
    trace = open_trace(shared / "traces" / "external" / "gptoss20b")
    parts = list(trace.chunks(["selections"], COLUMNS))
    assert sum(len(part.weights) for part in parts if part.weights is not None) == 178_008 * 4
    assert trace.windows.prefill.sum() == 0 and len(set(trace.windows.session.tolist())) == 22


def test_what_might_lie_past_a_sparse_rows_end() -> None:
    """Against the definition: some score of an unrecorded expert, no higher than the last, changes the picks."""
    rng = np.random.default_rng(4)
    rows = [np.sort(rng.integers(-6, 6, rng.integers(0, 9)))[::-1] / 4 for _ in range(3000)]
    offsets = np.cumsum([0, *[len(row) for row in rows]])
    flat_scores = np.concatenate(rows).astype(np.float32)
    zeros = np.zeros(len(rows), np.int64)
    scores = Scores(zeros, zeros, zeros, None, offsets, flat_scores, np.zeros(len(flat_scores), np.int32))
    for k, margin in ((1, 0.0), (3, 0.0), (3, 0.5), (5, 0.85)):
        found = past_end(scores, 8, k, margin)
        for row, past in zip(rows, found.tolist(), strict=True):
            exact = len(row) == 8 or (len(row) >= k and (margin == 0 or row[-1] + margin < row[k - 1]))
            assert past != exact, (row, k, margin)
    bonus = np.where(np.arange(len(rows)) % 2, 1.7, 0.85)
    mixed = past_end(scores, 8, 3, bonus)
    np.testing.assert_array_equal(mixed[1::2], past_end(scores, 8, 3, 1.7)[1::2])
    np.testing.assert_array_equal(mixed[::2], past_end(scores, 8, 3, 0.85)[::2])
