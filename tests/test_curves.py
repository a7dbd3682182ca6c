"""Miss curves: all capacities in one pass equal replays at each, what is counted apart, and published curves."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from conftest import Outcome
from slow.make import draw_trace, write
from test_parity import misses, stream_of, zipf_stream

import replay.survey.surveyor
from replay.arena.bound import Bound
from replay.comparison.comparison import compare
from replay.declare.semantics import Semantics, parse_prefill, parse_start
from replay.errors import InputError
from replay.importers import Request, importer
from replay.lane.shape import Shape
from replay.ledger.grouping import FIGURES, group_windows
from replay.prepare.chunk import Demand, prepare
from replay.schema.result import RESULT
from replay.spec.grammar import parse
from replay.spec.resolve import resolve
from replay.survey.depth import StackLane
from replay.survey.grid import parse_grid
from replay.survey.survey import Survey, survey
from replay.trace import Trace, open_trace

Cli = Callable[..., Outcome]


def drawn(seed: int, path: Path) -> Trace:
    """A drawn trace on disk."""
    write(draw_trace(seed), path / "trace")
    return open_trace(path / "trace")


def draw_semantics(rng: Random, trace: Trace) -> Semantics:
    """Options under which lru has the stack property."""
    cell = rng.choice(["atomic", "sequential"])
    starts = ["cold", "warm:3", *(["recorded"] if trace.has("residents") else [])]
    start, warm = parse_start(rng.choice(starts))
    order = "rows" if cell == "atomic" else rng.choice(["id", "rows"])
    return Semantics(rng.choice(["global", "layer"]), True, order, cell, start, warm)


def grid_of(rng: Random, trace: Trace) -> str:
    """Every capacity, or shares where there are several classes."""
    if trace.classes.max() == 0 and rng.random() < 0.7:
        return "all"
    return "1%..100%:60"


def both_ways(trace: Trace, grid: str, semantics: Semantics, monkeypatch) -> tuple[Survey, Survey]:
    """The same survey in one pass, and replayed at each capacity."""
    capacities = parse_grid(grid, trace.classes)
    fast = survey(trace, ["lru", "belady"], capacities, semantics=semantics)
    assert fast.info["one_pass"] == ["lru", "belady"]
    if grid == "all":  # which is for one pass only: name each
        capacities = parse_grid(f"1..{trace.classes.size}:{trace.classes.size}", trace.classes)
    with monkeypatch.context() as patch:
        patch.setattr(replay.survey.surveyor, "has_stack", lambda *_: False)
        slow = survey(trace, ["lru", "belady"], capacities, semantics=semantics)
    assert slow.info["one_pass"] == []
    return fast, slow


@pytest.mark.parametrize("seed", range(60))
def test_one_pass_equals_replays_at_every_capacity(seed: int, tmp_path: Path, monkeypatch) -> None:
    """Every figure of every line: phases, layers, sessions; all scopes, classes, cells and starts."""
    trace, rng = drawn(seed, tmp_path), Random(seed)
    semantics = draw_semantics(rng, trace)
    if semantics.warm >= len(trace.windows):
        return
    fast, slow = both_ways(trace, grid_of(rng, trace), semantics, monkeypatch)
    assert fast.curves.equals(slow.curves), (seed, semantics)
    assert fast.worst.equals(slow.worst)
    assert not [each for each in fast.info["warnings"] if "belady" in each]
    whole = fast.curves.filter(pl.col("layer").is_null() & pl.col("session").is_null())
    for _, line in whole.group_by(["policy", "phase"]):
        missed = line.sort("capacity_share")["misses"].drop_nulls().to_numpy()
        assert (np.diff(missed) <= 0).all(), "these curves never rise"


POINTS = [
    ("none+lru", "none+fifo", "none+lfu", "none+lfuda", "none+decode2q", "none+belady", "previous+random"),
    ("none+heat:1", "none+2q", "none+s3fifo", "none+arc", "none+lirs", "none+clock", "stmoe+sieve"),
    ("none+belady-bypass", "none+belady-n:n=2", "none+static:train=sessions/0-9", "previous+decode2q:head"),
]
"""Every eviction policy; the first ones are defined under a byte budget too."""


@pytest.mark.parametrize("scope", ["global", "layer"])
@pytest.mark.parametrize(("unit", "specs"), [("bytes", POINTS[0]), *(("slots", each) for each in POINTS)])
def test_points_are_comparisons(unit: str, specs: tuple[str, ...], scope: str, tmp_path: Path) -> None:
    """Every point of every line, replayed or of one pass, is what a comparison at that capacity counts."""
    trace = drawn(11, tmp_path)  # 5 layers, 7 sessions, 3 size classes of unequal experts
    semantics = Semantics(scope, warm=2)
    whole = int(trace.sizes.sum())
    grid = ",".join(f"{whole * share // 8}B" for share in (1, 3, 6)) if unit == "bytes" else "30%,55%,90%"
    capacities = parse_grid(grid, trace.classes)
    found = survey(trace, specs, capacities, semantics=semantics).curves
    name, held, compared = (
        f"capacity_{unit}",
        0,
        ["lookups", "hits", "prefetch_hits", "misses", "demand_bytes"],
    )
    for bound in capacities.bounds:
        given = {unit: str(bound.bytes) if unit == "bytes" else ",".join(map(str, bound.slots))}
        at = found.filter(pl.col(name) == (bound.bytes or sum(bound.slots or ())))
        for spec in specs:
            lines = at.filter(pl.col("policy") == spec)
            try:
                run = compare(trace, [spec], semantics=semantics, grid=(), **given)
            except InputError as error:
                assert "cannot hold one event" in str(error) and lines["misses"].null_count() == len(lines)
                continue
            for line in lines.iter_rows(named=True):
                table = run.windows if line["layer"] is None else run.layers
                here = table.filter(
                    pl.col(each) == line[each]
                    for each in ("phase", "layer", "session")
                    if line[each] is not None
                )
                assert [line[each] for each in compared] == [here[each].sum() for each in compared], line
                held += 1
    assert held > 20 * len(specs)


@pytest.mark.parametrize("seed", [3, 8, 11])
def test_lines_add_up(seed: int, tmp_path: Path) -> None:
    """Layers and sessions each sum to the total; a replayed policy too; at all slots misses are compulsory."""
    trace = drawn(seed, tmp_path)
    found = survey(trace, ["lru", "fifo"], parse_grid("60%,100%", trace.classes)).curves
    assert found.columns == [column.name for column in RESULT["curves"].columns]
    figures = ["lookups", "hits", "misses", "demand_bytes", "compulsory"]
    key = ["policy", "phase", "capacity_slots"]
    whole = found.filter(pl.all_horizontal(pl.col("layer", "session", "domain").is_null())).sort(key)
    for apart in ("layer", "session"):
        lines = found.filter(pl.col(apart).is_not_null())
        if len(lines):
            held = lines.group_by(key).agg(pl.col(each).sum() for each in figures).sort(key)
            kept = whole.filter(pl.col("misses").is_not_null())
            assert held.join(kept.select(key), on=key, how="semi").equals(kept.select(*key, *figures))
    most = whole.filter(pl.col("capacity_share") == 1)
    assert most["misses"].to_list() == most["compulsory"].to_list()


def test_domains_have_lines_of_their_own(tmp_path: Path) -> None:
    """Windows of a domain are counted apart, those without one only in total."""
    trace = drawn(5, tmp_path)
    windows = len(trace.windows)
    names = [("maths", "prose", None)[i % 3] for i in range(windows)]
    grouping = group_windows(
        2, SimpleNamespace(prefill=np.zeros(windows, bool), session=np.zeros(windows, int), domain=names), 1
    )
    assert grouping.domains == ("maths", "prose") and len(grouping.sessions) == 0
    assert grouping.group_cells.tolist()[0][:3] == [5, 6, grouping.size]
    assert grouping.layer_cell.tolist()[:3] == [-1, 1, 1]


def stack_misses(spec: str, keys: np.ndarray, bounds: list[int], chunk: int) -> list[int]:
    """Misses of a stream of single requests at several capacities, in one pass over chunks."""
    experts = int(keys.max()) + 1
    shape = Shape(1, experts, 1, np.ones((1, experts), np.int64), np.zeros((1, experts), np.uint8), 1)
    windows = SimpleNamespace(prefill=np.zeros(len(keys), bool), session=np.zeros(len(keys)), domain=None)
    at = [Bound((slots,), None, "") for slots in bounds]
    policy = resolve(parse(spec), SimpleNamespace(policy=None, router=None))
    lane = StackLane(shape, at, policy, Semantics(cell="sequential"), None, group_windows(1, windows, 0))
    parts = []
    for first in range(0, len(keys), chunk):
        part = stream_of(keys[first : first + chunk])
        part.w0, part.w1 = first, first + len(part.row_start) - 1
        parts.append(prepare(part, 1, experts, np.zeros(len(part.row_start) - 1, bool), Demand(), False))
    for part in parts:
        lane.step(part)
    return lane.cells()[:, FIGURES.index("misses"), 0].tolist()


@pytest.mark.parametrize("spec", ["lru", "belady"])
def test_long_streams(spec: str) -> None:
    """Lines of bits that fill up and are packed many times; stacks of many blocks."""
    for keys, bounds in ((zipf_stream(4), [1, 30, 500, 2500]), (zipf_stream(5) % 40, [1, 3, 20, 40])):
        assert stack_misses(spec, keys, bounds, 7001) == [misses(spec, keys, slots) for slots in bounds]


@pytest.mark.parametrize(("spec", "name"), [("lru", "LRU"), ("belady", "Belady")])
def test_recorded_misses_of_the_moe_stream_in_one_pass(spec: str, name: str, shared: Path) -> None:
    """Seven capacities of the published stream at once."""
    expected = json.loads((shared / "traces/streams/moe96k_misses.json").read_text())
    keys = np.load(shared / "traces/streams/moe96k.npy").astype(np.int64)
    assert stack_misses(spec, keys, expected["capacities"], 9600) == expected["misses"][name]


def test_what_takes_one_pass(tmp_path: Path) -> None:
    """lru does where it has the stack property, belady with slots; the rest is replayed, and that is said."""
    trace = drawn(2, tmp_path)
    grid = parse_grid("50%,100%", trace.classes)
    streams = bool(trace.windows.prefill.any())

    def one_pass(*policies: str, **ways) -> list[str]:
        return survey(trace, policies, grid, semantics=Semantics(**ways)).info["one_pass"]

    assert one_pass("lru", "belady", "fifo") == ["belady"]
    assert one_pass("lru", order="rows") == one_pass("lru", cell="sequential") == ["lru"]
    assert one_pass("none+lru", "unpert1+lru", "belady-bypass", order="rows") == ["none+lru"]
    assert streams and one_pass("lru", "belady", order="rows", stream=parse_prefill("stream:2")) == []
    assert one_pass("lru", "belady", order="rows", prompt_hot=2) == []
    by_bytes = parse_grid("1MB..4MB:2", trace.classes)
    assert survey(trace, ["belady"], by_bytes).info["one_pass"] == []
    notes = survey(trace, ["lru"], grid).info["notes"]
    assert any("lacks the stack property" in each for each in notes)


def test_too_small_is_null_not_an_error(tmp_path: Path) -> None:
    """A capacity below the widest event has no figures, in one pass and replayed; lookups of others are alike."""
    trace = drawn(11, tmp_path)  # 5 layers, 7 sessions, 3 size classes of unequal experts
    found = survey(trace, ["belady", "fifo"], parse_grid("1%,100%", trace.classes))
    for _, line in found.curves.group_by(["policy"]):
        small = line.filter(pl.col("capacity_share") < 0.5)
        assert small["misses"].null_count() == len(small) and small["hit_ratio"].null_count() == len(small)
        assert line.filter(pl.col("capacity_share") == 1)["misses"].null_count() == 0
    assert any("cannot hold the widest event" in each for each in found.info["notes"])


def test_a_policy_above_its_bound_is_flagged(tmp_path: Path, monkeypatch) -> None:
    """The bound check covers curves of one pass and replayed ones."""
    trace = drawn(4, tmp_path)
    grid = parse_grid("60%,100%", trace.classes)
    real = StackLane.misses
    assert not [
        each for each in survey(trace, ["fifo", "belady"], grid).info["warnings"] if "less than" in each
    ]
    monkeypatch.setattr(StackLane, "misses", lambda lane: real(lane) + 1_000_000)
    said = [each for each in survey(trace, ["fifo", "belady"], grid).info["warnings"] if "less than" in each]
    assert len(said) == 1 and said[0].startswith("fifo misses ")


# --- the grid -------------------------------------------------------------------------------------------


ONE, TWO = np.zeros((2, 10), np.uint8), np.array([[0] * 10, [1] * 10], np.uint8)


@pytest.mark.parametrize(
    ("text", "classes", "unit", "expected"),
    [
        ("8,2,8", ONE, "slots", [2, 8]),
        ("2..8:4", ONE, "slots", [2, 4, 6, 8]),
        ("10%..50%:3, 100%", ONE, "share", [2, 6, 10, 20]),
        ("50%", TWO, "share", [10]),
        ("1kB,2kB..4kB:2", TWO, "bytes", [1000, 2000, 4000]),
        ("all", ONE, "slots", list(range(1, 21))),
    ],
)
def test_grids(text: str, classes: np.ndarray, unit: str, expected: list[int]) -> None:
    grid = parse_grid(text, classes)
    assert grid.unit == unit
    assert [each.bytes or each.total_slots for each in grid.bounds] == expected


@pytest.mark.parametrize(
    ("text", "classes", "reason"),
    [
        ("", ONE, "an entry is empty"),
        ("1,,2", ONE, "an entry is empty"),
        ("1%..60%", ONE, "how many capacities"),
        ("1%..60%:1", ONE, "how many capacities"),
        ("1%..60:3", ONE, "of two kinds"),
        ("1%,60", ONE, "do not mix"),
        ("0", ONE, "above 0"),
        ("5", TWO, "2 size classes"),
        ("all", TWO, "2 size classes"),
        ("many", ONE, "many"),
    ],
)
def test_grids_that_are_refused(text: str, classes: np.ndarray, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_grid(text, classes)


# --- the command ----------------------------------------------------------------------------------------


def test_the_command_writes_tables_and_charts(tmp_path: Path, cli: Cli) -> None:
    drawn(3, tmp_path)
    out = tmp_path / "out"
    command = (
        "curves",
        tmp_path / "trace",
        "-p",
        "lru",
        "-p",
        "belady",
        "--grid",
        "20%..100%:5",
        "--out",
        out,
    )
    code, text, err = cli(*command, "--order", "rows", "--layers", "0")
    assert (code, text.splitlines()[0].split()) == (0, ["slots", "share", "lru", "hits", "belady", "hits"])
    assert "in one pass: lru, belady" in err and "one token wants" in err
    names = {path.name for path in out.iterdir()}
    assert {"curves.parquet", "worst_layers.csv", "run.json", "miss_curve.svg", "hit_curves.svg"} <= names
    table = pl.read_parquet(out / "curves.parquet")
    assert table["layer"].drop_nulls().unique().to_list() == [0]
    assert cli(*command)[0] == 2 and cli(*command, "--force")[0] == 0
    code, text, err = cli("query", out, "select count(*) as n from curves")
    assert code == 0 and int(text.splitlines()[-1]) > 0
    code, text, _ = cli("curves", tmp_path / "trace", "--json", "--grid", "50%", "-q")
    assert {row["policy"] for row in json.loads(text)["curves"]} == {"lru", "belady"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--layers", "x"), "expected all, or layers"),
        (("--layers", "99"), "no layer 99"),
        (("--grid", "all"), "has no curve in one pass"),
        (("-p", "belady", "--routes", "rerouted"), "belady"),
    ],
)
def test_misuse(arguments: tuple[str, ...], reason: str, tmp_path: Path, cli: Cli) -> None:
    seed = next(s for s in range(100) if set(draw_trace(s).classes.values()) == {0})
    drawn(seed, tmp_path)
    code, out, err = cli("curves", tmp_path / "trace", *arguments)
    assert (code, out) == (2, "") and reason in err


# --- published curves -----------------------------------------------------------------------------------

PUBLISHED = {"lru": ("global", "lru"), "lfu": ("global", "lfu:keep"), "belady": ("global", "belady")}
PUBLISHED |= {"layer": ("layer", "lru"), "layerlfu": ("layer", "lfu:keep")}


@pytest.mark.parametrize("model", ["gemma", "gptoss"])
def test_published_curves(model: str, shared: Path, tmp_path: Path) -> None:
    """BigMoeOnEdge's own figures at eleven budgets, to the printed digits: hits, decode hits, MiB read.

    Their lfu counts on after an eviction: ``lfu:keep``. Their random draws cannot be had.
    """
    source = shared / "traces/external/bigmoeonedge"
    importer("bigmoeonedge")(source / f"{model}.route.csv", tmp_path / "trace", Request(bytes=1))
    trace = open_trace(tmp_path / "trace")
    with open(source / f"{model}-curve.csv", encoding="utf-8") as file:
        printed = {
            (int(row.pop("budget_mib")), row.pop("policy")): tuple(row.values())
            for row in csv.DictReader(file)
        }
    budgets = sorted({budget for budget, _ in printed})
    grid = parse_grid(",".join(f"{each}MiB" for each in budgets), trace.classes)
    found = {}
    for scope in ("global", "layer"):
        specs = sorted({spec for where, spec in PUBLISHED.values() if where == scope})
        table = survey(trace, specs, grid, semantics=Semantics(scope, order="rows"), layers=()).curves
        for (spec, size), rows in table.filter(pl.col("session").is_null()).group_by(
            "policy", "capacity_bytes"
        ):
            found[scope, spec, size >> 20] = figures(rows)
    for name, (scope, spec) in PUBLISHED.items():
        for budget in budgets:
            assert found[scope, spec, budget] == printed[budget, name], (name, budget)


def figures(rows: pl.DataFrame) -> tuple[str, str, str]:
    """Hits in per cent, of both phases and of decode, and MiB read, as printed."""
    decode = rows.filter(pl.col("phase") == "decode")
    shares = (100 * each["hits"].sum() / each["lookups"].sum() for each in (rows, decode))
    return (*(f"{share:.3f}" for share in shares), f"{rows['demand_bytes'].sum() / 2**20:.1f}")  # type: ignore[return-value]


def test_curves_say_how_many_slots_halve_the_misses(root: Path, cli: Cli) -> None:
    trace = root / "traces/e256-moce"
    code, out, _ = cli("curves", trace, "-p", "lru", "--grid", "721,1900,2100", "--json")
    assert code == 0
    misses = {row["capacity_slots"]: row["misses"] for row in json.loads(out)["curves"]}
    goal = misses[721] / 2
    size = round(1900 + 200 * (misses[1900] - goal) / (misses[1900] - misses[2100]))
    shown = cli("curves", trace, "-p", "lru", "--grid", "721,1900,2100").out
    assert f"half the misses of lru at 721 slots take about {size:,} slots" in shown
    assert "take more than 721 slots" in cli("curves", trace, "-p", "lru", "--grid", "700,721").out


def test_curves_say_where_no_arena_halves_the_misses(root: Path, cli: Cli, tmp_path: Path) -> None:
    """First uses are misses at any capacity, and no arena holds more than all experts."""
    trace = root / "traces/e256-moce"
    rows = json.loads(cli("curves", trace, "-p", "belady", "--grid", "721,2900", "--json").out)["curves"]
    first, last = sorted(rows, key=lambda row: row["capacity_slots"])
    assert last["misses"] == last["compulsory"] > first["misses"] / 2
    shown = cli("curves", trace, "-p", "belady", "--grid", "721,2900").out
    few = f"{last['misses']:,} of {first['misses']:,}"
    assert f"no arena halves the misses of belady at 721 slots: {few} are first uses" in shown
    assert cli("cut", trace, tmp_path / "one", "--windows", "1").code == 0
    code, shown, err = cli("curves", tmp_path / "one", "-p", "lru", "--grid", "721,4096")
    assert code == 0 and "1 window, 1 session" in err
    assert "no arena halves the misses of lru at 721 slots: 128 of 128 are first uses" in shown
    assert f"next: replay curves {tmp_path / 'one'} --out DIR" in err


def test_curves_of_a_single_expert(cli: Cli, tmp_path: Path) -> None:
    """17.6% of it are no slot, which is no byte budget either."""
    (tmp_path / "one.csv").write_text("token,layer,experts\n0,0,0\n1,0,0\n2,0,0\n")
    code, _, err = cli("import", "table", tmp_path / "one.csv", tmp_path / "one", "--expert-bytes", "1MB")
    assert code == 0 and err.endswith(f"next: replay info {tmp_path / 'one'}\n")
    code, out, err = cli("curves", tmp_path / "one")
    assert code == 0 and "66.67%" in out
    assert "1 layer x 1 expert, top-1" in err and "Warning" not in err
