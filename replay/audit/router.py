"""The router audit (semantics 8): every recorded row routed again from what the trace itself records.

Choices where the semantics are silent
--------------------------------------
- A weight differs when it is farther from the recomputed one than 2e-7 of it and one unit in the last place of
  the type that it was recorded in (2^-23 for float32, 2^-10 for float16): healthy float32 engines are up to
  2.8e-7 away. Where trace.json says that the model had it in a coarser type (``router.weights_type``), of that
  one (2^-7 for bfloat16).
- Where trace.json says that the model weighs its picks by another formula (``router.weights``), weights of dense
  rows are held against that; where it names none that is known here, they are not compared, and a note says so.
- A row with fewer than top_k picks (ranks dropped) agrees when its picks are among the recomputed ones and in
  their order; its weights are not compared, as the set that they were normalised over is not recorded.
- Where ids differ, the order is not judged; weights are judged against the recorded ids.
- A router setting that is null cannot be audited, but for r1 (taken as 0), draft_moce (taken as off), and the
  protected width where there is neither b nor r1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.audit.again import IDS, ORDER, SHORT, TAIL, WEIGHED, WEIGHTS, Record, again
from replay.audit.record import boosted, reach, read_part, router_settings
from replay.audit.weighing import Weighing, compare_by, weighing, weight_precision
from replay.recorder.weigh import Formula
from replay.router.rule import WEIGHT_FLOOR
from replay.router.shortlist import shortlist_dense, shortlist_sparse
from replay.trace import Trace

WEIGHT_TOLERANCE = 2e-7
FEW = 5
NONE = np.empty(0, np.float32)


@dataclass(frozen=True)
class Sample:
    """One row that differs: what is recorded, and what its scores and residents give."""

    what: str
    window: int
    row: int
    layer: int
    recorded: list[int]
    expected: list[int]
    weights: list[float] | None
    expected_weights: list[float] | None


@dataclass
class RouterAudit:
    """What routing every row again came to; a row is one (window, row, layer).

    Attributes
    ----------
    settings : dict
        protect, bonus, r1 and draft_moce as audited.
    reason : str or None
        Why nothing was audited.
    rows : int
        Rows routed again.
    without_residents : int
        Rows left out for want of a resident snapshot.
    short : int
        Rows with fewer than top_k picks.
    past : int
        Sparse rows that end too early to be exact: another expert might have been picked.
    ids, order : int
        Rows whose picks, or whose picks' order, differ.
    weighed, weights : int
        Rows whose weights were compared, and those that differ.
    r1_tail : int
        Rows whose weights differ exactly as if r1 had not been divided out of the tail's residents.
    worst_weight : float or None
        Largest relative difference of a weight.
    tolerance : float
        Relative difference beyond which a weight differs.
    formula : str or None
        By what else than the rule of semantics 2 the trace says that weights are made.
    weights_reason : str or None
        Why recorded weights were not compared.
    first : list of Sample
        The first rows that differ, a few of each kind.
    """

    settings: dict[str, Any]
    reason: str | None = None
    rows: int = 0
    without_residents: int = 0
    short: int = 0
    past: int = 0
    ids: int = 0
    order: int = 0
    weighed: int = 0
    weights: int = 0
    r1_tail: int = 0
    worst_weight: float | None = None
    tolerance: float = WEIGHT_TOLERANCE
    formula: str | None = None
    weights_reason: str | None = None
    first: list[Sample] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no row differs."""
        return not (self.ids or self.order or self.weights)


def audit_router(trace: Trace) -> RouterAudit:
    """Route every recorded row again.

    Parameters
    ----------
    trace : Trace
        An open trace.

    Returns
    -------
    RouterAudit
        ``reason`` says where there was nothing to audit.

    Raises
    ------
    InputError
        Something on the way is refused by the reader.
    """
    found = RouterAudit(*router_settings(trace))
    if found.reason is not None:
        return found
    found.tolerance = WEIGHT_TOLERANCE + weight_precision(trace)
    told = weighing(trace)
    found.formula, found.weights_reason = None if told.formula is None else str(told.formula), told.reason
    tables = {"selections", "router_scores"} | ({"residents"} if boosted(found.settings) else set())
    for chunk in trace.chunks(tables, {"selections": ("weights",)}):
        if chunk.router_scores is not None and len(chunk.router_scores.window):
            part = read_part(trace, chunk, found.settings)
            found.without_residents += part.without_residents
            found.past += part.past
            _add(trace, found, part.record, part.keys, told)
    if not found.rows:
        found.reason = "no row has router scores and, where a bonus needs them, residents"
    return found


def _add(trace: Trace, found: RouterAudit, record: Record, keys: NDArray[np.int64], told: Weighing) -> None:
    """Route a record's rows again and add up what differs."""
    settings, experts, top_k = found.settings, trace.meta.experts, trace.meta.top_k
    protect, bonus, rank1 = int(settings["protect"]), float(settings["bonus"]), float(settings["r1"])
    if len(record.raw_ids):
        short = shortlist_sparse(record.raw_offsets, record.raw_ids, record.raw_scores)
    else:
        short = shortlist_dense(record.raw_scores.reshape(-1, experts), top_k, reach(settings))
    rows = len(keys)
    flags, worst = np.zeros(rows, np.uint8), np.empty(rows)
    made = np.full((rows, top_k), -1, np.int64)
    seen = record if told == (None, None) else record._replace(weights=NONE)
    again(
        seen, short[0], short[1], short[2], experts, top_k, protect, bonus, rank1, found.tolerance, flags, worst,
        made,
    )  # fmt: skip
    if told.formula is not None:
        more, worst = compare_by(told.formula, record, experts, top_k, found.tolerance)
        flags |= more
    found.rows += rows
    for name, flag in (
        ("short", SHORT), ("ids", IDS), ("order", ORDER), ("weighed", WEIGHED), ("weights", WEIGHTS), ("r1_tail", TAIL),
    ):  # fmt: skip
        setattr(found, name, getattr(found, name) + int(((flags & flag) > 0).sum()))
    if not np.isnan(worst).all():
        found.worst_weight = max(found.worst_weight or 0.0, float(np.nanmax(worst)))
    for what, flag in (("ids", IDS), ("order", ORDER), ("weights", WEIGHTS)):
        room = FEW - sum(each.what == what for each in found.first)
        for at in np.flatnonzero(flags & flag)[:room].tolist():
            found.first.append(_sample(what, record, at, keys[at], made[at], told))


def _sample(
    what: str, record: Record, at: int, key: NDArray[np.int64], made: NDArray[np.int64], told: Weighing
) -> Sample:
    """Lay one differing row out."""
    low, high = (int(record.pick_offsets[record.list[at] + i]) for i in (0, 1))
    recorded = record.picks[low:high].tolist()
    start, stop = (int(record.raw_offsets[at + i]) for i in (0, 1))
    ids = record.raw_ids[start:stop] if len(record.raw_ids) else np.arange(stop - start)
    z = dict(zip(ids.tolist(), record.raw_scores[start:stop].astype(np.float64).tolist(), strict=True))
    given = record.weights[low:high].tolist() if len(record.weights) else []
    known = bool(given) and not any(map(math.isnan, given)) and max(z.values()) > -math.inf
    window, row, layer = key.tolist()
    expected = [each for each in made.tolist() if each >= 0]
    weights = (given, _weights(z, recorded, told.formula)) if known and told.reason is None else (None, None)
    return Sample(what, window, row, layer, recorded, expected, *weights)


def _weights(z: dict[int, float], picks: list[int], formula: Formula | None) -> list[float]:
    """Weights of picks by the rule: unboosted softmax, renormalised over them; or by another formula."""
    if formula is not None:
        return formula(np.array([[z[each] for each in sorted(z)]]), np.array([picks]))[0].tolist()
    best = max(z.values())
    total = math.fsum(math.exp(each - best) for each in z.values())
    chosen = [math.exp(z.get(each, -math.inf) - best) / total for each in picks]
    return [each / max(sum(chosen), WEIGHT_FLOOR) for each in chosen]
