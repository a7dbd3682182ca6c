"""What came of every candidate: examples to learn from, of all that a ranking lists, withheld or not (policies.md).

An example is one candidate of one prediction's merged list in a decode window; its label is whether the event's
actual union, as recorded, held it. Choices where the text is silent:

- Residents are the recorded snapshots of the target layer, where the trace has that table (a window that the table
  leaves out is left out); else those of a replay of ``none+lru``, cold, at the
  given or recorded bound.
- A candidate's row is the one that gave it its merged place. Its margin is its adjusted score less that of the row's
  top_k-th pick under the same ranking, or of the row's last pick where it has fewer.
- ``precision``: of the candidates below rank top_k that this layer had in its last 8 predicted windows, the share that
  was selected; 0.5 before the first.
- ``queue``: candidates of the same list that stand before it and are not resident: what a read would wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import resolve as resolve_bound
from replay.calibration.example import Examples
from replay.declare.semantics import Semantics
from replay.errors import InputError
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.predict.ranking import Ranking
from replay.prepare.chunk import Demand, Prepared, prepare
from replay.router.rows import pick_rows
from replay.spec.grammar import parse
from replay.spec.resolve import resolve
from replay.trace import Trace

RECENT = 8
"""Predicted windows of a layer that ``precision`` looks back on."""


def examples(
    traces: Sequence[Trace], ranking: Ranking, slots: str | None = None, bytes: str | None = None
) -> Examples:
    """Label the candidates of some traces of one model; their sessions are numbered through.

    Parameters
    ----------
    traces : sequence of Trace
    ranking : Ranking
        K picks of each row.
    slots, bytes : str, optional
        The arena of a trace without snapshots of residents; what it recorded, else 17.6% of the experts.

    Returns
    -------
    replay.calibration.example.Examples

    Raises
    ------
    InputError
        A trace lacks candidates, or its model is of another shape than the first one's.
    """
    parts, session, prediction = [], 0, 0
    for trace in traces:
        _check(trace, traces[0])
        found = _of_trace(trace, ranking, slots, bytes)
        count = len(np.unique(trace.windows.session))
        parts.append(
            replace(found, session=found.session + session, prediction=found.prediction + prediction)
        )
        session, prediction = session + count, prediction + len(found.wanted)
    whole = _joined(parts)
    if not len(whole):
        raise InputError(f"{traces[0].path}: no decode window has candidates to learn from")
    return whole


def _check(trace: Trace, first: Trace) -> None:
    if not trace.has("candidates"):
        raise InputError(f"{trace.path}: calibrate needs the table candidates, which this trace lacks")
    shapes = [(t.meta.layers, t.meta.experts, t.meta.top_k) for t in (trace, first)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"{trace.path}: {shapes[0][0]} layers x {shapes[0][1]} experts, top-{shapes[0][2]}; expected the shape of "
            f"{first.path}: one file is for one model"
        )


def _of_trace(trace: Trace, ranking: Ranking, slots: str | None, bytes: str | None) -> Examples:
    """Examples of one trace; sessions are numbered in the order of their numbers."""
    meta, prefill = trace.meta, trace.windows.prefill
    width = max(ranking.k, meta.top_k)
    demand = Demand(guesses=True, picks=width, reach=max((0.0, *ranking.widened(width).boosts)))
    tables = {"selections", "candidates", *({"residents"} & set(trace.tables))}
    held = _residents(trace, slots, bytes)
    place = np.unique(trace.windows.session, return_inverse=True)[1]
    parts, done = [], 0
    for chunk in trace.chunks(tables, decode_only={"candidates"}):
        ready = prepare(chunk, meta.layers, meta.experts, prefill[chunk.w0 : chunk.w1], demand, True)
        part = _of_chunk(ready, held(ready), ranking, meta.top_k)
        parts.append(replace(part, session=place[part.session], prediction=part.prediction + done))
        done += len(part.wanted)
    found = _joined(parts)
    return replace(found, precision=_precision(found, meta.layers, meta.top_k))


def _joined(parts: Sequence[Examples]) -> Examples:
    return Examples(
        **{
            each.name: np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(Examples)
        }
    )


def _residents(trace: Trace, slots: str | None, bytes: str | None) -> Callable[[Prepared], NDArray[np.int8]]:
    """What gives the residents before every event of a chunk: int8[W * L, E], -1 in a row that is not known."""
    if trace.has("residents"):
        return _snapshots
    bound = resolve_bound(slots, bytes, trace.meta.policy, trace.classes)
    policy = resolve(parse("none+lru"), trace.meta)
    lane = Lane(Shape.of(trace), bound.plan(trace.classes, False), policy, Semantics(), residents=True)

    def replayed(prepared: Prepared) -> NDArray[np.int8]:
        out = lane.step(prepared)
        if out is None:
            raise InputError(
                f"{trace.path}: {lane.failure} (the arena: {bound.describe()}; --slots or --bytes gives another)"
            )
        return out.residents.astype(np.int8)

    return replayed


def _snapshots(prepared: Prepared) -> NDArray[np.int8]:
    """Recorded residents of a chunk."""
    rows = prepared.chunk.residents
    found = np.full((len(prepared.prefill) * prepared.layers, prepared.experts), -1, np.int8)
    if rows is not None:
        event = (rows.window - prepared.first_window) * prepared.layers + rows.layer
        found[event] = 0
        found[np.repeat(event, np.diff(rows.experts.offsets)), rows.experts.values] = 1
    return found


@dataclass(frozen=True)
class _Rows:
    """Ranked rows of a chunk's predictions, r of them; ``picks`` holds -1 where a row has fewer.

    Attributes
    ----------
    group : int64[r]
        Prediction of each.
    resident : uint8[r, E]
    picks : int64[r, max(K, top_k)]
    margin : float64[r, max(K, top_k)]
        Of each pick, to the row's predicted k-th.
    score, place, softmax : float64[r, E], int64[r, E], float64[r, E]
        Raw score, place among them, and share of the softmax over the row; only where an expert is listed.
    """

    group: NDArray[np.int64]
    resident: NDArray[np.uint8]
    picks: NDArray[np.int64]
    margin: NDArray[np.float64]
    score: NDArray[np.float64]
    place: NDArray[np.int64]
    softmax: NDArray[np.float64]


def _ranked(
    prepared: Prepared, held: NDArray[np.int8], event: NDArray[np.int64], ranking: Ranking, top_k: int
) -> _Rows:
    """Rank the rows of every prediction whose residents are known."""
    guesses = prepared.guesses
    group = np.repeat(np.arange(len(event)), guesses.last - guesses.first)
    known = held[event[group], 0] >= 0
    group, lists = group[known], guesses.list[known]
    resident = np.ascontiguousarray(held[event[group]] == 1, np.uint8)
    lengths = np.diff(guesses.offsets)[lists]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    row, within = np.repeat(np.arange(len(lists)), lengths), np.arange(offsets[-1])
    source = within - np.repeat(offsets[:-1] - guesses.offsets[lists], lengths)
    ids, scores = guesses.ids[source], guesses.scores[source]
    wide = ranking.widened(top_k)
    picks = pick_rows(offsets, ids, scores, resident, wide.k, wide.p, float(wide.b), float(wide.r1))
    score, place = np.full(resident.shape, -np.inf), np.zeros(resident.shape, np.int64)
    score[row, ids], place[row, ids] = scores, within - offsets[row]
    every = np.arange(len(picks))
    raw = np.where(picks >= 0, score[every[:, None], picks], 0.0)
    adjusted = raw + np.array(wide.boosts) * resident[every[:, None], picks]
    last = np.maximum(np.minimum((picks >= 0).sum(axis=1), top_k) - 1, 0)
    margin = adjusted - adjusted[every, last][:, None]
    chance = np.exp(score - _log_sums(prepared)[lists][:, None])
    return _Rows(group, resident, picks, margin, score, place, chance)


def _log_sums(prepared: Prepared) -> NDArray[np.float64]:
    """Logarithm of the sum of exp(score) of every candidate row, as it was recorded (a sparse one: what it lists)."""
    raw = prepared.chunk.candidates
    if raw is None:
        return np.empty(0)
    row = np.repeat(np.arange(len(raw.window)), np.diff(raw.offsets))
    top = np.full(len(raw.window), -np.inf)
    np.maximum.at(top, row, raw.scores)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.bincount(row, np.exp(raw.scores - top[row]), len(top))
    return top + np.log(np.maximum(total, np.finfo(np.float64).tiny))


def _of_chunk(prepared: Prepared, held: NDArray[np.int8], ranking: Ranking, top_k: int) -> Examples:
    """Examples of one chunk; ``session`` holds the window's number yet."""
    guesses, layers, experts = prepared.guesses, prepared.layers, prepared.experts
    slot = np.searchsorted(guesses.at, np.arange(len(guesses.target)), side="right") - 1
    event = slot // (layers + 1) * layers + guesses.target
    rows = _ranked(prepared, held, event, ranking, top_k)
    row, rank = np.nonzero(rows.picks[:, : ranking.k] >= 0)
    expert = rows.picks[row, rank]
    order = np.lexsort((expert, -rows.score[row, expert], rank, rows.group[row]))
    best = np.unique((rows.group[row] * experts + expert)[order], return_index=True)[1]
    keep = order[np.sort(best)]
    row, rank, expert = row[keep], rank[keep], expert[keep]
    group, absent = rows.group[row], rows.resident[row, expert] == 0
    events = prepared.events(None)
    wants = np.diff(events.want_offsets)
    union = np.zeros((len(wants), experts), bool)
    union[np.repeat(np.arange(len(wants)), wants), events.wants] = True
    return Examples(
        session=event[group] // layers + prepared.first_window,
        prediction=group,
        layer=guesses.target[group],
        expert=expert,
        rank=rank,
        raw_rank=rows.place[row, expert],
        margin=rows.margin[row, rank],
        rows=np.bincount(rows.group, minlength=len(event))[group],
        resident=~absent,
        queue=_before(group, absent),
        precision=np.full(len(group), np.nan),
        softmax=rows.softmax[row, expert],
        selected=union[event[group], expert],
        wanted=wants[event],
    )


def _before(group: NDArray[np.int64], absent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Absent candidates before each in its list."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    before: NDArray[np.int64] = np.cumsum(absent) - absent
    return before - np.repeat(before[starts], np.diff(starts, append=len(group)))


def _precision(found: Examples, layers: int, top_k: int) -> NDArray[np.float64]:
    """Selected share of the candidates below rank top_k in the layer's ``RECENT`` predictions before each."""
    count = len(found.wanted)
    early = found.rank < top_k
    asked = np.bincount(found.prediction[early], minlength=count)
    right = np.bincount(found.prediction[early], found.selected[early], count)
    layer = np.full(count, -1)
    layer[found.prediction] = found.layer
    recent = np.full(count, 0.5)
    for each in range(layers):
        mine = np.flatnonzero(layer == each)
        sums = [np.concatenate(([0.0], np.cumsum(values[mine]))) for values in (asked, right)]
        now, then = np.arange(len(mine)), np.maximum(np.arange(len(mine)) - RECENT, 0)
        total = sums[0][now] - sums[0][then]
        recent[mine] = np.where(total > 0, (sums[1][now] - sums[1][then]) / np.maximum(total, 1), 0.5)
    return recent[found.prediction]
