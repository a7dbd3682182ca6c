"""price=budget: the least price that meets a byte budget on the sessions that the q file was learned on."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Outcome
from slow.make import write
from slow.sessions import sessions_trace

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.frontier.family import families
from replay.learning.price import priced
from replay.spec.grammar import parse
from replay.spec.resolve import resolve
from replay.trace import Trace, open_trace
from replay.trace.view import of_sessions, view

Cli = Callable[..., Outcome]
TRAIN = "0-3"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    """A trace, and a q file that some of its sessions taught."""
    from replay.learning.lesson import lesson, spec_of

    folder = tmp_path_factory.mktemp("price")
    write(sessions_trace(count=8, length=15, seed=6), folder / "trace")
    trace = open_trace(folder / "trace")
    lesson([trace], spec_of("unpert1:k=5"), train=TRAIN).write(folder / "q.json", None)
    return trace, folder / "q.json"


def read_ahead(trace: Trace, spec: str) -> float:
    run = compare(trace, [spec], slots="9", grid=(), clock=ClockParams())
    return float(run.summary[0]["issued_bytes"] / run.summary[0]["tokens"])


@pytest.mark.parametrize("options", ["", ",price=0.001", ",price=budget:1MB/token"])
def test_a_sweep_replays_a_cell_whose_file_changed(
    options: str, made: tuple[Trace, Path], tmp_path: Path, cli: Cli
) -> None:
    trace, q = made
    file, grid = tmp_path / "q.json", tmp_path / "grid.toml"
    content = json.loads(q.read_text())
    spec = f"unpert1:k=5+calibrated:q={file}{options}"
    grid.write_text(f'traces = ["{trace.path}"]\npolicies = ["none+lru", "{spec}"]\nslots = [9]\n')
    said = []
    for _ in range(3):
        file.write_text(json.dumps(content))
        said.append(cli("sweep", grid, "--out", tmp_path / "out", "-q").out)
        if len(said) == 2:
            content["q_absent"] = [[[q / 2 for q in row] for row in layer] for layer in content["q_absent"]]
    assert said == [f"2 cells: {i} replayed, {2 - i} were there\n" for i in (2, 0, 1)]


@pytest.mark.parametrize("budget", [0.5, 1.0, 2.0, 100.0])
def test_the_least_price_that_meets_the_budget(budget: float, made: tuple[Trace, Path]) -> None:
    """Against a plain scan of prices over the training sessions."""
    trace, q = made
    text = f"unpert1:k=5+calibrated:q={q},price=budget:{budget}MB/token"
    run = compare(trace, [text], slots="9", grid=(), clock=ClockParams())
    (resolved,) = [each["resolved"] for each in run.info["policies"]]
    assert f"(budget:{budget}MB/token: " in resolved and "MB on its training sessions)" in resolved
    price = float(resolved.partition("price=")[2].partition(" ")[0])
    training = view(trace, of_sessions(trace, TRAIN))
    most = (80.0 + 1e6 / 3e3) / 1e6
    assert read_ahead(training, f"unpert1:k=5+calibrated:q={q},price={price!r}") <= budget * 1e6
    if price:
        lower = price - most / 2**15
        assert read_ahead(training, f"unpert1:k=5+calibrated:q={q},price={lower:.12f}") > budget * 1e6
    plain = read_ahead(trace, f"unpert1:k=5+calibrated:q={q},price={price!r}")
    assert run.summary[0]["issued_bytes"] / run.summary[0]["tokens"] == plain
    scored = view(trace, of_sessions(trace, "4-7"))
    again = compare(scored, [text], slots="9", grid=(), clock=ClockParams())
    assert again.info["policies"][0]["resolved"] == resolved, "a view finds it on the whole trace's sessions"


def test_bisection_keeps_its_ends() -> None:
    """On any curve: the end that is taken meets the budget, and one step below does not."""
    trace = SimpleNamespace(policy=None, router=None)
    policy = resolve(parse("unpert1+calibrated:q=q.json,price=budget:7B/token"), trace)
    asked: list[float] = []

    def read(_: object, policies: list[object]) -> list[float]:
        prices = [each.values["calibrated"]["price"] for each in policies]  # type: ignore[attr-defined]
        asked.extend(prices)
        return [10.0 if price < 0.3 else 6.0 for price in prices]

    import replay.learning.price as module

    whole, module._training = module._training, lambda policy, trace: None  # type: ignore[assignment, return-value]
    try:
        found = priced(policy, None, 1.0, read)  # type: ignore[arg-type]
    finally:
        module._training = whole
    price = found.values["calibrated"]["price"]
    assert 0.3 <= price <= 0.3 + 2**-15 and len(asked) == 1 + 5 * 7


def test_another_trace_has_no_training_sessions(made: tuple[Trace, Path], tmp_path: Path, cli: Cli) -> None:
    write(sessions_trace(count=3, length=9, seed=8), tmp_path / "other")
    spec = f"unpert1:k=5+calibrated:q={made[1]},price=budget:1MB/token"
    done = cli("compare", tmp_path / "other", "-p", spec, "--slots", "9")
    assert done.code == 2 and "holds none of them; give price= a number" in done.err
    assert done.err.count("\n") == 1
    done = cli("compare", made[0].path, "-p", "unpert1:k=5+calibrated:price=budget:1MB/token")
    assert done.code == 2 and "needs a file" in done.err


@pytest.mark.parametrize(
    "text", ["budget:1MB", "budget:1XB/token", "budget:-1MB/token", "budget:", "cheap", "-1", "nan"]
)
def test_prices_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="price|size|budget|outside"):
        parse(f"unpert1+calibrated:q=q.json,price={text}")


def test_a_family_of_prices() -> None:
    """Without a price a family runs over shares of what a read in time saves a byte."""
    (family,) = families(["unpert1:k=5+calibrated:q=q.json"], 5, ClockParams(), 3e6)
    whole = (80.0 + 1000.0) / 3e6
    assert family.option == "calibrated:price"
    assert family.values == pytest.approx([whole * i / 5 for i in range(5)])
    (given,) = families(["unpert1+calibrated:q=q.json,price=0..1e-3+lru"], 3, ClockParams(), 3e6)
    assert given.values == (0.0, 0.0005, 0.001)
    (one,) = families(["unpert1+calibrated:q=q.json,price=budget:1MB/token"], 3, ClockParams(), 3e6)
    assert len(one.specs) == 1


def test_the_frontier_says_where_a_file_was_learned(made: tuple[Trace, Path], cli: Cli) -> None:
    spec = f"unpert1:k=5+calibrated:q={made[1]}"
    arguments = [
        "frontier",
        made[0].path,
        "-p",
        spec,
        "--slots",
        "9",
        "--points",
        "2",
        "--no-controls",
        "--json",
    ]
    whole, held = (json.loads(cli(*arguments, *more).out) for more in ([], ["--sessions", "4-7"]))
    assert "was learned on 4 of the scored sessions" in whole["run"]["warnings"][0]
    assert held["run"]["warnings"] == []
    arguments[3] += ",price=budget:1MB/token"
    mixed = json.loads(cli(*arguments[:-2], "--json", "--sessions", "4-7").out)
    assert {row["windows"] for row in mixed["points"] if row["kind"] == "family"} == {"recorded", "shuffled"}


def warned(cli: Cli, trace: Path, spec: str) -> list[str]:
    done = cli("compare", trace, "-p", spec, "--slots", "9", "--json")
    assert done.code == 0, done.err
    found: list[str] = json.loads(done.out)["run"]["warnings"]
    return [each for each in found if each.startswith(("unpert1:", "route:"))]


def test_a_comparison_says_where_a_file_comes_from(
    made: tuple[Trace, Path], tmp_path: Path, cli: Cli
) -> None:
    trace, q = made
    (learned,) = warned(cli, trace.path, f"unpert1:k=5+calibrated:q={q}")
    assert f"{q} was learned on 4 of the scored sessions, session 0 the first" in learned
    other = warned(cli, trace.path, f"route:k=5,p=2,b=0.5+calibrated:q={q}")
    assert len(other) == 2 and 'another ranking: policy "unpert1"' in other[1]
    assert other[1].endswith('the policy has policy "route", p 2, b 0.5')
    content = json.loads(q.read_bytes())
    content["model"]["name"], content["trained_on"] = "other", []
    (tmp_path / "q.json").write_text(json.dumps(content))
    (name,) = warned(cli, trace.path, f"unpert1:k=5+calibrated:q={tmp_path / 'q.json'}")
    assert 'was fitted on the model "other"; this trace is of' in name


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("sessions/2-9", 6),
        ("sessions/7", 1),
        ("sessions/0-1/6-9", 4),
        ("{trace}", 8),
        ("{other}", 0),
        ("{counts}", 0),
    ],
)
def test_a_pinned_set_of_scored_sessions_is_said(
    train: str, said: int, made: tuple[Trace, Path], tmp_path: Path, cli: Cli
) -> None:
    trace = made[0]
    write(sessions_trace(count=3, length=9, seed=8), tmp_path / "other")
    np.save(tmp_path / "counts.npy", np.ones((1, trace.meta.layers, trace.meta.experts), np.int64))
    places = {"trace": trace.path, "other": tmp_path / "other", "counts": tmp_path / "counts.npy"}
    spec = f"none+static:train={train.format(**places)}"
    warning = f"{spec}: the pinned set was learned on {said} of the scored sessions"
    for command in (
        ("compare", trace.path, "-p", spec, "--slots", "9"),
        ("curves", trace.path, "-p", spec, "--grid", "9"),
        ("verdict", trace.path, "--baseline", "none+lru", "--candidate", spec, "--slots", "9"),
    ):
        done = cli(*command)
        assert done.code < 2, done.err
        assert (warning in done.err) == (said > 0), command
        assert ("was learned on" in done.err) == (said > 0), command


def test_a_verdict_says_what_was_learned_on_its_sessions(made: tuple[Trace, Path], cli: Cli) -> None:
    trace, q = made
    spec = f"unpert1:k=5+calibrated:q={q}"
    done = cli("verdict", trace.path, "--baseline", "none+lru", "--candidate", spec, "--slots", "9", "--json")
    assert done.code < 2, done.err
    assert any("was learned on 4 of the scored sessions" in each for each in json.loads(done.out)["notes"])


@pytest.mark.parametrize(("budget", "count"), [("100MB", 1), ("0.5MB", 0)])
def test_a_budget_that_is_not_reached(budget: str, count: int, made: tuple[Trace, Path], cli: Cli) -> None:
    found = warned(cli, made[0].path, f"unpert1:k=5+calibrated:q={made[1]},price=budget:{budget}/token")
    said = [each for each in found if "the budget is not reached: even at price 0 only" in each]
    assert len(said) == count


def test_a_sweep_says_it_too(made: tuple[Trace, Path], tmp_path: Path, cli: Cli) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        f'traces = ["{made[0].path}"]\npolicies = ["unpert1:k=5+calibrated:q={made[1]}"]\nslots = ["9"]\n'
    )
    done = cli("sweep", study, "--out", tmp_path / "sweep")
    assert done.code == 0, done.err
    assert "was learned on 4 of the scored sessions" in done.err
    assert "was learned on 4" in (tmp_path / "sweep" / "sweep.json").read_text()


def test_an_open_end_and_a_foreign_place_are_said(made: tuple[Trace, Path], tmp_path: Path, cli: Cli) -> None:
    """A single scored session bounds no interval; a file is no folder that --force replaces."""
    ask = ["frontier", made[0].path, "--sessions", "7", "-p", "route:k=1..3", "-p", "unpert1:k=1..3"]
    ask += ["--slots", "9", "--points", "2", "--no-controls"]
    done = cli(*ask)
    assert done.code == 0, done.err
    assert "unbounded  unbounded" in done.out and "unbounded: too few sessions" in done.err
    (tmp_path / "q.json").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for name in ("q.json", "folder"):
        done = cli(*ask, "--out", tmp_path / name)
        assert done.code == 2 and done.err.rstrip().endswith("exists already; name another folder")
    done = cli("compare", made[0].path, "-p", "route+coverage", "--slots", "9")
    assert (
        done.code == 2
        and "--policy route:k=N --coverage FILE --out Q`, N above the model's top-3" in done.err
    )
    done = cli(
        "calibrate",
        made[0].path,
        "--policy",
        "route:k=4",
        "--coverage",
        tmp_path / "c",
        "--out",
        tmp_path / "q",
    )
    assert done.code == 0, done.err
    done = cli("compare", made[0].path, "-p", f"route:k=4+coverage:0.9,q={tmp_path / 'c'}", "--slots", "9")
    assert done.code == 0, done.err
