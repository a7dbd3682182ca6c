"""trace.json: read, checked field by field, and held as plain frozen data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.schema.trace import TRACE
from replay.trace.failure import Sink
from replay.trace.fields import FILE, FORMAT, VERSION, Fields, is_int, read_document

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
    get = Fields(str(path / FILE), sink)
    get.take(document, "format", repr(FORMAT), lambda value: value == FORMAT, True, "format")
    get.take(
        document, "version", str(VERSION), lambda value: is_int(value) and value == VERSION, True, "version"
    )
    if get.failures:
        return None
    model = get.section(document, "model", need=True)
    if model is None:
        return None
    name = get.text(model, "model.name") or ""
    layers = get.integer(model, "model.layers", 1, _IDS, need=True)
    experts = get.integer(model, "model.experts", 1, _IDS, need=True)
    top_k = get.integer(model, "model.top_k", 1, experts or _IDS, need=True)
    if layers and experts and layers * experts > _CELLS:
        get.wrong("field", "model", f"at most {_CELLS} experts in all", f"{layers * experts}")
        return None
    if not (layers and experts and top_k):
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


def _layer_ids(get: Fields, model: dict[str, Any], layers: int) -> tuple[int, ...] | None:
    def fits(value: Any) -> bool:
        return isinstance(value, list) and len(value) == layers == len(
            {each for each in value if is_int(each) and each >= 0}
        )

    ids = get.take(model, "model.layer_ids", f"a list of {layers} different layer numbers", fits)
    return None if ids is None else tuple(ids)


def _expert_bytes(get: Fields, document: dict[str, Any], tables: dict[str, TableEntry]) -> int | None:
    expected = "the bytes of an expert, an integer of at least 1, or a table experts"
    return get.take(
        document,
        "expert_bytes",
        expected,
        lambda value: is_int(value) and 1 <= value < 2**63,
        need="experts" not in tables,
        reason="size",
    )


def _router(get: Fields, document: dict[str, Any]) -> RouterMeta | None:
    router = get.section(document, "router")
    if router is None:
        return None
    return RouterMeta(
        get.integer(router, "router.protect", 0),
        get.number(router, "router.bonus"),
        get.number(router, "router.r1_bonus"),
        get.flag(router, "router.draft_moce"),
    )


def _policy(get: Fields, document: dict[str, Any]) -> dict[str, Any] | None:
    policy = get.section(document, "policy")
    if policy is None:
        return None
    before = get.failures
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
    return policy if get.failures == before else None


def _is_slots(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 256
        and all(is_int(each) and 1 <= each < 2**63 for each in value)
    )


def _io(get: Fields, document: dict[str, Any]) -> dict[str, Any] | None:
    io = get.section(document, "io")
    if io is None:
        return None
    for name, low in (("workers", 1), ("reserved", 0), ("pieces", 1)):
        get.integer(io, f"io.{name}", low)
    for name in ("latency_us", "stream_gbps", "device_gbps"):
        get.number(io, f"io.{name}", 0)
    return io


def _tables(get: Fields, document: dict[str, Any]) -> dict[str, TableEntry]:
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
