"""frontier: points that are plain comparisons, families at equal bytes, controls, and errors in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import Outcome
from slow.make import write
from slow.sessions import sessions_trace

from replay.clock.timing import ClockParams
from replay.comparison.comparison import compare
from replay.declare.semantics import RECORDED_ROUTES
from replay.errors import InputError
from replay.frontier.against import Line, at, compared
from replay.frontier.control import survivors
from replay.frontier.family import families
from replay.frontier.point import scored_part
from replay.frontier.study import Frontier, frontier
from replay.plot.thresholds import plot_thresholds
from replay.prepare.training import event_counts
from replay.trace import Trace, open_trace
from replay.trace.shuffle import shuffled
from replay.trace.view import of_sessions, view
from replay.verdict.interval import mean_interval

Cli = Callable[..., Outcome]
TEXTS = ["route:k=1..5", "unpert1:k=5+margin:-1..1", "route:k=3+confidence+decode2q"]
CLOCK = ClockParams(device_gbps=20.0, stream_gbps=10.0)


def names(*texts: str, points: int = 3) -> list[list[str]]:
    found = families(texts, points, ClockParams(), 3_000_000.0)
    return [[spec.text for spec in family.specs] for family in found]


def test_a_range_becomes_specs() -> None:
    assert names("route:k=1..4") == [["route:k=1", "route:k=2", "route:k=4"]]
    assert names("route:k=8+margin:-1..1+lru") == [[f"route:k=8+margin:{m}+lru" for m in ("-1", "0", "1")]]
    assert names("route:k=8,b=.5..1.5") == [[f"route:k=8,b={b}" for b in ("0.5", "1", "1.5")]]
    assert names("route:b=0.01..1") == [["route:b=0.01", "route:b=0.1", "route:b=1"]], "by ratio"
    assert names("route:1..2", points=9) == [["route:1", "route:2"]], "the main option; whole numbers once"
    assert names("none+lru") == [["none+lru"]]
    one = families(["unpert1:k=5+margin:-1..1"], 5, ClockParams(), 1.0)[0]
    assert (one.option, one.values) == ("margin:m", (-1.0, -0.5, 0.0, 0.5, 1.0))


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["route:k=4..1"], "a range runs upwards"),
        (["route:k=1..4,b=0..1"], "several options are ranges"),
        (["route:z=1..4"], "no option 'z'"),
        (["margn:1..4+route"], "no policy is called 'margn'"),
        (["route+margin:1..4x"], "is no range of an option"),
        (["route:touch=0..1"], "is no range of an option"),
        (["route", "route"], "given twice"),
    ],
)
def test_ranges_that_are_none(texts: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        names(*texts)
    assert "\n" not in str(caught.value)


def test_points_are_bounded() -> None:
    with pytest.raises(InputError, match="--points 1"):
        names("route", points=1)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("frontier") / "trace"
    write(sessions_trace(count=10, length=12, drafts=1), path)
    return open_trace(path)


@pytest.fixture(scope="module")
def found(trace: Trace) -> Frontier:
    return frontier(
        trace, TEXTS, sessions="2-9", slots="9", routes=RECORDED_ROUTES, clock=CLOCK, points=5, seed=3
    )


def test_every_point_is_a_comparison(trace: Trace, found: Frontier) -> None:
    """On recorded and on shuffled windows; derived figures from the counts."""
    scored = view(trace, of_sessions(trace, "2-9"))
    for windows, played in (("recorded", scored), ("shuffled", shuffled(scored, 3))):
        rows = found.points.filter(pl.col("windows") == windows).to_dicts()
        texts = [row["policy"] for row in rows]
        run = compare(played, list(dict.fromkeys(texts)), slots="9", grid=(), clock=CLOCK)
        plain = {row["policy"]: row for row in run.summary}
        for row in rows:
            one = plain[row["policy"]]
            for name in (
                "tokens",
                "lookups",
                "misses",
                "issued",
                "prefetch_hits",
                "pollution",
                "issued_bytes",
            ):
                assert row[name] == one[name], (windows, row["policy"], name)
            assert row["wait_us_per_token"] == pytest.approx(one["wait_us_per_token"])
            assert row["misses_per_token"] == pytest.approx(one["misses_per_token"])
            spared = (
                plain["none+decode2q" if "decode2q" in row["policy"] else "none+lru"]["misses"]
                - row["misses"]
            )
            if spared > 0 and row["issued"]:
                assert row["bytes_per_miss_avoided"] == pytest.approx(row["issued_bytes"] / spared)
            if row["issued"]:
                assert row["precision_ratio"] == pytest.approx(one["prefetch_hits"] / one["issued"])
    assert found.points["pollution"].sum() > 0


def test_what_stands_beside_the_families(found: Frontier) -> None:
    rows = found.points.filter((pl.col("windows") == "recorded") & (pl.col("kind") != "family"))
    assert rows.select("kind", "policy").rows() == [
        ("none", "none+lru"),
        ("oracle", "oracle+lru"),
        ("none", "none+decode2q"),
        ("oracle", "oracle+decode2q"),
        ("static", "none+static:train=sessions/0-1"),
    ]
    mixed = found.points.filter(pl.col("windows") == "shuffled")
    assert set(mixed["kind"]) == {"family", "none"}


def test_a_pinned_set_is_learned_on_the_other_sessions(trace: Trace, found: Frontier) -> None:
    """As a comparison on the whole trace would learn it; views of it replay only their own windows."""
    rows = found.points.filter(pl.col("kind") == "static").to_dicts()
    scored = view(trace, of_sessions(trace, "2-9"))
    run = compare(scored, ["none+static:train=sessions/0-1"], slots="9", grid=())
    assert rows[0]["misses"] == run.summary[0]["misses"]
    other = compare(scored, ["none+static:train=sessions/2-9"], slots="9", grid=())
    assert other.summary[0]["misses"] != rows[0]["misses"]


def test_a_pinned_set_is_learned_on_all_the_other_sessions(trace: Trace) -> None:
    """Also where those that are scored lie between them."""
    scored, rest = scored_part(trace, "2,4-5")
    assert rest == "sessions/0-1/3-3/6-9" and set(scored.windows.session) == {2, 4, 5}
    assert scored_part(trace, "0-9")[1] is None
    runs = ((0, 1), (3, 3), (6, 9))
    counts = event_counts(trace, runs)
    np.testing.assert_array_equal(counts, sum(event_counts(trace, [each]) for each in runs))
    assert 0 < counts.sum() < event_counts(trace, None).sum()


def test_families_are_compared_at_equal_bytes(trace: Trace, found: Frontier) -> None:
    """From sums of the windows table, by hand."""
    scored = view(trace, of_sessions(trace, "2-9"))
    texts = ["none+lru", *(f"route:k={k}" for k in range(1, 6)), "unpert1:k=5+margin:0.5"]
    run = compare(scored, texts, slots="9", grid=(), clock=CLOCK)
    by = (
        run.windows.group_by("policy", "session")
        .agg(pl.col("misses", "issued_bytes", "tokens").sum())
        .sort("session")
    )
    differences = []
    for session in range(2, 10):
        rows = {row["policy"]: row for row in by.filter(pl.col("session") == session).to_dicts()}
        curve = sorted(
            (rows[text]["issued_bytes"] / rows[text]["tokens"], rows[text]["misses"] / rows[text]["tokens"])
            for text in texts[:-1]
        )
        mine = rows[texts[-1]]
        there = at(
            *(np.array(each) for each in zip(*curve, strict=True)), mine["issued_bytes"] / mine["tokens"]
        )
        differences.append(mine["misses"] / mine["tokens"] - there)
    expected = mean_interval(np.array(differences), seed=3)
    row = found.against.filter(
        (pl.col("policy") == texts[-1])
        & (pl.col("against") == "route:k=1..5")
        & (pl.col("figure") == "misses")
    ).row(0, named=True)
    assert row["sessions"] == 8
    assert (row["difference"], row["low"], row["high"]) == pytest.approx(expected)


def test_a_point_beyond_the_others_reach_is_not_compared() -> None:
    def line(family: str, read: list[float], misses: list[float]) -> Line:
        spread = np.linspace(0.9, 1.1, 11)[None, :]
        return Line(
            family, tuple(f"{family}{x:g}" for x in read), np.array(read)[:, None] * spread,
            {"misses": np.array(misses)[:, None] * spread},
        )  # fmt: skip

    idle = line("none", [0.0], [10.0])
    table = compared([line("a", [2.0, 4.0], [8.0, 5.0]), line("b", [3.0, 9.0], [9.0, 4.0])], [idle, idle])
    mine = table.filter(pl.col("family") == "b")
    assert mine["policy"].to_list() == ["b3"], "a reads 4 at most"
    assert mine["difference"][0] == pytest.approx(9.0 - 6.5)
    assert mine["low"][0] > 0
    other = table.filter(pl.col("family") == "a")
    assert other["difference"].to_list() == pytest.approx([8 - (10 - 2 / 3), 5 - (9 - 5 / 6)])
    assert (other["high"] < 0).all()


def test_what_survives_shuffling_is_flagged() -> None:
    def row(windows: str, kind: str, family: str | None, policy: str, misses: int) -> dict[str, object]:
        return {"windows": windows, "kind": kind, "family": family, "policy": policy, "misses": misses}

    table = pl.DataFrame(
        [
            *(row(windows, "none", None, "none+lru", 1000) for windows in ("recorded", "shuffled")),
            row("recorded", "family", "a", "route:k=1", 700), row("shuffled", "family", "a", "route:k=1", 500),
            row("recorded", "family", "a", "route:k=2", 600), row("shuffled", "family", "a", "route:k=2", 630),
            row("recorded", "family", "b", "previous", 500), row("shuffled", "family", "b", "previous", 900),
            row("recorded", "family", "c", "stmoe", 1000), row("shuffled", "family", "c", "stmoe", 900),
        ]
    )  # fmt: skip
    a, b, c = survivors(table)
    assert (a["policy"], a["gain"], a["shuffled"], a["flagged"]) == ("route:k=2", 0.4, 0.37, True)
    assert b["left"] == pytest.approx(0.2) and not b["flagged"]
    assert c["left"] is None and not c["flagged"]


def test_the_chart_draws_a_line_a_family(found: Frontier) -> None:
    panels = plot_thresholds(found.drawable())
    assert [panel.get_ylabel().split(" per")[0] for panel in panels] == ["misses", "exposed wait"]
    lines = {str(each.get_label()): each for each in panels[0].get_lines()}
    assert set(lines) == {
        *TEXTS, "none+lru", "oracle+lru", "none+decode2q", "oracle+decode2q", "none+static:train=sessions/0-1",
    }  # fmt: skip
    points = found.points.filter((pl.col("family") == TEXTS[0]) & (pl.col("windows") == "recorded"))
    shown = np.asarray(lines[TEXTS[0]].get_ydata())
    assert shown.tolist() == points.sort("read_ahead_bytes_per_token")["misses_per_token"].to_list()
    untimed = found.drawable().with_columns(wait_us_per_token=pl.lit(None, pl.Float64))
    assert len(plot_thresholds(untimed)) == 1


def test_the_command(trace: Trace, tmp_path: Path, cli: Cli) -> None:
    arguments = ["frontier", trace.path, "-p", TEXTS[0], "--slots", "9", "--points", "3", "--no-clock"]
    done = cli(*arguments, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "route:k=3" in done.out and "survives" in done.out
    names = {"frontier.csv", "frontier.parquet", "frontier_against.parquet", "frontier.svg", "run.json"}
    assert {each.name for each in (tmp_path / "out").iterdir()} == names
    again = cli(*arguments, "--out", tmp_path / "out")
    assert again.code == 2 and "--force" in again.err
    said = json.loads(cli(*arguments, "--json", "--no-controls").out)
    assert said["controls"] == [] and {row["windows"] for row in said["points"]} == {"recorded"}
    assert said["run"]["clock"] is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--sessions", "40"], "--sessions: sessions '40'"),
        (["--routes", "recorded,predicted"], "one kind"),
        (["--slots", "2"], "cannot hold one event"),
        (["--points", "1"], "--points 1"),
    ],
)
def test_misuse_is_one_line(more: list[str], says: str, trace: Trace, cli: Cli) -> None:
    done = cli("frontier", trace.path, *more)
    assert done.code == 2 and says in done.err and done.err.count("\n") == 1


def test_a_file_learned_on_what_is_scored_is_told(trace: Trace, tmp_path: Path) -> None:
    from replay.learning.price import learned

    sha = trace.tables["selections"].sha256
    (tmp_path / "q.json").write_text(json.dumps({"trained_on": [{"sha256": sha, "sessions": [1, 3]}]}))
    assert learned(str(tmp_path / "q.json"), trace) == {1, 3}
    assert learned(str(tmp_path / "none.json"), trace) == set()
    (tmp_path / "q.json").write_text("[]")
    assert learned(str(tmp_path / "q.json"), trace) == set()
