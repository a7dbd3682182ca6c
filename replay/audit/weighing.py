"""How a trace says its model weighs its picks: what the audit holds recorded weights against.

``router.weights`` of trace.json names a formula, ``router.weights_type`` the type in which the model had its weights;
:func:`replay.record` writes both. Without the first, semantics 2 holds: a softmax over the chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replay.audit.again import WEIGHED, WEIGHTS, Record
from replay.recorder.weigh import Formula
from replay.trace import Trace

PRECISION = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "halffloat": 2.0**-10, "float": 2.0**-23}
RULE = Formula("softmax over the chosen", 1.0)


class Weighing(NamedTuple):
    """What weights are held against.

    Attributes
    ----------
    formula : Formula or None
        None: the rule of semantics 2.
    reason : str or None
        Why weights cannot be compared.
    """

    formula: Formula | None
    reason: str | None


def weighing(trace: Trace) -> Weighing:
    """Find what a trace's weights are to be held against.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    Weighing
    """
    said = (trace.meta.raw.get("router") or {}).get("weights")
    if said is None:
        return Weighing(None, None)
    formula = Formula.told(said) if isinstance(said, str) else None
    if formula is None:
        return Weighing(None, f"the model weighs its picks another way ({said}): weights are not compared")
    return Weighing(None if formula == RULE else formula, None)


def weight_precision(trace: Trace) -> float:
    """One unit in the last place, relatively, of the coarser of the column's type and the model's own."""
    table = trace.tables["selections"]
    if "weights" not in table.columns:
        return 0.0
    item = str(pq.read_schema(table.path).field("weights").type.value_type)
    own = (trace.meta.raw.get("router") or {}).get("weights_type")
    kinds = [item, own if isinstance(own, str) else ""]
    return max(PRECISION.get(kind, 2.0**-23) for kind in kinds)


def compare_by(
    formula: Formula, record: Record, experts: int, top_k: int, tolerance: float
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Hold dense rows' weights against a formula.

    Parameters
    ----------
    formula : Formula
    record : Record
    experts, top_k : int
    tolerance : float
        Largest relative difference of a weight.

    Returns
    -------
    flags : uint8[n]
        ``WEIGHED`` and ``WEIGHTS``.
    worst : float64[n]
        Largest relative difference of a row's weights; NaN where it was not compared.
    """
    rows = len(record.list)
    flags, worst = np.zeros(rows, np.uint8), np.full(rows, np.nan)
    first = record.pick_offsets[record.list]
    whole = (record.pick_offsets[record.list + 1] - first == top_k) & (len(record.raw_ids) == 0)
    at = np.flatnonzero(whole)[:, None]
    if not len(at) or not len(record.weights):
        return flags, worst
    place = first[at] + np.arange(top_k)
    given = record.weights[place].astype(np.float64)
    scores = record.raw_scores.reshape(rows, experts)[at[:, 0]]
    expected = formula(scores, record.picks[place].astype(np.int64))
    known = ~np.isnan(given[:, 0]) & np.isfinite(scores.max(axis=1))
    far = (np.abs(given - expected) / np.maximum(expected, 1e-30)).max(axis=1)
    worst[at[known, 0]] = far[known]
    flags[at[known, 0]] = np.where(far[known] > tolerance, WEIGHED | WEIGHTS, WEIGHED)
    return flags, worst
