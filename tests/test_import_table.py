"""The importer of tables: every shape, order and type that a table of routes comes in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from imported import convert, lists, phases

from replay.errors import InputError
from replay.importers import Request

Cli = Callable[..., Outcome]

# (session, phase, token, layer): a prompt of two tokens, two generated ones; then another session
ROWS: list[tuple[str, str, int, int, list[int], list[float]]] = [
    ("a", "prefill", 0, 2, [3, 1], [0.5, 0.25]), ("a", "prefill", 0, 5, [0, 2], [0.5, 0.5]),
    ("a", "prefill", 1, 2, [1, 2], [0.5, 0.25]), ("a", "prefill", 1, 5, [2, 3], [0.5, 0.5]),
    ("a", "decode", 2, 2, [0, 1], [0.5, 0.25]), ("a", "decode", 2, 5, [3, 2], [0.5, 0.5]),
    ("b", "decode", 0, 2, [2, 3], [0.5, 0.25]), ("b", "decode", 0, 5, [2, 1], [0.5, 0.5]),
]  # fmt: skip
EXPECTED = {
    (0, 0, 0): [3, 1], (0, 0, 1): [0, 2], (0, 1, 0): [1, 2], (0, 1, 1): [2, 3], (1, 0, 0): [0, 1], (1, 0, 1): [3, 2],
    (2, 0, 0): [2, 3], (2, 0, 1): [2, 1],
}  # fmt: skip


def picks(rows: Any = ROWS) -> list[dict[str, Any]]:
    """One row a pick."""
    return [
        {"session": s, "phase": p, "token": t, "layer": layer, "rank": rank, "expert": e, "weight": w}
        for s, p, t, layer, ids, weights in rows
        for rank, (e, w) in enumerate(zip(ids, weights, strict=True))
    ]


def whole(rows: Any = ROWS) -> list[dict[str, Any]]:
    """One row a token and layer."""
    return [
        {"session": s, "phase": p, "token": t, "layer": layer, "experts": ids, "weights": weights}
        for s, p, t, layer, ids, weights in rows
    ]


def csv(path: Path, rows: list[dict[str, Any]], write: Callable[[Any], str] = str) -> Path:
    lines = [",".join(rows[0])]
    for row in rows:
        cells = [write(value) if isinstance(value, list) else str(value) for value in row.values()]
        lines.append(",".join(f'"{cell}"' if "," in cell else cell for cell in cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def parquet(
    path: Path, rows: list[dict[str, Any]], types: dict[str, pa.DataType] | None = None, **options: Any
) -> Path:
    table = pa.Table.from_pylist(rows)
    fields = [field.with_type((types or {}).get(field.name, field.type)) for field in table.schema]
    pq.write_table(table.cast(pa.schema(fields)), path, **options)
    return path


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "csv of picks": lambda p: csv(p, picks()),
    "csv of lists": lambda p: csv(p, whole()),
    "csv of lists, blanks": lambda p: csv(p, whole(), lambda v: " ".join(map(str, v))),
    "csv of lists, semicolons": lambda p: csv(p, whole(), lambda v: ";".join(map(str, v))),
    "parquet of picks": lambda p: parquet(p, picks()),
    "parquet of lists": lambda p: parquet(p, whole()),
    "parquet of large lists": lambda p: parquet(p, whole(), {"experts": pa.large_list(pa.uint8())}),
    "parquet of fixed lists": lambda p: parquet(
        p, whole(), {"experts": pa.list_(pa.uint16(), 2), "weights": pa.list_(pa.float32(), 2)}
    ),
    "parquet of text lists": lambda p: parquet(p, [row | {"experts": str(row["experts"])} for row in whole()]),
    "parquet of dictionaries": lambda p: parquet(
        p, picks(), {"phase": pa.dictionary(pa.int8(), pa.string()), "expert": pa.uint32(), "token": pa.uint8()}
    ),
    "parquet of half floats": lambda p: parquet(
        p, picks(), {"weight": pa.float16()}, column_encoding={"weight": "BYTE_STREAM_SPLIT"}, use_dictionary=False
    ),
    "parquet of floats": lambda p: parquet(p, picks(), {"expert": pa.float64(), "layer": pa.float32()}),
    "json of picks": lambda p: jsonl(p, picks()),
    "json of lists": lambda p: jsonl(p, whole()),
    "shuffled csv of picks": lambda p: csv(p, [picks()[i] for i in np.random.default_rng(1).permutation(16)]),
    "shuffled parquet of lists": lambda p: parquet(p, whole()[4:6] + whole()[:4] + whole()[6:]),
    "layer by layer": lambda p: csv(p, sorted(picks(), key=lambda row: (row["session"], row["layer"]))),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_trace(tmp_path: Path, kind: str) -> None:
    result, trace = convert("table", KINDS[kind](tmp_path / "r ü[1]*"))
    assert lists(trace) == EXPECTED
    assert phases(trace) == ["prefill", "decode", "decode"] and trace.windows.session.tolist() == [0, 0, 1]
    assert trace.meta.layer_ids == (2, 5) and result.removed == {} and result.read == 8
    np.testing.assert_allclose(lists(trace, "weights")[0, 0, 0], [0.5, 0.25])
    sorted_ = "the rows were in no order of time: sorted by session, token and layer" in result.notes
    assert sorted_ == kind.startswith(("shuffled", "layer"))


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.importers.routed.log._LISTS", 3)
    monkeypatch.setattr("replay.importers.text_rows._BLOCK", 40)
    for module in ("rows", "parquet"):
        monkeypatch.setattr(f"replay.importers.table.{module}.ROWS", 3 if module == "parquet" else 16)
    for kind in KINDS:
        assert lists(convert("table", KINDS[kind](tmp_path / "r"), Request(force=True))[1]) == EXPECTED, kind


def test_columns_are_mapped(tmp_path: Path) -> None:
    """As asked; else by known names, and the trace says which."""
    names = {"session": "who", "phase": "kind", "token": "when", "layer": "depth", "experts": "e0"}
    rows = [
        {names.get(k, k): v for k, v in row.items() if k not in ("experts", "weights")}
        | {"e0": row["experts"][0], "e1": row["experts"][1], "e10": 0, "extra": 1}
        for row in whole()
    ]
    asked = {"session": "who", "phase": "kind", "token": "when", "layer": "depth", "expert": "e*"}
    for make in (csv, parquet):
        path = make(tmp_path / "r", [{k: v for k, v in row.items() if k != "e10"} for row in rows])
        result, trace = convert("table", path, Request(force=True, columns=asked))
        assert lists(trace) == EXPECTED and "columns ignored: extra" in result.notes
    rows = [{"tok": 3, "layer_idx": 0, "selected_ids": [1, 0], "gate_weights": [0.5, 0.5]}]
    result, trace = convert("table", jsonl(tmp_path / "r", rows), Request(force=True))
    assert lists(trace) == {(0, 0, 0): [1, 0]}
    assert (
        "columns taken by their names: token=tok, layer=layer_idx, expert=selected_ids, weight=gate_weights; "
        "--map says otherwise"
    ) in result.notes


def test_steps_are_windows(tmp_path: Path) -> None:
    """With a column of forward steps, rows of one are one window, whichever way they go."""
    rows = [{"step": step, "token": token, "layer": layer, "expert": (token + layer) % 4}
            for step, tokens in ((0, (0, 1, 2)), (4, (3,)), (5, (4, 5))) for layer in (0, 1)
            for token in tokens]  # fmt: skip
    asked = {"step": "step", "token": "token"}
    result, trace = convert("table", csv(tmp_path / "r", rows), Request(columns=asked))
    assert trace.windows.rows.tolist() == [3, 1, 2] and lists(trace)[2, 1, 0] == [1]
    by_token = sorted(rows, key=lambda row: (row["step"], row["token"]))
    made = convert("table", csv(tmp_path / "s", by_token), Request(columns=asked, force=True))[1]
    assert lists(made) == lists(trace)
    two = [row | {"session": name} for row in rows for name in ("a", "b")]  # a batch of two sequences
    made = convert("table", csv(tmp_path / "t", two), Request(columns=asked, force=True))[1]
    assert made.windows.rows.tolist() == [6, 2, 4]


def test_tokens_that_start_over_begin_a_session(tmp_path: Path) -> None:
    """Where no column tells sessions; where one does, the key stands there twice, which is refused."""
    rows = [{key: row[key] for key in ("token", "layer", "experts")} for row in whole()]
    result, trace = convert("table", csv(tmp_path / "r", rows))
    assert trace.windows.session.tolist() == [0, 0, 0, 1]
    assert "token numbers start over 1 times: each begins a session" in result.notes
    same = [row | {"session": "r0"} for row in rows]
    with pytest.raises(InputError, match="token 0 of session 0 has layer 2 twice in one step"):
        convert("table", csv(tmp_path / "r", same), Request(force=True))


def test_null_picks(tmp_path: Path) -> None:
    """-1, null inside a list, a null list, NaN in a float column, and the largest unsigned number."""
    rows = [row | {"experts": [3, None] if i == 0 else None if i == 5 else row["experts"],
                   "weights": [0.5, None] if i == 0 else row["weights"]} for i, row in enumerate(whole())]  # fmt: skip
    result, trace = convert("table", parquet(tmp_path / "r", rows))
    assert lists(trace) == EXPECTED | {(0, 0, 0): [3], (1, 0, 1): []}
    assert lists(trace, "weights")[0, 0, 0] == [0.5]
    for type, null in (
        (pa.float64(), None),
        (pa.uint32(), 2**32 - 1),
        (pa.uint64(), 2**64 - 1),
        (pa.int8(), -1),
    ):
        rows = [row | {"expert": null if i == 1 else row["expert"]} for i, row in enumerate(picks())]
        for row in rows:
            del row["weight"]
        table = pa.table({name: pa.array([row[name] for row in rows], type if name == "expert" else None)
                          for name in rows[0]})  # fmt: skip
        pq.write_table(table, tmp_path / "r")
        found = convert("table", tmp_path / "r", Request(force=True))[1]
        assert lists(found) == EXPECTED | {(0, 0, 0): [3]}, type


def test_null_in_lists_of_text(tmp_path: Path) -> None:
    rows = [row | {"experts": "[3, null]" if i == 0 else row["experts"],
                   "weights": "[nan 0.5]" if i == 1 else row["weights"]} for i, row in enumerate(whole())]  # fmt: skip
    result, trace = convert("table", csv(tmp_path / "r", rows))
    assert lists(trace)[0, 0, 0] == [3] and any(
        "1 of 8 (12.5%) lists have a weight" in n for n in result.notes
    )


def test_weights_and_outcomes(tmp_path: Path) -> None:
    rows = [row | {"outcome": [0, 1], "domain": row["session"] * 2} for row in whole()]
    rows[0]["weights"] = []
    rows[1]["weights"] = [0.5, float("nan")]
    result, trace = convert("table", parquet(tmp_path / "r", rows))
    assert lists(trace, "outcome")[1, 0, 0] == [0, 1] and trace.windows.domain == ["aa", "aa", "bb"]
    assert any(
        note.startswith("2 of 8 (25.0%) lists have a weight that is no number") for note in result.notes
    )
    assert any("sum to 0.75 to 1: not renormalised" in note for note in result.notes)


def test_a_table_cut_at_its_end(tmp_path: Path) -> None:
    path = csv(tmp_path / "r", picks())
    path.write_text(path.read_text()[:-6])
    result, trace = convert("table", path)
    assert lists(trace) == {key: ids for key, ids in EXPECTED.items() if key[0] < 2}
    assert result.removed == {
        "cut short by the file's end": 1,
        "of a first or last step that is not whole": 1,
    }


def test_too_many_to_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.importers.table.log._SORTED", 10)
    assert lists(convert("table", csv(tmp_path / "r", picks()))[1]) == EXPECTED
    with pytest.raises(
        InputError, match="not in the order of time, and more than 10 rows to sort in memory; sort it"
    ):
        convert("table", csv(tmp_path / "r", picks()[::-1]), Request(force=True))


def edited(index: int, **values: Any) -> list[dict[str, Any]]:
    rows = whole()
    rows[index] |= values
    return rows


REFUSALS: tuple[tuple[str, Callable[[Path], Any], dict[str, str], str], ...] = (
    ("no bytes", lambda p: p.write_bytes(b""), {}, "expected a table, found 0 bytes"),
    ("no column", lambda p: csv(p, [{"a": 1, "layer": 2}]), {}, "which column holds the token? say --map token=COLUMN"),
    ("unknown what", lambda p: csv(p, picks()), {"tokn": "a"}, "a table is not read for 'tokn'; did you mean token?"),
    ("unknown column", lambda p: csv(p, picks()), {"token": "tokn"}, "no column 'tokn' for token; did you mean token?"),
    ("no wide column", lambda p: csv(p, picks()), {"expert": "e*"}, "no column 'e*' for expert"),
    ("cut parquet", lambda p: parquet(p, whole()).write_bytes(p.read_bytes()[:-8]), {}, "not a whole Parquet file"),
    ("damaged parquet",
     lambda p: parquet(p, whole()).write_bytes(p.read_bytes()[:4] + b"x" * 400 + p.read_bytes()[404:]),
     {}, "damaged near row"),
    ("text layers", lambda p: parquet(p, edited(0), {"layer": pa.string()}), {},
     "column layer: expected numbers, found string"),
    ("null token", lambda p: parquet(p, edited(2, token=None)), {},
     "row 3: expected a whole number in token, found null"),
    ("token below 0", lambda p: parquet(p, edited(2, token=-4)), {}, "row 3: expected a token from 0, found -4"),
    ("half a layer", lambda p: parquet(p, [r | {"layer": r["layer"] + 0.5} for r in whole()]), {},
     "row 1: expected whole numbers in layer, found 2.5"),
    ("beyond 64 bits",
     lambda p: pq.write_table(pa.table({"token": pa.array([2**63 + 5], pa.uint64()), "layer": [0], "expert": [1]}), p),
     {}, "column token: a number beyond 64 bits"),
    ("other weights", lambda p: parquet(p, edited(1, weights=[0.5])), {}, "row 2: expected 2 of weight, found 1"),
    ("weights in lists only", lambda p: parquet(p, [r | {"weight": [1.0]} for r in picks()]), {},
     "weight holds lists, but expert"),
    ("a phase", lambda p: parquet(p, edited(1, phase="warm")), {},
     "row 2: expected phase prefill or decode, found 'warm'"),
    ("an outcome", lambda p: parquet(p, [r | {"outcome": [0, 3]} for r in whole()]), {},
     "expected outcomes 0, 1, 2 or 255, found 3"),
    ("an expert twice", lambda p: parquet(p, edited(1, experts=[2, 2])), {}, "row 2: expert 2 is picked twice"),
    ("no list", lambda p: csv(p, edited(1, experts="[1, two]")), {},
     "line 3: expected a list of numbers in experts, found '[1, two]'"),
    ("half an expert", lambda p: csv(p, edited(1, experts="[1, 1.5]")), {},
     "expected whole numbers in experts, found '1.5'"),
    ("no key", lambda p: jsonl(p, [*whole(), {"token": 9, "layer": 2}]), {}, "line 9: expected a key"),
    ("a rank twice", lambda p: csv(p, [r | {"rank": 0} for r in picks()]), {},
     "rank 0 of one token and layer stands there twice"),
    ("a gap", lambda p: csv(p, whole()[:5] + whole()[6:]), {}, "line 6: token 2 of session 0 has no list of layer 5"),
    ("two columns",
     lambda p: pq.write_table(pa.table([pa.array([1])] * 2, names=["token", "token"]), p), {}, "found 'token' twice"),
    ("counts", lambda p: p.write_bytes(b"-1 2 4\n0 1 7\n"), {}, "a usage history holds counts of picks"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "make", "columns", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS]
)
def test_refusals(
    tmp_path: Path, what: str, make: Callable[[Path], Any], columns: dict[str, str], expected: str
) -> None:
    make(tmp_path / "r")
    with pytest.raises(InputError) as problem:
        convert("table", tmp_path / "r", Request(columns=columns))
    assert expected in str(problem.value) and "\n" not in str(problem.value)
    assert [each.name for each in tmp_path.iterdir()] == ["r"]


def test_the_toy_replays_to_its_counts(shared: Path, tmp_path: Path, cli: Cli) -> None:
    """15 events, 30 accesses, 12 hits and 18 misses with LRU and two slots a layer, as its authors have them."""
    source = shared / "traces" / "external" / "toy" / "events.csv"
    if not source.is_file():
        pytest.skip("no ../shared/traces/external/toy")
    done = cli(
        "import", "table", source, tmp_path / "toy", "--map", "token=scheduler_step,expert=requested_experts"
    )
    assert done.code == 0 and "5 windows, 5 rows, 30 lookups" in done.out
    assert "columns taken by their names: layer=layer; --map says otherwise" in done.err
    assert "columns ignored: event_index, misses, hits" in done.err
    run = cli("compare", tmp_path / "toy", "-p", "none+lru", "--slots", "6", "--scope", "layer", "--no-curves",
              "--no-clock", "--json", "-q")  # fmt: skip
    row = json.loads(run.out)["summary"][0]
    assert (row["lookups"], row["hits"], row["misses"]) == (30, 12, 18)
