"""The slow twin against what the semantics state by hand, and against recorded counters."""

import csv
import itertools
from dataclasses import replace

import pytest
from slow.arena import ArenaTooSmall
from slow.clock import SlowClock, clock_slow
from slow.make import draw_case, draw_trace, write
from slow.router import route, weights
from slow.spec import SlowOptions, SlowSpec
from slow.trace import SlowTrace, Window, read
from slow.twin import replay_slow


def stream_of(wanted, layers=1, experts=8):
    """One single-row window for every list of each layer's ids."""
    every = list(itertools.product(range(layers), range(experts)))
    return SlowTrace(
        layers=layers,
        experts=experts,
        top_k=len(wanted[0][0]),
        sizes=dict.fromkeys(every, 10),
        classes=dict.fromkeys(every, 0),
        windows=[Window(0, False, 1)] * len(wanted),
        picks={(w, 0, la): list(ids) for w, row in enumerate(wanted) for la, ids in enumerate(row)},
    )


def letters(text):
    return stream_of([[["ABCD".index(c)]] for c in text])


@pytest.mark.parametrize(
    ("text", "evict", "options", "misses"),
    [
        ("ABABAB" + "CD" * 10, "lru", {}, 4),
        ("ABABAB" + "CD" * 10, "decode2q", {}, 22),
        ("AB" + "CD" * 10, "decode2q", {}, 22),
        ("AB" + "CD" * 10, "decode2q", {"head": True}, 4),
    ],
)
@pytest.mark.parametrize("way", [{}, {"order": "rows"}, {"cell": "sequential"}, {"scope": "layer"}])
def test_expected_misses(text, evict, options, misses, way):
    result = replay_slow(
        letters(text), SlowSpec(evict=evict, evict_options=options), SlowOptions(slots={0: 3}, **way)
    )
    assert result.total("misses") == misses
    assert result.total("lookups") == len(text)


def test_router_example():
    scores = {e: -0.1 * e for e in range(20)}
    assert route(scores, range(6, 20), 10, 3, 0.85) == [0, 1, 2, 6, 7, 8, 9, 10, 11, 3]
    assert route(scores, range(6, 20), 6, 3, 0.0) == [0, 1, 2, 3, 4, 5]
    assert sum(weights(scores, [0, 1, 6])) == pytest.approx(1.0)


def test_toy_events(shared):
    with open(shared / "traces/external/toy/events.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [
        [list(map(int, r["requested_experts"].split())) for r in rows[i : i + 3]] for i in range(0, 15, 3)
    ]
    trace = stream_of(wanted, layers=3)
    result = replay_slow(trace, SlowSpec(), SlowOptions(slots={0: 6}, scope="layer"))
    for row in rows:
        counts = result.counters[int(row["scheduler_step"]), int(row["layer"])]
        assert (counts["misses"], counts["hits"]) == (int(row["misses"]), int(row["hits"]))
    assert (result.total("lookups"), result.total("hits"), result.total("misses")) == (30, 12, 18)


@pytest.mark.parametrize("routes", ["recorded", "rerouted"])
def test_recorded_counters(shared, routes):
    trace = read(shared / "traces/recorded/e256-moce", limit=64)
    result = replay_slow(trace, SlowSpec(), SlowOptions(slots={0: 721}, routes=routes, keep_residents=True))
    assert result.residents == trace.residents
    for key, recorded in trace.counters.items():
        mine = result.counters[key]
        assert (mine["hits"], mine["misses"]) == (recorded["hits"], recorded["misses"]), key
    assert result.picks == trace.picks


@pytest.mark.parametrize("seed", range(60))
def test_conservation(seed):
    case = draw_case(seed)
    try:
        result = replay_slow(case.trace, case.spec, case.options)
    except ArenaTooSmall:
        assert case.options.slots is not None
        return
    times = clock_slow(case.trace, result, case.clock, case.options.split, case.options.warm)
    assert set(times.counts) == set(result.counters)
    for key, c in result.counters.items():
        t = times.counts[key]
        assert c["lookups"] == c["hits"] + c["prefetch_hits"] + c["misses"]
        assert c["issued"] == c["prefetch_hits"] + c["retired"]
        assert c["issued_bytes"] == c["claimed_bytes"] + c["retired_bytes"]
        assert c["prefetch_hits"] == t["timely"] + t["late"]
        assert c["claimed_bytes"] == t["timely_bytes"] + t["late_bytes"]
        assert c["retired"] == t["cancelled"] + t["partial"] + t["unused"]
        assert c["retired_bytes"] == t["cancelled_bytes"] + t["unused_bytes"]
        read = t["timely_bytes"] + t["late_bytes"] + t["unused_bytes"]
        assert t["disk_bytes"] == c["demand_bytes"] + read
    if case.options.warm == 0:
        waits = sum(t["wait_ns"] for t in times.counts.values())
        assert sum(times.total_ns.values()) >= waits


def test_written_trace_reads_back(tmp_path):
    trace_package = pytest.importorskip("replay.trace")
    if not hasattr(trace_package, "write_trace"):
        pytest.skip("replay.trace has no write_trace yet")
    for seed in range(6):
        trace = draw_trace(seed)
        write(trace, tmp_path / str(seed), float16=seed % 2 == 0, null_phases=seed % 3 == 0)
        back = read(tmp_path / str(seed))
        back.prefetch.pop("name", None)
        assert back == trace


def ahead(scores, moment, layers=1):
    """Candidates of single-row windows: (window, layer) to {expert: score}, all at one moment."""
    return {(w, 0, la): (moment, z) for (w, la), z in scores.items()}


def run(trace, spec=None, clock=None, **options):
    spec = spec or SlowSpec()
    result = replay_slow(trace, spec, SlowOptions(**options))
    times = clock_slow(trace, result, clock or SlowClock(), options.get("split", True))
    return result, times


def test_clock_of_one_cold_miss():
    trace = stream_of([[[0]]])
    trace.sizes[0, 0] = 3_000_000
    _, times = run(trace, slots={0: 1})
    # three pieces start at 200,000 and are ready at 280,000; the link moves one in 166,667
    assert times.counts[0, 0]["wait_ns"] == 280_000 + 3 * 166_667 - 200_000
    assert times.total_ns == {0: 200_000 + 580_001}


def test_clock_of_late_and_partial_reads():
    trace = stream_of([[[0]]])
    trace.sizes = dict.fromkeys(trace.sizes, 300)
    trace.has_candidates = True
    trace.candidates = ahead({(0, 0): {0: 2.0, 1: 1.0, 2: 0.0}}, -1)
    clock = SlowClock(
        workers=3,
        reserved=1,
        pieces=3,
        latency_us=0.1,
        stream_gbps=1.0,
        device_gbps=1.0,
        pre_us=0.1,
        post_us=1,
    )
    result, times = run(trace, SlowSpec(prefetch="unpert1", k=3), clock, slots={0: 4})
    # two pieces of read 0 start at 0; nothing else may before the ask at 100, so reads 1 and 2 are cancelled
    assert [times.fates[i].fate for i in range(3)] == ["late", "cancelled", "cancelled"]
    assert times.counts[0, 0]["late_exposed_bytes"] == 300
    # the third piece starts at the ask itself (a third worker is free): ready 200, link free at 300, done 400
    assert times.counts[0, 0]["wait_ns"] == 300
    assert result.total("retired") == 2
    # asked at 350 instead: read 0's last piece runs from 200 to 400, read 1's first started at 300
    slower = replace(clock, pre_us=0.35)
    _, times = run(trace, SlowSpec(prefetch="unpert1", k=3), slower, slots={0: 4})
    assert [times.fates[i].fate for i in range(3)] == ["late", "partial", "cancelled"]


def test_limbo_is_free_after_the_next_event_and_reclaimed_before_the_arena_fails():
    trace = stream_of([[[0], [0]], [[1], [1]], [[2], [2]]], layers=2)
    trace.has_candidates = True
    trace.candidates = ahead({(0, 0): {5: 1.0}}, -1)
    spec = SlowSpec(prefetch="unpert1", k=1)
    result, _ = run(trace, spec, slots={0: 2})
    # two slots: guess 5 and expert (0, 0) fill them; (1, 0) takes (0, 0)'s slot, the limbo slot stays
    assert result.peaks == {0: (1, 1), 1: (0, 0), 2: (0, 0)}
    assert result.total("misses") == 6
    # one slot: the guess holds it, the first miss reclaims it, and its read belongs to that event
    result, times = run(trace, spec, slots={0: 1})
    assert [entry.retired for entry in result.log if hasattr(entry, "retired")][0] == [0]
    assert times.counts[0, 0]["unused"] + times.counts[0, 0]["cancelled"] + times.counts[0, 0]["partial"] == 1
    assert result.peaks[0] == (1, 0)
    with pytest.raises(ArenaTooSmall, match="window 0, layer 0: class 0"):
        run(stream_of([[[0, 1]]]), slots={0: 1})


def test_byte_budget_trims_after_the_event_and_sequential_after_each_load():
    trace = stream_of([[[0, 1, 2]], [[3, 0, 1]]])
    atomic, _ = run(trace, budget=30)
    assert [atomic.counters[w, 0]["misses"] for w in (0, 1)] == [3, 1]
    sequential, _ = run(trace, budget=30, cell="sequential")
    assert [sequential.counters[w, 0]["misses"] for w in (0, 1)] == [3, 3]


def test_stream_walks_the_most_used_and_stops_at_its_cap():
    trace = stream_of([[[6]], [[6]], [[7]], [[1]]])
    trace.windows = [Window(0, False, 1)] * 3 + [Window(1, True, 1)]
    result, _ = run(trace, slots={0: 4}, prefill="stream:3")
    # 6 and 7 are resident; the walk passes them and takes 0, 1, 2: two free slots, the third is dropped
    assert result.counters[3, 0]["issued"] == 2
    assert result.counters[3, 0]["dropped"] == 1
    assert result.counters[3, 0]["prefetch_hits"] == 1


def test_prompt_hot_spares_what_was_recent_at_its_start():
    trace = stream_of([[[0], []], [[1], []], [[2], []], [[3], [4]], [[1], []]], layers=2)
    trace.windows[3] = Window(0, True, 1)
    # the prompt's first load evicts 0; its second evicts 1, or with 1 and 2 hot the first one
    assert run(trace, slots={0: 3})[0].total("misses") == 6
    assert run(trace, slots={0: 3}, prompt_hot=2)[0].total("misses") == 5
    # all three hot: the first load must evict a hot one, the second evicts the first
    assert run(trace, slots={0: 3}, prompt_hot=9)[0].total("misses") == 5


def test_quota_lets_the_least_recent_fall_back():
    text = "AABB" + "CD" + "A"
    for quota, misses in ((1.0, 4), (0.5, 5), (0.0, 5)):
        spec = SlowSpec(evict="decode2q", evict_options={"quota": quota, "head": True})
        assert run(letters(text), spec, slots={0: 3})[0].total("misses") == misses, quota


def test_touch_saves_a_resident_guess():
    trace = stream_of([[[0]], [[1]], [[2]], [[0]]])
    trace.has_candidates = True
    trace.candidates = ahead({(2, 0): {0: 1.0}}, -1)
    for touch, misses in ((False, 4), (True, 3)):
        spec = SlowSpec(prefetch="unpert1", k=1, touch=touch)
        assert run(trace, spec, slots={0: 2})[0].total("misses") == misses


def test_order_rows_claims_by_last_occurrence():
    # the first event leaves 1 at the head by id, and 0, its last pick, by rows
    trace = stream_of([[[1, 0]], [[2, 3]], [[0, 4]]])
    assert run(trace, slots={0: 3})[0].counters[2, 0]["hits"] == 0
    assert run(trace, slots={0: 3}, order="rows")[0].counters[2, 0]["hits"] == 1
