"""Sections of the report: policies that stand for others, other clocks, what drafts are worth, the limits."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from made_run import made_run

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.comparison.sensitivity import parse_grid
from replay.ledger.window_table import WindowTable
from replay.report import rendered
from replay.report.economy import worth
from replay.report.fold import folded
from replay.report.gather import gather
from replay.report.sensitivity import clocks
from replay.report.subject import Subject
from replay.run import Run
from replay.trace import open_trace

POLICIES = ("none+lru", "unpert1+lru", "unpert0+lru")


def twins(routes: tuple[str, ...] = ("recorded",), baseline: str = POLICIES[0], apart: bool = False) -> Run:
    """A run whose last policy has the figures of the second, and is said to be the same by construction."""
    run = made_run(POLICIES, routes=routes)
    first, last = POLICIES[1:]
    for name in ("layers", "windows", "curves"):
        table = getattr(run, name)
        same = table.filter(pl.col("policy") == first).with_columns(policy=pl.lit(last))
        both = pl.concat([table.filter(pl.col("policy") != last), same])
        if name == "windows":
            run.by_window = WindowTable(both)
        else:
            setattr(run, name, both)
    rows = {(row["policy"], row["routes"]): row for row in run.summary}
    run.summary = [
        {**rows[first, row["routes"]], "policy": last} if row["policy"] == last else row
        for row in run.summary
    ]
    if apart:
        run.summary[-1]["misses"] += 1
    run.info |= {"same_by_construction": [[first, last]], "baseline": baseline}
    return run


def test_one_policy_stands_for_those_that_are_the_same() -> None:
    run = twins()
    less, stands = folded(run)
    assert stands == {(POLICIES[1], "recorded"): [POLICIES[2]]}
    assert [row["policy"] for row in less.summary] == list(POLICIES[:2])
    for name in ("layers", "windows", "curves"):
        before, after = getattr(run, name), getattr(less, name)
        assert after.equals(before.filter(pl.col("policy") != POLICIES[2]))
    report = gather(run)
    assert [(row.name, row.also) for row in report.policies.rows] == [
        (POLICIES[0], ""),
        (POLICIES[1], f"= {POLICIES[2]}"),
    ]
    assert report.about.startswith("3 policies")
    assert f"{POLICIES[1]} is also {POLICIES[2]}" in report.pictures["miss_curve"].caption
    assert [row.name for row in report.resolved.rows] == list(POLICIES)
    assert rendered(run)["report.html"]


def test_the_baseline_stands_for_the_others() -> None:
    _, stands = folded(twins(baseline=POLICIES[2]))
    assert stands == {(POLICIES[2], "recorded"): [POLICIES[1]]}


def test_rows_that_differ_under_other_routes_stay() -> None:
    run = twins(("recorded", "rerouted"), apart=True)
    less, stands = folded(run)
    assert list(stands) == [(POLICIES[1], "recorded")]
    assert [(row["policy"], row["routes"]) for row in less.summary][-1] == (POLICIES[2], "rerouted")
    names = [row.name for row in gather(run).policies.rows]
    assert names == [
        "none+lru (recorded)",
        "unpert1+lru (recorded)",
        "none+lru (rerouted)",
        "unpert1+lru (rerouted)",
        "unpert0+lru (rerouted)",
    ]


def test_a_policy_looks_as_it_does_where_all_are_shown() -> None:
    run = twins()
    assert Subject.folded(run).looks[POLICIES[1]] == Subject(run).looks[POLICIES[1]]


def test_nothing_to_fold_is_the_run_itself() -> None:
    run = made_run()
    assert folded(run) == (run, {})


@pytest.fixture(scope="module")
def spec_run(root: Path) -> Run:
    """The speculative sample under four clocks, with a bound among the policies."""
    trace = open_trace(root / "traces/e64-spec")
    clock = load_clock(None, trace.meta.io)
    specs = ["none+lru", "unpert1+lru", "none+belady"]
    grid = parse_grid("rate=0.5/4,latency_us=20/80", clock)
    return compare(trace, specs, clock=clock, clock_grid=grid, grid=())


def test_other_clocks(spec_run: Run) -> None:
    found = clocks(Subject(spec_run))
    assert found is not None
    assert len(found.waits.rows) == 4 and [row.name for row in found.fates.rows] == [
        "none+lru", "unpert1+lru", "none+belady",
    ]  # fmt: skip
    table = spec_run.sensitivity
    assert table is not None
    for row in found.waits.rows:
        values = [cell.value for cell in row.cells]
        assert row.cells[1].best and values[1] == min(v for v in values[:2] if v is not None)
        assert not row.cells[2].best, "a bound is never the best"
    assert "latency 20 us" in found.waits.rows[0].name and "device 3 GB/s" in found.waits.rows[0].name
    assert found.text.endswith("unpert1+lru on 4.")
    first = table.row(0, named=True)
    wait = (first["wait_us"] + first["limbo_wait_us"]) / first["tokens"]
    assert found.waits.rows[0].cells[0].value == pytest.approx(wait)
    assert "Under other clocks" in rendered(spec_run)["report.md"].decode()


def test_one_clock_has_no_such_section() -> None:
    run = made_run()
    assert clocks(Subject(run)) is None
    assert "Under other clocks" not in rendered(run)["report.html"].decode()


def test_what_drafts_are_worth(spec_run: Run) -> None:
    found = worth(spec_run.info["drafts"])
    assert found is not None and found.choices is not None
    survey = {each["policy"]: each["tokens_per_cost"] for each in spec_run.info["drafts"]["policies"]}
    for row in found.policies.rows:
        if row.note != "bound":
            assert row.cells[0].value == pytest.approx(survey[row.name])
    assert [row.name for row in found.steps.rows] == ["0", "1", "2"]
    files = rendered(spec_run)
    assert "draft_sweep.svg" in files and spec_run.draft_sweep is not None
    assert len(spec_run.draft_sweep) == 240
    html = files["report.html"].decode()
    assert "What a draft is worth" in html and "Tokens over cost decides" in html


def test_its_tables_are_saved_and_read_back(spec_run: Run, tmp_path: Path) -> None:
    from replay.run import load

    spec_run.save(tmp_path / "run")
    again = load(tmp_path / "run")
    assert again.draft_sweep is not None and spec_run.draft_sweep is not None
    assert again.draft_sweep.equals(spec_run.draft_sweep)
    assert rendered(again) == rendered(spec_run)


def test_the_report_says_what_others_found_and_where_rules_are_from(spec_run: Run) -> None:
    text = rendered(spec_run)["report.html"].decode()
    assert "30% slower" in text and "18 to 38% slower" in text
    assert "Where the rules are from" in text and "Belady 1966" in text


def test_a_byte_budgets_belady_is_a_heuristic() -> None:
    run = made_run(("none+lru", "none+belady", "oracle+lru"), by_bytes=True)
    assert [row.note for row in gather(run).policies.rows] == ["baseline", "heuristic", "bound"]


def test_predicted_routes_say_what_is_not_known() -> None:
    assert "read no router scores" in "".join(gather(made_run(routes=("predicted",))).routes)


def test_the_brief_says_how_much_came_late(spec_run: Run) -> None:
    row = spec_run.summary[1]
    share = row["late"] / (row["timely"] + row["late"])
    assert f"Late: {share:.1%} of the read-ahead that was used, under unpert1+lru." in gather(spec_run).brief
    several = made_run()
    ends = {row["policy"]: row["late"] / (row["timely"] + row["late"]) for row in several.summary[:2]}
    low, high = sorted(ends, key=lambda name: ends[name])
    text = f"Late: {ends[low]:.1%} ({low}) to {ends[high]:.1%} ({high}) of the read-ahead that was used."
    assert text in gather(several).brief
    assert not [each for each in gather(made_run(timed=False)).brief if each.startswith("Late")]


def test_no_arena_halves_the_misses_where_all_experts_do_not() -> None:
    run = made_run(("none+lru", "unpert1+lru"))
    assert run.curves is not None
    whole = run.curves.with_columns(
        capacity_share=pl.lit(1.0), misses=pl.col("lookups"), prefetch_hits=pl.lit(0, pl.Int64)
    )
    assert [each for each in gather(replace(run, curves=whole)).brief if "No arena halves the misses" in each]
    part = whole.with_columns(capacity_share=pl.lit(0.5))
    assert not [each for each in gather(replace(run, curves=part)).brief if "No arena" in each]


def test_the_report_says_whether_the_recorded_policy_comes_out(root: Path, tmp_path: Path) -> None:
    trace = open_trace(root / "traces/e64-moce")
    run = compare(trace, ["none+lru"], grid=(), check=True)
    assert run.info["fidelity"]["events"] == run.info["fidelity"]["equal"] == 8192
    said = (
        "the recorded policy (none+lru), replayed, gives the recorded counters and residents in all of 8,192"
    )
    assert said in rendered(run)["report.html"].decode()
    run.info["fidelity"]["equal"] = 8000
    assert any("in only 8,000 of 8,192 events" in each for each in gather(run).routes)
    assert "fidelity" not in compare(trace, ["none+lru"], grid=()).info


def test_fidelity_that_was_not_measured_says_why(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = open_trace(root / "traces/e64-spec")
    run = compare(trace, ["none+lru"], grid=(), check=True)
    assert any(
        each.startswith("Fidelity not measured: nothing to compare with") for each in gather(run).routes
    )
    monkeypatch.setattr("replay.fidelity.told.CHEAP_EVENTS", 10)
    run = compare(trace, ["none+lru"], grid=(), check=True)
    assert (
        "Fidelity not measured: the trace is large; replay fidelity TRACE measures it." in gather(run).routes
    )
    assert gather(made_run()).routes == gather(made_run()).routes[:1]


def test_the_policy_table_says_what_guesses_cover_and_pollute(spec_run: Run) -> None:
    grid = gather(spec_run).policies
    column = {head.whole: i for i, head in enumerate(grid.heads[1:])}
    decode = spec_run.layers.filter(pl.col("phase") == "decode")
    for row in grid.rows:
        mine = decode.filter(pl.col("policy") == row.name)
        sums = {name: mine[name].sum() for name in ("prefetch_hits", "misses", "issued", "pollution")}
        covered, polluted = (row.cells[column[name]] for name in ("covered of absent", "pollution of misses"))
        if not sums["issued"]:
            assert covered.value is polluted.value is None
            continue
        assert covered.value == pytest.approx(
            sums["prefetch_hits"] / (sums["prefetch_hits"] + sums["misses"])
        )
        assert polluted.value == sums["pollution"] / sums["misses"]
