"""Damaged traces: every refusal of the format, and every trap for readers, met by commands that write something."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from raw_trace import Raw, healthy
from test_trace_refusals import FILES, ROWS, settle

from reliability.bad import OUT, Bad

Damage = Callable[[Path], Any]

# what a command has to be asked for, so that it reads the table
_POLICY = ("-p", "none", "--no-curves", "--no-clock")
READS: dict[str, tuple[object, ...]] = {
    "candidates": ("-p", "unpert1", "--no-curves", "--no-clock"),
    "router_scores": (*_POLICY, "--routes", "rerouted"),
    "residents": (*_POLICY, "--start", "recorded"),
    "timing": ("-p", "none", "--no-curves"),
    "drafts": ("-p", "none+flat:0.35", "--no-curves", "--no-clock"),
}
ONLY_CUT = ("reads", "counters")  # no option of compare reads these tables
NOT_READ = ("weights of other length", "outcomes of other length", "unknown outcome")  # nor these columns


def _row_case(name: str, edit: Callable[[Raw], Any], table: str, words: str) -> list[Bad]:
    def trace(folder: Path) -> Path:
        raw = healthy()
        edit(raw)
        return raw.write(folder / "trace")

    def compare(folder: Path) -> list[object]:
        return ["compare", trace(folder), "--out", folder / OUT, *READS.get(table, _POLICY)]

    def cut(folder: Path) -> list[object]:
        return ["cut", trace(folder), folder / OUT, "--windows", 4 if table != "windows" else 1]

    cases = [Bad(f"{name} (cut)", "trace", cut, ("trace/",))]
    if table not in ONLY_CUT and name not in NOT_READ:
        cases.append(Bad(f"{name} (compare)", "trace", compare, (table,)))
    return cases


def _file_case(name: str, damage: Damage) -> list[Bad]:
    def compare(folder: Path) -> list[object]:
        damage(healthy().write(folder / "trace"))
        return ["compare", folder / "trace", "--out", folder / OUT, *_POLICY]

    return [Bad(name, "trace", compare, ("trace",))]


# --- reader traps (formats.md), and types that no column has -----------------------------------------


def _typed(table: str, column: str, values: Callable[[list[Any]], pa.Array]) -> Callable[[Path], Path]:
    """The healthy trace with one column's values in another Arrow array."""

    def write(folder: Path) -> Path:
        raw = healthy()
        arrow = raw.arrow(table)
        made = values(arrow[column].to_pylist())
        return raw.write(
            folder, **{table: arrow.set_column(arrow.schema.get_field_index(column), column, made)}
        )

    return write


def _first(value: Any, type: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array([value, *values[1:]], type)


def _all(value: Any, type: pa.DataType | None = None) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array([value] * len(values), type)


def _halves(values: list[Any]) -> pa.Array:
    scores = [list(row) for row in values]
    scores[3][2] = float("nan")
    return pa.array(scores, pa.list_(pa.float16()))


def _named(name: str) -> Callable[[Path], Path]:
    """A damaged trace in a folder of a difficult name."""

    def write(folder: Path) -> Path:
        raw = healthy()
        raw.tables["selections"][4]["experts"] = [5, 5]
        return raw.write(folder / name)

    return write


def _twice(folder: Path) -> Path:
    raw = healthy()
    arrow = raw.arrow("counters")
    return raw.write(folder, counters=arrow.append_column("misses", arrow["misses"]))


def _cased(folder: Path) -> Path:
    raw = healthy()
    arrow = raw.arrow("selections")
    return raw.write(folder, selections=arrow.rename_columns([name.title() for name in arrow.column_names]))


def _shuffled(folder: Path) -> Path:
    raw = healthy()
    arrow = raw.arrow("selections")
    return raw.write(folder, selections=arrow.take(list(range(arrow.num_rows))[::-1]))


def _empty_with_schema(folder: Path) -> Path:
    raw = healthy()
    return raw.write(folder, selections=raw.arrow("selections").slice(0, 0))


# name: (writes the trace into a folder, what the line has to say)
TRAPS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a NaN in float16 with byte streams split": (
        lambda f: _half_split(f), "score"),
    "a fixed-size list with a null inside": (
        _typed("selections", "experts", _first([1, None], pa.list_(pa.uint16(), 2))), "null"),
    "a large list with a null inside": (
        _typed("selections", "experts", _first([1, None], pa.large_list(pa.uint16()))), "null"),
    "a null among dictionary phases of another word": (
        _typed("windows", "phase", _first("warm", pa.dictionary(pa.int8(), pa.string()))), "phase"),
    "an id of -1 in int8": (_typed("selections", "experts", _first([1, -1], pa.list_(pa.int8()))), "-1"),
    "an id of 2^64-1": (_typed("selections", "experts", _first([1, 2**64 - 1], pa.list_(pa.uint64()))), "selections"),
    "a window below zero in int64": (_typed("selections", "window", _first(-1, pa.int64())), "window"),
    "rows past uint16": (_typed("windows", "rows", _first(70_000, pa.int64())), "windows"),
    "ids as floats": (_typed("selections", "experts", _all([1.0, 2.0])), "selections"),
    "ids as text": (_typed("selections", "experts", _all(["1", "2"])), "selections"),
    "ids as lists of lists": (_typed("selections", "experts", _all([[1], [2]])), "selections"),
    "ids as a struct": (_typed("selections", "experts", _all({"a": 1})), "selections"),
    "ids as bytes": (_typed("selections", "experts", _all(b"12")), "selections"),
    "ids as one number": (_typed("selections", "experts", _all(3)), "selections"),
    "windows as text": (_typed("windows", "window", _all("0")), "windows"),
    "windows as times": (_typed("windows", "window", _all(0, pa.timestamp("us"))), "windows"),
    "windows as decimals": (_typed("windows", "window", _all(0, pa.decimal128(9))), "windows"),
    "windows as bools": (_typed("windows", "window", _all(False)), "windows"),
    "windows all null": (_typed("windows", "window", _all(None)), "windows"),
    "sessions as floats": (_typed("windows", "session", _all(0.5)), "windows"),
    "sessions below zero": (_typed("windows", "session", _all(-1)), "windows"),
    "phase as bytes": (_typed("windows", "phase", _all(b"decode")), "windows"),
    "phase as numbers": (_typed("windows", "phase", _all(1)), "windows"),
    "domain as numbers": (_typed("windows", "domain", _all(1)), "windows"),
    "bytes as floats": (_typed("experts", "bytes", _all(1.5)), "experts"),
    "bytes below zero": (_typed("experts", "bytes", _all(-1)), "experts"),
    "bytes as text": (_typed("experts", "bytes", _all("1kB")), "experts"),
    "classes past uint8": (_typed("experts", "size_class", _all(256)), "experts"),
    "classes below zero": (_typed("experts", "size_class", _all(-1)), "experts"),
    "a column twice": (_twice, "counters"),
    "columns in another case": (_cased, "column"),
    "rows shuffled": (_shuffled, "sort"),
    "no rows, with a schema": (_empty_with_schema, "selections"),
    "a name with a blank": (_named("a trace"), "a trace"),
    "a name with brackets": (_named("trace[1]"), "trace[1]"),
    "a name with a star": (_named("tr*ce"), "tr*ce"),
    "a name with a percent sign": (_named("tr%20ce"), "tr%20ce"),
    "a name of another alphabet": (_named("tr\u00e4\u00e7e-\u30c8"), "tr\u00e4\u00e7e-\u30c8"),
    "a name with a line end": (_named("tr\nace"), "trace"),
    "a name with a control character": (_named("tr\x1b[31mace"), "trace"),
}  # fmt: skip


def _half_split(folder: Path) -> Path:
    raw = healthy()
    raw.options = {"use_dictionary": False, "column_encoding": {"scores.list.element": "BYTE_STREAM_SPLIT"}}
    arrow = raw.arrow("candidates")
    made = _halves(arrow["scores"].to_pylist())
    plain = raw.copy()
    plain.options = {}
    plain.write(folder)
    only = Raw(raw.meta, {"candidates": raw.tables["candidates"]}, raw.types, raw.options)
    only.write(folder / "half", candidates=arrow.set_column(4, "scores", made))
    (folder / "half" / "candidates.parquet").replace(folder / "candidates.parquet")
    settle(folder, "candidates")
    (folder / "half" / "trace.json").unlink()
    (folder / "half").rmdir()
    return folder


def _trap(name: str, write: Callable[[Path], Path], words: str) -> Bad:
    def make(folder: Path) -> list[object]:
        trace = write(folder / "trace")
        reads = READS["candidates"] if "float16" in name else READS["timing"]
        return ["cut" if name == "a column twice" else "compare", trace, *_rest(name, folder, reads)]

    return Bad(name, "trace", make, () if words == "trace" else (words,))


def _rest(name: str, folder: Path, reads: tuple[object, ...]) -> tuple[object, ...]:
    return (folder / OUT, "--windows", 4) if name == "a column twice" else ("--out", folder / OUT, *reads)


def cases() -> list[Bad]:
    """Every damaged trace."""
    found = []
    for name, (edit, _, table, words) in ROWS.items():
        found += _row_case(name, edit, table, words)
    for name, (damage, _, _, _) in FILES.items():
        found += _file_case(name, damage)
    found += [_trap(name, write, words) for name, (write, words) in TRAPS.items()]
    return found
