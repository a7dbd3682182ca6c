"""One cell of a sweep: what it asks, the hash that names it, and the rows that it comes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import replay
from replay.arena.bound import Bound
from replay.clock.timing import PARAMETERS, ClockParams
from replay.declare.semantics import Semantics
from replay.schema.arrow import arrow_schema
from replay.schema.result import RESULT
from replay.sweep.file import document_hash

if TYPE_CHECKING:
    import pyarrow as pa

    from replay.ledger.ledger import Tally
    from replay.trace import Trace

TABLE = "sweep"
COMPUTE = ("pre_us", "post_us")


@dataclass(frozen=True)
class Cell:
    """What one cell replays.

    Attributes
    ----------
    trace : str
        Hash of trace.json, which holds the hashes of its tables (:func:`trace_hash`).
    policy : str
        The spec, its seed in it.
    routes : str
    slots : tuple of int or None
        Slots of each size class.
    bytes : int or None
        Byte budget; exactly one of the two is set.
    clock : ClockParams or None
    seed : int or None
        The study's; also where the policy has no use for one.
    semantics : Semantics
    version : str
        Of this package (:func:`package_version`).
    files : tuple of str
        Hashes of the files that the policy plays with (:func:`replay.sweep.file.files_in`).
    by_layer : tuple of tuple of int, or None
        Slots of each size class in each layer, of a budget file.
    """

    trace: str
    policy: str
    routes: str
    slots: tuple[int, ...] | None
    bytes: int | None
    clock: ClockParams | None
    seed: int | None
    semantics: Semantics
    version: str
    files: tuple[str, ...] = ()
    by_layer: tuple[tuple[int, ...], ...] | None = None

    @property
    def bound(self) -> Bound:
        """The bound as a lane takes it."""
        return Bound(self.slots, self.bytes, "sweep", self.by_layer)

    @property
    def lane(self) -> tuple[Any, ...]:
        """What a lane plays: cells that agree in this, and in their trace, differ in clock and seed only."""
        return (self.policy, self.routes, self.slots, self.bytes, self.by_layer, self.files)

    @property
    def name(self) -> str:
        """Hash of everything above: 32 hexadecimal digits."""
        asked = [
            self.trace, self.policy, self.routes, self.slots, self.bytes, clock_key(self.clock), self.seed,
            self.semantics.describe(), self.version, self.files, self.by_layer,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


def clock_key(clock: ClockParams | None) -> tuple[Any, ...] | None:
    """All that a clock's figures depend on: its parameters, and which compute times hold against a trace's own.

    Examples
    --------
    >>> clock_key(ClockParams(workers=4))
    (4, 2, 3, 80.0, 3.0, 6.0, 200.0, 600.0, ())
    """
    if clock is None:
        return None
    fixed = tuple(name for name in COMPUTE if clock.origin.get(name) == "clock")
    return (*clock.as_dict().values(), fixed)


def trace_hash(trace: Trace) -> str:
    """Name what a trace holds: a hash of trace.json, whitespace and order of keys aside.

    Parameters
    ----------
    trace : Trace
        Its tables are held against the hashes in trace.json when it is opened.

    Returns
    -------
    str
        16 hexadecimal digits; wherever the trace lies.
    """
    return document_hash(trace.meta.raw)[:16]


@lru_cache(1)
def package_version() -> str:
    """Version of this package with a hash of its sources: any edit may move a figure.

    Returns
    -------
    str
        Such as ``0.1.0+3f2a9c0d1b5e``.
    """
    root = Path(replay.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}={len(source)};".encode())
        digest.update(source)
    return f"{replay.__version__}+{digest.hexdigest()[:12]}"


def rows_of(cell: Cell, tally: Tally, tokens: int) -> pa.Table:
    """Rows of a finished cell: one a phase that the trace has, and layer.

    Parameters
    ----------
    cell : Cell
    tally : Tally
        What its lane counted, under its clock.
    tokens : int
        Committed tokens of the counted windows.

    Returns
    -------
    pyarrow.Table
        The declared table ``sweep``.
    """
    from replay.fate import EVENT_COLUMNS
    from replay.ledger.ledger import layers_frame

    frame = layers_frame(cell.policy, cell.routes, tally)
    columns: dict[str, Any] = frame.to_dict(as_series=False)
    phases = [i for i in (0, 1) if tally.windows[i]]
    columns["windows"] = [int(tally.windows[i]) for i in phases for _ in range(tally.layers)]
    if cell.clock is None:
        hidden = {name.replace("_ns", "_us") for name in EVENT_COLUMNS}
        columns |= {name: [None] * frame.height for name in hidden & columns.keys()}
    for name in ("picks_made", "picks_kept"):
        made = tally.by_layer[name][phases].ravel().tolist()
        columns[name] = [None] * frame.height if cell.routes == "recorded" else made
    return _table(cell, columns, frame.height, tokens, None)


def failed(cell: Cell, reason: str) -> pa.Table:
    """The one row of a cell that cannot be replayed: no figures, and why.

    Parameters
    ----------
    cell : Cell
    reason : str
        One line.
    """
    return _table(cell, {}, 1, None, reason)


def _layers(table: Sequence[Sequence[int]] | None) -> str | None:
    """Slots by layer as text: size classes apart by semicolons."""
    return None if table is None else ";".join(",".join(map(str, row)) for row in table)


def _table(
    cell: Cell, columns: dict[str, Any], rows: int, tokens: int | None, failure: str | None
) -> pa.Table:
    """The declared table from what differs from row to row; everything else is the cell's."""
    import pyarrow as pa

    clock = dict.fromkeys(PARAMETERS) if cell.clock is None else cell.clock.as_dict()
    semantics = " ".join(f"{name}={value}" for name, value in cell.semantics.describe().items())
    same: dict[str, Any] = {
        "cell": cell.name,
        "version": cell.version,
        "trace": cell.trace,
        "policy": cell.policy,
        "routes": cell.routes,
        "slots": None if cell.slots is None else ",".join(map(str, cell.slots)),
        "capacity_slots": cell.bound.total_slots,
        "capacity_bytes": cell.bytes,
        "slots_by_layer": _layers(cell.by_layer),
        "files": ",".join(cell.files) or None,
        "seed": cell.seed,
        "semantics": semantics,
        **clock,
        "tokens": tokens,
        "failure": failure,
    }
    schema = arrow_schema(RESULT[TABLE])
    values = {each.name: columns.get(each.name, [same.get(each.name)] * rows) for each in schema}
    return pa.table({each.name: pa.array(values[each.name], each.type) for each in schema}, schema)
