"""What gates made of their candidates: sums by layer, and the figures that follow from them.

Counted are experts, each once an event, of decode windows: asked (absent when a prediction named them), admitted by
every gate, and how many of either the event wanted. What was absent and wanted, whether a prediction named it or not,
is ``prefetch_hits + misses``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from replay.gate.admission import OUTCOMES

if TYPE_CHECKING:
    import polars as pl

    from replay.ledger.ledger import Tally

DECODE = 0
BESIDE = ("prefetch_hits", "misses", "issued", "dropped", "issued_bytes")
"""Counters of the decode phase that the table repeats, so that it can be read alone."""


class Outcomes:
    """Sums of one lane with gates.

    Parameters
    ----------
    layers : int
    warm : int
        First windows that are not counted.

    Attributes
    ----------
    by_layer : int64[L, len(OUTCOMES)]
    """

    def __init__(self, layers: int, warm: int = 0) -> None:
        self.warm = warm
        self.by_layer = np.zeros((layers, len(OUTCOMES)), np.int64)

    def add(self, first: int, outcomes: NDArray[np.int64]) -> None:
        """Add a chunk.

        Parameters
        ----------
        first : int
            Its first window.
        outcomes : int64[W * L, len(OUTCOMES)]
        """
        layers = len(self.by_layer)
        windows = outcomes.reshape(-1, layers, len(OUTCOMES))
        self.by_layer += windows[max(self.warm - first, 0) :].sum(axis=0)


def gates_frame(policy: str, routes: str, outcomes: Outcomes, tally: Tally) -> pl.DataFrame:
    """Rows of ``gates.parquet`` of one policy: one a layer, of decode windows."""
    import polars as pl

    layers = len(outcomes.by_layer)
    names = {"policy": policy, "routes": routes}
    columns: dict[str, Any] = {
        name: pl.Series([value] * layers, dtype=pl.String) for name, value in names.items()
    }
    columns["layer"] = np.arange(layers)
    columns |= {name: outcomes.by_layer[:, i] for i, name in enumerate(OUTCOMES)}
    columns |= {name: tally.by_layer[name][DECODE] for name in BESIDE}
    return pl.DataFrame(columns)


def figures(outcomes: Outcomes, tally: Tally, misses_without: int | None) -> dict[str, Any]:
    """What a summary says of a policy's gates.

    Parameters
    ----------
    outcomes : Outcomes
    tally : Tally
        Of the same lane.
    misses_without : int or None
        Decode misses of the same eviction policy without read-ahead; None where the run has no such row.

    Returns
    -------
    dict
        Totals of ``OUTCOMES``; ``gate_precision_ratio`` (wanted / admitted), ``gate_coverage_ratio`` (wanted and
        admitted / wanted and absent), ``issued_bytes_per_miss_avoided`` (None where nothing was avoided).
    """
    totals = dict(zip(OUTCOMES, outcomes.by_layer.sum(axis=0).tolist(), strict=True))
    count = {name: tally.total(name, DECODE) for name in BESIDE}
    absent = count["prefetch_hits"] + count["misses"]
    avoided = 0 if misses_without is None else misses_without - count["misses"]
    hit = totals["admitted_wanted"]
    return totals | {
        "gate_precision_ratio": hit / totals["admitted"] if totals["admitted"] else None,
        "gate_coverage_ratio": hit / absent if absent else None,
        "issued_bytes_per_miss_avoided": count["issued_bytes"] / avoided if avoided > 0 else None,
    }


def without_read_ahead(rows: Sequence[Any]) -> dict[Any, int]:
    """Decode misses of the rows without read-ahead, by routes, eviction policy and draft retention."""
    return {
        key: row.tally.total("misses", DECODE)
        for row in rows
        if (key := reference(row)) is not None and row.policy.spec.read_ahead.name == "none"
    }


def reference(row: Any) -> Any:
    """What a row has in common with the one without read-ahead that it is held against; None: it was recorded."""
    policy = getattr(row, "policy", None)
    if policy is None:
        return None
    spec = policy.spec
    parts = (spec.evict, *spec.retention)
    return row.routes, tuple((part.name, *policy.values[part.name].items()) for part in parts)
