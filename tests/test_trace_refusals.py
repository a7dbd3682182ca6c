"""Everything that trace-format.md refuses: the damage is made, and the reader and validation tell it alike."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from raw_trace import EXPERTS, Raw, entry, healthy

from replay.errors import InputError
from replay.trace import open_trace
from replay.trace.validate import validate

Edit = Callable[[Raw], Any]
NAN, INF = float("nan"), float("inf")


def at(raw: Raw, table: str, place: int, /, **values: Any) -> None:
    raw.tables[table][place] |= values


def retype(raw: Raw, table: str, **types: pa.DataType) -> None:
    raw.types[table] |= types


def drop(raw: Raw, table: str, column: str) -> None:
    del raw.types[table][column]


def sparse(raw: Raw, table: str, experts: list[list[int] | None]) -> None:
    """Give score rows ids: the first rows those given, all others two ids."""
    retype(raw, table, experts=pa.list_(pa.uint16()))
    for number, row in enumerate(raw.tables[table]):
        ids = experts[number] if number < len(experts) else [1, 0]
        row |= {"experts": ids, "scores": row["scores"][: 2 if ids is None else len(ids)]}


def swap(raw: Raw, table: str, first: int, second: int) -> None:
    rows = raw.tables[table]
    rows[first], rows[second] = rows[second], rows[first]


def classes(raw: Raw) -> None:
    for row in raw.tables["experts"]:
        row["size_class"] = row["expert"] % 2


# name: (edit of the healthy trace, reason, table, what the line has to say)
ROWS: dict[str, tuple[Edit, str, str, str]] = {
    "unsorted": (lambda r: swap(r, "selections", 3, 4), "unsorted", "selections", "window 1, row 0, layer 0"),
    "duplicate": (
        lambda r: r.tables["counters"].insert(4, dict(r.tables["counters"][4])),
        "duplicate",
        "counters",
        "window 1, layer 1",
    ),
    "duplicate candidates with another issued_after": (
        lambda r: r.tables["candidates"].insert(1, r.tables["candidates"][0] | {"issued_after": -1}),
        "duplicate",
        "candidates",
        "window 0, row 0, layer 1",
    ),
    "reads unsorted by kind": (
        lambda r: r.tables["reads"].insert(0, r.tables["reads"][0] | {"kind": "prefetch"}),
        "unsorted",
        "reads",
        "kind demand",
    ),
    "window repeated": (
        lambda r: r.tables["windows"].insert(1, dict(r.tables["windows"][1])),
        "window-number",
        "windows",
        "window 1",
    ),
    "window left out": (lambda r: r.tables["windows"].pop(1), "window-number", "windows", "window 2"),
    "windows from 1": (lambda r: r.tables["windows"].pop(0), "window-number", "windows", "window 1"),
    "window without rows": (lambda r: at(r, "windows", 2, rows=0), "window-rows", "windows", "window 2"),
    "unknown phase": (lambda r: at(r, "windows", 0, phase="warmup"), "phase", "windows", "'warmup'"),
    "null rows": (lambda r: at(r, "windows", 0, rows=None), "null", "windows", "rows"),
    "row missing": (
        lambda r: r.tables["selections"].pop(5),
        "missing-rows",
        "selections",
        "window 1, row 0, layer 2",
    ),
    "window missing": (
        lambda r: r.tables.update(selections=[x for x in r.tables["selections"] if x["window"] != 2]),
        "missing-rows",
        "selections",
        "window 2, row 0, layer 0",
    ),
    "last row missing": (
        lambda r: r.tables["selections"].pop(),
        "missing-rows",
        "selections",
        "window 3, row 0, layer 2",
    ),
    "layer missing from router_scores": (
        lambda r: r.tables["router_scores"].pop(1),
        "missing-rows",
        "router_scores",
        "window 0, row 0, layer 1",
    ),
    "candidates of one row missing": (
        lambda r: r.tables["candidates"].pop(5),
        "missing-rows",
        "candidates",
        "window 2, row 1, layer 2",
    ),
    "layer missing from residents": (
        lambda r: r.tables["residents"].pop(4),
        "missing-rows",
        "residents",
        "window 1, layer 1",
    ),
    "layer missing from timing": (
        lambda r: r.tables["timing"].pop(0),
        "missing-rows",
        "timing",
        "window 0, layer 0",
    ),
    "draft missing": (
        lambda r: (at(r, "windows", 2, rows=3), at(r, "drafts", 0, step=1)),
        "missing-rows",
        "drafts",
        "window 2, step 0",
    ),
    "draft without its row": (
        lambda r: r.tables["drafts"].append({"window": 2, "step": 1, "p": 0.5, "matched": True}),
        "unknown-row",
        "drafts",
        "window 2, step 1",
    ),
    "matched after unmatched": (
        lambda r: (
            at(r, "windows", 2, rows=3),
            at(r, "drafts", 0, matched=False),
            r.tables["drafts"].append({"window": 2, "step": 1, "p": 0.5, "matched": True}),
        ),
        "matched",
        "drafts",
        "window 2, step 1",
    ),
    "unknown window": (lambda r: at(r, "counters", -1, window=9), "unknown-window", "counters", "window 9"),
    "unknown row": (lambda r: at(r, "selections", -1, row=1), "unknown-row", "selections", "window 3, row 1"),
    "unknown layer": (lambda r: at(r, "selections", -1, layer=3), "unknown-layer", "selections", "layer 3"),
    "unknown expert in experts": (
        lambda r: at(r, "experts", -1, expert=8),
        "unknown-expert",
        "experts",
        "expert 8",
    ),
    "unknown expert in reads": (lambda r: at(r, "reads", 0, expert=8), "unknown-expert", "reads", "expert 8"),
    "expert id too large": (
        lambda r: at(r, "selections", 4, experts=[0, EXPERTS]),
        "unknown-expert",
        "selections",
        "window 1, row 0, layer 1",
    ),
    "resident id too large": (
        lambda r: at(r, "residents", 4, experts=[0, EXPERTS]),
        "unknown-expert",
        "residents",
        "window 1, layer 1",
    ),
    "expert id -1": (
        lambda r: (
            retype(r, "selections", experts=pa.list_(pa.int32())),
            at(r, "selections", 4, experts=[0, -1]),
        ),
        "unknown-expert",
        "selections",
        "-1",
    ),
    "expert id 4294967295": (
        lambda r: (
            retype(r, "selections", experts=pa.list_(pa.uint32())),
            at(r, "selections", 4, experts=[0, 2**32 - 1]),
        ),
        "unknown-expert",
        "selections",
        "4294967295",
    ),
    "window -1": (
        lambda r: (retype(r, "counters", window=pa.int64()), at(r, "counters", 0, window=-1)),
        "value",
        "counters",
        "window -1",
    ),
    "count past uint32": (
        lambda r: (retype(r, "counters", misses=pa.int64()), at(r, "counters", 2, misses=2**32)),
        "value",
        "counters",
        "4294967296",
    ),
    "bytes past int64": (
        lambda r: at(r, "experts", 0, bytes=2**63),
        "value",
        "experts",
        "9223372036854775808",
    ),
    "repeated pick": (
        lambda r: at(r, "selections", 4, experts=[5, 5]),
        "repeated-expert",
        "selections",
        "[5, 5]",
    ),
    "repeated pick beside a short row": (
        lambda r: (
            at(r, "selections", 1, experts=[2], weights=[1.0], outcome=[0]),
            at(r, "selections", 4, experts=[5, 5]),
        ),
        "repeated-expert",
        "selections",
        "[5, 5]",
    ),
    "too many picks": (
        lambda r: at(r, "selections", 4, experts=[5, 6, 7], weights=[0.5, 0.3, 0.2], outcome=[0, 0, 0]),
        "picks",
        "selections",
        "top_k = 2",
    ),
    "weights of other length": (
        lambda r: at(r, "selections", 4, weights=[1.0]),
        "length",
        "selections",
        "as many weights",
    ),
    "outcomes of other length": (
        lambda r: at(r, "selections", 4, outcome=[1, 1, 1]),
        "length",
        "selections",
        "as many outcome",
    ),
    "unknown outcome": (lambda r: at(r, "selections", 4, outcome=[1, 3]), "outcome", "selections", "found 3"),
    "null picks": (lambda r: at(r, "selections", 4, experts=None), "null", "selections", "layer 1"),
    "null inside picks": (
        lambda r: at(r, "selections", 4, experts=[1, None]),
        "null-item",
        "selections",
        "window 1, row 0, layer 1",
    ),
    "null inside float16 scores": (
        lambda r: at(r, "candidates", 1, scores=[None] * EXPERTS),
        "null-item",
        "candidates",
        "scores",
    ),
    "null key": (lambda r: at(r, "selections", 4, layer=None), "null", "selections", "row number 4"),
    "NaN score": (
        lambda r: at(r, "candidates", 3, scores=[0.0] * 7 + [NAN]),
        "score",
        "candidates",
        "window 2, row 0, layer 2",
    ),
    "negative NaN score": (
        lambda r: at(r, "candidates", 3, scores=[0.0] * 7 + [-NAN]),
        "score",
        "candidates",
        "found nan",
    ),
    "+inf score": (
        lambda r: at(r, "router_scores", 3, scores=[INF] * 8),
        "score",
        "router_scores",
        "found inf",
    ),
    "float32 NaN score": (
        lambda r: (
            retype(r, "candidates", scores=pa.list_(pa.float32())),
            at(r, "candidates", 3, scores=[0.0] * 7 + [NAN]),
        ),
        "score",
        "candidates",
        "found nan",
    ),
    "dense row too short": (
        lambda r: at(r, "candidates", 3, scores=[0.0] * 7),
        "dense-length",
        "candidates",
        "8 scores",
    ),
    "dense row too long": (
        lambda r: at(r, "router_scores", 3, scores=[0.0] * 9),
        "dense-length",
        "router_scores",
        "found 9",
    ),
    "sparse row of other length": (
        lambda r: (sparse(r, "candidates", []), at(r, "candidates", 3, scores=[1.0])),
        "length",
        "candidates",
        "as many scores",
    ),
    "sparse id too large": (lambda r: sparse(r, "candidates", [[1, 8]]), "unknown-expert", "candidates", "8"),
    "sparse id twice": (
        lambda r: sparse(r, "candidates", [[1, 1]]),
        "repeated-expert",
        "candidates",
        "[1, 1]",
    ),
    "sparse in some rows": (lambda r: sparse(r, "candidates", [None]), "null", "candidates", "experts"),
    "issued after its layer": (
        lambda r: at(r, "candidates", 3, issued_after=2),
        "issued-after",
        "candidates",
        "window 2, row 0, layer 2",
    ),
    "issued before the window": (
        lambda r: at(r, "candidates", 3, issued_after=-2),
        "issued-after",
        "candidates",
        "found -2",
    ),
    "size zero": (lambda r: at(r, "experts", 9, bytes=0), "size", "experts", "layer 1, expert 1"),
    "size null": (lambda r: at(r, "experts", 9, bytes=None), "null", "experts", "layer 1, expert 1"),
    "size missing": (lambda r: r.tables["experts"].pop(9), "size-missing", "experts", "layer 1, expert 1"),
    "size other than expert_bytes": (
        lambda r: r.meta.update(expert_bytes=1000),
        "size",
        "experts",
        "layer 0, expert 1",
    ),
    "residents not ascending": (
        lambda r: at(r, "residents", 4, experts=[3, 1]),
        "residents-order",
        "residents",
        "[3, 1]",
    ),
    "resident twice": (
        lambda r: at(r, "residents", 4, experts=[3, 3]),
        "residents-order",
        "residents",
        "window 1, layer 1",
    ),
    "more residents than slots": (
        lambda r: at(r, "residents", 4, experts=[0, 1, 2, 3, 4]),
        "residents-over-slots",
        "residents",
        "window 1",
    ),
    "more residents than a layer's slots": (
        lambda r: (r.meta["policy"].update(scope="layer"), at(r, "residents", 5, experts=[0, 1, 2])),
        "residents-over-slots",
        "residents",
        "window 1, layer 2",
    ),
    "more residents than a class's slots": (
        lambda r: (
            classes(r),
            r.meta["policy"].update(slots=[9, 5]),
            at(r, "residents", 4, experts=[1, 3, 5, 7]),
            at(r, "residents", 5, experts=[1, 3]),
        ),
        "residents-over-slots",
        "residents",
        "class 1",
    ),
    "unknown kind": (lambda r: at(r, "reads", 0, kind="guess"), "kind", "reads", "'guess'"),
    "column missing": (
        lambda r: drop(r, "selections", "experts"),
        "column-missing",
        "selections",
        "column experts",
    ),
    "phase column missing": (
        lambda r: drop(r, "windows", "phase"),
        "column-missing",
        "windows",
        "column phase",
    ),
    "column of floats": (
        lambda r: retype(r, "counters", misses=pa.float64()),
        "column-type",
        "counters",
        "column misses",
    ),
    "scores of float64": (
        lambda r: retype(r, "candidates", scores=pa.list_(pa.float64())),
        "column-type",
        "candidates",
        "float16 or float32",
    ),
    "list where a value belongs": (
        lambda r: (
            retype(r, "counters", misses=pa.list_(pa.uint32())),
            [row.update(misses=[1]) for row in r.tables["counters"]],
        ),
        "column-type",
        "counters",
        "list",
    ),
    "empty windows": (lambda r: r.tables.update(windows=[]), "empty", "windows", "found none"),
    "empty selections": (lambda r: r.tables.update(selections=[]), "empty", "selections", "found none"),
    "empty candidates": (lambda r: r.tables.update(candidates=[]), "empty", "candidates", "found none"),
}


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change trace.json after all was written."""
    path = folder / "trace.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def settle(folder: Path, name: str) -> None:
    """Write the damaged file's own hash into trace.json, so that only the damage is told."""
    path = folder / f"{name}.parquet"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(folder, lambda d: d["tables"][name].update(sha256=digest))


def cut(folder: Path, name: str, last: int) -> None:
    path = folder / f"{name}.parquet"
    path.write_bytes(path.read_bytes()[:-last])


def flip(folder: Path, name: str, place: int) -> None:
    path = folder / f"{name}.parquet"
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def outside(folder: Path) -> None:
    """Move a table out of the folder and leave a link to it."""
    target = folder.parent / "elsewhere.parquet"
    (folder / "counters.parquet").rename(target)
    (folder / "counters.parquet").symlink_to(target)


def text_of(path: str, data: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / path).write_bytes(data)


def field(name: str, value: Any) -> Callable[[Path], None]:
    """Set a field of trace.json by its dotted name; Ellipsis removes it."""

    def change(document: dict[str, Any]) -> None:
        *parents, last = name.split(".")
        for parent in parents:
            document = document[parent]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return lambda folder: rewrite(folder, change)


# name: (damage to the written folder, reason, file that the line names, what it has to say)
FILES: dict[str, tuple[Callable[[Path], Any], str, str, str]] = {
    "no folder": (lambda f: f.rename(f.parent / "gone"), "trace-missing", "trace", "nothing"),
    "no trace.json": (
        lambda f: (f / "trace.json").unlink(),
        "trace-json-missing",
        "trace.json",
        "no such file",
    ),
    "trace.json a folder": (
        lambda f: ((f / "trace.json").unlink(), (f / "trace.json").mkdir()),
        "trace-json-missing",
        "trace.json",
        "",
    ),
    "empty trace.json": (text_of("trace.json", b""), "trace-json-unreadable", "trace.json", "JSON"),
    "cut trace.json": (text_of("trace.json", b'{"format": "moe'), "trace-json-unreadable", "trace.json", ""),
    "trace.json not UTF-8": (
        text_of("trace.json", b"\xff\xfe{}"),
        "trace-json-unreadable",
        "trace.json",
        "UTF-8",
    ),
    "trace.json a list": (text_of("trace.json", b"[]"), "trace-json-unreadable", "trace.json", "object"),
    "trace.json with NaN": (
        text_of("trace.json", b'{"format": NaN}'),
        "trace-json-unreadable",
        "trace.json",
        "NaN",
    ),
    "trace.json too deep": (
        text_of("trace.json", b"[" * 200_000),
        "trace-json-unreadable",
        "trace.json",
        "",
    ),
    "trace.json a huge number": (
        text_of("trace.json", b'{"version": ' + b"9" * 5000 + b"}"),
        "trace-json-unreadable",
        "trace.json",
        "",
    ),
    "other format": (field("format", "other"), "format", "trace.json", "moe-decode-trace"),
    "no format": (field("format", ...), "format", "trace.json", "field format"),
    "other version": (field("version", 2), "version", "trace.json", "expected 1, found 2"),
    "version true": (field("version", True), "version", "trace.json", "found true"),
    "no model": (field("model", ...), "field", "trace.json", "field model"),
    "layers a text": (field("model.layers", "3"), "field", "trace.json", "field model.layers"),
    "layers zero": (field("model.layers", 0), "field", "trace.json", "from 1"),
    "layers past uint16": (field("model.layers", 2**16 + 1), "field", "trace.json", "65537"),
    "too many experts": (
        lambda f: (field("model.layers", 2**16)(f), field("model.experts", 2**16)(f)),
        "field",
        "trace.json",
        "4294967296",
    ),
    "experts missing": (field("model.experts", ...), "field", "trace.json", "field model.experts"),
    "top_k past experts": (field("model.top_k", EXPERTS + 1), "field", "trace.json", "from 1 to 8"),
    "layer_ids of other length": (field("model.layer_ids", [0, 1]), "field", "trace.json", "list of 3"),
    "expert_bytes zero": (field("expert_bytes", 0), "size", "trace.json", "field expert_bytes"),
    "no size at all": (field("tables.experts", ...), "size", "trace.json", "field expert_bytes"),
    "bonus a text": (field("router.bonus", "0.85"), "field", "trace.json", "field router.bonus"),
    "bonus infinite": (
        lambda f: (f / "trace.json").write_text((f / "trace.json").read_text().replace("0.85", "1e999")),
        "trace-json-unreadable",
        "trace.json",
        "1e999",
    ),
    "protect negative": (field("router.protect", -1), "field", "trace.json", "field router.protect"),
    "slots no list": (field("policy.slots", 8), "field", "trace.json", "field policy.slots"),
    "slots zero": (field("policy.slots", [0]), "field", "trace.json", "field policy.slots"),
    "slots of too many classes": (field("policy.slots", [4, 4]), "field", "trace.json", "one a size class"),
    "scope unknown": (field("policy.scope", "expert"), "field", "trace.json", "global, layer"),
    "policy a text": (field("policy", "lru"), "field", "trace.json", "an object"),
    "no tables": (field("tables", ...), "field", "trace.json", "field tables"),
    "windows not named": (field("tables.windows", ...), "table-missing", "trace.json", "tables.windows"),
    "selections not named": (
        field("tables.selections", ...),
        "table-missing",
        "trace.json",
        "tables.selections",
    ),
    "entry without hash": (field("tables.counters.sha256", ...), "field", "trace.json", "64 hex digits"),
    "entry without rows": (field("tables.counters.rows", ...), "field", "trace.json", "tables.counters.rows"),
    "row count": (field("tables.counters.rows", 13), "rows", "counters.parquet", "13 rows"),
    "hash": (field("tables.counters.sha256", "0" * 64), "hash", "counters.parquet", "SHA-256"),
    "file changed": (lambda f: flip(f, "counters", 40), "hash", "counters.parquet", "SHA-256"),
    "file missing": (
        lambda f: (f / "counters.parquet").unlink(),
        "table-missing",
        "counters.parquet",
        "none",
    ),
    "required file missing": (
        lambda f: (f / "selections.parquet").unlink(),
        "table-missing",
        "selections.parquet",
        "none",
    ),
    "file a folder": (
        lambda f: ((f / "counters.parquet").unlink(), (f / "counters.parquet").mkdir()),
        "table-missing",
        "counters.parquet",
        "",
    ),
    "file a pipe": (
        lambda f: ((f / "counters.parquet").unlink(), os.mkfifo(f / "counters.parquet")),
        "table-missing",
        "counters.parquet",
        "",
    ),
    "zero bytes": (text_of("counters.parquet", b""), "zero-bytes", "counters.parquet", "0 bytes"),
    "four bytes": (text_of("counters.parquet", b"PAR1"), "truncated", "counters.parquet", "PAR1"),
    "cut in its last bytes": (lambda f: cut(f, "counters", 3), "truncated", "counters.parquet", "PAR1"),
    "cut in half": (lambda f: cut(f, "selections", 900), "truncated", "selections.parquet", "PAR1"),
    "not Parquet": (
        text_of("counters.parquet", b"window,layer\n0,0\n"),
        "not-parquet",
        "counters.parquet",
        "PAR1",
    ),
    "PAR1 around nothing": (
        text_of("counters.parquet", b"PAR1" + b"\0" * 64 + b"PAR1"),
        "not-parquet",
        "counters.parquet",
        "footer",
    ),
    "footer damaged": (lambda f: flip(f, "counters", -20), "not-parquet", "counters.parquet", ""),
    "path out of the folder": (
        field("tables.counters.file", "../counters.parquet"),
        "path",
        "counters.parquet",
        "inside the trace",
    ),
    "absolute path": (field("tables.counters.file", "/etc/hosts"), "path", "hosts", "inside the trace"),
    "path with a null": (field("tables.counters.file", "a\0b"), "path", "", "inside the trace"),
    "link out of the folder": (outside, "path", "counters.parquet", "inside the trace"),
    "name on two lines": (
        field("tables.counters.file", "a\nb.parquet"),
        "table-missing",
        "a\nb.parquet",
        "a\\nb.parquet",
    ),
    "entry names a folder": (field("tables.counters.file", "."), "table-missing", "", ""),
}


def read_all(folder: Path) -> None:
    """Read every column of every table, as the widest reader does."""
    trace = open_trace(folder)
    names = [name for name in trace.tables if name not in ("windows", "experts")]
    for _ in trace.chunks(names, {"selections": ("weights", "outcome")}):
        pass


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_all(folder)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_refused(tmp_path: Path, name: str) -> None:
    edit, reason, table, words = ROWS[name]
    raw = healthy()
    edit(raw)
    folder = raw.write(tmp_path / "trace")
    line = refused(folder)
    found = validate(folder)
    mine = [each for each in found.failures if (each.reason, each.table) == (reason, table)]
    assert mine, [each.line() for each in found.failures]
    assert words in mine[0].line()
    assert mine[0].file == str(folder / f"{table}.parquet")
    assert line in {each.line() for each in found.failures}


@pytest.mark.parametrize("name", FILES)
def test_files_are_refused(tmp_path: Path, name: str) -> None:
    damage, reason, file, words = FILES[name]
    folder = healthy().write(tmp_path / "trace")
    damage(folder)
    line = refused(folder)
    found = validate(folder)
    mine = [each for each in found.failures if each.reason == reason]
    assert mine, [each.line() for each in found.failures]
    assert words in mine[0].line()
    assert file in mine[0].file
    assert line in {each.line() for each in found.failures}


@pytest.mark.parametrize("place", range(60, 400, 17))
def test_damaged_pages_are_one_line(tmp_path: Path, place: int) -> None:
    """Bytes inside pages flipped, the hash made to match: refused, or still a readable table; never a traceback."""
    folder = healthy().write(tmp_path / "trace")
    flip(folder, "selections", place)
    settle(folder, "selections")
    found = validate(folder)
    try:
        read_all(folder)
    except InputError as problem:
        assert str(problem) in {each.line() for each in found.failures}
    else:
        assert found.valid


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_tells_all_failures(
    tmp_path: Path, cli: Callable[..., tuple[int, str, str]], as_json: bool
) -> None:
    raw = healthy()
    at(raw, "selections", 4, experts=[5, 5])
    for row in range(12):
        at(raw, "reads", row, kind="guess")
    folder = raw.write(tmp_path / "trace")
    code, out, err = cli("validate", folder, *["--json"] * as_json)
    assert code == 2 and not err
    if as_json:
        found = json.loads(out)
        assert not found["valid"] and len(found["failures"]) == 11
        assert found["untold"] == [{"table": "reads", "reason": "kind", "count": 2}]
        assert found["failures"][0] == {
            "reason": "repeated-expert",
            "file": str(folder / "selections.parquet"),
            "table": "selections",
            "key": "window 1, row 0, layer 1",
            "expected": "each expert once in a row",
            "found": "[5, 5]",
            "fix": "write an id once",
        }
    else:
        lines = out.splitlines()
        assert len(lines) == 13 and lines[-1].endswith("not valid; failures: 13")
        assert "each expert once in a row, found [5, 5]" in lines[0]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_on_a_valid_trace(
    tmp_path: Path, cli: Callable[..., tuple[int, str, str]], as_json: bool
) -> None:
    folder = healthy().write(tmp_path / "trace")
    code, out, err = cli("validate", folder, *["--json"] * as_json)
    assert code == 0 and not err
    assert json.loads(out)["valid"] if as_json else "valid; rows: windows 4, selections 21" in out


def test_the_command_on_nothing(tmp_path: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = cli("validate", tmp_path / "none")
    assert code == 2 and "a trace folder" in out and len(out.splitlines()) == 2


def test_the_healthy_trace_is_valid(tmp_path: Path) -> None:
    folder = healthy().write(tmp_path / "trace")
    read_all(folder)
    found = validate(folder)
    assert found.valid and not found.counts
    assert found.rows["selections"] == 21 and len(found.rows) == 10


def test_all_failures_are_told_at_once(tmp_path: Path) -> None:
    """One damage in each of several tables, two in one, and more of one kind than are told."""
    raw = healthy()
    at(raw, "selections", 4, experts=[5, 5])
    at(raw, "selections", 6, experts=[1, None])
    at(raw, "candidates", 3, scores=[NAN] * 8)
    at(raw, "residents", 4, experts=[3, 1])
    for row in range(12):
        at(raw, "reads", row, kind="guess")
    folder = raw.write(tmp_path / "trace")
    rewrite(folder, lambda d: d["tables"]["timing"].update(rows=5))
    found = validate(folder)
    assert {(each.table, each.reason) for each in found.failures} == {
        ("selections", "repeated-expert"),
        ("selections", "null-item"),
        ("candidates", "score"),
        ("residents", "residents-order"),
        ("reads", "kind"),
        ("timing", "rows"),
    }
    assert found.untold() == {("reads", "kind"): 2}


def test_a_window_that_is_not_there_hides_nothing_else(tmp_path: Path) -> None:
    raw = healthy()
    raw.tables["windows"].pop(1)
    at(raw, "candidates", 3, scores=[NAN] * 8)
    found = validate(raw.write(tmp_path / "trace"))
    assert {each.reason for each in found.failures} == {"window-number", "score"}


def test_entry_is_what_the_writer_says(tmp_path: Path) -> None:
    folder = healthy().write(tmp_path / "trace")
    document = json.loads((folder / "trace.json").read_text())
    assert document["tables"]["counters"] == entry(folder / "counters.parquet")
