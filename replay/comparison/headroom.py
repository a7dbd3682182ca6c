"""Whether the sums of a replay fit the counters that hold them: signed 64 bits, checked before anything is played.

Kernels add without looking, so no sum may pass 2^63 - 1. What is bounded, from above:

- bytes: every row of a window wants at most ``top_k`` experts a layer, a read-ahead issues at most its K for each (all
  of the layer's where it is not ranked), and a streamed prompt at most a layer's experts; each may be the largest of
  its layer.
- time: all of those bytes one after another at the slower of the disk's two rates, each read's latency, and the compute
  of every event; half of the counter's range is left for sums of waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replay.clock.timing import ClockParams
from replay.declare.semantics import Semantics
from replay.errors import InputError
from replay.spec.resolve import Resolved

if TYPE_CHECKING:
    from replay.trace import Trace

LARGEST = 2**63 - 1


def refuse_overflow(trace: Trace, policy: Resolved, semantics: Semantics, clock: ClockParams | None) -> None:
    """Refuse a replay whose sums might not fit.

    Parameters
    ----------
    trace : Trace
    policy : Resolved
    semantics : Semantics
    clock : ClockParams, optional

    Raises
    ------
    InputError
        Bytes or nanoseconds might pass 2^63 - 1, with how many reads of how many bytes.
    """
    meta, windows = trace.meta, trace.windows
    rows = int(windows.rows.sum(dtype=np.int64))
    reads = rows * (meta.top_k + _ahead(policy, meta.top_k, meta.experts))
    if semantics.stream is not None:
        reads += int(windows.prefill.sum()) * meta.experts
    largest = sum(map(int, trace.sizes.max(axis=1)))  # of every layer
    total = reads * largest
    if total > LARGEST:
        raise InputError(
            f"{trace.path}: up to {reads * meta.layers} reads of up to {int(trace.sizes.max())} bytes are more than "
            f"{LARGEST} bytes, the most that a counter holds; correct expert_bytes (or the table experts)"
        )
    if clock is not None:
        slowest = min(clock.stream_gbps, clock.device_gbps)
        compute = len(windows) * meta.layers * (clock.pre_us + clock.post_us)
        latencies = reads * meta.layers * clock.pieces * clock.latency_us
        if total / slowest + 1000 * (compute + latencies) > LARGEST / 2:
            raise InputError(
                f"{trace.path}: under this clock the replay might take more than {LARGEST // 2} ns, the most that a "
                "counter holds; give a faster disk, or --no-clock"
            )


def _ahead(policy: Resolved, top_k: int, experts: int) -> int:
    """Most experts that a row's layer is read ahead for."""
    if policy.ranking is not None:
        return min(policy.ranking.k, experts)
    return {"none": 0, "oracle": top_k}.get(policy.spec.read_ahead.name, experts)
