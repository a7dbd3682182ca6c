"""Columns that several tables of results share: what a policy is, what it counted, what became of its reads."""

from __future__ import annotations

from replay.schema.table import Column


def counts(pairs: dict[str, str]) -> tuple[Column, ...]:
    """Counts by name, each with what it says."""
    return tuple(Column(name, "int64", doc) for name, doc in pairs.items())


def timed(pairs: dict[str, str], type: str = "int64") -> tuple[Column, ...]:
    """Columns that only a clock fills, by name, each with what it says."""
    return tuple(
        Column(name, type, doc + "; null without a clock", nullable=True) for name, doc in pairs.items()
    )


POLICY = Column("policy", "string", "the policy spec, as given")
ROUTES = Column("routes", "string", "recorded, rerouted, predicted or cacheprior:LAMBDA,J")
PHASE = Column("phase", "string", "decode or prefill")
COUNTERS = counts(
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
FATES = (
    *timed(
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
    *timed(
        {
            "wait_us": "time that events waited for their reads",
            "limbo_wait_us": "time that events waited for reads that nobody wanted, at the layer that waits",
        },
        "float64",
    ),
)

AGREEMENT = tuple(
    Column(name, "int64", doc + "; null under recorded routes", nullable=True)
    for name, doc in (
        ("picks_made", "picks that the routes made anew"),
        ("picks_kept", "those of them that the recorded row holds too"),
    )
)

CLOCK = {
    "workers": ("int64", "pieces that run at once"),
    "reserved": ("int64", "workers that read-ahead leaves free"),
    "pieces": ("int64", "pieces of one read"),
    "latency_us": ("float64", "a piece's latency"),
    "stream_gbps": ("float64", "rate of one piece, decimal GB/s"),
    "device_gbps": ("float64", "rate of all pieces together, decimal GB/s"),
    "pre_us": ("float64", "compute before an event asks"),
    "post_us": ("float64", "compute after its reads are there"),
}
