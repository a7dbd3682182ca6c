"""The tables of a study of many runs: sweeps and frontiers."""

from __future__ import annotations

from replay.schema.figure import AGREEMENT, CLOCK, COUNTERS, FATES, POLICY, ROUTES, timed
from replay.schema.table import Column, Table

FRONTIER_COUNTS = (
    "lookups",
    "misses",
    "issued",
    "prefetch_hits",
    "pollution",
    "demand_bytes",
    "issued_bytes",
)
"""Counts of a point of a frontier, in the order of its table."""

STUDY = (
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
            ROUTES,
            Column("slots", "string", "slots of each size class; null with a byte budget", nullable=True),
            Column("capacity_slots", "int64", "slots of the arena; null with a byte budget", nullable=True),
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
            *timed({name: doc for name, (type, doc) in CLOCK.items() if type == "int64"}),
            *timed({name: doc for name, (type, doc) in CLOCK.items() if type == "float64"}, "float64"),
            Column("tokens", "int64", "committed tokens of the counted windows", nullable=True),
            Column("failure", "string", "why there are no figures; null where there are", nullable=True),
            Column("phase", "string", "decode or prefill; null in a row without figures", nullable=True),
            Column("layer", "int64", "MoE layer; null in a row without figures", nullable=True),
            Column("windows", "int64", "counted windows of the phase", nullable=True),
            *(Column(each.name, each.type, each.doc, nullable=True) for each in (*COUNTERS, *FATES)),
            *AGREEMENT,
        ),
    ),
    Table(
        "draft_sweep",
        "What one draft retention policy of a sweep keeps, commits and costs; of traces with drafts.",
        ("family", "policy"),
        (
            Column("family", "string", "flat, cumulative, schedule, or flat and cumulative"),
            Column("policy", "string", "the retention parts of a spec"),
            Column("first", "float64", "floor; floor of the product; threshold of the first draft; floor"),
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
            POLICY,
            Column(
                "option",
                "string",
                "the option that runs, as margin:m; empty where none does",
                nullable=True,
            ),
            Column("value", "float64", "its value", nullable=True),
            Column("tokens", "int64", "committed tokens"),
            *(each for name in FRONTIER_COUNTS for each in COUNTERS if each.name == name),
            *timed({"wait_us": "time that events waited for reads, limbo included"}, "float64"),
            Column("read_ahead_bytes_per_token", "float64", "issued_bytes / tokens", nullable=True),
            Column("misses_per_token", "float64", "misses / tokens", nullable=True),
            *timed({"wait_us_per_token": "wait_us / tokens"}, "float64"),
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
            POLICY,
            Column("read_ahead_bytes_per_token", "float64", "what the point reads ahead, mean over sessions"),
            Column("sessions", "int64", "sessions that are paired"),
            Column("difference", "float64", "the point less the other family, per token; below 0: better"),
            Column("low", "float64", "lower end of its 95% interval; null: not bounded", nullable=True),
            Column("high", "float64", "upper end; null: not bounded", nullable=True),
        ),
    ),
)
