"""Every table declared once: what a trace holds and what a run writes.

The reader, the writer, ``replay schema`` and the files in ``schemas/`` all come from these declarations.
Types are Arrow's names; ``score`` is float16 or float32. This module imports nothing of ours, and pyarrow
only when an Arrow schema is asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# largest value of each integer type (the smallest is 0, or -max-1 for the signed ones)
INTEGERS = {
    "uint8": 2**8 - 1,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "uint64": 2**64 - 1,
    "int16": 2**15 - 1,
    "int64": 2**63 - 1,
}
FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        The column's name; units are part of it (``_us``, ``_bytes``, ``_ratio``).
    type : str
        ``uint8`` .. ``uint64``, ``int16``, ``int64``, ``float32``, ``float64``, ``score``, ``bool``,
        ``string``, or ``list<...>`` of one of them.
    doc : str
        What it says, in one line.
    required : bool
        False where the column may be missing.
    nullable : bool
        True where a row may be null (a column that is null in every row counts as missing).
    """

    name: str
    type: str
    doc: str
    required: bool = True
    nullable: bool = False

    @property
    def item(self) -> str | None:
        """Type of the list's items, None where the column is no list."""
        return self.type[5:-1] if self.type.startswith("list<") else None


@dataclass(frozen=True)
class Table:
    """One table: its key, its columns in the order they are written, and what it is.

    Attributes
    ----------
    name : str
        The table's name, also that of its file.
    doc : str
        What a row is.
    key : tuple of str
        The columns that name a row; sorted by them and unique.
    columns : tuple of Column
        All declared columns; others may be there and are ignored.
    required : bool
        True for the tables that every trace (or run) has.
    """

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    required: bool = False

    def column(self, name: str) -> Column:
        """Find a column by its name.

        Parameters
        ----------
        name : str
            A declared column.

        Returns
        -------
        Column
            Its declaration.

        Raises
        ------
        KeyError
            The table declares no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def _optional(name: str, type: str, doc: str) -> Column:
    return Column(name, type, doc, required=False, nullable=True)


_WINDOW = Column("window", "uint32", "window number: 0, 1, 2 .. in time")
_ROW = Column(
    "row", "uint16", "row of the window; row 0 is the committed token, rows 1.. of a decode window are drafts"
)
_LAYER = Column("layer", "uint16", "MoE layer, 0 .. layers-1")
_EXPERT = Column("expert", "uint16", "expert id, 0 .. experts-1")
_SCORES = Column(
    "scores", "list<score>", "logits, before any bonus; -inf masks an expert, NaN and +inf are refused"
)
_SCORED = Column(
    "experts", "list<uint16>", "ids the scores belong to; absent: dense, one score an expert", required=False
)

TRACE: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "windows",
            "One forward step of the engine.",
            ("window",),
            (
                _WINDOW,
                Column("session", "uint32", "request or conversation that the window belongs to"),
                Column(
                    "phase",
                    "string",
                    "decode or prefill; null: not recorded (more than 8 rows then mean prefill)",
                    nullable=True,
                ),
                Column("rows", "uint16", "rows (tokens) of the window, at least 1"),
                _optional("domain", "string", "kind of text"),
                _optional("output_hash", "uint64", "hash of the window's output tokens"),
            ),
            required=True,
        ),
        Table(
            "selections",
            "The experts that one row of one layer was routed to; every window, row and layer is there.",
            ("window", "row", "layer"),
            (
                _WINDOW,
                _ROW,
                _LAYER,
                Column(
                    "experts",
                    "list<uint16>",
                    "picks in rank order, top_k of them (fewer where ranks were dropped)",
                ),
                _optional("weights", "list<float32>", "routing weight of each pick"),
                _optional(
                    "outcome",
                    "list<uint8>",
                    "what the engine recorded for each pick: 0 miss, 1 hit, 2 first use "
                    "of a read-ahead, 255 unknown or a repeat inside the event",
                ),
            ),
            required=True,
        ),
        Table(
            "candidates",
            "What read-ahead saw: early, approximate scores of a target layer. May leave out windows, and "
            "layers without a prediction.",
            ("window", "row", "layer"),
            (
                _WINDOW,
                _ROW,
                _LAYER,
                _optional(
                    "issued_after",
                    "int16",
                    "layer after which the scores were there, -1: the window's start; default layer-1",
                ),
                _SCORES,
                _SCORED,
            ),
        ),
        Table(
            "router_scores",
            "The logits that the layer's own router computed. May leave out windows.",
            ("window", "row", "layer"),
            (_WINDOW, _ROW, _LAYER, _SCORES, _SCORED),
        ),
        Table(
            "residents",
            "Published residents of a layer just before routing. May leave out windows.",
            ("window", "layer"),
            (_WINDOW, _LAYER, Column("experts", "list<uint16>", "resident experts, ascending")),
        ),
        Table(
            "experts",
            "Size of each expert; needed where trace.json has no expert_bytes.",
            ("layer", "expert"),
            (
                _LAYER,
                _EXPERT,
                Column("bytes", "uint64", "bytes read to load the expert, at least 1"),
                _optional("size_class", "uint8", "slots are not shared between classes; default 0"),
            ),
        ),
        Table(
            "counters",
            "What the engine counted in one event. May leave out windows.",
            ("window", "layer"),
            (
                _WINDOW,
                _LAYER,
                Column("hits", "uint32", "unique experts wanted and resident"),
                Column("prefetch_hits", "uint32", "unique experts wanted and read ahead"),
                Column("late", "uint32", "prefetch hits whose read was not done when asked"),
                Column("misses", "uint32", "unique experts wanted and absent"),
                _optional("issued", "uint32", "read-ahead reads issued for this layer"),
                _optional("cancelled", "uint32", "read-ahead reads cancelled before they began"),
                _optional("wait_us", "float32", "time the event waited for its reads"),
            ),
        ),
        Table(
            "reads",
            "One read of one expert. Holds only what was read.",
            ("window", "layer", "expert", "kind"),
            (
                _WINDOW,
                _LAYER,
                _EXPERT,
                Column("kind", "string", "demand or prefetch"),
                Column("bytes", "uint64", "bytes of the read"),
                Column("issued_us", "float64", "when it was queued; null: never", nullable=True),
                Column("started_us", "float64", "when it began; null: never", nullable=True),
                Column("done_us", "float64", "when it was done; null: never", nullable=True),
                Column("needed_us", "float64", "when an event asked for it; null: never", nullable=True),
                Column(
                    "fate", "string", "timely, late, cancelled, partial, unused or pending", nullable=True
                ),
            ),
        ),
        Table(
            "timing",
            "Compute time of one event. May leave out windows.",
            ("window", "layer"),
            (
                _WINDOW,
                _LAYER,
                Column("pre_us", "float32", "attention and router, before the event asks"),
                Column("post_us", "float32", "expert compute, after its experts are there"),
            ),
        ),
        Table(
            "drafts",
            "One draft token; draft step j is row j+1 of its window. May leave out windows.",
            ("window", "step"),
            (
                _WINDOW,
                Column("step", "uint8", "draft step, 0, 1, 2 .."),
                Column("p", "float64", "draft head probability"),
                Column("matched", "bool", "in the verifier's contiguous matched prefix"),
            ),
        ),
    )
}


def _counts(pairs: dict[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc) for name, doc in pairs.items())


def _timed(pairs: dict[str, str], type: str = "int64") -> tuple[Column, ...]:
    return tuple(
        Column(name, type, doc + "; null without a clock", nullable=True) for name, doc in pairs.items()
    )


_POLICY = Column("policy", "string", "the policy spec, as given")
_ROUTES = Column("routes", "string", "recorded, rerouted, predicted or cacheprior:LAMBDA,J")
_PHASE = Column("phase", "string", "decode or prefill")
_COUNTERS = _counts(
    {
        "lookups": "unique experts wanted, summed over events: hits + prefetch_hits + misses",
        "hits": "wanted and resident",
        "prefetch_hits": "wanted and read ahead (claimed)",
        "misses": "wanted and absent: demand reads",
        "issued": "read-ahead reads issued for this target: prefetch_hits + retired + pending",
        "retired": "read-ahead reads that nobody wanted",
        "pending": "read-ahead reads neither claimed nor retired",
        "dropped": "guesses that found no victim; null in a recording",
        "pollution": "misses on experts that a guess had evicted and nothing had read since; null in a recording",
        "demand_bytes": "bytes of the misses",
        "issued_bytes": "bytes of the issued reads: claimed + retired + pending",
        "claimed_bytes": "bytes of the claimed read-ahead reads",
        "retired_bytes": "bytes of the retired read-ahead reads",
        "pending_bytes": "bytes of the pending read-ahead reads",
    }
)
FRONTIER_COUNTS = (
    "lookups",
    "misses",
    "issued",
    "prefetch_hits",
    "pollution",
    "demand_bytes",
    "issued_bytes",
)


def _counter(name: str) -> Column:
    return next(each for each in _COUNTERS if each.name == name)


_FATES = (
    *_timed(
        {
            "timely": "claimed, all pieces done when the event asked",
            "late": "claimed, not all pieces done when the event asked",
            "cancelled": "never claimed, no piece had begun when it retired",
            "partial": "never claimed, some pieces had begun when it retired",
            "unused": "never claimed, all pieces had begun when it retired",
            "timely_bytes": "bytes of the timely reads",
            "late_bytes": "bytes of the late reads",
            "late_exposed_bytes": "bytes of late reads' pieces that were not done when the event asked",
            "cancelled_bytes": "bytes of retired reads never read, the unread part of partial included",
            "unused_bytes": "bytes read and never claimed, the read part of partial included",
            "partial_read_bytes": "read part of the partial reads",
            "partial_unread_bytes": "unread part of the partial reads",
            "pending_read_bytes": "read part of the pending reads",
            "disk_bytes": "bytes that the disk moved: demand + timely + late + unused + pending_read",
        }
    ),
    *_timed(
        {
            "wait_us": "time that events waited for their reads",
            "limbo_wait_us": "time that events waited for reads that nobody wanted, at the layer that waits",
        },
        "float64",
    ),
)

_CLOCK = {
    "workers": ("int64", "pieces that run at once"),
    "reserved": ("int64", "workers that read-ahead leaves free"),
    "pieces": ("int64", "pieces of one read"),
    "latency_us": ("float64", "a piece's latency"),
    "stream_gbps": ("float64", "rate of one piece, decimal GB/s"),
    "device_gbps": ("float64", "rate of all pieces together, decimal GB/s"),
    "pre_us": ("float64", "compute before an event asks"),
    "post_us": ("float64", "compute after its reads are there"),
}
_MOVING = (
    *("issued", "timely", "late", "cancelled", "partial", "unused", "late_exposed_bytes", "cancelled_bytes"),
    *("unused_bytes", "disk_bytes", "wait_us", "limbo_wait_us"),
)
_AGREEMENT = tuple(
    Column(name, "int64", doc + "; null under recorded routes", nullable=True)
    for name, doc in (
        ("picks_made", "picks that the routes made anew"),
        ("picks_kept", "those of them that the recorded row holds too"),
    )
)

RESULT: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "layers",
            "What a policy did at one layer in one phase.",
            ("policy", "routes", "phase", "layer"),
            (_POLICY, _ROUTES, _PHASE, Column("layer", "int64", "MoE layer"), *_COUNTERS, *_FATES),
            required=True,
        ),
        Table(
            "windows",
            "What a policy did in one window.",
            ("policy", "routes", "window"),
            (
                _POLICY,
                _ROUTES,
                Column("window", "int64", "window number"),
                Column("session", "int64", "the trace's session"),
                _PHASE,
                Column("domain", "string", "the trace's domain; null where it has none", nullable=True),
                Column("rows", "int64", "rows of the window"),
                Column("tokens", "int64", "tokens that it commits: what per token divides by; 0 in prefill"),
                *_COUNTERS,
                Column("peak_speculative", "int64", "most speculative slots at any moment of the window"),
                Column("peak_limbo", "int64", "most limbo slots at any moment of the window"),
                *_FATES,
                *_AGREEMENT,
                *_timed(
                    {"total_us": "from the window's start to the end of its last event's wait"}, "float64"
                ),
            ),
            required=True,
        ),
        Table(
            "gates",
            "What the gates of a policy made of their candidates at one layer, in decode windows: experts, each once "
            "an event. Only where a policy has gates.",
            ("policy", "routes", "layer"),
            (
                _POLICY,
                _ROUTES,
                Column("layer", "int64", "MoE layer"),
                *_counts(
                    {
                        "asked": "candidates that were absent when the gates were asked",
                        "admitted": "those of them that every gate admitted: issued or dropped",
                        "asked_wanted": "asked, and wanted by their event",
                        "admitted_wanted": "admitted, and wanted by their event",
                        "prefetch_hits": "as in layers; with misses: all that was wanted and absent",
                        "misses": "as in layers",
                        "issued": "as in layers",
                        "dropped": "as in layers",
                        "issued_bytes": "as in layers",
                    }
                ),
            ),
        ),
        Table(
            "curves",
            "Hits of a policy at one capacity; null figures where the arena cannot hold the widest event.",
            (
                "policy",
                "routes",
                "phase",
                "layer",
                "session",
                "domain",
                "capacity_slots",
                "capacity_bytes",
            ),
            (
                _POLICY,
                _ROUTES,
                _PHASE,
                Column("layer", "int64", "MoE layer; null: all of them", nullable=True),
                Column("session", "int64", "session; null: all of them", nullable=True),
                Column("domain", "string", "domain; null: all of them", nullable=True),
                Column(
                    "capacity_slots", "int64", "slots of the arena; null with a byte budget", nullable=True
                ),
                Column("capacity_bytes", "int64", "bytes of the arena; null with slots", nullable=True),
                Column("capacity_share", "float64", "the arena as a share of the experts, or of their bytes"),
                Column("lookups", "int64", "unique experts wanted", nullable=True),
                Column("hits", "int64", "wanted and resident", nullable=True),
                Column("prefetch_hits", "int64", "wanted and read ahead", nullable=True),
                Column("misses", "int64", "wanted and absent", nullable=True),
                Column(
                    "compulsory",
                    "int64",
                    "first uses of an expert, misses at any capacity; null where not counted",
                    nullable=True,
                ),
                Column("demand_bytes", "int64", "bytes of the misses", nullable=True),
                Column("hit_ratio", "float64", "(hits + prefetch_hits) / lookups", nullable=True),
            ),
        ),
        Table(
            "routes",
            "How far new routes leave the recorded ones at one layer in one phase.",
            ("policy", "routes", "phase", "layer"),
            (
                _POLICY,
                Column("routes", "string", "rerouted, predicted or cacheprior:LAMBDA,J"),
                _PHASE,
                Column("layer", "int64", "MoE layer"),
                Column("picks_made", "int64", "picks that the routes made anew"),
                Column("picks_kept", "int64", "those of them that the recorded row holds too"),
                Column("rows", "int64", "rows whose router scores were read; null: none were", nullable=True),
                Column(
                    "given_up_mean_ratio",
                    "float64",
                    "softmax mass of a row's raw best picks that its new picks lack: mean over the rows",
                    nullable=True,
                ),
                Column("given_up_p99_ratio", "float64", "its 99th percentile, to 0.0001", nullable=True),
            ),
        ),
        Table(
            "sensitivity",
            "What became of a policy's read-ahead in decode windows under one clock of a grid.",
            ("policy", "routes", *_CLOCK),
            (
                _POLICY,
                _ROUTES,
                *(Column(name, type, f"{doc} of the clock") for name, (type, doc) in _CLOCK.items()),
                Column("tokens", "int64", "committed tokens"),
                *(
                    Column(each.name, each.type, each.doc.removesuffix("; null without a clock"))
                    for each in (*_COUNTERS, *_FATES)
                    if each.name in _MOVING
                ),
            ),
        ),
        Table(
            "sweep",
            "What one cell of a sweep (`replay sweep`) counted at one layer in one phase; a cell that cannot be "
            "replayed is one row without figures.",
            ("cell", "phase", "layer"),
            (
                Column("cell", "string", "hash of everything that the figures depend on: the file's name"),
                Column("version", "string", "this program's version, with a hash of its sources"),
                Column("trace", "string", "hash of trace.json, which holds those of its tables"),
                Column("policy", "string", "the policy spec, its seed in it"),
                _ROUTES,
                Column("slots", "string", "slots of each size class; null with a byte budget", nullable=True),
                Column(
                    "capacity_slots", "int64", "slots of the arena; null with a byte budget", nullable=True
                ),
                Column("capacity_bytes", "int64", "bytes of the arena; null with slots", nullable=True),
                Column(
                    "slots_by_layer",
                    "string",
                    "slots of each layer, size classes apart by semicolons; null without a budget file",
                    nullable=True,
                ),
                Column(
                    "files",
                    "string",
                    "SHA-256 of each file that the policy plays with; null without any",
                    nullable=True,
                ),
                Column("seed", "int64", "the study's seed; null where it has none", nullable=True),
                Column("semantics", "string", "how events are played, as the flags name it"),
                *_timed({name: doc for name, (type, doc) in _CLOCK.items() if type == "int64"}),
                *_timed({name: doc for name, (type, doc) in _CLOCK.items() if type == "float64"}, "float64"),
                Column("tokens", "int64", "committed tokens of the counted windows", nullable=True),
                Column("failure", "string", "why there are no figures; null where there are", nullable=True),
                Column("phase", "string", "decode or prefill; null in a row without figures", nullable=True),
                Column("layer", "int64", "MoE layer; null in a row without figures", nullable=True),
                Column("windows", "int64", "counted windows of the phase", nullable=True),
                *(Column(each.name, each.type, each.doc, nullable=True) for each in (*_COUNTERS, *_FATES)),
                *_AGREEMENT,
            ),
        ),
        Table(
            "draft_sweep",
            "What one draft retention policy of a sweep keeps, commits and costs; of traces with drafts.",
            ("family", "policy"),
            (
                Column("family", "string", "flat, cumulative, schedule, or flat and cumulative"),
                Column("policy", "string", "the retention parts of a spec"),
                Column(
                    "first", "float64", "floor; floor of the product; threshold of the first draft; floor"
                ),
                Column("second", "float64", "threshold of later drafts; floor of the product", nullable=True),
                Column("rounds", "int64", "rounds with drafts"),
                Column("kept", "int64", "drafts kept"),
                Column("committed", "int64", "tokens committed"),
                Column("cost", "float64", "sum of the rounds' costs"),
                Column("tokens_per_cost", "float64", "committed / cost"),
                Column(
                    "expert_bytes",
                    "int64",
                    "bytes of the experts that the kept rows want, each once an event",
                ),
            ),
        ),
        Table(
            "frontier",
            "One point of a frontier: what a policy of a family reads ahead, and what it spares, in decode windows.",
            ("windows", "kind", "family", "policy"),
            (
                Column("windows", "string", "recorded, or shuffled: the control"),
                Column(
                    "kind",
                    "string",
                    "family, or none, oracle, static, recorded: what stands beside the families",
                ),
                Column("family", "string", "the family, as given; null beside the families", nullable=True),
                _POLICY,
                Column(
                    "option",
                    "string",
                    "the option that runs, as margin:m; empty where none does",
                    nullable=True,
                ),
                Column("value", "float64", "its value", nullable=True),
                Column("tokens", "int64", "committed tokens"),
                *(_counter(name) for name in FRONTIER_COUNTS),
                *_timed({"wait_us": "time that events waited for reads, limbo included"}, "float64"),
                Column("read_ahead_bytes_per_token", "float64", "issued_bytes / tokens", nullable=True),
                Column("misses_per_token", "float64", "misses / tokens", nullable=True),
                *_timed({"wait_us_per_token": "wait_us / tokens"}, "float64"),
                Column("precision_ratio", "float64", "prefetch_hits / issued", nullable=True),
                Column(
                    "coverage_ratio",
                    "float64",
                    "prefetch_hits / (prefetch_hits + misses): what was read ahead of what was not resident",
                    nullable=True,
                ),
                Column(
                    "bytes_per_miss_avoided",
                    "float64",
                    "issued_bytes over the misses fewer than without read-ahead; null where there are none",
                    nullable=True,
                ),
            ),
        ),
        Table(
            "frontier_against",
            "A point on one family's frontier against another's at the same bytes read ahead, session by session.",
            ("family", "against", "figure", "policy"),
            (
                Column("family", "string", "the family of the point"),
                Column("against", "string", "the other family"),
                Column("figure", "string", "misses or wait_us"),
                _POLICY,
                Column(
                    "read_ahead_bytes_per_token", "float64", "what the point reads ahead, mean over sessions"
                ),
                Column("sessions", "int64", "sessions that are paired"),
                Column(
                    "difference", "float64", "the point less the other family, per token; below 0: better"
                ),
                Column("low", "float64", "lower end of its 95% interval; null: not bounded", nullable=True),
                Column("high", "float64", "upper end; null: not bounded", nullable=True),
            ),
        ),
        Table(
            "reads",
            "Every read of every policy, in the trace's own layout.",
            ("policy", "routes", "window", "layer", "expert", "kind"),
            (_POLICY, _ROUTES, *TRACE["reads"].columns),
        ),
    )
}


def arrow_type(type: str, score: str = "float32") -> pa.DataType:
    """Arrow's type of a declared type.

    Parameters
    ----------
    type : str
        A declared type, a list included.
    score : str
        What to store where ``score`` is declared: ``float16`` or ``float32``.

    Returns
    -------
    pyarrow.DataType
        The type to write.

    Examples
    --------
    >>> str(arrow_type("uint16"))
    'uint16'
    """
    import pyarrow as pa

    if type.startswith("list<"):
        return pa.list_(arrow_type(type[5:-1], score))
    names = {"bool": "bool_", "score": score}
    return getattr(pa, names.get(type, type))()


def arrow_schema(table: Table, score: str = "float32") -> pa.Schema:
    """Arrow's schema of a whole table, optional columns included.

    Parameters
    ----------
    table : Table
        One of ``TRACE`` or ``RESULT``.
    score : str
        What to store where ``score`` is declared.

    Returns
    -------
    pyarrow.Schema
        The fields in the declared order.
    """
    import pyarrow as pa

    return pa.schema(
        [pa.field(each.name, arrow_type(each.type, score), each.nullable) for each in table.columns]
    )


def to_json(table: Table, kind: str) -> str:
    """Write a declaration as the JSON text of ``schemas/``.

    Parameters
    ----------
    table : Table
        The declaration.
    kind : str
        ``trace`` or ``result``.

    Returns
    -------
    str
        The text, with a newline at its end.
    """
    columns: list[dict[str, Any]] = [
        {
            "name": each.name,
            "type": each.type.replace("score", "float16|float32"),
            "required": each.required,
            "nullable": each.nullable,
            "doc": each.doc,
        }
        for each in table.columns
    ]
    body = {
        "table": table.name,
        "kind": kind,
        "version": 1,
        "required": table.required,
        "doc": table.doc,
        "sorted_by": list(table.key),
        "columns": columns,
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"
