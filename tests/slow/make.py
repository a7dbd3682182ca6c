"""Seeded random traces and replays for comparing the twins with the program, and writing them to disk."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from .clock import SlowClock
from .evict import POLICIES
from .gate import draw_gates, fit_file
from .history import PREDICTORS
from .router import route
from .spec import SlowOptions, SlowSpec, ranking
from .trace import SlowTrace, Window

STEPS = (0.25, 0.5, 1.0)
"""Scores are whole multiples of one of these: many ties, exact in float16."""


@dataclass
class _Shape:
    """What a drawn trace is made with."""

    rng: Random
    layers: int
    experts: int
    top_k: int
    step: float
    masked: float
    keep: float
    coverage: float


def draw_trace(seed: int) -> SlowTrace:
    """Draw a small trace: tied scores, skewed picks with reuse, gaps of every kind that the format allows."""
    rng = Random(seed)
    experts = rng.randint(4, 24)
    shape = _Shape(
        rng,
        layers=rng.randint(1, 5),
        experts=experts,
        top_k=rng.randint(1, min(4, experts)),
        step=rng.choice(STEPS),
        masked=rng.choice([0.0, 0.0, 0.1, 0.4]),
        keep=rng.choice([1.0, 1.0, 0.7, 0.4]),
        coverage=rng.choice([1.0, 0.8, 0.5]),
    )
    trace = SlowTrace(
        layers=shape.layers,
        experts=experts,
        top_k=shape.top_k,
        sizes={},
        classes={},
        windows=_draw_windows(rng),
        picks={},
        has_candidates=rng.random() < 0.9,
        protect=rng.choice([None, 0, 1, 2, 3]),
        bonus=rng.choice([None, 0.0, 0.25, 0.5, 0.85]),
        r1_bonus=rng.choice([None, 0.0, 0.25, 0.5]),
        draft_moce=rng.choice([None, False, True, True]),
    )
    _draw_sizes(trace, rng)
    _draw_settings(trace, rng)
    _draw_windows_of_scores(trace, shape)
    return trace


def _draw_windows(rng: Random) -> list[Window]:
    """Sessions that may open with a prefill window; rarely a short prefill or a long decode window."""
    windows: list[Window] = []
    session = rng.randint(0, 3)
    most = rng.randint(1, 4)
    prompts = rng.random() < 0.6
    for index in range(rng.randint(5, 40)):
        if index and rng.random() < 0.15:
            session += 1
        opens = not windows or windows[-1].session != session
        if prompts and (opens or rng.random() < 0.1):
            windows.append(Window(session, True, rng.randint(1, 12)))
        else:
            windows.append(Window(session, False, 9 if rng.random() < 0.01 else rng.randint(1, most)))
    return windows


def _draw_sizes(trace: SlowTrace, rng: Random) -> None:
    """One to three classes, by layer or by expert, of other sizes; rarely sizes differ inside a class."""
    count = rng.randint(1, 3)
    by_layer, uneven = rng.random() < 0.5, rng.random() < 0.2
    scale = rng.choice([1, 100, 100_000])
    base = [rng.randint(1, 30) * scale + rng.randint(0, 3) for _ in range(count)]
    for key in itertools.product(range(trace.layers), range(trace.experts)):
        trace.classes[key] = (key[0] if by_layer else rng.randrange(count)) % count
        trace.sizes[key] = base[trace.classes[key]] + (rng.randint(0, 5) if uneven else 0)


def _draw_settings(trace: SlowTrace, rng: Random) -> None:
    """Recorded read-ahead settings, disk settings and timing, each of them sometimes."""
    if rng.random() < 0.5:
        drawn = {"k": rng.randint(1, 6), "protect": rng.randint(0, 3), "bonus": rng.choice([0.0, 0.5])}
        drawn["r1"] = rng.choice([0.0, 0.25])
        trace.prefetch = {k: v for k, v in drawn.items() if rng.random() < 0.7}
    if rng.random() < 0.4:
        trace.io = {"workers": rng.randint(1, 6), "pieces": rng.randint(1, 4), "latency_us": 12.5}
        trace.io["reserved"] = rng.randrange(int(trace.io["workers"]))
    if rng.random() < 0.4:
        for window in range(len(trace.windows)):
            if rng.random() < 0.8:
                for layer in range(trace.layers):
                    trace.timing[window, layer] = (
                        rng.randint(0, 4000) / 16,
                        rng.choice([0.0, 33.1875, 400.0]),
                    )


def _draw_windows_of_scores(trace: SlowTrace, shape: _Shape) -> None:
    """Scores that persist and drift, picks by the router over some residents, candidates as noisy scores."""
    rng = shape.rng
    taste = {la: [rng.gauss(0, 1.5) for _ in range(shape.experts)] for la in range(shape.layers)}
    with_scores, with_residents, short_rows = (rng.random() < share for share in (0.7, 0.6, 0.3))
    for index, window in enumerate(trace.windows):
        scored = with_scores and rng.random() < (0.2 if window.prefill else shape.coverage)
        seen = trace.has_candidates and rng.random() < (0.2 if window.prefill else shape.coverage)
        snapshot = with_residents and rng.random() < shape.coverage
        for layer in range(shape.layers):
            hold = sorted(rng.sample(range(shape.experts), rng.randint(0, shape.experts // 2)))
            if snapshot:
                trace.residents[index, layer] = hold
            if rng.random() < 0.3:
                taste[layer][rng.randrange(shape.experts)] = rng.gauss(0, 1.5)
            foreseen = seen and rng.random() < 0.9
            together = rng.random() < 0.6
            moment = rng.randint(-1, layer - 1)
            for row in range(window.rows):
                z = _draw_scores(taste[layer], shape)
                picks = route(z, hold, shape.top_k, 2, 0.5)
                if short_rows and rng.random() < 0.1:
                    del picks[rng.randint(0, len(picks)) :]
                trace.picks[index, row, layer] = picks
                if scored:
                    trace.router_scores[index, row, layer] = _thin(z, shape)
                if foreseen:
                    after = moment if together else rng.randint(-1, layer - 1)
                    noisy = _draw_scores(taste[layer], shape)
                    trace.candidates[index, row, layer] = (after, _thin(noisy, shape))


def _draw_scores(taste: list[float], shape: _Shape) -> dict[int, float]:
    """Quantised scores around a layer's taste, some of them masked."""
    rng, step = shape.rng, shape.step
    scores = {e: round((mean + rng.gauss(0, 0.7)) / step) * step for e, mean in enumerate(taste)}
    return {e: -math.inf if rng.random() < shape.masked else z for e, z in scores.items()}


def _thin(scores: dict[int, float], shape: _Shape) -> dict[int, float]:
    """Scores in full for a dense trace, else some of them, the best more often; never none."""
    if shape.keep == 1.0:
        return scores
    order = sorted(scores, key=lambda e: -scores[e])
    kept = {e for i, e in enumerate(order) if i == 0 or shape.rng.random() < max(shape.keep, 1 - i / 8)}
    return {e: z for e, z in scores.items() if e in kept}


@dataclass
class Case:
    """One replay to compare: a trace, a policy, the ways, and a clock."""

    trace: SlowTrace
    spec: SlowSpec
    options: SlowOptions
    clock: SlowClock


def draw_case(seed: int) -> Case:
    """Draw a trace and a replay of it; about one in ten arenas is too small for some event, on purpose."""
    trace = draw_trace(seed)
    rng = Random(seed + 1_000_003)
    spec = _draw_spec(rng, trace)
    options = SlowOptions(
        slots={},
        order=rng.choice(["id", "id", "rows"]),
        cell=rng.choice(["atomic", "atomic", "atomic", "sequential"]),
        scope=rng.choice(["global", "global", "layer"]),
        split=rng.random() < 0.7,
        start=rng.choice(["cold", "cold", "warm:2", "recorded"]),
        prefill=rng.choice(["demand", "stream", f"stream:{rng.randint(0, 6)}"]),
        prompt_hot=rng.choice([0, 0, rng.randint(1, 8)]),
        routes=_draw_routes(rng, spec),
        rows_used=_draw_rows_used(rng, trace),
        keep_residents=True,
    )
    if options.routes == "rerouted" and rng.random() < 0.5:
        spec = _draw_router(rng, spec)
    if options.kind != "predicted":
        spec = _draw_history(Random(seed + 2_000_003), spec)
    spec = _draw_acting(Random(seed + 4_000_037), spec)
    spec = replace(spec, gates=draw_gates(Random(seed + 3_000_017), trace, spec.prefetch))
    for _, chosen in spec.gates:
        if "q" in chosen:
            fit_file(chosen["q"], ranking(spec, trace).count)
    return Case(trace, spec, _draw_bound(rng, trace, spec, options), _draw_clock(rng))


def _draw_routes(rng: Random, spec: SlowSpec) -> str:
    """Recorded routes in two cases of three; others as far as the policies allow them."""
    if spec.prefetch == "oracle" or POLICIES[spec.evict].looks_ahead or rng.random() < 0.65:
        return "recorded"
    kinds = ["rerouted", "rerouted", "cacheprior"]
    if spec.prefetch != "none":
        kinds += ["predicted", "predicted"]
    kind = rng.choice(kinds)
    return (
        f"cacheprior:{rng.choice([0.0, 0.1, 0.2, 0.5])},{rng.randint(0, 3)}" if kind == "cacheprior" else kind
    )


def _draw_history(rng: Random, spec: SlowSpec) -> SlowSpec:
    """In one case of four, a read-ahead policy that learns from the past instead."""
    if rng.random() < 0.75:
        return spec
    spec = replace(spec, k=None, p=None, b=None, r1=None)
    name = rng.choice([*sorted(PREDICTORS), "seqmoe"])
    if name == "seqmoe":
        few = {"extra": rng.randint(0, 4)} if rng.random() < 0.5 else {}
        return replace(spec, prefetch=name, k=rng.choice([None, 0, 2]), prefetch_options=few)
    return replace(spec, prefetch=name, prefetch_options=PREDICTORS[name].draw(rng))


def _draw_acting(rng: Random, spec: SlowSpec) -> SlowSpec:
    """Where claimed guesses enter, and what they may evict, each in one case of four."""
    if spec.prefetch == "none":
        return spec
    if rng.random() < 0.25:
        spec = replace(spec, spare=(rng.choice([0.0, 0.5, 1.0, 1.25]), rng.choice([0.0, 1.0, 4.0, 0.5])))
    if rng.random() < 0.5 and spec.evict in ("lru", "fifo", "decode2q"):
        spec = replace(spec, guess=rng.choice(["head", "tail", "tail"]))
    return spec


def _draw_router(rng: Random, spec: SlowSpec) -> SlowSpec:
    """Some of the router's settings."""
    drawn = {"router_p": rng.randint(0, 4), "router_b": rng.choice([-0.5, 0.0, 0.25, 0.5, 0.85])}
    drawn["router_r1"] = rng.choice([0.0, 0.25, 0.5])
    chosen: dict[str, Any] = {name: value for name, value in drawn.items() if rng.random() < 0.7}
    return replace(spec, **chosen)


def _draw_rows_used(rng: Random, trace: SlowTrace) -> dict[int, int]:
    """Rows kept of decode windows in one case of four."""
    if rng.random() < 0.75:
        return {}
    return {w: rng.randint(1, x.rows) for w, x in enumerate(trace.windows) if not x.prefill}


def _draw_spec(rng: Random, trace: SlowTrace) -> SlowSpec:
    """A read-ahead policy with some of the options that it reads, and an eviction policy."""
    name = rng.choice(["none", "unpert1", "unpert0", "route", "route", "oracle"])
    drawn: dict[str, Any] = {}
    if name in ("unpert1", "unpert0", "route") and rng.random() < 0.6:
        drawn["k"] = rng.randint(1, trace.top_k + 4)
    if name in ("unpert0", "route") and rng.random() < 0.6:
        drawn["b"] = rng.choice([0.0, 0.25, 0.5, 0.85])
    if name == "route" and rng.random() < 0.6:
        drawn |= {"p": rng.randint(0, 4), "r1": rng.choice([0.0, 0.25, 0.5])}
    if name != "none" and rng.random() < 0.3:
        drawn["touch"] = True
    evict = rng.choice(["lru", "decode2q", *POLICIES])
    return SlowSpec(prefetch=name, evict=evict, evict_options=POLICIES[evict].draw(rng, trace), **drawn)


def _draw_bound(rng: Random, trace: SlowTrace, spec: SlowSpec, options: SlowOptions) -> SlowOptions:
    """Slots or bytes around what the largest event needs, mostly above it."""
    classes = sorted(set(trace.classes.values()))
    shares = trace.layers if options.scope == "layer" else 1
    slack = rng.choice([0, 0, 1, 3, 8, 20])
    if POLICIES[spec.evict].with_bytes and rng.random() < 0.3:
        most = max(_need(trace, options, None))
        return replace(
            options, slots=None, budget=round(most * rng.uniform(0.7, 3.0)) * shares + rng.randint(0, 9)
        )
    slots = {}
    for c in classes:
        need = max(_need(trace, options, c))
        slots[c] = max(1, need - (rng.random() < 0.1)) * shares + rng.randint(0, slack)
    if options.scope == "layer" and rng.random() < 0.3:
        pairs = itertools.product(range(trace.layers), classes)
        return replace(options, slots={(la, c): slots[c] // shares + rng.randint(0, 4) for la, c in pairs})
    return replace(options, slots=slots)


def _need(trace: SlowTrace, options: SlowOptions, size_class: int | None) -> list[int]:
    """Slots of one class, or bytes, that every recorded event needs; rerouted ones may need more."""
    needs = [0]
    for w, window in enumerate(trace.windows):
        for layer in range(trace.layers):
            wanted = {(layer, e) for row in range(window.rows) for e in trace.picks[w, row, layer]}
            if size_class is None:
                needs.append(sum(trace.sizes[key] for key in wanted))
            else:
                needs.append(sum(trace.classes[key] == size_class for key in wanted))
    return needs


def _draw_clock(rng: Random) -> SlowClock:
    """Sometimes the defaults; else few workers, short times and a slow disk, so that all fates occur."""
    if rng.random() < 0.3:
        return SlowClock()
    workers = rng.randint(1, 5)
    return SlowClock(
        workers=workers,
        reserved=rng.randrange(workers),
        pieces=rng.randint(1, 4),
        latency_us=rng.choice([0.0, 0.0625, 10.0, 80.0]),
        stream_gbps=rng.choice([0.05, 0.7, 3.0]),
        device_gbps=rng.choice([0.05, 1.1, 6.0]),
        pre_us=rng.choice([None, 0.0, 0.1, 5.0, 200.0]),
        post_us=rng.choice([None, 0.0, 0.3, 20.0, 600.0]),
    )


def write(trace: SlowTrace, path: str | Path, float16: bool = True, null_phases: bool = False) -> None:
    """Write a trace folder in format v1, with the program's own writer.

    Parameters
    ----------
    float16
        Type of the scores; either holds a drawn trace's exactly.
    null_phases
        Leave the phase out wherever more than 8 rows say the same.
    """
    from replay.trace import write_trace

    score = pa.list_(pa.float16() if float16 else pa.float32())
    write_trace(Path(path), _meta(trace), _tables(trace, score, null_phases))


def _meta(trace: SlowTrace) -> dict[str, Any]:
    """The contents of trace.json, tables apart."""
    router = {"protect": trace.protect, "bonus": trace.bonus}
    router |= {"r1_bonus": trace.r1_bonus, "draft_moce": trace.draft_moce}
    policy = {"prefetch": {"name": "route", **trace.prefetch}} if trace.prefetch else None
    model = {"name": "drawn", "layers": trace.layers, "experts": trace.experts, "top_k": trace.top_k}
    return {
        "format": "moe-decode-trace",
        "version": 1,
        "model": model,
        "router": router,
        "policy": policy,
        "io": trace.io or None,
        "engine": {"name": "none", "version": "0", "config": {}},
        "source": {"recorder": "slow.make", "date": None, "licence": None, "notes": "drawn at random"},
    }


def _table(rows: list[dict[str, Any]], /, **types: pa.DataType) -> pa.Table:
    """A table of the rows, its columns in the order given."""
    return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))


def _tables(trace: SlowTrace, score: pa.DataType, null_phases: bool) -> dict[str, pa.Table]:
    """Every table that the trace has."""
    ids, u16, u32 = pa.list_(pa.uint16()), pa.uint16(), pa.uint32()
    row_key = {"window": u32, "row": u16, "layer": u16}

    def phase(w: Window) -> str | None:
        return None if null_phases and w.prefill == (w.rows > 8) else "prefill" if w.prefill else "decode"

    windows = [
        {"window": i, "session": w.session, "phase": phase(w), "rows": w.rows}
        for i, w in enumerate(trace.windows)
    ]
    experts = [
        {"layer": key[0], "expert": key[1], "bytes": size, "size_class": trace.classes[key]}
        for key, size in sorted(trace.sizes.items())
    ]
    picks = [
        _named(key, experts=picks, weights=trace.weights.get(key))
        for key, picks in sorted(trace.picks.items())
    ]
    weights = {"weights": pa.list_(pa.float32())} if trace.weights else {}
    tables = {
        "windows": _table(windows, window=u32, session=u32, phase=pa.string(), rows=u16),
        "selections": _table(picks, **row_key, experts=ids, **weights),
        "experts": _table(experts, layer=u16, expert=u16, bytes=pa.uint64(), size_class=pa.uint8()),
    }
    if trace.has_candidates:
        after = {key: entry[0] for key, entry in trace.candidates.items()}
        scores = {key: entry[1] for key, entry in trace.candidates.items()}
        tables["candidates"] = _score_table(trace, scores, score, after)
    routed = {key: z for key, z in trace.router_scores.items() if z is not None}
    if routed:
        tables["router_scores"] = _score_table(trace, routed, score, None)
    if trace.residents:
        held = [{"window": w, "layer": la, "experts": e} for (w, la), e in sorted(trace.residents.items())]
        tables["residents"] = _table(held, window=u32, layer=u16, experts=ids)
    if trace.timing:
        timing = [
            {"window": w, "layer": la, "pre_us": pre, "post_us": post}
            for (w, la), (pre, post) in sorted(trace.timing.items())
        ]
        tables["timing"] = _table(timing, window=u32, layer=u16, pre_us=pa.float32(), post_us=pa.float32())
    return tables


def _named(key: tuple[int, int, int], **values: Any) -> dict[str, Any]:
    """A row of a table that is keyed by window, row and layer."""
    return {"window": key[0], "row": key[1], "layer": key[2], **values}


def _score_table(
    trace: SlowTrace,
    scores: dict[tuple[int, int, int], dict[int, float]],
    score: pa.DataType,
    after: dict[tuple[int, int, int], int] | None,
) -> pa.Table:
    """Candidates or router scores: dense when every row names every expert, else sparse."""
    import numpy as np

    dense = all(len(z) == trace.experts for z in scores.values())
    types: dict[str, pa.DataType] = {"window": pa.uint32(), "row": pa.uint16(), "layer": pa.uint16()}
    if after is not None:
        types["issued_after"] = pa.int16()
    types["scores"] = score
    if not dense:
        types["experts"] = pa.list_(pa.uint16())
    kind = np.float16 if score.value_type == pa.float16() else np.float32
    rows = []
    for key, z in sorted(scores.items()):
        row = _named(key, scores=[kind(z[e]) for e in sorted(z)], experts=sorted(z))
        if after is not None:
            row["issued_after"] = after[key]
        rows.append(row)
    return _table(rows, **types)
