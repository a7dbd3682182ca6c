"""``import replay``: open, compare, load, the charts, what a notebook shows, and the worked example."""

import inspect
import json
import runpy
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_run import made_run

import replay
from replay.cli.compare import compare as command
from replay.clock.timing import ClockParams
from replay.front import Run

SAMPLE = "traces/e64-spec"
NOT_OPTIONS = {"policy", "out", "env", "no_curves", "no_clock", "force", "quiet", "as_json"}
"""Parameters of the command that Python says otherwise: policies, save, grid=None, clock=False, progress."""


@pytest.fixture(scope="module")
def run(root: Path) -> Run:
    return replay.compare(
        root / SAMPLE, ["none+lru", "unpert1+lru"], slots=300, grid=(0.5, 1), clock={"device_gbps": 2.0}
    )


def test_every_option_of_the_command_is_a_keyword() -> None:
    flags = set(inspect.signature(command).parameters) - NOT_OPTIONS
    keywords = set(inspect.signature(replay.compare).parameters)
    assert not flags - keywords, "give replay.front.compare the command's new options too"


def test_it_is_the_commands_run(run: Run, root: Path, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    disk = tmp_path / "disk.toml"
    disk.write_text("device_gbps = 2.0\n")
    code, out, _ = cli(
        "compare", root / SAMPLE, "-p", "none+lru", "-p", "unpert1+lru", "--slots", "300", "--grid", "0.5,1",
        "--clock", disk, "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert code == 0 and found["summary"] == run.summary
    assert {**found["run"], "command": run.info["command"]} == as_written(run)
    assert isinstance(run.layers, pl.DataFrame) and isinstance(run.curves, pl.DataFrame)


def as_written(run: Run) -> object:
    return json.loads(json.dumps(run.info))


def test_the_command_of_a_run_is_the_call_that_made_it(run: Run, root: Path) -> None:
    text = shlex.join(run.info["command"])
    assert text.startswith("python -c 'import replay; replay.compare(") and "300" in text
    code = run.info["command"][2].replace("; replay", "; found = replay")
    space: dict[str, Run] = {}
    exec(code, {}, space)  # what we wrote ourselves
    assert space["found"].info == run.info


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({"slots": "17.6%"}, "--slots 17.6%"),
        ({"slots": 0.176}, "--slots 17.6%"),
        ({"slots": 300}, "--slots 300"),
        ({"slots": [300]}, "--slots 300"),
        ({"bytes": 100_000_000}, "--bytes 100000000"),
    ],
)
def test_bounds_read_as_numbers_and_as_text(given: dict[str, object], bound: str, root: Path) -> None:
    found = replay.compare(root / SAMPLE, "none+lru", grid=None, clock=False, **given)  # type: ignore[arg-type]
    assert found.info["bound"]["origin"] == bound
    assert found.curves is None and found.info["clock"] is None


def test_refusals(root: Path, tmp_path: Path) -> None:
    trace = replay.open(root / SAMPLE)
    with pytest.raises(replay.InputError, match="--scope nowhere: no such scope"):
        replay.compare(trace, scope="nowhere")
    with pytest.raises(replay.InputError, match="clock: unknown key 'workrs'; did you mean workers"):
        replay.compare(trace, clock={"workrs": 1})
    with pytest.raises(replay.InputError, match="clock_grid: needs a clock"):
        replay.compare(trace, clock=False, clock_grid="auto")
    with pytest.raises(replay.InputError, match="--slots 2.5"):
        replay.compare(trace, slots=2.5)
    with pytest.raises(replay.InputError, match=r"run\.json"):
        replay.load(tmp_path)


def test_clocks(root: Path) -> None:
    trace = replay.open(root / SAMPLE)

    def clock(given: object) -> object:
        found = replay.compare(trace, "none+lru", grid=None, clock=given)  # type: ignore[arg-type]
        return found.info["clock"]

    assert clock(None) == clock(True) == clock({})
    assert clock(ClockParams(workers=4)) == ClockParams(workers=4).as_dict()


def test_save_writes_the_whole_folder_and_load_reads_it(run: Run, tmp_path: Path) -> None:
    folder = run.save(tmp_path / "run")
    names = {path.name for path in folder.iterdir()}
    assert {"layers.parquet", "run.json", "report.html", "report.md", "bytes_by_fate.svg"} <= names
    back = replay.load(folder)
    assert type(back) is Run and back.layers.equals(run.layers) and back.summary == run.summary
    assert back.info == as_written(run)
    with pytest.raises(replay.InputError, match="exists already"):
        back.save(folder)
    back.save(folder, force=True)


class Texts(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_a_notebook_shows(run: Run, root: Path) -> None:
    trace = replay.open(root / SAMPLE)
    assert repr(trace).startswith("Trace(e64-spec: ") and len(repr(trace)) < 200
    assert repr(run).startswith("Run(e64-spec: 2 policies, 300 slots")
    alone = replace(run, summary=run.summary[:1], info={**run.info, "warnings": ["a", "b"]})
    assert repr(alone) == "Run(e64-spec: 1 policy, 300 slots, 2 warnings)"
    shown = Texts(run._repr_html_())
    assert {"none+lru", "unpert1+lru", "misses_per_token"} <= set(shown.texts)
    assert "selections" in Texts(trace._repr_html_()).texts


def test_what_a_notebook_shows_is_escaped() -> None:
    odd = made_run(policies=["<script>alert(1)</script>"])
    odd.info["trace"]["name"] = "<b>x</b>"
    shown = Texts(odd._repr_html_())
    assert not shown.tags & {"script", "b"}
    assert "<script>alert(1)</script>" in shown.texts


def test_charts_of_a_run_return_axes(run: Run) -> None:
    from matplotlib.axes import Axes

    for plot in (
        replay.plot_hit_curves, replay.plot_miss_curve, replay.plot_bytes_by_fate, replay.plot_layer_heatmap,
        replay.plot_frontier,
    ):  # fmt: skip
        assert isinstance(plot(run), Axes)
        mine = axes()
        assert plot(run, ax=mine) is mine
    assert len(replay.plot_trace_line(run)) == 3
    assert replay.plot_trace_line(run, ax=axes())[0].lines
    assert len(replay.plot_drafts(run)) == 2
    assert replay.plot_miss_curve(run, log=True).get_xscale() == "log"


def axes() -> "object":
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def titles(panels) -> list[str]:  # type: ignore[no-untyped-def]
    return [panel.get_title(loc="left") for panel in panels]


def test_layer_hit_curves(run: Run) -> None:
    layers = run.layers["layer"].n_unique()
    panels = replay.plot_layer_hit_curves(run)
    assert titles(panels)[:2] == ["all layers", "layer 0"] and len(panels) == layers + 1
    some = replay.plot_layer_hit_curves(run, layers=[2, 4])
    assert titles(some) == ["all layers", "layer 2", "layer 4"]
    within = replay.plot_layer_hit_curves(run, ax=axes())
    assert len(within) == layers + 1 and len({panel.figure for panel in within}) == 1
    line = replay.plot_hit_curves(run).lines[0]
    assert np.array_equal(line.get_xydata(), panels[0].lines[0].get_xydata())


def test_charts_of_frames(run: Run) -> None:
    assert run.curves is not None
    assert len(replay.plot_layer_hit_curves(run.curves)) == len(replay.plot_layer_hit_curves(run))
    assert replay.plot_miss_curve(run.curves).get_ylabel() == "misses"
    assert replay.plot_hit_curves(run.curves).lines
    assert replay.plot_layer_heatmap(run.layers.filter(pl.col("phase") == "decode"), value="misses")
    assert replay.plot_frontier(pl.DataFrame(run.summary))
    assert len(replay.plot_trace_line(run.windows.filter(pl.col("phase") == "decode"))) == 3


def test_charts_say_what_a_run_lacks(root: Path) -> None:
    bare = replay.compare(root / "traces/e256-moce", "none+lru", grid=None, clock=False)
    with pytest.raises(replay.InputError, match="no curves"):
        replay.plot_hit_curves(bare)
    with pytest.raises(replay.InputError, match="no drafts"):
        replay.plot_drafts(bare)


def test_the_worked_example(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py", str(tmp_path / "out")])
    runpy.run_path(str(root / "reports/example.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "waits least: unpert" in printed and "lru misses 1." in printed
    assert (tmp_path / "out/miss_curve_slow_disk.svg").is_file()
