"""Sweeps: cells are what compare counts, whoever plays them; nothing finished is lost; every damage is one line."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import polars as pl
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from loopback import loopback, wait

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.declare.semantics import parse_routes, semantics_of
from replay.errors import InputError
from replay.spec.grammar import Part, PolicySpec
from replay.sweep import drive, plan, task
from replay.sweep.cluster import cluster_at
from replay.sweep.file import files_in
from replay.sweep.folder import keep, open_folder
from replay.sweep.study import read_study
from replay.synth.make import synthesize
from replay.synth.recipe import Recipe
from replay.trace import open_trace

Cli = Callable[..., Outcome]
CELLS = int(os.environ.get("REPLAY_SWEEP_CELLS", "100"))
"""Cells of the sweep whose driver is killed."""

POLICIES = ("none+lru", "unpert1+lru", "unpert0+decode2q", "none+random", "none+belady")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small traces, ``a`` and ``b``, with prompts and candidates."""
    folder = tmp_path_factory.mktemp("traces")
    shape = Recipe(layers=4, experts=16, top_k=2, sessions=2, windows=30, prompt=12, recall=0.7, scores=True)
    synthesize(folder / "a", shape)
    synthesize(folder / "b", dataclasses.replace(shape, seed=1, experts=24))
    return folder


def write(path: Path, **entries: Any) -> Path:
    """Write a study file; values as TOML, which JSON's lists, texts and numbers are."""
    tables = {name: each for name, each in entries.items() if isinstance(each, dict)}
    lines = [f"{name} = {json.dumps(each)}" for name, each in entries.items() if name not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_folder_that_was_only_begun_is_taken(tmp_path: Path) -> None:
    """A kill before the list was written leaves an empty folder of cells, and a part of the list beside it."""
    (tmp_path / "out" / "cells").mkdir(parents=True)
    (tmp_path / "out" / ".sweep.json.99999-x.partial").touch()
    open_folder(tmp_path / "out")
    (tmp_path / "out" / "cells" / "a.parquet").touch()
    with pytest.raises(InputError, match="expected an empty folder"):
        open_folder(tmp_path / "out")
    (tmp_path / "mine" / "cells").mkdir(parents=True)
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(InputError, match="expected an empty folder"):
        open_folder(tmp_path / "mine")


@pytest.fixture(scope="module")
def study(traces: Path) -> Path:
    """120 cells: 2 traces x 5 policies x 2 bounds x 3 clocks x 2 seeds."""
    path = write(
        traces / "study.toml", traces=["a", "b"], policies=POLICIES, slots=["40%", 24],
        clocks=["trace", "none", "CLOCK"], seeds=[0, 1],
    )  # fmt: skip
    slow = '{ name = "slow", device_gbps = 0.05, stream_gbps = 0.02 }'
    path.write_text(path.read_text().replace('"CLOCK"', slow))
    return path


@pytest.fixture(scope="module")
def done(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study's folder, played in this process with one thread."""
    from replay.cli import main

    out = tmp_path_factory.mktemp("sweep") / "out"
    assert main(["sweep", str(study), "--out", str(out), "--threads", "1", "-q"]) == 0
    return out


def cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").glob("*.parquet"))}


def rows(folder: Path) -> pl.DataFrame:
    """All rows with the study's names."""
    lines = pl.DataFrame(json.loads((folder / "sweep.json").read_text())["cells"])
    plan_of = lines.select("cell", "bound", pl.col("trace").alias("where"), pl.col("clock"))
    return pl.read_parquet(folder / "cells/*.parquet").join(plan_of, on="cell")


def test_a_cell_is_what_compare_counts(done: Path, traces: Path) -> None:
    found = rows(done)
    assert found["cell"].n_unique() == 2 * 5 * 2 * 3 * 2
    for name, bound, clock in (("a", "40%", "trace"), ("b", "24", "slow"), ("a", "24", "none")):
        trace = open_trace(traces / name)
        given = {"device_gbps": 0.05, "stream_gbps": 0.02} if clock == "slow" else None
        params = None if clock == "none" else load_clock(given, trace.meta.io)
        for seed in (0, 1):
            specs = [
                each if each != "none+random" or seed == 0 else f"none+random:seed={seed}"
                for each in POLICIES
            ]
            run = compare(trace, specs, slots=bound, grid=(), clock=params)
            mine = found.filter(where=name, bound=bound, clock=clock, seed=seed)
            mine = mine.with_columns(policy=pl.col("policy").str.replace(":seed=0", "", literal=True))
            assert mine["tokens"].unique().to_list() == [run.info["denominators"]["tokens"]["none+lru"]]
            keys = ["policy", "phase", "layer"]
            assert mine.select(run.layers.columns).sort(keys).equals(run.layers.sort(keys))


def test_the_same_bytes_from_threads_and_processes(done: Path, study: Path, tmp_path: Path, cli: Cli) -> None:
    for i, flag in enumerate((("--threads", 2), ("--workers", 2))):
        code, out, _ = cli("sweep", study, "--out", tmp_path / f"{i}", *flag, "-q")
        assert (code, out) == (0, "120 cells: 120 replayed, 0 were there\n")
        assert cells(tmp_path / f"{i}") == cells(done)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SimpleNamespace]:
    with loopback(tmp_path) as found:
        yield found


def test_a_killed_worker_changes_nothing(
    done: Path, study: Path, tmp_path: Path, cluster: SimpleNamespace
) -> None:
    """One of two workers dies while it has passes to play; the other plays them."""
    out = tmp_path / "out"
    open_folder(out)
    planned = plan.plan_study(read_study(study), tmp_path / "scratch", by_url=True)
    parts = plan.passes(planned, planned.cells, 4)
    assert len(parts) > 6
    names: list[str] = []

    def take(name: str, table: Any) -> None:
        if not names:
            cluster.workers[0].send_signal(signal.SIGKILL)
            cluster.workers[0].wait()
        names.append(name)
        keep(out, name, table)

    with cluster_at(cluster.address) as client:
        client.wait_for_workers(2, timeout=60)
        drive.play_there(client, parts, take)
    assert len(names) == len(set(names)) == len(planned.cells)
    assert cells(out) == cells(done)


def test_a_cluster_through_the_command(
    done: Path, study: Path, tmp_path: Path, cluster: SimpleNamespace, cli: Cli
) -> None:
    out = tmp_path / "out"
    code, text, err = cli("sweep", study, "--out", out, "--cluster", cluster.address, "--json", "-q")
    assert (code, err) == (0, "")
    assert json.loads(text) == {
        "out": str(out), "rows": 120, "cells": 120, "replayed": 120, "there": 0, "failed": 0,
    }  # fmt: skip
    assert cells(out) == cells(done)


def counts(said: str) -> list[int]:
    """Cells, of them replayed, there before, failed, as a sweep's line says."""
    found = re.fullmatch(
        r"([\d,]+) cells: ([\d,]+) replayed, ([\d,]+) were there(?:, ([\d,]+) failed)?\n", said
    )
    assert found is not None, said
    return [int((each or "0").replace(",", "")) for each in found.groups()]


@pytest.mark.parametrize("how", [(), ("--workers", "2")], ids=["here", "workers"])
def test_a_killed_driver_loses_no_finished_cell(how: tuple[str, ...], traces: Path, tmp_path: Path) -> None:
    """SIGKILL early and again later, then the same command: what was there stays as it is, the rest follows."""
    slots = list(range(10, 10 + -(-CELLS // 5)))
    grid = write(
        tmp_path / "grid.toml", traces=[str(traces / "b")], policies=POLICIES, slots=slots, seeds=[3]
    )
    out, total = tmp_path / "out", 5 * len(slots)
    command = [sys.executable, "-m", "replay", "sweep", str(grid), *how, "--out", str(out), "-q"]
    done = out / "cells"

    def finished() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in done.glob("*.parquet")}

    before: dict[str, tuple[int, bytes]] = {}
    for part in (0.0, 0.5):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
            wait(lambda part=part: done.is_dir() and len(list(done.glob("*.parquet"))) > part * total)
            driver.send_signal(signal.SIGKILL)
        assert before.items() <= finished().items()
        before = finished()
    assert 0 < len(before) < total
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first = counts(said)
    assert sum(first[1:]) == first[0] == total and first[2] <= len(before)
    after = finished()
    assert len(after) == total and before.items() <= after.items()
    subprocess.run([*command[:-2], str(tmp_path / "other"), "-q"], check=True, stdout=subprocess.DEVNULL)
    assert cells(tmp_path / "other") == {name: data for name, (_, data) in after.items()}
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert counts(again) == [total, 0, total - first[3], first[3]] and finished() == after


@pytest.fixture
def far(traces: Path) -> Iterator[str]:
    """The trace ``a`` in fsspec's memory."""
    memory = fsspec.filesystem("memory")
    for path in sorted((traces / "a").iterdir()):
        memory.pipe(f"/far/a/{path.name}", path.read_bytes())
    yield "memory://far/a"
    memory.rm("/far", recursive=True)


def test_traces_of_any_filesystem_give_the_same_cells(
    traces: Path, far: str, tmp_path: Path, cli: Cli
) -> None:
    given = {"policies": ["unpert1+lru"], "slots": [12, 20]}
    for i, where in enumerate((str(traces / "a"), f"file://{traces / 'a'}", far)):
        grid = write(tmp_path / f"{i}.toml", traces=[where], **given)
        assert cli("sweep", grid, "--out", tmp_path / f"{i}", "-q").code == 0
    assert cells(tmp_path / "0") == cells(tmp_path / "1") == cells(tmp_path / "2") and len(
        cells(tmp_path / "0")
    )
    grid = write(tmp_path / "3.toml", traces=[far], **given)  # workers of our own get our copy
    assert cli("sweep", grid, "--out", tmp_path / "3", "--workers", 1, "-q").code == 0
    assert cells(tmp_path / "3") == cells(tmp_path / "0")


def test_a_far_trace_is_checked(far: str, tmp_path: Path, cli: Cli) -> None:
    memory = fsspec.filesystem("memory")
    grid = write(tmp_path / "grid.toml", traces=[far], policies=["none+lru"])
    whole = memory.cat("/far/a/selections.parquet")
    memory.pipe("/far/a/selections.parquet", whole[:100] + b"x" + whole[101:])
    code, _, err = cli("sweep", grid, "--out", tmp_path / "out")
    assert code == 2 and "the file was changed" in err and not (tmp_path / "out").exists()
    memory.rm("/far/a/selections.parquet")
    code, _, err = cli("sweep", grid, "--out", tmp_path / "out")
    assert (code, "found no selections.parquet there" in err) == (2, True)
    memory.pipe(
        "/far/a/trace.json", memory.cat("/far/a/trace.json").replace(b"selections.parquet", b"../x.parquet")
    )
    code, _, err = cli("sweep", grid, "--out", tmp_path / "out")
    assert code == 2 and "lead" in err


def test_other_routes_and_semantics(traces: Path, tmp_path: Path, cli: Cli) -> None:
    grid = write(
        tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru"], slots=[20],
        routes=["recorded", "rerouted"], semantics={"start": "warm:8", "order": "rows", "split": False},
    )  # fmt: skip
    assert cli("sweep", grid, "--out", tmp_path / "out", "-q").code == 0
    found = rows(tmp_path / "out")
    run = compare(
        open_trace(traces / "a"), ["none+lru"], slots="20", grid=(), clock=load_clock(None, None),
        routes=[parse_routes("recorded"), parse_routes("rerouted")],
        semantics=semantics_of(start="warm:8", order="rows", split=False),
    )  # fmt: skip
    keys = ["routes", "phase", "layer"]
    assert found.select(run.layers.columns).sort(keys).equals(run.layers.sort(keys))
    assert run.routes is not None
    agreement = found.filter(routes="rerouted").select(*keys, "picks_made", "picks_kept").sort(keys)
    assert agreement.equals(run.routes.select(agreement.columns).sort(keys))
    assert found.filter(routes="recorded")["picks_made"].null_count() == len(found) // 2


def test_cells_that_cannot_be_replayed(traces: Path, tmp_path: Path, cli: Cli) -> None:
    """An arena too small is known only when it is played: a cell without figures, played once."""
    grid = write(
        tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru", "none+arc"], slots=[1, 20]
    )
    code, out, err = cli("sweep", grid, "--out", tmp_path / "out")
    assert (code, out) == (0, "4 cells: 2 replayed, 0 were there, 2 failed\n")
    assert "2 cells without figures" in err
    again = cli("sweep", grid, "--out", tmp_path / "out", "-q")
    assert (again.out, again.err) == ("4 cells: 0 replayed, 2 were there, 2 failed\n", "")
    ask = "select bound, failure, misses from cells order by policy, bound"
    found = json.loads(cli("query", tmp_path / "out", ask, "--json").out)
    assert [row["misses"] is None for row in found] == [True, False] * 2
    assert "cannot hold one event" in found[0]["failure"] and found[1]["failure"] is None


def test_rows_that_are_the_same_cell(traces: Path, tmp_path: Path, cli: Cli) -> None:
    grid = write(
        tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru", "lru"], slots=[1, "20", 20]
    )
    code, out, _ = cli("sweep", grid, "--out", tmp_path / "out", "-q")
    text = "4 cells: 2 replayed, 0 were there, 2 failed; 6 rows planned, 2 of them the same cell as another\n"
    assert (code, out) == (0, text)
    told = json.loads(cli("sweep", grid, "--out", tmp_path / "out", "--json", "-q").out)
    del told["out"]
    assert told == {"rows": 6, "cells": 4, "replayed": 0, "there": 2, "failed": 2}
    for path in (tmp_path / "out/cells").iterdir():
        path.write_bytes(b"no table")
    code, _, err = cli("sweep", grid, "--out", tmp_path / "out", "-q")
    assert (code, err.count("\n")) == (2, 1) and "a finished cell cannot be read" in err


def test_a_list_that_cannot_be_written_leaves_no_folder(
    traces: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = write(tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru"], slots=[20])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "sweep.json")

    with monkeypatch.context() as patch:
        patch.setattr("replay.sweep.folder.write_list", full)
        code, _, err = cli("sweep", grid, "--out", tmp_path / "new/out")
    assert code == 2 and "No space left" in err and not (tmp_path / "new").exists()
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode == os.R_OK)
    code, _, err = cli("sweep", grid, "--out", tmp_path / "new/out")
    assert code == 2 and f"{tmp_path} cannot be written to; check the permissions" in err
    assert err.count("\n") == 1 and not (tmp_path / "new").exists()


def test_policies_that_cannot_run(traces: Path, tmp_path: Path, cli: Cli) -> None:
    grid = write(
        tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru", "none+arc"], bytes=["9MB"]
    )
    code, _, err = cli("sweep", grid, "--out", tmp_path / "out")
    assert code == 2 and "arc is not defined under a byte budget" in err and err.count("\n") == 1
    code, out, err = cli("sweep", grid, "--out", tmp_path / "out", "--skip")
    assert (code, out) == (0, "1 cell: 1 replayed, 0 were there\n") and "left out none+arc" in err


def test_queries_while_it_runs(done: Path, study: Path, tmp_path: Path, cli: Cli) -> None:
    """A folder with some of the cells, and one of another study: plan has all, cells those that are finished."""
    out = tmp_path / "out"
    (out / "cells").mkdir(parents=True)
    (out / "sweep.json").write_bytes((done / "sweep.json").read_bytes())
    ask = "select (select count(*) from cells) + (select count(*) from layers) as n, count(*) as m from plan"
    assert json.loads(cli("query", out, ask, "--json").out) == [{"n": 0, "m": 120}]
    some = list(cells(done).items())[:7]
    for name, data in some:
        (out / "cells" / name).write_bytes(data)
    (out / ".half.partial").write_bytes(b"PAR1")
    (out / "cells" / "other.parquet").write_bytes(some[0][1])
    tables = {line.split()[0] for line in cli("query", out).out.splitlines()[2:]}
    assert tables == {"cells", "layers", "plan"}
    assert json.loads(cli("query", out, "select count(*) as n from plan", "--json").out) == [{"n": 120}]
    code, text, err = cli("query", out, "select * from cells", "--json")
    found = json.loads(text)
    assert (code, err) == (0, "") and {row["cell"] for row in found} == {name[:-8] for name, _ in some}
    for row in found:
        mine = pl.read_parquet(out / "cells" / f"{row['cell']}.parquet")
        decode = mine.filter(phase="decode")
        assert row["misses"] == mine["misses"].sum() and row["tokens"] == mine["tokens"][0]
        assert row["misses_per_token"] == decode["misses"].sum() / row["tokens"]
        assert row["hit_ratio"] == 1 - row["misses"] / row["lookups"] or row["hit_ratio"] == (
            (row["hits"] + row["prefetch_hits"]) / row["lookups"]
        )
        timed = decode["disk_bytes"].null_count() == 0
        read = (
            decode["disk_bytes"].sum()
            if timed
            else decode["demand_bytes"].sum() + decode["issued_bytes"].sum()
        )
        assert row["read_bytes_per_token"] == read / row["tokens"]
        assert (row["wait_us_per_token"] is None) == (not timed) == (row["clock"] == "none")
    code, _, err = cli("query", out, "select 1", "--trace", "x")
    assert code == 2 and "is a sweep" in err


def test_a_cell_file_says_all_by_itself(done: Path) -> None:
    path = next((done / "cells").glob("*.parquet"))
    from replay.schema.arrow import arrow_schema
    from replay.schema.result import RESULT

    assert pq.read_schema(path).remove_metadata() == arrow_schema(RESULT["sweep"])
    table = pq.read_table(path)
    assert set(table["cell"].to_pylist()) == {path.stem}


DAMAGES: list[tuple[dict[str, Any] | str, str]] = [
    ("traces = [", "not TOML"),
    ("\x00", "not TOML"),
    ("x = " + "[" * 3000, "not TOML"),
    ({}, "traces: missing"),
    ({"traces": []}, "traces: expected a list with entries"),
    ({"traces": "TRACE"}, "traces: expected a list"),
    ({"traces": [1]}, "traces: expected texts, found 1"),
    ({"traces": [""]}, "traces: expected texts"),
    ({"traces": ["TRACE", "TRACE"]}, "is given twice"),
    ({"traces": ["nowhere"]}, "expected a trace folder, found nothing"),
    ({"traces": ["nothing://x/y"]}, "cannot be read (Protocol not known"),
    ({"traces": ["memory://nowhere"]}, "found no trace.json there"),
    ({"polices": ["none+lru"]}, "unknown key 'polices'; did you mean policies"),
    ({"policies": ["none+lruu"]}, "did you mean lru"),
    ({"policies": ["none+lru", "none+lru"]}, "is given twice"),
    ({"policies": [["none+lru"]]}, "policies: expected texts"),
    ({"slots": [True]}, "slots: expected figures or texts"),
    ({"slots": [0.5]}, "slots: expected figures or texts"),
    ({"slots": [0]}, "--slots 0: expected whole numbers of at least 1"),
    ({"slots": [-5]}, "--slots -5"),
    ({"slots": ["many"]}, "--slots many"),
    ({"slots": ["1,2"]}, "for 1 size classes"),
    ({"bytes": ["4000 miles"]}, "miles"),
    ({"budget": ["b.toml"]}, 'budget gives every layer its slots; add scope = "layer"'),
    ({"budget": "b.toml", "semantics": {"scope": "layer"}}, "budget: expected a list"),
    ({"budget": ["b.toml"], "semantics": {"scope": "layer"}}, "give a file that `replay budget` wrote"),
    ({"policy_file": ["mine.py"]}, "unknown key 'policy_file'"),
    ({"policies": ["none+lives"]}, "no policy is called 'lives'"),
    ({"policies": ["unpert1+calibrated:q=no.json"]}, "calibrated: q=no.json: nothing is there"),
    (
        {"policies": ["unpert1+calibrated:q=TRACE/trace.json"]},
        "expected 'replay-q', as `replay calibrate` writes",
    ),
    ({"policies": ["none+static:train=nowhere"]}, "static: train=nowhere: nothing is there"),
    ({"policies": ["none+static:train=sessions/77"]}, "no session from 77 to 77"),
    ({"policies": ["none+static"]}, "static needs training sessions"),
    ("clocks = [{name = 'x', device_gbps = nan}]", "device_gbps = nan: expected GB/s"),
    ("clocks = [nan]", "clocks: expected a name, a file or a table with a name, found nan"),
    ({"slots": []}, "slots: expected a list with entries"),
    ({"seeds": 3}, "seeds: expected a list with entries, found 3"),
    ({"routes": ["nowhere"]}, "--routes nowhere"),
    ({"routes": ["rerouted", "recorded", "predicted"]}, "needs a ranked read-ahead policy"),
    ({"clocks": ["disk.toml"]}, "clock 'disk.toml': "),
    ({"clocks": [3]}, "clocks: expected a name, a file or a table"),
    ("clocks = [{device_gbps = 2}]", "clocks: expected a name, a file or a table with a name"),
    ("clocks = [{name = 'x', devices = 2}]", "unknown key 'devices'; did you mean device_gbps"),
    ("clocks = [{name = 'x', device_gbps = -2}]", "device_gbps = -2: expected GB/s"),
    ("clocks = [{name = 'x', workers = 2}, {name = 'x', workers = 3}]", "'x' names two clocks"),
    ("clocks = [{name = 'none', workers = 2}]", "'none' names two clocks"),
    ({"seeds": [-1]}, "seeds: expected whole numbers from 0"),
    ({"seeds": [10**30]}, "seeds: expected whole numbers from 0"),
    ({"seeds": [1.5]}, "seeds: expected whole numbers"),
    ({"semantics": 3}, "semantics: expected a table"),
    ({"semantics": {"scop": "layer"}}, "semantics: unknown key 'scop'; did you mean scope"),
    ({"semantics": {"scope": "nowhere"}}, "--scope nowhere: no such scope"),
    ({"semantics": {"split": "yes"}}, "semantics: split: expected true or false"),
    ({"semantics": {"prompt_hot": True}}, "semantics: prompt_hot: expected a whole number"),
    ({"semantics": {"start": "warm:99999"}}, "none would be counted"),
    ({"semantics": {"start": "recorded"}}, "needs the table residents"),
]


@pytest.mark.parametrize(("damage", "says"), DAMAGES, ids=[says for _, says in DAMAGES])
def test_every_damage_of_a_study_is_one_line(
    damage: dict[str, Any] | str, says: str, traces: Path, tmp_path: Path, cli: Cli
) -> None:
    whole: dict[str, Any] = {"traces": [str(traces / "a")], "policies": ["none+lru"], "slots": [20]}
    path = tmp_path / "grid.toml"
    if isinstance(damage, str):
        write(path, **whole)
        path.write_text(path.read_text() + damage, encoding="utf-8")
    else:
        text = json.dumps({} if not damage else {**whole, **damage}).replace("TRACE", str(traces / "a"))
        write(path, **json.loads(text))
    code, out, err = cli("sweep", path, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert says in err and err.startswith("replay: error: ") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_refusals_of_the_command(
    traces: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = write(tmp_path / "grid.toml", traces=[str(traces / "a")], policies=["none+lru"], slots=[20])

    def refused(*flags: object, out: Path = tmp_path / "out") -> str:
        code, _, err = cli("sweep", flags[0] if flags else grid, "--out", out, *flags[1:])
        assert code == 2 and err.count("\n") == 1
        return err

    assert "give a TOML file" in refused(tmp_path / "none.toml")
    assert "are both given" in refused(grid, "--cluster", "tcp://127.0.0.1:1", "--workers", 2)
    assert "--threads is for a sweep in this process" in refused(grid, "--workers", 2, "--threads", 2)
    assert "give one such as tcp://" in refused(grid, "--cluster", "nonsense://x")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    assert "expected an empty folder, or one of a sweep" in refused(grid, out=tmp_path / "taken")
    assert "is a file" in refused(grid, out=grid)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "install the extra: pip install 'moe-replay[sweep]'" in refused(grid, "--workers", 2)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    far = write(tmp_path / "far.toml", traces=["memory://x"], policies=["none+lru"])
    assert "install the extra" in refused(far)


def test_a_damaged_list_is_refused(done: Path, tmp_path: Path, cli: Cli) -> None:
    for text in ("", "[]", '{"format": "replay-sweep"}', '{"format": "x", "cells": []}'):
        (tmp_path / "sweep.json").write_text(text)
        code, _, err = cli("query", tmp_path, "select 1")
        assert (code, err.count("\n")) == (2, 1) and "not the list of a sweep" in err


def test_another_version_of_this_program_plays_nothing(study: Path, tmp_path: Path) -> None:
    planned = plan.plan_study(read_study(study), tmp_path)
    (part, *_) = plan.passes(planned, planned.cells)
    other = dataclasses.replace(part.cells[0], version="0.0.9+0")
    with pytest.raises(InputError, match="a worker runs replay"):
        task.play_pass(dataclasses.replace(part, cells=(other,)))
    assert other.name != part.cells[0].name


def test_a_file_that_a_spec_names_is_part_of_the_cell(study: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    spec = PolicySpec("x", evict=Part("lru", {"q": str(file), "k": 3}))
    with pytest.raises(InputError, match="q.json: nothing is there"):
        files_in(spec)
    file.write_text("1")
    one = files_in(spec)
    file.write_text("2")
    assert len(one) == 1 and one != files_in(spec)
    cell = plan.plan_study(read_study(study), tmp_path).cells[0]
    assert dataclasses.replace(cell, files=(one[0].sha256,)).name != cell.name


def test_what_kills_its_workers_is_halved_and_then_refused(study: Path, tmp_path: Path) -> None:
    from distributed import KilledWorker

    class Killed:
        def result(self, timeout: float) -> None:
            raise KilledWorker("task", "worker", 3)

    planned = plan.plan_study(read_study(study), tmp_path)
    (part, *_) = plan.passes(planned, planned.cells)
    parts = drive._taken(Killed(), part, lambda *_: None)
    assert [cell for each in parts for cell in each.cells] == list(part.cells) and len(parts) == 2
    single = dataclasses.replace(part, cells=part.cells[:1])
    with pytest.raises(InputError, match="died again and again"):
        drive._taken(Killed(), single, lambda *_: None)


def test_grouping_changes_no_bytes(done: Path, study: Path, tmp_path: Path) -> None:
    """Single cells give the bytes that whole passes gave."""
    planned = plan.plan_study(read_study(study), tmp_path / "scratch")
    open_folder(tmp_path)
    for cell in planned.cells[::7]:
        ((name, table),) = task.play_pass(plan.Pass(planned.places[cell.trace], (cell,)))
        keep(tmp_path, name, table)
    assert cells(tmp_path).items() <= cells(done).items() and cells(tmp_path)
