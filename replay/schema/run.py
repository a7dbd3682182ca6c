"""The tables of a run: what ``compare`` and ``curves`` write."""

from __future__ import annotations

from replay.schema.figure import AGREEMENT, CLOCK, COUNTERS, FATES, PHASE, POLICY, ROUTES, counts, timed
from replay.schema.table import Column, Table
from replay.schema.trace import TRACE

_MOVING = (
    *("issued", "timely", "late", "cancelled", "partial", "unused", "late_exposed_bytes", "cancelled_bytes"),
    *("unused_bytes", "disk_bytes", "wait_us", "limbo_wait_us"),
)

RUN = (
    Table(
        "layers",
        "What a policy did at one layer in one phase.",
        ("policy", "routes", "phase", "layer"),
        (POLICY, ROUTES, PHASE, Column("layer", "int64", "MoE layer"), *COUNTERS, *FATES),
        required=True,
    ),
    Table(
        "windows",
        "What a policy did in one window.",
        ("policy", "routes", "window"),
        (
            POLICY,
            ROUTES,
            Column("window", "int64", "window number"),
            Column("session", "int64", "the trace's session"),
            PHASE,
            Column("domain", "string", "the trace's domain; null where it has none", nullable=True),
            Column("rows", "int64", "rows of the window"),
            Column("tokens", "int64", "tokens that it commits: what per token divides by; 0 in prefill"),
            *COUNTERS,
            Column("peak_speculative", "int64", "most speculative slots at any moment of the window"),
            Column("peak_limbo", "int64", "most limbo slots at any moment of the window"),
            *FATES,
            *AGREEMENT,
            *timed({"total_us": "from the window's start to the end of its last event's wait"}, "float64"),
        ),
        required=True,
    ),
    Table(
        "gates",
        "What the gates of a policy made of their candidates at one layer, in decode windows: experts, each once "
        "an event. Only where a policy has gates.",
        ("policy", "routes", "layer"),
        (
            POLICY,
            ROUTES,
            Column("layer", "int64", "MoE layer"),
            *counts(
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
            POLICY,
            ROUTES,
            PHASE,
            Column("layer", "int64", "MoE layer; null: all of them", nullable=True),
            Column("session", "int64", "session; null: all of them", nullable=True),
            Column("domain", "string", "domain; null: all of them", nullable=True),
            Column("capacity_slots", "int64", "slots of the arena; null with a byte budget", nullable=True),
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
            POLICY,
            Column("routes", "string", "rerouted, predicted or cacheprior:LAMBDA,J"),
            PHASE,
            Column("layer", "int64", "MoE layer"),
            Column("picks_made", "int64", "picks that the routes made anew"),
            Column("picks_kept", "int64", "those of them that the recorded row holds too"),
            Column(
                "rows",
                "int64",
                "rows whose router scores were read; null: none were (predicted reads none)",
                nullable=True,
            ),
            Column(
                "given_up_mean_ratio",
                "float64",
                "softmax mass of a row's raw best picks that its new picks lack: mean over the rows; null for "
                "predicted, which reads no router scores (its picks may be outside the shortlist of them)",
                nullable=True,
            ),
            Column("given_up_p99_ratio", "float64", "its 99th percentile, to 0.0001", nullable=True),
        ),
    ),
    Table(
        "sensitivity",
        "What became of a policy's read-ahead in decode windows under one clock of a grid.",
        ("policy", "routes", *CLOCK),
        (
            POLICY,
            ROUTES,
            *(Column(name, type, f"{doc} of the clock") for name, (type, doc) in CLOCK.items()),
            Column("tokens", "int64", "committed tokens"),
            *(
                Column(each.name, each.type, each.doc.removesuffix("; null without a clock"))
                for each in (*COUNTERS, *FATES)
                if each.name in _MOVING
            ),
        ),
    ),
    Table(
        "reads",
        "Every read of every policy, in the trace's own layout.",
        ("policy", "routes", "window", "layer", "expert", "kind"),
        (POLICY, ROUTES, *TRACE["reads"].columns),
    ),
)
