"""The slow twin against what the semantics state by hand, and against recorded counters."""

import csv
import itertools

import pytest
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
