"""The grammar of policy specs, what their options come to on a trace, and the engine's switches."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.declare.policy import NEEDS, TABLES, Option, Policy, lacking, parse_value, show_value
from replay.errors import InputError
from replay.predict.ranking import Ranking
from replay.spec.grammar import Part, PolicySpec, declaration, names, parse, parse_all, read_file
from replay.spec.resolve import Resolved, recorded_text, resolve, same_by_construction
from replay.spec.switches import spec_from_switches, switches_of

SILENT = SimpleNamespace(policy=None, router=None)


def recorded(prefetch: Any = None, **router: Any) -> SimpleNamespace:
    """Describe a trace that recorded these settings."""
    settings = {"protect": None, "bonus": None, "r1_bonus": None, "draft_moce": None} | router
    policy = None if prefetch is None else {"prefetch": prefetch, "evict": "lru"}
    return SimpleNamespace(policy=policy, router=SimpleNamespace(**settings))


def solved(text: str, trace: Any = SILENT) -> Resolved:
    return resolve(parse(text), trace)


# --- grammar --------------------------------------------------------------------------------------


def test_missing_parts_are_none_and_lru() -> None:
    assert parse("decode2q") == PolicySpec("decode2q", Part("none"), Part("decode2q"))
    assert parse("unpert1") == PolicySpec("unpert1", Part("unpert1"), Part("lru"))
    assert parse("router:p=0").router == Part("router", {"p": 0})


@pytest.mark.parametrize(
    ("text", "read_ahead", "evict"),
    [
        ("unpert1:k=6,touch=1+decode2q", Part("unpert1", {"k": 6, "touch": True}), Part("decode2q")),
        ("decode2q+unpert0:k=6", Part("unpert0", {"k": 6}), Part("decode2q")),
        ("route:p=3,r1=0.4+lru", Part("route", {"p": 3, "r1": 0.4}), Part("lru")),
        ("route:b=-0.5,r1=1e-3", Part("route", {"b": -0.5, "r1": 0.001}), Part("lru")),
        ("none+decode2q:quota=0.25", Part("none"), Part("decode2q", {"quota": 0.25})),
        ("decode2q:quota=25%", Part("none"), Part("decode2q", {"quota": 0.25})),
        ("decode2q:0.25", Part("none"), Part("decode2q", {"quota": 0.25})),
        ("decode2q:head", Part("none"), Part("decode2q", {"head": True})),
        ("decode2q:head=0,0.5", Part("none"), Part("decode2q", {"head": False, "quota": 0.5})),
        ("unpert1:4", Part("unpert1", {"k": 4}), Part("lru")),
        ("oracle:touch", Part("oracle", {"touch": True}), Part("lru")),
        (" unpert1 : k = 4 + lru ", Part("unpert1", {"k": 4}), Part("lru")),
    ],
)
def test_parts(text: str, read_ahead: Part, evict: Part) -> None:
    spec = parse(text)
    assert (spec.text, spec.read_ahead, spec.evict) == (text.strip(), read_ahead, evict)


def test_retention_parts_join() -> None:
    spec = parse("cumulative:0.2+schedule:0.10/0.35/0.55+unpert1")
    assert spec.retention == (
        Part("schedule", {"thresholds": (0.10, 0.35, 0.55)}),
        Part("cumulative", {"floor": 0.2}),
    )
    assert parse("flat:0.35,append=1").retention == (Part("flat", {"min_p": 0.35, "append": True}),)
    assert "+".join(map(str, spec.retention)) == "schedule:thresholds=0.1/0.35/0.55+cumulative:floor=0.2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a part is empty"),
        ("unpert1+", "a part is empty"),
        ("+lru", "a part is empty"),
        (":k=1", "a part is empty"),
        ("unpert2", "no policy is called 'unpert2'; did you mean unpert1? known: none, unpert1"),
        ("LRU", "did you mean lru?"),
        ("unpert1+unpert0", "unpert1 and unpert0 are both read-ahead; give one"),
        ("none+oracle", "none and oracle are both read-ahead"),
        ("lru+decode2q", "lru and decode2q are both evict; give one"),
        ("flat:0.3+schedule:0.1", "flat and schedule are both retention"),
        ("lru+lru", "lru is given twice"),
        ("unpert1:k=1,k=2", "unpert1 has the option 'k' twice"),
        ("unpert1:3,k=2", "unpert1 has the option 'k' twice"),
        ("unpert1:", "empty option"),
        ("unpert1:k=1,", "empty option"),
        ("unpert1:p=3", "unpert1 has no option 'p'; known: k, touch, guess, spare"),
        ("unpert0:p=2", "unpert0 has no option 'p'; known: k, b, touch, guess, spare"),
        ("unpert0:r1=0", "unpert0 has no option 'r1'"),
        ("oracle:k=6", "oracle has no option 'k'; known: touch"),
        ("none:touch=1", "none has no option 'touch'; there are none"),
        ("lru:6", "lru: '6' is no option of it; there are none"),
        ("route:tuch=1", "did you mean touch?"),
        ("unpert1:k", "'k' needs a value (k=..)"),
        ("unpert1:k=", "'k' of unpert1: '' is not a whole number"),
        ("unpert1:k=six", "'six' is not a whole number"),
        ("unpert1:k=1.5", "'1.5' is not a whole number"),
        ("unpert1:k=1_0", "is not a whole number"),
        ("unpert1:k=-1", "-1 is outside 0 to 65536"),
        ("unpert1:k=99999999999999999999", "is outside 0 to 65536"),
        ("unpert1:touch=2", "'2' is not 0 or 1"),
        ("unpert1:touch=yes", "'yes' is not 0 or 1"),
        ("route:b=nan", "'nan' is not a number"),
        ("route:b=inf", "'inf' is not a number"),
        ("route:b=1e999", "'1e999' is not a number"),
        ("route:b=0x1", "is not a number"),
        ("decode2q:quota=1.5", "1.5 is outside 0 to 1"),
        ("decode2q:quota=150%", "above 100%"),
        ("decode2q:tail", "'quota' of decode2q: 'tail' is not a share"),
        ("schedule:0.1/", "'' is not a number"),
        ("schedule:1/1/1/1/1/1/1/1/1", "has 9 values; it takes 1 to 8, with / between"),
        ("schedule:0.1/2", "2.0 is outside 0 to 1"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(InputError) as problem:
        parse(text)
    message = str(problem.value)
    assert message.startswith(f"policy {text.strip()!r}: ")
    assert reason in message
    assert "\n" not in message


@given(st.text(alphabet="unpert01route:k=,+/.pb-lru%é\n ", max_size=24))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        spec = parse(text)
    except InputError as problem:
        assert "\n" not in str(problem)
    else:
        assert parse(spec.text) == spec


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "k": st.integers(0, 65536),
            "p": st.integers(0, 600),
            "b": st.floats(-1e6, 1e6),
            "r1": st.floats(-1e6, 1e6),
            "touch": st.booleans(),
        },
    )
)
def test_a_part_reads_back_what_it_writes(options: dict[str, Any]) -> None:
    part = Part("route", options)
    assert parse(str(part)).read_ahead == part


def test_every_name_is_declared_once() -> None:
    assert len(set(names())) == len(names())
    for name in names():
        policy = declaration(name)
        assert policy.name == name
        assert policy.summary and policy.source and set(policy.needs) <= set(NEEDS)
        for option in policy.options.values():
            if option.default is not None:
                assert parse_value(show_value(option.default), option, name) == option.default


def test_two_main_options_are_a_defect() -> None:
    with pytest.raises(ValueError, match="more than one main option"):
        Policy("x", "gate", "", "S", "", {"a": Option("int", main=True), "b": Option("int", main=True)})


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (Option("bytes"), "4000MiB", 4000 * 2**20),
        (Option("text", choices=("head", "tail")), "tail", "tail"),
        (Option("text"), "sessions/0-9", "sessions/0-9"),
        (Option("float", many=(2, 2)), "1.25/4", (1.25, 4.0)),
        (Option("share"), "0.5", 0.5),
    ],
)
def test_value_types(option: Option, text: str, value: Any) -> None:
    assert parse_value(text, option, "'x' of y") == value


def test_words() -> None:
    with pytest.raises(InputError, match="'middle' is not one of head, tail"):
        parse_value("middle", Option("text", choices=("head", "tail")), "'guess' of lru")
    with pytest.raises(InputError, match="is not a word"):
        parse_value("", Option("text"), "'train' of static")


# --- what a trace must hold -----------------------------------------------------------------------


def test_lacking() -> None:
    assert set(NEEDS) == set(TABLES)
    assert lacking(declaration("unpert1"), {"selections"}) == "needs the table candidates"
    assert lacking(declaration("unpert1"), {"selections", "candidates"}, {"candidates"}) is None
    assert lacking(declaration("oracle"), {"selections"}) is None
    assert lacking(declaration("router"), {"selections", "residents"}) == "needs the table router_scores"
    either = Policy("x", "read-ahead", "", "R", "")
    assert lacking(either, {"selections"}) == "needs the table router_scores or residents"
    assert lacking(either, {"residents"}) is None
    assert lacking(declaration("flat"), {"selections"}) == "needs the table drafts"
    full = Policy("finemoe", "read-ahead", "", "P", "")
    assert lacking(full, {"candidates"}) is None
    assert (
        lacking(full, {"candidates"}, {"candidates"})
        == "needs full score rows; this trace's candidates are sparse"
    )


# --- resolution -----------------------------------------------------------------------------------


def test_defaults() -> None:
    assert solved("unpert1").ranking == Ranking(6)
    assert solved("unpert0").ranking == Ranking(6, 3, 0.85)
    assert solved("route").ranking == Ranking(6, 3, 0.85, 0.0)
    assert solved("none").ranking is None
    assert solved("oracle").ranking is None
    assert not solved("route").touch
    router = solved("none").router
    assert (router.p, router.b, router.r1, router.draft_moce) == (3, 0.85, 0.0, False)


def test_the_spec_goes_before_the_trace_and_prefetch_before_router() -> None:
    trace = recorded(
        {"name": "route", "k": 4, "protect": 1, "touch": True}, protect=2, bonus=0.5, r1_bonus=0.3
    )
    got = solved("route:k=8", trace)
    assert got.ranking == Ranking(8, 1, 0.5, 0.3)
    assert got.origins["route"] == {
        "k": "spec",
        "p": "policy.prefetch",
        "b": "router",
        "r1": "router",
        "touch": "default",
        "guess": "default",
        "spare": "default",
    }
    assert got.describe() == (
        "route k=8 (spec) p=1 (policy.prefetch) b=0.5 (router) r1=0.3 (router) touch=0 (default); lru"
    )
    assert (got.router.p, got.router.b, got.router.r1) == (2, 0.5, 0.3)


def test_a_recorded_zero_counts_and_a_null_does_not() -> None:
    trace = recorded(
        {"name": "none", "k": None, "bonus": 0, "protect": 0}, protect=3, bonus=0.85, r1_bonus=0.0
    )
    got = solved("route", trace)
    assert got.values["route"] == {
        "k": 6,
        "p": 0,
        "b": 0.0,
        "r1": 0.0,
        "touch": False,
        "guess": None,
        "spare": None,
    }
    assert got.ranking == Ranking(6)  # b = 0: raw
    assert solved("unpert0", recorded(bonus=0.0)).ranking == Ranking(6, 3, 0.0)
    assert solved("unpert1", recorded({"k": 0})).ranking == Ranking(0)


def test_unpert0_ignores_the_recorded_p_and_r1() -> None:
    assert solved("unpert0", recorded({"protect": 1, "r1": 0.4})).ranking == Ranking(6, 3, 0.85)


def test_router_part() -> None:
    got = solved("unpert1+router:p=0,r1=0.4", recorded(protect=3, bonus=0.85, draft_moce=True))
    assert (got.router.p, got.router.b, got.router.r1, got.router.draft_moce) == (0, 0.85, 0.4, True)


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, math.nan, math.inf, [3]])
def test_a_recorded_value_that_cannot_be(value: Any) -> None:
    with pytest.raises(InputError, match=r"trace.json: policy.prefetch.protect is .*expected a whole number"):
        solved("route", recorded({"protect": value}))
    assert solved("unpert1", recorded({"protect": value})).ranking == Ranking(6)  # not read


def test_boosts() -> None:
    assert Ranking(4, 0, 0.85).boosts == (0.85,) * 4
    assert Ranking(4, 1, 0.85, 0.4).boosts == (0.0, 0.85, 0.85, 0.85)  # p = 1: no r1
    assert Ranking(4, 3, 0.0, 0.4).boosts == (0.0, 0.4, 0.4, 0.4)  # b = 0: the tail keeps r1
    assert Ranking(4, 9, 0.85).boosts == (0.0,) * 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("unpert0", "route:p=3,r1=0", True),
        ("unpert0", "route:p=3,r1=-1", True),
        ("unpert0", "route:p=2", False),
        ("unpert0", "route:p=3,r1=0.1", False),
        ("unpert1", "route:b=0,r1=0.4", True),
        ("unpert1", "unpert0:b=0", True),
        ("unpert1:k=3", "unpert0:k=3", True),  # three protected ranks are all
        ("unpert1:k=4", "unpert0:k=4", False),
        ("unpert1:k=0", "none", True),
        ("route:p=3,b=0.4,r1=0.4", "route:p=1,b=0.4", True),
        ("route:p=0", "route:p=1", False),
        ("unpert1", "unpert1:k=6", True),
        ("unpert1", "unpert1:touch", False),
        ("none", "lru", True),
        ("none", "decode2q", False),
        ("decode2q", "decode2q:head=0", True),
        ("decode2q", "decode2q:head", False),
        ("oracle", "oracle:touch", False),
        ("unpert1+flat:0.35", "unpert1", False),
        ("none+router:p=0", "none", True),  # recorded routes: the router's settings are not read
    ],
)
def test_same_by_construction(one: str, other: str, same: bool) -> None:
    expected = [(one, other)] if same else []
    assert same_by_construction([solved(one), solved(other)]) == expected


def test_the_router_counts_when_rerouted() -> None:
    assert same_by_construction([solved("none+router:p=0"), solved("none")], "rerouted") == []
    assert len(same_by_construction([solved("none+router:p=0"), solved("none")])) == 1


def test_predicted_routes_select_beyond_k() -> None:
    """Policies whose first K ranks are alike differ where top_k ranks are selected, and only K of them read."""
    pair = [solved("unpert1:k=2"), solved("unpert0:k=2,b=0.85")]
    assert len(same_by_construction(pair)) == 1
    assert same_by_construction(pair, "predicted", 4) == []
    deep = [solved("unpert1:k=8"), solved("unpert1:k=6")]
    assert same_by_construction(deep) == []
    assert len(same_by_construction(deep, "predicted", 4)) == 1


def test_same_depends_on_the_trace() -> None:
    pair = ("route", "unpert0")
    assert same_by_construction([solved(text, recorded(protect=3)) for text in pair]) == [pair]
    assert same_by_construction([solved(text, recorded(protect=1)) for text in pair]) == []


def test_recorded_text() -> None:
    trace = recorded({"name": "route", "k": 4, "protect": 1, "bonus": 0.5, "r1": 0.0, "touch": True})
    trace.policy["evict"] = "decode2q:quota=0.5"
    assert recorded_text(trace) == "route:k=4,p=1,b=0.5,r1=0,touch=1+decode2q:quota=0.5"
    assert recorded_text(recorded({"name": "none"})) == "none+lru"
    assert recorded_text(SILENT) is None
    assert (
        recorded_text(SimpleNamespace(policy={"prefetch": None, "evict": "lru"}, router=None)) == "none+lru"
    )
    assert recorded_text(SimpleNamespace(policy={"prefetch": None, "evict": None}, router=None)) is None
    with pytest.raises(InputError, match="policy names 'lrux'"):
        recorded_text(SimpleNamespace(policy={"prefetch": None, "evict": "lrux"}, router=None))
    with pytest.raises(InputError, match="policy names 'lru'"):
        recorded_text(recorded({"name": "lru"}))


# --- switches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("", "unpert1"),
        ("STRATA_METAL_PREFETCH_UNPERT=1", "unpert1"),
        ("STRATA_METAL_PREFETCH_UNPERT=0", "unpert0"),
        ("STRATA_METAL_DECODE_2Q=1", "unpert1+decode2q"),
        ("STRATA_METAL_DECODE_2Q=0 STRATA_METAL_PREFETCH_ROUTE=0", "unpert1"),
        ("STRATA_METAL_PREFETCH_ROUTE=1", "route"),
        ("STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_PREFETCH_UNPERT=1", "route"),
        (
            "STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_PROTECT=1 STRATA_METAL_MOCE_BONUS_R1=0.4 "
            "STRATA_METAL_DECODE_2Q=1",
            "route:p=1,r1=0.4+decode2q",
        ),
        ("STRATA_METAL_PREFETCH_ROUTE='1'", "route"),
    ],
)
def test_spec_from_switches(text: str, spec: str) -> None:
    assert spec_from_switches(text) == spec
    parse(spec)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("STRATA_METAL_PREFETCH_UNPERT", "is not NAME=value"),
        ("STRATA_METAL_PREFETCH_UNPRT=0", "did you mean STRATA_METAL_PREFETCH_UNPERT?"),
        ("STRATA_METAL_PREFETCH_UNPERT=2", "is not 0 or 1"),
        ("STRATA_METAL_PREFETCH_UNPERT=", "is not 0 or 1"),
        ("STRATA_METAL_DECODE_2Q=1 STRATA_METAL_DECODE_2Q=1", "given twice"),
        ("STRATA_METAL_MOCE_PROTECT=1", "only with STRATA_METAL_PREFETCH_ROUTE=1"),
        ("STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_PROTECT=-1", "outside 0"),
        ("STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_BONUS_R1=nan", "is not a number"),
        ("STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_PREFETCH_UNPERT=0", "two read-ahead rules"),
        ("STRATA_METAL_SPEC_MIN_CUM_P=0.2", "replay drafts --env"),
        ("'", "No closing quotation"),
    ],
)
def test_switches_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError) as problem:
        spec_from_switches(text)
    assert reason in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "text", ["unpert1", "unpert0+decode2q", "route:p=1,r1=0.4", "route:p=3,r1=0+decode2q"]
)
def test_switches_there_and_back(text: str) -> None:
    switches = switches_of(solved(text))
    assert switches is not None
    back = spec_from_switches(" ".join(f"{name}={value}" for name, value in switches.items()))
    assert same_by_construction([solved(text), solved(back)]) or text == back


@pytest.mark.parametrize(
    "text", ["none", "oracle", "unpert1:touch", "unpert1+decode2q:head", "unpert1+flat:0.3"]
)
def test_what_the_engine_cannot_run(text: str) -> None:
    assert switches_of(solved(text)) is None


# --- files of specs -------------------------------------------------------------------------------


def test_files_of_specs(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[policies]\nfast = "unpert1:k=4+decode2q"\nplain = "lru"\n')
    assert read_file(file) == {"fast": "unpert1:k=4+decode2q", "plain": "lru"}
    assert [each.text for each in parse_all([f"@{file}", "none"])] == ["unpert1:k=4+decode2q", "lru", "none"]
    assert [each.text for each in parse_all([f"@{file}:plain"])] == ["lru"]
    with pytest.raises(InputError, match="did you mean plain"):
        parse_all([f"@{file}:plan"])
    with pytest.raises(InputError, match="'lru' is given twice"):
        parse_all([f"@{file}", "lru"])


@pytest.mark.parametrize(
    "content", ["", "fast = 'lru'", "[policies]\n", "[policies]\na = 1\n", "[policies\n", "policies = 3"]
)
def test_files_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(content)
    with pytest.raises(InputError, match="mine.toml"):
        read_file(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="give a TOML file"):
            parse_all([f"@{path}"])
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        parse_all([f"@{tmp_path / 'latin.toml'}"])
