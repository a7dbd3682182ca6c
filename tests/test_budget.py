"""Layer budgets end to end: curves against brute force by replay, files that compare takes, refusals of one line."""

import itertools
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome
from slow.make import write
from slow.trace import SlowTrace, Window

from replay.arena.bound import Bound, read_budget, write_budget
from replay.budget.cost import Ways, members, widest
from replay.budget.study import study
from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.declare.semantics import Semantics
from replay.errors import InputError
from replay.spec.grammar import parse
from replay.trace import open_trace
from replay.trace.view import of_sessions, view

Cli = Callable[..., Outcome]
LAYERS, EXPERTS = 3, 6


def made(path: Path, classes: int, seed: int):
    """A trace of three layers that differ in how skewed their picks are: four sessions of 25 windows."""
    rng = np.random.default_rng(seed)
    keys = [(layer, expert) for layer in range(LAYERS) for expert in range(EXPERTS)]
    weights = [np.arange(1, EXPERTS + 1) ** -power for power in (0.1, 1.0, 2.5)]
    picks = {
        (w, 0, layer): rng.choice(EXPERTS, 2, replace=False, p=weights[layer] / weights[layer].sum()).tolist()
        for w in range(100)
        for layer in range(LAYERS)
    }
    trace = SlowTrace(
        layers=LAYERS, experts=EXPERTS, top_k=2,
        sizes={key: 100 + 100 * (key[1] % classes) for key in keys},
        classes={key: key[1] % classes for key in keys},
        windows=[Window(session=w // 25, rows=1, prefill=False) for w in range(100)],
        picks=picks,
        has_candidates=False,
    )  # fmt: skip
    write(trace, path, float16=False)
    return open_trace(path)


def ways(spec: str = "none+lru", clock: bool = False, **options) -> Ways:
    return Ways(parse(spec), Semantics(scope="layer", **options), load_clock() if clock else None)


def replayed(trace, table: np.ndarray, policy: str, tmp_path: Path, clock=None):
    """The layers of a comparison under a budget file."""
    file = tmp_path / "tried.toml"
    write_budget(file, Bound.of_layers(table.tolist(), ""), {})
    scope = Semantics(scope="layer")
    return compare(trace, [policy], budget=file, semantics=scope, grid=(), clock=clock, part=False).layers


@pytest.mark.parametrize(("classes", "policy"), [(1, "none+lru"), (1, "none+lfu"), (2, "none+lru")])
def test_the_optimum_is_the_best_of_every_split(classes: int, policy: str, tmp_path: Path) -> None:
    """Every split of every class, replayed by compare on the training sessions."""
    trace = made(tmp_path / "trace", classes, 1)
    slots = [9] if classes == 1 else [7, 7]
    found = study(trace, ways(policy), slots=",".join(map(str, slots)), train="0-1", score="2-3")
    part = view(trace, of_sessions(trace, "0-1"))
    low, high = widest([part, view(trace, of_sessions(trace, "2-3"))], ways()), members(trace.classes)
    splits = [
        [each for each in itertools.product(*map(range, low[c], high[c] + 1)) if sum(each) == slots[c]]
        for c in range(classes)
    ]
    tables = [np.array(each) for each in itertools.product(*splits)]
    if len(tables) > 40:
        tables = [tables[i] for i in np.random.default_rng(0).choice(len(tables), 40, replace=False)]
    best = np.array(found.bounds["optimum"].by_layer)
    by_layer = {
        tuple(map(tuple, t)): replayed(part, t, policy, tmp_path)["misses"].sum() for t in [best, *tables]
    }
    assert by_layer[tuple(map(tuple, best))] == min(by_layer.values())
    scores = {(row["part"], row["arena"]): row["misses"] for row in found.scores.to_dicts()}
    assert scores["train", "optimum"] == by_layer[tuple(map(tuple, best))]
    assert scores["train", "optimum"] <= scores["train", "transfer"] <= scores["train", "equal"]
    if classes == 1:
        assert found.layers["optimum_cost"].sum() == scores["train", "optimum"], "the curves are exact"
        assert found.layers["transfer_cost"].sum() == scores["train", "transfer"]
    assert best.sum(axis=1).tolist() == slots
    if classes == 1 and policy == "none+lru":
        assert (best != np.array(found.bounds["equal"].by_layer)).any()


@pytest.mark.parametrize("figure", ["bytes", "wait"])
def test_other_figures(figure: str, tmp_path: Path) -> None:
    """What the curves say of the chosen split is what its replay gives."""
    trace = made(tmp_path / "trace", 1, 2)
    found = study(trace, ways(clock=True), slots="9", train="0-1", score="2-3", figure=figure)
    column = {"bytes": "demand_bytes", "wait": "wait_us"}[figure]
    (row,) = (
        each for each in found.scores.to_dicts() if (each["part"], each["arena"]) == ("train", "optimum")
    )
    assert row[column] == pytest.approx(
        found.info["cost"]["optimum"], rel=1e-9 if figure == "bytes" else 0.02
    )
    assert found.info["cost"]["optimum"] <= found.info["cost"]["transfer"] <= found.info["cost"]["equal"]


def test_few_points_lie_on_lines(tmp_path: Path) -> None:
    trace = made(tmp_path / "trace", 1, 3)
    whole = study(trace, ways(), slots="9", train="0-1", score="2-3")
    rough = study(trace, ways(), slots="9", train="0-1", score="2-3", points=2)
    assert whole.info["points"] == "every capacity"
    assert rough.info["points"].startswith("2 capacities a layer")
    (first, *_), (line, *_) = whole.layers.to_dicts(), rough.layers.to_dicts()
    assert first["equal_slots"] == line["equal_slots"] == 3
    part = view(trace, of_sessions(trace, "0-1"))
    ends = [
        replayed(part, np.array([[n, 6, 6]]), "none+lru", tmp_path).filter(layer=0)["misses"].sum()
        for n in (2, EXPERTS)
    ]
    assert line["equal_cost"] == ends[0] + (ends[1] - ends[0]) / (EXPERTS - 2)


def test_the_command_and_its_files(cli: Cli, tmp_path: Path) -> None:
    trace = made(tmp_path / "trace", 1, 4)
    out = tmp_path / "out"
    done = cli("budget", trace.path, "--slots", "9", "--train", "0-1", "--score", "2,3", "--out", out)
    assert done.code == 0, done.err
    assert sorted(each.name for each in out.iterdir()) == [
        "layer_slots.svg", "layers.csv", "optimum.toml", "run.json", "scores.csv", "transfer.toml",
    ]  # fmt: skip
    info = json.loads((out / "run.json").read_text())
    assert info["cost"]["optimum"] <= info["cost"]["equal"]
    taken = cli(
        "compare",
        trace.path,
        "--scope",
        "layer",
        "--budget",
        out / "optimum.toml",
        "--json",
        "-p",
        "none+lru",
    )
    assert taken.code == 0, taken.err
    run = json.loads(taken.out)
    assert run["run"]["bound"]["slots"] == [9]
    assert sum(run["run"]["bound"]["by_layer"][0]) == 9
    again = cli("budget", trace.path, "--slots", "9", "--train", "0-1", "--score", "2,3", "--json", "--quiet")
    assert json.loads(again.out)["run"]["cost"] == info["cost"]


def test_files_that_compare_would_refuse_are_not_named_as_the_next_step(cli: Cli, tmp_path: Path) -> None:
    shape = ("--layers", 2, "--experts", 16, "--top-k", 2, "--sessions", 4, "--windows", 8, "--prompt", 40)
    assert cli("synth", tmp_path / "t", *shape).code == 0
    common = ("budget", tmp_path / "t", "--train", "0-1", "--score", "2-3")
    narrow = cli(*common, "--slots", "50%", "--phase", "decode", "--out", tmp_path / "narrow")
    assert narrow.code == 0 and "next:" not in narrow.err
    assert "note       prefill windows want up to 16 experts at once of layer" in narrow.err
    for out, more in (("roomy", ("--slots", "100%", "--phase", "decode")), ("all", ("--slots", "100%"))):
        roomy = cli(*common, *more, "--out", tmp_path / out)
        assert roomy.code == 0 and "prefill windows want" not in roomy.err
    file = tmp_path / "narrow" / "transfer.toml"
    refused = cli("compare", tmp_path / "t", "--scope", "layer", "--budget", file, "-p", "none+lru")
    assert refused.code == 2 and "cannot hold one event" in refused.err
    said = roomy.err.splitlines()[-1].removeprefix("next: replay ")
    assert cli(*shlex.split(said), "--no-curves").code == 0, said


def test_the_chart_shows_the_table(tmp_path: Path) -> None:
    from replay.plot.layer_slots import plot_layer_slots

    trace = made(tmp_path / "trace", 2, 5)
    found = study(trace, ways(), slots="7,7", train="0-1", score="2-3")
    above, below = plot_layer_slots(found.layers, size_class=1)
    rows = found.layers.filter(found.layers["class"] == 1)
    lines = {line.get_label(): list(line.get_ydata()) for line in above.get_lines()}
    assert lines == {name: rows[f"{name}_slots"].to_list() for name in ("equal", "transfer", "optimum")}
    saved = {line.get_label(): list(line.get_ydata()) for line in below.get_lines()}
    assert saved["optimum"] == (rows["equal_cost"] - rows["optimum_cost"]).to_list()
    assert (above.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == ("slots", "misses saved", "layer")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"train": "9"}, "--train: sessions '9': .* has none in 9"),
        ({"score": "x"}, "--score: sessions 'x': expected numbers and ranges"),
        (
            {"slots": "5"},
            "--slots: 5 cannot hold the widest event of every layer; expected at least 6; or leave",
        ),
        ({"slots": "5", "phase": "decode"}, "expected at least 6$"),
        ({"figure": "hits"}, "--figure hits: expected one of misses, bytes, wait"),
        ({"figure": "wait"}, "--figure wait: needs a clock"),
        ({"phase": "prefill"}, "--phase prefill: expected one of all, decode"),
        ({"points": 1}, "--points 1: expected at least 2"),
    ],
)
def test_refusals(change: dict, reason: str, tmp_path: Path) -> None:
    trace = made(tmp_path / "trace", 1, 6)
    with pytest.raises(InputError, match=reason):
        study(trace, ways(), **({"slots": "9", "train": "0-1", "score": "2-3"} | change))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory; give a file that `replay budget` wrote"),
        ("slots = [[", "not TOML"),
        ("x = 1", "a number for each layer (3), such as slots = [[8, 8, ..]]; found none"),
        ("slots = [3, 3]", "expected a list for each size class of this trace (1)"),
        ("slots = [3]", "found 1 entries that are no lists"),
        ("slots = 3", "found none"),
        (
            "slots = [[3, 3, 3], [1, 1, 1]]",
            "found 2 lists",
        ),
        ("slots = [[3, 3]]", "slots of class 0: 2 figures for this trace's 3 layers"),
        ("slots = [[3, 3, 0]]", "slots of class 0, layer 2: expected a whole number of at least 1, found 0"),
        ("slots = [[3, 3, 3.5]]", "layer 2: expected a whole number of at least 1, found 3.5"),
        ("slots = [[3, true, 3]]", "layer 1: expected a whole number"),
        ("total = [8]\nslots = [[3, 3, 3]]", "total is [8], but the slots add up to [9]"),
        (
            "slots = [[7, 1, 1]]",
            "window 0, layer 1: the arena's 1 slot cannot hold one event that wants 2 experts",
        ),
    ],
)
def test_budget_files_that_do_not_fit(text: str | None, reason: str, cli: Cli, tmp_path: Path) -> None:
    trace = made(tmp_path / "trace", 1, 7)
    file = tmp_path / "budget.toml"
    if text is not None:
        file.write_text(text)
    done = cli("compare", trace.path, "--scope", "layer", "--budget", file, "-p", "none+lru", "--no-curves")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert reason in done.err


def test_a_budget_is_the_only_bound_and_by_layer(cli: Cli, tmp_path: Path) -> None:
    trace = made(tmp_path / "trace", 1, 8)
    file = tmp_path / "budget.toml"
    bound = Bound.of_layers([[4, 3, 2]], "")
    write_budget(file, bound, {"split": 'a "quoted" name'})
    read = read_budget(file, trace.classes)
    assert (read.slots, read.by_layer) == ((9,), ((4, 3, 2),))
    assert read.scaled(0.5).by_layer == ((2, 2, 1),)
    assert "add --scope layer" in cli("compare", trace.path, "--budget", file).err
    assert "leave out --slots" in cli("compare", trace.path, "--budget", file, "--slots", "9").err
