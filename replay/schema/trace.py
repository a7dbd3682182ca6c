"""The tables of a trace: what a recorder writes and the reader takes."""

from __future__ import annotations

from replay.schema.table import Column, Table


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
