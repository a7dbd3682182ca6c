"""Files that a sweep plays with: their content names the cells, and reaches workers that do not have them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from conftest import Outcome
from loopback import loopback

from replay import evict
from replay.arena.bound import read_budget
from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.declare.semantics import semantics_of
from replay.errors import InputError
from replay.evict.own import OWN
from replay.learning.lesson import lesson, spec_of
from replay.sweep import file as files
from replay.sweep.plan import passes, plan_study
from replay.sweep.study import read_study
from replay.sweep.task import play_pass
from replay.synth.make import synthesize
from replay.synth.recipe import Recipe
from replay.trace import open_trace

EXAMPLE = Path(__file__).with_name("example_policy.py")
OTHER = EXAMPLE.read_text().replace("m[s + LIVES] + 1, m[p + MOST]", "m[s + LIVES] + 2, m[p + MOST]")
Cli = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces") / "a"
    synthesize(folder, Recipe(layers=4, experts=16, top_k=2, sessions=8, windows=80, recall=0.7, seed=5))
    return folder


def grid(folder: Path, trace: Path, policies: list[str], more: str = "slots = [14]\n") -> Path:
    path = folder / "grid.toml"
    path.write_text(f'traces = ["{trace}"]\npolicies = {json.dumps(policies)}\n{more}')
    return path


def cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").glob("*.parquet"))}


def budget(path: Path, slots: list[int]) -> Path:
    path.write_text(f"slots = [{slots}]\n")
    return path


def test_a_budget_file_is_a_bound(trace: Path, tmp_path: Path, cli: Cli) -> None:
    file = budget(tmp_path / "b.toml", [2, 3, 4, 5])
    more = 'budget = ["b.toml"]\nslots = [14]\n[semantics]\nscope = "layer"\n'
    study = grid(tmp_path, trace, ["none+lru", "unpert1+lru"], more)
    out = tmp_path / "out"
    assert cli("sweep", study, "--out", out, "-q").out == "4 cells: 4 replayed, 0 were there\n"
    opened = open_trace(trace)
    run = compare(
        opened, ["none+lru", "unpert1+lru"], budget=file, semantics=semantics_of(scope="layer"), grid=(),
        clock=load_clock(None, opened.meta.io),
    )  # fmt: skip
    mine = pl.read_parquet(out / "cells/*.parquet").filter(pl.col("slots_by_layer") == "2,3,4,5")
    keys = ["policy", "phase", "layer"]
    assert mine.select(run.layers.columns).sort(keys).equals(run.layers.sort(keys))
    assert set(mine["slots"]) == {"14"} and read_budget(file, opened.classes).total_slots == 14
    named = json.loads(cli("query", out, "select distinct bound from cells order by 1", "--json").out)
    assert named == [{"bound": "14"}, {"bound": "b.toml"}]
    assert cli("sweep", study, "--out", out, "-q").out == "4 cells: 0 replayed, 4 were there\n"
    budget(file, [5, 4, 3, 2])
    assert cli("sweep", study, "--out", out, "-q").out == "4 cells: 2 replayed, 2 were there\n"


def test_a_changed_policy_file_is_played_again(trace: Path, tmp_path: Path, cli: Cli) -> None:
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    study = grid(tmp_path, trace, ["none+lives:2", "none+lru"])
    said, known = [], dict(evict.POLICIES)
    for text in (EXAMPLE.read_text(), EXAMPLE.read_text(), OTHER, EXAMPLE.read_text()):
        mine.write_text(text)
        OWN.clear()  # another process
        evict.POLICIES.clear()
        evict.POLICIES.update(known)
        said.append(cli("sweep", study, "--out", out, "--policy-file", mine, "-q").out)
    assert said == [f"2 cells: {n} replayed, {2 - n} were there\n" for n in (2, 0, 1, 0)]
    assert json.loads((out / "sweep.json").read_text())["files"][0]["policy_file"] is True
    assert pl.read_parquet(out / "cells/*.parquet")["files"].n_unique() == 3, "two contents, and none"


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def test_workers_get_the_content(trace: Path, tmp_path: Path) -> None:
    """Passes are planned, the files go away and another process, which never saw them, plays the passes."""
    q, mine = tmp_path / "q.json", tmp_path / "mine.py"
    lesson([open_trace(trace)], spec_of("unpert1:k=4"), train="0-3").write(q, None)
    mine.write_text(EXAMPLE.read_text().replace('"lives"', '"mine"'))
    study = grid(tmp_path, trace, ["unpert1:k=4+calibrated:q=q.json+mine:2", "none+mine", "none+lru"])
    code = (
        "import pickle, sys; from pathlib import Path\n"
        "from replay.evict.own import add_files; from replay.spec.grammar import names\n"
        "from replay.sweep.plan import passes, plan_study; from replay.sweep.study import read_study\n"
        "add_files([Path(sys.argv[2])], names()); plan = plan_study(read_study(Path(sys.argv[1])), Path('x'))\n"
        "sys.stdout.buffer.write(pickle.dumps(passes(plan, plan.cells)))"
    )
    command = [sys.executable, "-c", code, study, mine]
    sent = subprocess.run(command, capture_output=True, check=True, cwd=trace).stdout
    play = "import pickle, sys; from replay.sweep.task import play_pass\n"
    play += (
        "sys.stdout.buffer.write(pickle.dumps([play_pass(each) for each in pickle.load(sys.stdin.buffer)]))"
    )
    command = [sys.executable, "-c", play]
    first = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True).stdout
    moved(q)
    moved(mine)
    again = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True).stdout
    assert first == again and len(first) > 1000 and b"failed" not in first


def test_a_name_may_stand_for_another_content_later(trace: Path, tmp_path: Path, cli: Cli) -> None:
    """A worker that lives long plays two contents of one name, each as itself."""
    found = []
    for i, text in enumerate((EXAMPLE.read_text(), OTHER)):
        mine = tmp_path / f"mine{i}.py"
        mine.write_text(text)
        OWN.clear()
        evict.POLICIES.pop("lives", None)
        study = grid(tmp_path, trace, ["none+lives:3"])
        assert cli("sweep", study, "--out", tmp_path / f"{i}", "--policy-file", mine, "-q").code == 0
        plan = plan_study(read_study(study), tmp_path)
        found.append((passes(plan, plan.cells)[0], cells(tmp_path / f"{i}")))
    for part, there in (*found, *reversed(found)):
        ((name, table),) = play_pass(part)
        kept = pl.read_parquet(there[f"{name}.parquet"])
        assert pl.DataFrame(table).equals(kept)
    misses = [pl.read_parquet(next(iter(there.values())))["misses"].to_list() for _, there in found]
    assert misses[0] != misses[1]


def test_what_is_not_sent_must_be_there(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    q = tmp_path / "q.json"
    lesson([open_trace(trace)], spec_of("unpert1:k=4"), train="0-3").write(q, None)
    other = tmp_path / "other"
    synthesize(other, Recipe(layers=4, experts=16, top_k=2, sessions=2, windows=30, seed=6))
    monkeypatch.setattr(files, "MOST_SENT", 10)
    study = grid(tmp_path, trace, ["unpert1:k=4+calibrated:q=q.json", f"none+static:train={other}"])
    plan = plan_study(read_study(study), tmp_path)
    (part,) = passes(plan, plan.cells)
    assert len(part.files) == 2 and all(each.content is None for each in part.files)
    assert len(play_pass(part)) == 2
    document = json.loads((other / "trace.json").read_text())
    document["recorded"] = "again"
    (other / "trace.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="other: another one on this machine"):
        play_pass(part)
    changed = plan_study(read_study(study), tmp_path)
    assert [a.name == b.name for a, b in zip(plan.cells, changed.cells, strict=True)] == [True, False]
    moved(q)
    with pytest.raises(InputError, match=r"q\.json: missing on this machine"):
        play_pass(replace(part, files=part.files[:1]))


def test_the_same_bytes_here_in_processes_and_on_a_cluster(trace: Path, tmp_path: Path, cli: Cli) -> None:
    """With all kinds of files; the cluster's workers have neither the files nor the driver's current folder."""
    home = tmp_path / "home"
    home.mkdir()
    lesson([open_trace(trace)], spec_of("unpert1:k=4"), train="0-3").write(home / "q.json", None)
    (home / "mine.py").write_text(EXAMPLE.read_text())
    budget(home / "b.toml", [5, 4, 3, 2])
    more = 'budget = ["b.toml"]\nslots = [14, 9]\nclocks = ["trace", "none"]\n[semantics]\nscope = "layer"\n'
    specs = ["unpert1:k=4+calibrated:q=q.json+lives", "unpert1+lives:2", "none+static:train=sessions/0-1"]
    study = grid(home, trace, specs, more)
    own = ("--policy-file", home / "mine.py", "-q")
    assert cli("sweep", study, "--out", tmp_path / "0", "--threads", 1, *own).code == 0
    with loopback(tmp_path, environment={"PYTHONPATH": os.pathsep.join(sys.path)}) as cluster:
        for i, how in enumerate((("--threads", 2), ("--workers", 2), ("--cluster", cluster.address)), 1):
            code, out, err = cli("sweep", study, "--out", tmp_path / f"{i}", *how, *own)
            assert (code, out, err) == (0, "18 cells: 18 replayed, 0 were there\n", "")
            assert cells(tmp_path / f"{i}") == cells(tmp_path / "0")
    table = pl.read_parquet(tmp_path / "0/cells/*.parquet")
    assert table["failure"].null_count() == len(table)
