"""Admission gates: what refuses them, and what each withholds in a case that can be followed by hand."""

import json
from pathlib import Path
from random import Random

import pytest
from slow.gate import draw_coverage, draw_q, fit_file
from slow.make import write
from slow.trace import SlowTrace
from test_slow_twin import stream_of

from replay import gate
from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.report.policies import policy_figures
from replay.report.subject import Subject
from replay.run import load
from replay.schema.result import RESULT
from replay.spec.grammar import declaration, parse
from replay.trace import open_trace


def with_scores(scores: list[dict[int, float]], wanted: list[list[int]]) -> SlowTrace:
    """One layer with window w's scores known at its start, eight experts of 10 bytes, two picks a row."""
    trace = stream_of([[picks] for picks in wanted], layers=1)
    trace.has_candidates = True
    for w, row in enumerate(scores):
        trace.candidates[w, 0, 0] = (-1, row)
    return trace


def totals(trace, spec: str, **options) -> dict[str, int]:
    """Counters of the only layer under one spec."""
    return compare(trace, [spec], slots="6", grid=(), **options).layers.to_dicts()[0]


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """One window with scores 4, 3, 2.5, 0 and less, cold, so that nothing is boosted; 0 and 2 are wanted."""
    experts = 8
    scores = [dict.fromkeys(range(experts), -9.0) | {0: 4.0, 1: 3.0, 2: 2.5, 3: 0.0}]
    path = tmp_path_factory.mktemp("gate") / "trace"
    trace = with_scores(scores, [[0, 2]])
    write(trace, path)
    return open_trace(path)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("margin:0.1", "add one, such as unpert1"),
        ("none+confidence+lru", "add one, such as unpert1"),
        ("oracle+margin", "candidate scores, which oracle does not rank"),
        ("previous+mass:0.5", "candidate scores, which previous does not rank"),
        ("unpert1+margin+margin:1", "margin is given twice"),
        ("unpert1+mass:1.5", "is outside 0 to 1"),
        ("unpert1+budget:reserve=1", "is outside 0 to 0.999"),
        ("unpert1+margins", "no policy is called 'margins'"),
    ],
)
def test_refusals(spec, reason):
    """A gate without guesses or scores, given twice, out of range."""
    with pytest.raises(InputError, match=reason):
        parse(spec)


def test_a_budget_needs_a_figure(near):
    """Neither a size nor a share."""
    with pytest.raises(InputError, match="budget needs a size a window or a share"):
        totals(near, "unpert1+budget")


@pytest.mark.parametrize("name", ["coverage", "calibrated"])
def test_a_fitted_gate_needs_its_file(near, name, tmp_path):
    """No file named, no such file, a file for another K."""
    for options, reason in (("", "needs a file: write"), (f":q={tmp_path}/none.json", "No such file")):
        with pytest.raises(InputError, match=reason):
            totals(near, f"unpert1+{name}{options}")
    draw = {"coverage": draw_coverage, "calibrated": draw_q}[name]
    path = draw(Random(1), with_scores([], [[0, 2]]))
    fit_file(path, 5)
    with pytest.raises(InputError, match="fitted for 5 ranks; the policy ranks 4"):
        totals(near, f"unpert1:k=4+{name}:q={path}")
    assert totals(near, f"unpert1:k=5+{name}:q={path}")["issued"] <= 5


@pytest.mark.parametrize(
    ("spec", "slots", "reason"),
    [
        (
            "unpert1:k=4+budget:9",
            "20",
            "every guess (4); budget allows 9 bytes a window, the smallest expert has 10",
        ),
        ("unpert1:k=4+margin:9", "20", "its gates withheld every guess (4)"),
        ("unpert1:k=0", "20", "it takes no candidate (k = 0)"),
        ("stmoe", "20", "none of its guesses was absent or admitted"),
    ],
)
def test_read_ahead_that_reads_nothing_says_why(near, spec, slots, reason):
    """One note a policy; none for what reads, or is not read-ahead."""
    run = compare(near, [spec, "none+lru", "unpert1:k=4"], slots=slots, grid=())
    (note,) = run.info["notes"]
    assert note.startswith(f"{spec}: issued no read ahead: ") and reason in note


def test_a_share_kept_for_urgent_reads_refuses_what_is_late(near):
    """A latency beyond every deadline: no guess is moved in time, whatever is kept."""
    late = ClockParams(latency_us=9000.0)
    run = compare(near, ["unpert1:k=4+budget:reserve=0.01"], slots="20", grid=(), clock=late)
    (note,) = run.info["notes"]
    assert note.endswith("budget's reserve refuses what the nominal plan cannot move by its deadline")


def test_the_price_of_a_byte(near):
    """q of 1 and the default clock: a read of 10 bytes spares its latency and a rounding, 80.004 us, at most."""
    path = draw_q(Random(1), with_scores([], [[0, 2]]))
    content = json.loads(Path(path).read_text())
    bins = len(content["margin_edges"]) + 1
    content["q"] = content["q_absent"] = [[[1.0, 1.0, 0.5, 0.5][rank : rank + 1] * bins for rank in range(4)]]
    content |= {"ranks": 4, "ranking": {"policy": "unpert1", "k": 4}}
    Path(path).write_text(json.dumps(content))
    issued = {
        price: totals(near, f"unpert1:k=4+calibrated:q={path},price={price}")["issued"]
        for price in ("0", "3.9", "4.1", "7.9", "8.1")
    }
    assert issued == {"0": 4, "3.9": 4, "4.1": 2, "7.9": 2, "8.1": 0}
    assert totals(near, f"unpert1:k=4+calibrated:q={path},victim=79")["issued"] == 2


def test_margin_counts_from_the_kth(near):
    """The second best is the k-th: 4 and 3 have margins 1 and 0, 2.5 has -0.5, 0 has -3."""
    issued = {m: totals(near, f"unpert1:k=4+margin:{m}")["issued"] for m in ("1", "0", "-0.5", "-3", "1.5")}
    assert issued == {"1": 1, "0": 2, "-0.5": 3, "-3": 4, "1.5": 0}
    assert totals(near, "unpert1:k=4")["issued"] == 4


def test_mass_of_the_better_ones(near):
    """Softmax 0.62, 0.23, 0.14, 0.01: those above 0.5 are one, above 0.7 two, above 0.9 three."""
    issued = {d: totals(near, f"unpert1:k=4+mass:{d}")["issued"] for d in ("0", "0.5", "0.7", "0.9")}
    assert issued == {"0": 1, "0.5": 1, "0.7": 2, "0.9": 3}


def test_budget_takes_the_best_first(near):
    """Ten bytes an expert: 25 bytes a window let two through."""
    assert totals(near, "unpert1:k=4+budget:29B")["issued"] == totals(near, "unpert1:k=2")["issued"]


def test_a_run_says_what_its_gates_did(near, tmp_path):
    """Four are asked about, two pass the margin; 0 and 2 are wanted, of which 0 was admitted."""
    run = compare(near, ["none+lru", "unpert1:k=4+margin:0+lru"], slots="6", grid=())
    (row,) = run.gates.to_dicts()
    assert (row["asked"], row["admitted"], row["asked_wanted"], row["admitted_wanted"]) == (4, 2, 2, 1)
    assert (row["prefetch_hits"], row["misses"], row["issued"]) == (1, 1, 2)
    plain, gated = run.summary
    assert "asked" not in plain and gated["asked"] == 4
    assert (gated["gate_precision_ratio"], gated["gate_coverage_ratio"]) == (0.5, 0.5)
    assert gated["issued_bytes_per_miss_avoided"] == 20.0
    run.save(tmp_path / "run")
    assert load(tmp_path / "run").gates.equals(run.gates)
    assert run.gates.columns == [column.name for column in RESULT["gates"].columns]
    assert compare(near, ["unpert1+lru"], slots="6", grid=()).gates is None


def test_the_report_shows_gates(near):
    """The policy table has their columns, and none without gates."""
    gated = compare(near, ["none+lru", "unpert1:k=4+margin:0+lru"], slots="6", grid=())
    heads = {(each.head.text, each.head.unit) for each in policy_figures(Subject(gated), {})}
    assert {("gate precision", "of admitted"), ("MB issued", "per miss avoided")} <= heads
    plain = compare(near, ["unpert1+lru"], slots="6", grid=())
    assert not any("gate" in each.head.text for each in policy_figures(Subject(plain), {}))


def test_every_gate_is_declared_as_one():
    """Names of the registry are the declarations', and their kind is gate."""
    for name in gate.POLICIES:
        policy = declaration(name)
        assert (policy.name, policy.kind) == (name, "gate")
        assert callable(gate.load(name).lay)
