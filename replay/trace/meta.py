"""trace.json: read, checked field by field, and held as plain frozen data."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.schema import TRACE
from replay.trace.failure import Failure, Sink

FORMAT = "moe-decode-trace"
VERSION = 1
FILE = "trace.json"
_LARGEST = 64 * 2**20  # bytes of a trace.json that is still read
_IDS = 2**16  # layers and expert ids are stored as uint16
_CELLS = 2**26  # most experts (layers x experts) that are replayed


@dataclass(frozen=True)
class RouterMeta:
    """Router settings while the trace was recorded; None where not known."""

    protect: int | None = None
    bonus: float | None = None
    r1_bonus: float | None = None
    draft_moce: bool | None = None


@dataclass(frozen=True)
class TableEntry:
    """One table as trace.json names it: its file, rows and SHA-256 (lower-case hex)."""

    name: str
    file: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Meta:
    """What trace.json says, checked.

    Attributes
    ----------
    name : str
        The model's name.
    layers, experts, top_k : int
        MoE layers, experts a layer, picks a row.
    layer_ids : tuple of int or None
        Number of each MoE layer in the model, where they are not 0 .. layers-1.
    expert_bytes : int or None
        Size of every expert; None where the table ``experts`` says it.
    router : RouterMeta or None
        None where nothing is known of the router.
    policy, io : dict or None
        What the engine ran, as recorded.
    engine, source : dict
        Who wrote the trace, as recorded.
    tables : dict of TableEntry
        The declared tables that are there.
    raw : dict
        The whole document.
    """

    name: str
    layers: int
    experts: int
    top_k: int
    layer_ids: tuple[int, ...] | None = None
    expert_bytes: int | None = None
    router: RouterMeta | None = None
    policy: dict[str, Any] | None = None
    io: dict[str, Any] | None = None
    engine: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, TableEntry] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)


class _Fields:
    """Takes fields out of the document and tells the sink about each that is not what the format says."""

    def __init__(self, file: str, sink: Sink):
        self.file = file
        self.sink = sink
        self.sound = True

    def wrong(self, reason: str, key: str, expected: str, found: Any) -> None:
        self.sound = False
        text = found if isinstance(found, str) and found == "nothing" else _short(found)
        fix = "write it" if found == "nothing" else "correct it"
        self.sink(Failure(reason, self.file, "", f"field {key}", expected, text, fix))

    def take(
        self,
        holder: dict[str, Any],
        key: str,
        expected: str,
        fits: Any,
        need: bool = False,
        reason: str = "field",
    ) -> Any:
        value = holder.get(key.rsplit(".", 1)[-1])
        if value is None:
            if need:
                self.wrong(reason, key, expected, "nothing")
            return None
        if not fits(value):
            self.wrong(reason, key, expected, value)
            return None
        return value

    def integer(
        self, holder: dict[str, Any], key: str, low: int, high: int = 2**63 - 1, need: bool = False
    ) -> Any:
        span = f"an integer of at least {low}" if high == 2**63 - 1 else f"an integer from {low} to {high}"
        return self.take(holder, key, span, lambda value: _is_int(value) and low <= value <= high, need)

    def number(self, holder: dict[str, Any], key: str, low: float = -math.inf) -> Any:
        span = "a number" if low == -math.inf else f"a number of at least {low:g}"
        return self.take(holder, key, span, lambda value: _is_number(value) and value >= low)

    def section(self, holder: dict[str, Any], key: str, need: bool = False) -> Any:
        return self.take(holder, key, "an object", lambda value: isinstance(value, dict), need)

    def text(self, holder: dict[str, Any], key: str, known: Iterable[str] = (), need: bool = False) -> Any:
        names = tuple(known)
        span = f"one of {', '.join(names)}" if names else "a text"
        return self.take(
            holder, key, span, lambda value: isinstance(value, str) and (not names or value in names), need
        )

    def flag(self, holder: dict[str, Any], key: str) -> Any:
        return self.take(holder, key, "true or false", lambda value: isinstance(value, bool))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def read_document(path: Path, sink: Sink) -> dict[str, Any] | None:
    """Read the JSON of trace.json, whatever it says.

    Parameters
    ----------
    path : Path
        The trace's folder.
    sink : Sink
        Told what is wrong.

    Returns
    -------
    dict or None
        The document, None where it cannot be read.
    """
    file = path / FILE
    expected = f"a JSON object that says format {FORMAT!r}"

    def wrong(reason: str, found: str, fix: str) -> None:
        sink(Failure(reason, str(file), "", "", expected, found, fix))

    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        sink(Failure("trace-missing", str(path), "", "", "a trace folder", found, "check the path"))
        return None
    if not file.is_file():
        wrong("trace-json-missing", "no such file", "is this a trace folder? `replay import` makes one")
        return None
    try:
        with file.open("rb") as handle:
            data = handle.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        document = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except OSError as problem:
        wrong("trace-json-unreadable", problem.strerror or "an unreadable file", "check the permissions")
        return None
    except (ValueError, RecursionError) as problem:
        wrong("trace-json-unreadable", " ".join(str(problem).split()), "write valid UTF-8 JSON")
        return None
    if not isinstance(document, dict):
        wrong("trace-json-unreadable", _short(document), "write an object")
        return None
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def check_meta(path: Path, document: dict[str, Any], sink: Sink) -> Meta | None:
    """Check the document of trace.json field by field.

    Parameters
    ----------
    path : Path
        The trace's folder.
    document : dict
        What ``read_document`` gave.
    sink : Sink
        Told about every field that is wrong.

    Returns
    -------
    Meta or None
        What the document says; None where a field that everything else needs is wrong.
    """
    get = _Fields(str(path / FILE), sink)
    get.take(document, "format", repr(FORMAT), lambda value: value == FORMAT, True, "format")
    get.take(
        document, "version", str(VERSION), lambda value: _is_int(value) and value == VERSION, True, "version"
    )
    if not get.sound:
        return None
    model = get.section(document, "model", need=True)
    if model is None:
        return None
    name = get.text(model, "model.name") or ""
    layers = get.integer(model, "model.layers", 1, _IDS, need=True)
    experts = get.integer(model, "model.experts", 1, _IDS, need=True)
    top_k = get.integer(model, "model.top_k", 1, experts or _IDS, need=True)
    if layers and experts and layers * experts > _CELLS:
        get.wrong("field", "model", f"at most {_CELLS} experts in all", layers * experts)
    if not get.sound:
        return None
    tables = _tables(get, document)
    return Meta(
        name,
        layers,
        experts,
        top_k,
        _layer_ids(get, model, layers),
        _expert_bytes(get, document, tables),
        _router(get, document),
        _policy(get, document),
        _io(get, document),
        get.section(document, "engine") or {},
        get.section(document, "source") or {},
        tables,
        document,
    )


def _layer_ids(get: _Fields, model: dict[str, Any], layers: int) -> tuple[int, ...] | None:
    def fits(value: Any) -> bool:
        return isinstance(value, list) and len(value) == layers == len(
            {each for each in value if _is_int(each) and each >= 0}
        )

    ids = get.take(model, "model.layer_ids", f"a list of {layers} different layer numbers", fits)
    return None if ids is None else tuple(ids)


def _expert_bytes(get: _Fields, document: dict[str, Any], tables: dict[str, TableEntry]) -> int | None:
    expected = "the bytes of an expert, an integer of at least 1, or a table experts"
    return get.take(
        document,
        "expert_bytes",
        expected,
        lambda value: _is_int(value) and 1 <= value < 2**63,
        need="experts" not in tables,
        reason="size",
    )


def _router(get: _Fields, document: dict[str, Any]) -> RouterMeta | None:
    router = get.section(document, "router")
    if router is None:
        return None
    return RouterMeta(
        get.integer(router, "router.protect", 0),
        get.number(router, "router.bonus"),
        get.number(router, "router.r1_bonus"),
        get.flag(router, "router.draft_moce"),
    )


def _policy(get: _Fields, document: dict[str, Any]) -> dict[str, Any] | None:
    policy = get.section(document, "policy")
    if policy is None:
        return None
    prefetch = get.section(policy, "policy.prefetch")
    if prefetch is not None:
        get.text(prefetch, "policy.prefetch.name", need=True)
        for name in ("k", "protect"):
            get.integer(prefetch, f"policy.prefetch.{name}", 0)
        for name in ("bonus", "r1"):
            get.number(prefetch, f"policy.prefetch.{name}")
    get.text(policy, "policy.evict")
    get.take(policy, "policy.slots", "a list of slots, one integer of at least 1 a size class", _is_slots)
    get.integer(policy, "policy.bytes", 1)
    get.text(policy, "policy.scope", ("global", "layer"))
    get.flag(policy, "policy.split")
    return policy


def _is_slots(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 256
        and all(_is_int(each) and 1 <= each < 2**63 for each in value)
    )


def _io(get: _Fields, document: dict[str, Any]) -> dict[str, Any] | None:
    io = get.section(document, "io")
    if io is None:
        return None
    for name, low in (("workers", 1), ("reserved", 0), ("pieces", 1)):
        get.integer(io, f"io.{name}", low)
    for name in ("latency_us", "stream_gbps", "device_gbps"):
        get.number(io, f"io.{name}", 0)
    return io


def _tables(get: _Fields, document: dict[str, Any]) -> dict[str, TableEntry]:
    entries = get.section(document, "tables", need=True) or {}
    found = {}
    for name, declared in TRACE.items():
        if name not in entries:
            if declared.required:
                get.wrong("table-missing", f"tables.{name}", "the required table", "nothing")
            continue
        entry = get.section(entries, f"tables.{name}", need=True)
        if entry is None:
            continue
        file = get.text(entry, f"tables.{name}.file", need=True)
        rows = get.integer(entry, f"tables.{name}.rows", 0, need=True)
        sha256 = get.take(entry, f"tables.{name}.sha256", "64 hex digits", _is_sha256, True)
        if file is not None and rows is not None and sha256 is not None:
            found[name] = TableEntry(name, file, rows, sha256.lower())
    return found


def _is_sha256(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value.lower()) <= set("0123456789abcdef")


def read_meta(path: Path, sink: Sink) -> Meta | None:
    """Read and check trace.json.

    Parameters
    ----------
    path : Path
        The trace's folder.
    sink : Sink
        Told about everything that is wrong; the reader's raises at the first.

    Returns
    -------
    Meta or None
        What it says; None where it is too broken to go on.
    """
    document = read_document(path, sink)
    return None if document is None else check_meta(path, document, sink)


def table_path(root: Path, file: str) -> Path | None:
    """Find a table's file, which has to lie inside the trace's folder, links followed.

    Parameters
    ----------
    root : Path
        The trace's folder.
    file : str
        The name in trace.json.

    Returns
    -------
    Path or None
        Where it is; None where the name leads out of the folder.
    """
    try:
        inside = "\0" not in file and (root / file).resolve().is_relative_to(root.resolve())
    except (ValueError, OSError, RuntimeError):  # not encodable, or a loop of links
        inside = False
    return root / file if inside else None
