"""The event loop against the slow twin, exactly: random traces over every combination of options."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from slow import evict as slow_evict
from slow.arena import ArenaTooSmall
from slow.evict.static import wanted_counts
from slow.make import Case, draw_case
from slow.result import COUNTERS as SLOW_COUNTERS
from slow.trace import SlowTrace
from slow.twin import replay_slow

from replay import evict
from replay.arena.partition import plan_bytes, plan_slots
from replay.clock.timing import PARAMETERS, load_clock
from replay.declare.policy import show_value
from replay.declare.semantics import Semantics, parse_prefill, parse_routes, parse_start
from replay.engine.frame import COUNTERS
from replay.lane.lane import Lane, combine
from replay.lane.shape import Shape
from replay.prepare.chunk import Demand, prepare
from replay.prepare.lookahead import foresee
from replay.spec.grammar import declaration, parse
from replay.spec.resolve import resolve

CASES = int(os.environ.get("REPLAY_TWIN_CASES", "600"))


def lists(rows, dtype=np.int32):
    """Flat values and offsets of ragged rows."""
    offsets = np.concatenate(([0], np.cumsum([len(r) for r in rows]))).astype(np.int64)
    return SimpleNamespace(values=np.array([x for r in rows for x in r], dtype), offsets=offsets)


def score_rows(rows, dense, experts):
    """Score rows {(w, row, layer): (issued_after, {e: z})} as the reader gives them."""
    keys = sorted(rows)
    array = np.array(keys, np.int64).reshape(-1, 3)
    after = np.array([rows[k][0] for k in keys], np.int64)
    if dense:
        values = np.full((len(keys), experts), -np.inf, np.float32)
        for i, k in enumerate(keys):
            for e, z in rows[k][1].items():
                values[i, e] = z
        offsets = np.arange(len(keys) + 1, dtype=np.int64) * experts
        return SimpleNamespace(
            window=array[:, 0], row=array[:, 1], layer=array[:, 2], issued_after=after, offsets=offsets,
            scores=values.ravel(), experts=None,
        )  # fmt: skip
    ids = lists([list(rows[k][1]) for k in keys])
    values = lists([list(rows[k][1].values()) for k in keys], np.float32).values
    return SimpleNamespace(
        window=array[:, 0], row=array[:, 1], layer=array[:, 2], issued_after=after, offsets=ids.offsets,
        scores=values, experts=ids.values,
    )  # fmt: skip


def chunks(trace: SlowTrace, size: int, dense: bool):
    """Cut a slow trace into chunks of ``size`` windows."""
    for w0 in range(0, len(trace.windows), size):
        w1 = min(w0 + size, len(trace.windows))
        rows = [trace.windows[w].rows for w in range(w0, w1)]
        picks = [
            trace.picks[w, r, layer]
            for w in range(w0, w1)
            for r in range(trace.windows[w].rows)
            for layer in range(trace.layers)
        ]
        inside = {k: v for k, v in trace.candidates.items() if w0 <= k[0] < w1}
        scored = {k: (0, v) for k, v in trace.router_scores.items() if w0 <= k[0] < w1 and v is not None}
        yield SimpleNamespace(
            w0=w0,
            w1=w1,
            row_start=np.concatenate(([0], np.cumsum(rows))).astype(np.int64),
            selections=lists(picks),
            candidates=score_rows(inside, dense, trace.experts) if trace.has_candidates else None,
            router_scores=score_rows(scored, dense, trace.experts) if scored else None,
        )


def spec_text(case: Case) -> str:
    """The spec of a case, as a user would write it; router settings included."""
    s = case.spec
    options = [f"{n}={getattr(s, n)}" for n in ("k", "p", "b", "r1") if getattr(s, n) is not None]
    options += [f"{n}={v}" for n, v in s.prefetch_options.items()]
    options += ["touch=1"] if s.touch else []
    options += [f"guess={s.guess}"] if s.guess else []
    options += [f"spare={show_value(s.spare)}"] if s.spare else []
    evict = [f"{k}={show_value(v)}" for k, v in s.evict_options.items()]
    text = s.prefetch + (":" + ",".join(options) if options else "")
    router = [
        f"{n}={getattr(s, f'router_{n}')}" for n in ("p", "b", "r1") if getattr(s, f"router_{n}") is not None
    ]
    for name, chosen in s.gates:
        given = ",".join(f"{k}={show_value(v)}" for k, v in chosen.items())
        text += f"+{name}:{given}" if given else f"+{name}"
    text += "+" + s.evict + (":" + ",".join(evict) if evict else "")
    return text + ("+router:" + ",".join(router) if router else "")


def table(trace: SlowTrace, mapping, dtype):
    """A dictionary by (layer, expert) as an array."""
    return np.array([[mapping[la, e] for e in range(trace.experts)] for la in range(trace.layers)], dtype)


def learned(trace: SlowTrace, train: str):
    """Events of the training sessions that wanted each expert, as an array by key number."""
    counts = wanted_counts(trace, train)
    return np.array([counts[la, e] for la in range(trace.layers) for e in range(trace.experts)], np.int64)


def future_of(trace: SlowTrace, lane: Lane):
    """The future of a lane, read in chunks of its own."""
    prefill = np.array([w.prefill for w in trace.windows], bool)
    parts = (
        prepare(chunk, trace.layers, trace.experts, prefill[chunk.w0 : chunk.w1], Demand(), False)
        for chunk in chunks(trace, 7, False)
    )
    views, sequential = map(lane.view, parts), lane.semantics.cell == "sequential"
    return foresee(views, trace.layers, trace.experts, sequential, lane.looks_ahead == "later")


def clock_of(case: Case):
    """The clock that the nominal plan is made of."""
    given = {name: getattr(case.clock, name) for name in PARAMETERS if getattr(case.clock, name) is not None}
    return load_clock(given, case.trace.io)


def make_lane(case: Case, **keep) -> Lane:
    """The lane of a case."""
    trace, options = case.trace, case.options
    classes = table(trace, trace.classes, np.uint8)
    meta = SimpleNamespace(
        policy={"prefetch": trace.prefetch},
        router=SimpleNamespace(
            protect=trace.protect, bonus=trace.bonus, r1_bonus=trace.r1_bonus, draft_moce=trace.draft_moce
        ),
    )
    shape = Shape(
        trace.layers, trace.experts, trace.top_k, table(trace, trace.sizes, np.int64), classes,
        max(w.rows for w in trace.windows),
    )  # fmt: skip
    by_layer = options.scope == "layer"
    if options.budget is not None:
        plan = plan_bytes(trace.layers, trace.experts, options.budget, by_layer)
    else:
        count = int(classes.max()) + 1
        if any(isinstance(k, tuple) for k in options.slots):
            slots = np.array(
                [[options.slots.get((la, c), 0) for la in range(trace.layers)] for c in range(count)],
                np.int64,
            )
        else:
            slots = np.array([options.slots.get(c, 0) for c in range(count)], np.int64)
        plan = plan_slots(classes, slots, by_layer)
    start, warm = parse_start(options.start)
    semantics = Semantics(
        options.scope, options.split, options.order, options.cell, start, warm, parse_prefill(options.prefill),
        options.prompt_hot or None,
    )  # fmt: skip
    used = None
    if options.rows_used:
        used = np.array([options.rows_used.get(w, x.rows) for w, x in enumerate(trace.windows)], np.int64)
    policy, routes = resolve(parse(spec_text(case)), meta), parse_routes(options.routes)
    lane = Lane(shape, plan, policy, semantics, routes, used, clock=clock_of(case), **keep)
    training = lane.steps.training(lane.policy.values[case.spec.evict])
    if training is not None:
        lane.steps.learn(lane.memory, learned(trace, case.spec.evict_options["train"]))
    if lane.looks_ahead:
        lane.foresee(future_of(trace, lane))
    if start == "recorded":
        first = {}
        for w, la in sorted(trace.residents):
            first.setdefault(la, np.array(trace.residents[w, la], np.int32))
        lane.start(first)
    return lane


def timing_rows(trace: SlowTrace, chunk):
    """Compute times of a chunk's windows as the reader gives them; None where the trace has none."""
    found = sorted((w, la, *times) for (w, la), times in trace.timing.items() if chunk.w0 <= w < chunk.w1)
    if not trace.timing:
        return None
    window, layer, pre, post = zip(*found, strict=True) if found else ((), (), (), ())
    return {"window": window, "layer": layer, "pre_us": pre, "post_us": post}


def play(case: Case, lane: Lane, size: int, dense: bool):
    """Run a lane over a case; yields (chunk, prepared, output) until it stops."""
    trace = case.trace
    demand = combine([lane])
    prefill = np.array([w.prefill for w in trace.windows], bool)
    widest = 0.0
    for chunk in chunks(trace, size, dense):
        ready = prepare(
            chunk,
            trace.layers,
            trace.experts,
            prefill[chunk.w0 : chunk.w1],
            demand,
            trace.has_candidates,
            widest,
        )
        widest = ready.widest
        out = lane.step(ready, timing_rows(trace, chunk))
        if out is None:
            return
        yield chunk, ready, out


def compare_case(seed: int) -> str:
    """Compare one case; returns what it exercised."""
    case = draw_case(seed)
    slow, too_small = None, False
    try:
        slow = replay_slow(case.trace, case.spec, case.options, case.clock)
    except ArenaTooSmall:
        too_small = True
    lane = make_lane(case, residents=True, log=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    size, dense = int(rng.integers(1, 20)), bool(rng.integers(2)) or case.options.kind == "cacheprior"
    dense = dense or case.spec.prefetch == "finemoe"
    got = []
    for chunk, _, out in play(case, lane, size, dense):
        got.append((chunk, out))
    assert (lane.failure is not None) == too_small, (seed, lane.failure)
    if too_small:
        return "too small"
    layers = case.trace.layers
    for chunk, out in got:
        for w in range(chunk.w0, chunk.w1):
            for la in range(layers):
                row = (w - chunk.w0) * layers + la
                if w >= case.options.warm:
                    fast = dict(zip(COUNTERS, out.counts[row].tolist(), strict=True))
                    expected = slow.counters[w, la]
                    assert {n: fast[n] for n in SLOW_COUNTERS} == expected, (
                        seed,
                        w,
                        la,
                        spec_text(case),
                        case.options,
                    )
                if case.options.kind != "recorded":
                    made, kept = (
                        int(out.counts[row, COUNTERS.index(n)]) for n in ("picks_made", "picks_kept")
                    )
                    assert (made, kept) == slow.agreement[w, la], (seed, w, la, spec_text(case), case.options)
                if case.spec.gates:
                    expected = slow.outcomes[w, la] if not case.trace.windows[w].prefill else (0, 0, 0, 0)
                    assert tuple(out.outcomes[row]) == expected, (seed, w, la, spec_text(case), case.options)
                residents = np.flatnonzero(out.residents[row]).tolist()
                assert residents == slow.residents[w, la], (seed, w, la, spec_text(case), case.options)
            if w >= case.options.warm:
                assert tuple(out.peaks[w - chunk.w0]) == slow.peaks[w], (
                    seed,
                    w,
                    "peaks",
                    spec_text(case),
                    case.options,
                )
        if len(out.given_up):
            check_given_up(case, chunk, out, slow)
    return case.options.cell


def check_given_up(case: Case, chunk, out, slow) -> None:
    """The share of softmax mass that each rerouted row gives up is the twin's; NaN where it gave none up."""
    found = out.given_up.reshape(-1, case.trace.layers)
    for w in range(chunk.w0, chunk.w1):
        for row in range(case.trace.windows[w].rows):
            for la in range(case.trace.layers):
                expected = slow.given_up.get((w, row, la), np.nan)
                mine = found[chunk.row_start[w - chunk.w0] + row, la]
                assert np.isclose(mine, expected, rtol=0, atol=1e-6, equal_nan=True), (w, row, la)


@pytest.mark.parametrize("block", range(10))
def test_counters_equal_the_twin(block):
    """Counters of every event, residents before it and peaks equal the twin's on random cases."""
    seen = [compare_case(seed) for seed in range(block * CASES // 10, (block + 1) * CASES // 10)]
    assert seen.count("too small") < len(seen) // 2


def test_every_eviction_policy_has_its_twin():
    """Each registered policy has a slow twin that agrees on whether a byte budget is defined for it."""
    assert {name: declaration(name).by_bytes for name in evict.POLICIES} == {
        name: policy.with_bytes for name, policy in slow_evict.POLICIES.items()
    }
