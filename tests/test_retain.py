"""Draft retention against its slow twin, the golden table, and the recorded speculative trace."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest
from slow import retain as slow

from replay import retain
from replay.errors import InputError

GOLDEN = {
    "flat:0.35": (1.533, 1.322892),
    "schedule:0.1/0.35/0.55": (2.050, 1.325972),
    "cumulative:0.25": (1.512, 1.370152),
    "schedule:0.1/0.35/0.55+cumulative:0.2": (1.657, 1.376354),
}
NAN, INF = math.nan, math.inf


def kept(spec, *ps):
    """Return how many drafts of one round a spec keeps."""
    return int(retain.decide(np.array([ps], float), np.array([len(ps)]), retain.parse_retention(spec))[0][0])


def table(*rounds):
    """Make the columns of ``drafts`` from rounds of (window, ps, matched)."""
    lines = [(w, step, p, step < matched) for w, ps, matched in rounds for step, p in enumerate(ps)]
    window, step, p, hit = zip(*lines, strict=True) if lines else ((), (), (), ())
    return {
        "window": np.array(window, np.uint32),
        "step": np.array(step, np.uint8),
        "p": np.array(p, np.float64),
        "matched": np.array(hit, bool),
    }


# --- the golden table -------------------------------------------------------------------------------------


def test_golden_table():
    rows = {row.policy: row for row in retain.grid()}
    for name, (mean_kept, figure) in GOLDEN.items():
        assert rows[name].rounds == 1000
        assert round(rows[name].mean_kept, 3) == mean_kept
        assert round(rows[name].tokens_per_cost, 6) == figure
    assert max(rows.values(), key=lambda row: row.tokens_per_cost).policy == "best:confidence"


def test_grid_command(cli):
    done = cli("drafts", "--grid")
    assert done.code == 0
    for name, (_, figure) in GOLDEN.items():
        assert any(f"{name} " in line and f" {figure:.6f}" in line for line in done.out.splitlines())
    rows = json.loads(cli("drafts", "--grid", "--json", "--min-p", "0.35").out)["policies"]
    assert [row["policy"] for row in rows] == ["flat:0.35", "best:confidence"]


# --- decisions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "ps", "expected"),
    [
        ("flat:0.35", (0.35, 0.35, 0.35), 3),  # equality passes
        ("flat:0.35", (0.9, np.nextafter(0.35, 0), 0.9), 1),  # a prefix: the third never counts
        ("flat:0.35,append=1", (0.9, 0.1, 0.9), 2),  # the failing draft is kept, then it stops
        ("flat:0.35,append=1", (0.1,), 1),
        ("flat:0.35,append=1", (0.9, 0.9), 2),
        ("flat:0", (0.0, 0.0), 2),
        ("schedule:0.1/0.35/0.55", (0.1, 0.35, 0.55), 3),
        ("schedule:0.1/0.35/0.55", (0.1, 0.35, 0.54), 2),
        ("schedule:0.1/0.35", (0.1, 0.35, 0.35, 0.34), 3),  # the last repeats
        ("schedule:0.9/0.1", (0.9, 0.1), 2),  # any order
        ("cumulative:0.25", (0.5, 0.5, 1.0), 3),  # equality passes, a factor 1 keeps it
        ("cumulative:0.25", (0.5, 0.499), 1),
        ("cumulative:0", (0.0, 0.0), 2),  # 0 disables it
        ("schedule:0+cumulative:0.25", (0.5, 0.5, 0.9), 2),  # cumulative only
        ("flat:0.6+cumulative:0.25", (0.5, 0.9), 0),
        ("flat:0.4+cumulative:0.25", (0.5, 0.5, 0.9), 2),
        ("flat:0.6,append=1+cumulative:0.25", (0.7, 0.5, 0.9), 2),  # appended: 0.35 passes the product
        ("flat:0.6,append=1+cumulative:0.25", (0.7, 0.2, 0.9), 1),  # not appended: 0.14 does not
        ("flat:0.35", (), 0),
    ],
)
def test_boundaries(spec, ps, expected):
    assert kept(spec, *ps) == expected


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -0.1, 1.0000001])
def test_fail_closed(bad):
    for spec in ("schedule:0", "cumulative:0.001", "flat:0+cumulative:0.001", "schedule:0+cumulative:0"):
        assert kept(spec, 0.9, bad, 0.9) == 1, spec
    as_always = 3 if bad >= 0 else 1  # flat only compares
    assert kept("flat:0", 0.9, bad, 0.9) == as_always
    assert kept("flat:0+cumulative:0", 0.9, bad, 0.9) == as_always


def test_product_is_reset_each_round_and_in_double():
    p = np.array([[0.1, 0.1, 0.1]] * 2)
    exact = 0.1 * 0.1 * 0.1
    for floor, expected in ((exact, 3), (np.nextafter(exact, 1), 2)):
        policy = retain.Retention(min_cum_p=float(floor))
        assert retain.decide(p, np.array([3, 3]), policy)[0].tolist() == [expected] * 2


def random_policies(rng, count):
    """Draw retention policies of every shape, thresholds on and off the lattice of ``random_rounds``."""
    for _ in range(count):
        some = [float(x) for x in rng.choice([*np.arange(11) / 10, *rng.random(5)], size=rng.integers(1, 9))]
        kind = rng.integers(3)
        yield {
            "min_p": some[0] if kind == 0 else None,
            "append": bool(kind == 0 and rng.integers(2)),
            "schedule": tuple(some) if kind == 1 else (),
            "min_cum_p": float(rng.choice([0.0, 0.04, 0.25, 0.5, rng.random() ** 3]))
            if rng.integers(2)
            else None,
        }


def random_rounds(rng, count, steps=8):
    """Draw rounds: lattice values (so that equality happens), uniform ones, and one in 50 no probability."""
    p = np.where(
        rng.random((count, steps)) < 0.5, rng.integers(0, 11, (count, steps)) / 10, rng.random((count, steps))
    )
    p = np.sqrt(p) if rng.integers(2) else p
    odd = rng.choice([NAN, INF, -INF, -0.1, -0.0, 1.0, np.nextafter(1, 2), 5e-324], size=p.shape)
    return np.where(rng.random(p.shape) < 0.02, odd, p), rng.integers(0, steps + 1, count)


def test_million_decisions():
    rng = np.random.default_rng(20261129)
    each, decided, histogram = 2500, 0, np.zeros(9, int)
    for options in random_policies(rng, 400):
        p, length = random_rounds(rng, each)
        fast = retain.decide(p, length, retain.Retention(**options))
        twin = [slow.kept(ps[:n], **options) for ps, n in zip(p.tolist(), length.tolist(), strict=True)]
        assert np.array_equal(np.transpose(fast), twin), options
        decided += each
        histogram += np.bincount(fast[0], minlength=9)
    assert decided == 1_000_000
    assert (histogram > 1000).all()  # every outcome was exercised


# --- spellings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.35", (0.35,)),
        (" 0.10,\t0.35 , 0.55 ", (0.1, 0.35, 0.55)),
        ("1,0,.5,5e-1,1.", (1.0, 0.0, 0.5, 0.5, 1.0)),
        ("0,0,0,0,0,0,0,0", (0.0,) * 8),
    ],
)
def test_schedule_reads(text, expected):
    assert retain.parse_schedule(text, "--schedule") == expected
    assert retain.read_settings({retain.SCHEDULE_SETTING: text}) == (
        retain.Retention(schedule=expected),
        None,
    )


@pytest.mark.parametrize(
    "text",
    ["", "  ", ",", "0.1,", ",0.1", "0.1,,0.2", "0.1;0.2", "0.1 0.2", "x", "nan", "inf", "-0.1", "1.01",
     "1_0", "0x1p-1", "٠.٥", "0,0,0,0,0,0,0,0,0", "1e999", "0.1\n"],
)  # fmt: skip
def test_schedule_refused(text, cli):
    with pytest.raises(InputError, match="--schedule"):
        retain.parse_schedule(text, "--schedule")
    settings = {retain.SCHEDULE_SETTING: text, retain.CUMULATIVE_SETTING: "0.2"}
    policy, diagnostic = retain.read_settings(settings, 0.35)  # the whole configuration falls back
    assert policy == retain.Retention(min_p=0.35)
    assert retain.SCHEDULE_SETTING in diagnostic
    assert "\n" not in diagnostic
    assert cli("drafts", "--grid", "--schedule", text).code == 2


@pytest.mark.parametrize("text", ["", "nan", "-1", "1.5", "0.1,0.2", "x"])
def test_cumulative_refused(text, cli):
    policy, diagnostic = retain.read_settings(
        {retain.SCHEDULE_SETTING: "0.1,0.2", retain.CUMULATIVE_SETTING: text}, 0.5
    )
    assert policy == retain.Retention(min_p=0.5)
    assert retain.CUMULATIVE_SETTING in diagnostic
    assert cli("drafts", "--grid", "--min-cum-p", text).code == 2


def test_settings_that_are_fine():
    read = retain.read_settings
    assert read({}, 0.35) == (retain.Retention(min_p=0.35), None)
    assert read({retain.CUMULATIVE_SETTING: " 0.2 "}, 0.35) == (retain.Retention(0.35, min_cum_p=0.2), None)
    assert read({retain.CUMULATIVE_SETTING: "0"}) == (retain.Retention(0.0, min_cum_p=0.0), None)
    both = {retain.SCHEDULE_SETTING: "0", retain.CUMULATIVE_SETTING: "0.2"}
    assert read(both, 0.35) == (retain.Retention(schedule=(0.0,), min_cum_p=0.2), None)


def test_env_command_prints_one_diagnostic(cli, monkeypatch):
    bad = cli("drafts", "--grid", "-q", "--min-p", "0.35", "--json", "--env",
              f"{retain.SCHEDULE_SETTING}=0.1,2", f"{retain.CUMULATIVE_SETTING}=nan")  # fmt: skip
    assert bad.code == 0
    assert len(bad.err.splitlines()) == 1
    assert json.loads(bad.out)["settings"]["policy"] == "flat:0.35"
    monkeypatch.setenv(retain.SCHEDULE_SETTING, "0.10, 0.35")
    good = cli("drafts", "--grid", "-q", "--env", "--json")
    assert good.err == ""
    assert json.loads(good.out)["settings"] == {"policy": "schedule:0.1/0.35", "diagnostic": None}
    both = f"{retain.SCHEDULE_SETTING}=0.1, 0.35 {retain.CUMULATIVE_SETTING}=0.2"  # quoted as one argument
    good = cli("drafts", "--env", both, "--grid", "--json")
    assert json.loads(good.out)["settings"]["policy"] == "schedule:0.1/0.35+cumulative:0.2"
    wrong = cli("drafts", "--grid", "--env", "STRATA_METAL_SPEC_MIN_CUMP=0.2")
    assert wrong.code == 2
    assert retain.CUMULATIVE_SETTING in wrong.err


@pytest.mark.parametrize("name", [*GOLDEN, "flat:0.35,append=1", "flat:0.5+cumulative:0", "schedule:0"])
def test_names_read_back(name):
    assert retain.parse_retention(name).name == name


@pytest.mark.parametrize(
    "spec",
    ["flat:1.1", "flat:0.1+schedule:0.2", "flat:0.1+flat:0.2", "schedule:0/0/0/0/0/0/0/0/0", "cumulative:nan",
     "flat:0.1,append=2", "cumulative:0.1,append=1", "flatt:0.1", "lru", "flat:0.1+unpert1", ""],
)  # fmt: skip
def test_specs_refused(spec):
    with pytest.raises(InputError):
        retain.parse_retention(spec)


# --- rounds and what is looser ----------------------------------------------------------------------------


def test_rows_and_tokens_by_window():
    rows = np.array([9, 4, 1, 3, 4])
    prefill = np.array([True, False, False, False, False])
    drafts = table((11, (0.9, 0.5, 0.2), 2), (13, (0.1, 0.9), 1), (14, (0.9, 0.9, 0.9), 0))
    policy = retain.parse_retention("flat:0.5")
    assert retain.rows_used(rows, drafts, policy, first=10).tolist() == [9, 3, 1, 1, 4]
    assert retain.committed(rows, prefill, drafts, policy, first=10).tolist() == [0, 3, 1, 1, 1]
    assert retain.rows_used(rows, drafts, retain.Retention(), first=10).tolist() == rows.tolist()
    assert retain.committed(rows, prefill, drafts, retain.Retention(), first=10).tolist() == [0, 3, 1, 2, 1]
    assert retain.rows_used(rows, table(), policy).tolist() == rows.tolist()


def test_drafts_that_were_dropped_when_recorded():
    rows = np.array([3])
    drafts = table((0, (0.9, 0.5, 0.2), 1))  # the third was drafted and has no row
    assert retain.rows_used(rows, drafts, retain.Retention()).tolist() == [3]
    assert retain.rows_used(rows, drafts, retain.parse_retention("flat:0.5")).tolist() == [3]
    with pytest.raises(InputError, match="looser than what was recorded: window 0 would keep 3"):
        retain.rows_used(rows, drafts, retain.parse_retention("flat:0.2"))


@pytest.mark.parametrize(
    ("drafts", "rows", "prefill", "why"),
    [
        (table((0, (0.5, 0.5), 0)), 4, False, "more rows"),
        (table((0, (0.5, 0.5), 2)), 2, False, "no row"),
        (table((0, (0.5,), 0)), 2, True, "prefill"),
        (table((0, (0.5, 0.5), 0)) | {"step": np.array([0, 2])}, 3, False, "gap"),
        (table((0, (0.5, 0.5), 0)) | {"matched": np.array([False, True])}, 3, False, "prefix"),
    ],
)
def test_rounds_refused(drafts, rows, prefill, why):
    with pytest.raises(InputError, match=why):
        retain.read_rounds(drafts, np.array([rows]), np.array([prefill]))


@pytest.mark.parametrize(
    ("policy", "recorded", "looser"),
    [
        ("flat:0.35", "flat:0.35", False),
        ("flat:0.34", "flat:0.35", True),
        ("flat:0.35,append=1", "flat:0.35", True),
        ("flat:0.5,append=1", "flat:0.35,append=1", False),
        ("flat:0.35", "flat:0.35,append=1", False),
        ("schedule:0.4/0.3", "flat:0.35", True),
        ("schedule:0.4/0.3", "schedule:0.1/0.3", False),
        ("schedule:0.4", "schedule:0.1/0.5", True),
        ("cumulative:0.35", "flat:0.35", False),  # a product of 0.35 needs every factor to reach it
        ("flat:0.5", "cumulative:0.25", True),  # the third step: 0.125
        ("flat:0.7", "cumulative:0.3", False),
        ("schedule:0.1+cumulative:0.25", "flat:0.1+cumulative:0.2", False),
    ],
)
def test_looser_than_the_recorded_policy(policy, recorded, looser):
    one, other = retain.parse_retention(policy), retain.parse_retention(recorded)
    assert one.looser_than(other, 3) == looser
    if looser:
        with pytest.raises(InputError, match="looser than"):
            retain.require_recorded(one, other, 3)
    else:
        retain.require_recorded(one, other, 3)


def test_tighter_never_keeps_more():
    rng = np.random.default_rng(5)
    policies = [retain.Retention(**options) for options in random_policies(rng, 60)]
    p, length = rng.integers(0, 11, (3000, 4)) / 10, np.full(3000, 4)
    counts = [retain.decide(p, length, policy)[0] for policy in policies]
    tighter = 0
    for (one, a), (other, b) in itertools.permutations(zip(policies, counts, strict=True), 2):
        if not one.looser_than(other, 4):
            assert (a <= b).all(), (one.name, other.name)
            tighter += 1
    assert tighter > 100


def test_recorded_retention():
    read = retain.recorded_retention
    assert read(None, {}) is None
    assert read({"retention": "flat:0.35"}, {}).name == "flat:0.35"
    settings = {retain.SCHEDULE_SETTING: "0.1,0.3", "OTHER": "1"}
    assert read(None, {"config": settings}).name == "schedule:0.1/0.3"
    with pytest.raises(InputError):
        read({"retention": 0.35}, {})


# --- accounting -------------------------------------------------------------------------------------------


def test_account_against_the_twin():
    rng = np.random.default_rng(7)
    for options in random_policies(rng, 40):
        p, length = random_rounds(rng, 50, steps=5)
        matched = rng.integers(0, length + 1)
        rounds = retain.Rounds(np.arange(50), p, length, matched, length)
        policy = retain.Retention(**options)
        verify = tuple(float(x) for x in np.cumsum(rng.random(rng.integers(2, 5))) + 0.5)
        fixed, draft_step = float(rng.random()), float(rng.choice([0.0, 0.07]))
        kept, ran = retain.decide(p, length, policy)
        row = retain.account("x", rounds, kept, ran, retain.Cost(verify, fixed, draft_step))
        plain = [(ps[:n], m) for ps, n, m in zip(p.tolist(), length, matched.tolist(), strict=True)]
        keep, commit, waste, cost = slow.totals(plain, options, verify, fixed, draft_step)
        assert (row.kept, row.committed, row.wasted_rows) == (keep, commit, waste)
        assert row.cost == pytest.approx(cost, rel=1e-12)
        assert row.tokens_per_cost == pytest.approx(commit / cost, rel=1e-12)
        assert row.committed == row.rounds + sum(step.accepted for step in row.steps)
        assert row.screen == (keep < length.sum())


def test_acceptance_by_step_and_the_marginal_rule():
    rounds = retain.read_rounds(
        table((0, (0.9, 0.9), 2), (1, (0.9, 0.1), 1), (2, (0.9, 0.9), 0), (3, (0.1, 0.9), 1)), np.full(4, 3)
    )
    cost = retain.Cost((1.0, 1.5, 1.5), 0.5)
    kept, ran = retain.keep(rounds, retain.parse_retention("flat:0.5"))
    assert kept.tolist() == [2, 1, 2, 0]
    assert ran.tolist() == [2, 2, 2, 1]
    row = retain.account("x", rounds, kept, ran, cost)
    first, second = row.steps
    assert (first.kept, first.accepted, first.acceptance_ratio, first.conditional_ratio) == (
        3,
        2,
        2 / 3,
        2 / 3,
    )
    assert (second.kept, second.accepted, second.acceptance_ratio, second.conditional_ratio) == (
        2,
        1,
        0.5,
        1.0,
    )
    assert first.kept_margin == retain.Margin(3, (2 / 3) / 0.5, 1 / 1.5, True)
    assert first.next_margin == retain.Margin(1, 1 / 0.5, 1 / 1.5, True)  # window 3 stopped too soon
    assert second.kept_margin == retain.Margin(2, None, 1.5 / 2, True)  # costs nothing more: always pays
    stepped = retain.account("x", rounds, kept, ran, retain.Cost((1.0, 1.5, 1.5), 0.5, 0.25))
    assert stepped.cost == row.cost + 7 * 0.25
    assert stepped.steps[1].kept_margin == retain.Margin(2, 0.5 / 0.25, 1.5 / 2.25, True)


def test_marginal_rule_is_strict():
    accept = np.array([[0.5]])
    everyone = np.array([True])
    assert (
        retain.margin(accept, everyone, 0, retain.Cost((1.0, 1.5), 0.0)).pays is False
    )  # 1 > 1 does not hold
    assert retain.margin(accept, everyone, 0, retain.Cost((1.0, 1.49), 0.0)).pays is True
    assert retain.margin(accept, ~everyone, 0, retain.Cost()) == retain.Margin(0)


def test_cost_model():
    assert retain.Cost().by_kept(5).tolist() == pytest.approx([1.15, 1.17, 1.40, 1.75, 2.10, 2.45])
    assert retain.Cost((2.0,), 0.0).by_kept(2).tolist() == [2.0, 2.0, 2.0]
    for bad in ((), (1.0, NAN), (1.0, -1.0)):
        with pytest.raises(InputError):
            retain.Cost(bad)
    for bad in (retain.Cost((1.0, 0.5), 0.0), retain.Cost((0.0,), 0.0)):
        with pytest.raises(InputError, match="cost nothing"):
            bad.by_kept(4)


def test_best_is_the_optimum():
    rng = np.random.default_rng(3)
    for _ in range(30):
        accept = np.cumprod(rng.choice([0.0, 0.3, 0.6, 1.0], size=(5, 3)), axis=1)
        limit = rng.integers(0, 4, 5)
        verify, fixed = tuple(np.cumsum(rng.random(3) + 0.01)), float(rng.random())
        kept = retain.best(accept, limit, retain.Cost(verify, fixed))
        tokens = sum(1 + accept[r, :k].sum() for r, k in enumerate(kept))
        cost = sum(slow.round_cost(k, 0, verify, fixed, 0.0) for k in kept)
        plain = [list(row[:n]) for row, n in zip(accept, limit, strict=True)]
        assert (kept <= limit).all()
        assert tokens / cost == pytest.approx(slow.best_ratio(plain, verify, fixed), rel=1e-12)


def test_prefix_bytes_against_the_twin():
    rng = np.random.default_rng(11)
    layers, experts, rows = 3, 9, [2, 4, 1, 3]
    sizes = rng.integers(1, 1000, (layers, experts))
    picks = [
        [
            [rng.choice(experts, rng.integers(0, 5), replace=False).tolist() for _ in range(layers)]
            for _ in range(n)
        ]
        for n in rows
    ]
    lists = [each for window in picks for row in window for each in row]
    got = retain.prefix_bytes(
        np.concatenate([np.array(each, np.int32) for each in lists]),
        np.append(0, np.cumsum([len(each) for each in lists])),
        np.append(0, np.cumsum(rows)),
        np.array([1, 3]),
        sizes,
        steps=3,
    )
    for line, window in zip(got.tolist(), (1, 3), strict=True):
        assert line == [slow.wanted_bytes(picks[window], k, sizes.tolist()) for k in range(4)]


# --- the recorded trace -----------------------------------------------------------------------------------


def test_recorded_speculative_trace(shared, cli):
    folder = shared / "traces" / "recorded" / "e64-spec"
    if not folder.is_dir():
        pytest.skip("no traces/recorded/e64-spec")
    from replay.trace import open_trace

    done = cli("drafts", folder, "--json", "--min-p", "0.35", "--min-cum-p", "0.25")
    assert done.code == 0
    report = json.loads(done.out)
    rows = {row["policy"]: row for row in report["policies"]}
    whole = rows["recorded"]
    assert (whole["rounds"], whole["kept"], whole["committed"]) == (1020, 3060, 2137)
    assert [step["accepted"] for step in whole["steps"]] == [579, 351, 187]
    assert [round(step["conditional_ratio"], 3) for step in whole["steps"]] == [0.568, 0.606, 0.533]
    assert whole["screen"] is False
    assert rows["flat:0.35"]["screen"] is True
    for row in rows.values():
        assert row["committed"] + row["wasted_rows"] == row["rounds"] + row["kept"]
        assert row["expert_bytes"] % 1_700_000 == 0
        assert row["tokens_per_cost"] <= rows["best:hindsight"]["tokens_per_cost"]
    assert list(rows) == ["recorded", "flat:0.35", "cumulative:0.25", "flat:0.35+cumulative:0.25",
                          "best:confidence", "best:hindsight"]  # fmt: skip
    assert "screen" in done.err
    trace = open_trace(folder)
    drafts = retain.read_drafts(trace)
    args = (trace.windows.rows, trace.windows.prefill, drafts)
    assert retain.committed(*args, retain.Retention()).sum() == 2137
    used = retain.rows_used(args[0], drafts, retain.parse_retention("flat:0.35"))
    assert (args[0] - used).sum() == whole["kept"] - rows["flat:0.35"]["kept"]
    assert cli("drafts", folder, "--quiet").err == ""


def test_trace_recorded_under_a_policy(shared, cli, tmp_path):
    folder = shared / "traces" / "recorded" / "e64-spec"
    if not folder.is_dir():
        pytest.skip("no traces/recorded/e64-spec")
    for file in folder.iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    described = json.loads((folder / "trace.json").read_text())
    described["engine"]["config"] = {retain.SCHEDULE_SETTING: "0.1,0.3"}
    (tmp_path / "trace.json").write_text(json.dumps(described))
    looser = cli("drafts", tmp_path, "--min-p", "0.2")
    assert looser.code == 2
    assert looser.out == ""
    assert "looser than schedule:0.1/0.3" in looser.err
    default = cli(
        "drafts", tmp_path, "--json"
    )  # of the four by default, the looser one is left out and named
    names = [row["policy"] for row in json.loads(default.out)["policies"]]
    assert "cumulative:0.25" not in names
    assert "schedule:0.1/0.35/0.55" in names
    assert "left out: cumulative:0.25" in default.err


def test_trace_or_grid(cli):
    assert cli("drafts").code == 2
    assert cli("drafts", "somewhere", "--grid").code == 2
    assert cli("drafts", "--grid", f"{retain.SCHEDULE_SETTING}=0.1").code == 2
    assert cli("drafts", "--grid", "--cost", "1,x").code == 2
