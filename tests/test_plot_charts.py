"""Charts draw what the table says: labels, units, lines and values are read from the Axes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from made_run import SIZE, made_run, made_survey
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from replay.errors import InputError
from replay.plot import drawn, figure_of, frames, save
from replay.plot.bytes_by_fate import plot_bytes_by_fate
from replay.plot.drafts import plot_drafts
from replay.plot.frontier import plot_frontier
from replay.plot.hit_curves import plot_hit_curves
from replay.plot.layer_heatmap import plot_layer_heatmap
from replay.plot.miss_curve import plot_miss_curve
from replay.plot.style import looks_for
from replay.plot.trace_line import plot_trace_line
from replay.report.draft import draft_frame, draft_looks
from replay.report.prepared import Prepared, prepare
from replay.report.subject import Subject

RUN = made_run()
READY: Prepared = prepare(Subject(RUN))
LINES = ("none+lru", "unpert1+lru", "oracle+lru")


def lines_of(panel: Axes) -> dict[str, Any]:
    """Lines of policies by name; marks have names that begin with an underscore."""
    return {
        str(line.get_label()): line for line in panel.get_lines() if not str(line.get_label()).startswith("_")
    }


def curve(table: pl.DataFrame, policy: str, layer: int | None, column: str) -> list[float | None]:
    rows = table.filter(
        (pl.col("policy") == policy)
        & (pl.col("phase") == "decode")
        & pl.col("layer").eq_missing(pl.lit(layer))
    )
    return rows[column].to_list()


def test_hit_curves_have_a_panel_a_layer_and_a_line_a_policy() -> None:
    curves = RUN.curves
    assert curves is not None
    axes = plot_hit_curves(curves)
    assert [panel.get_title(loc="left") for panel in axes] == ["all layers", "layer 0", "layer 1", "layer 2"]
    assert axes[0].get_ylabel() == "hit ratio" and axes[-1].get_xlabel() == "arena (slots)"
    assert axes[0].get_ylim()[0] == 0
    for panel, layer in zip(axes, (None, 0, 1, 2), strict=True):
        assert tuple(lines_of(panel)) == LINES
        for name, line in lines_of(panel).items():
            expected = [np.nan if v is None else v for v in curve(curves, name, layer, "hit_ratio")]
            np.testing.assert_array_equal(line.get_ydata(), expected)
            np.testing.assert_array_equal(line.get_xdata(), [10, 20, 40, 80])


def test_a_policy_looks_the_same_in_every_panel_and_chart() -> None:
    assert RUN.curves is not None and READY.curves is not None
    panels = [*plot_hit_curves(RUN.curves), plot_miss_curve(READY.curves), *plot_trace_line(READY.lines)]
    for name in LINES:
        shown = {
            (to_hex(line.get_color()), str(line.get_linestyle()), line.get_marker())
            for panel in panels
            for line in [lines_of(panel)[name]]
        }
        assert len(shown) == 1
    assert lines_of(panels[0])["oracle+lru"].get_linestyle() == "--"


def test_forty_eight_layers_fit() -> None:
    run = made_run(layers=48)
    assert run.curves is not None
    axes = plot_hit_curves(run.curves)
    assert len(axes) == 49
    width, height = figure_of(axes).get_size_inches()
    boxes = [panel.get_position() for panel in axes]
    assert min(box.width * width for box in boxes) > 0.9 and min(box.height * height for box in boxes) > 0.9


def test_hit_curves_of_a_byte_budget_count_bytes() -> None:
    run = made_run(by_bytes=True)
    assert run.curves is not None
    axes = plot_hit_curves(run.curves, at=40.0 * SIZE)
    assert axes[-1].get_xlabel() == "arena (MB)"
    assert lines_of(axes[0])["none+lru"].get_xdata().tolist() == [10, 20, 40, 80]
    marks = [line for line in axes[0].get_lines() if str(line.get_label()).startswith("_")]
    assert [line.get_xdata()[0] for line in marks] == [40]


def test_miss_curve_shows_misses_per_token_and_its_marks() -> None:
    assert READY.curves is not None
    axes = plot_miss_curve(READY.curves, at=40.0, half=2.5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("arena (slots)", "misses per token")
    misses = curve(RUN.curves, "none+lru", None, "misses")  # type: ignore[arg-type]
    expected = [np.nan if v is None else v / 7 for v in misses]
    np.testing.assert_allclose(lines_of(axes)["none+lru"].get_ydata(), expected)
    assert axes.get_ylim()[0] == 0
    assert {each.get_text() for each in axes.texts} == {"this run's arena", "half of the\nbaseline's"}


def test_miss_curve_without_tokens_and_on_logarithmic_axes() -> None:
    assert RUN.curves is not None
    axes = plot_miss_curve(RUN.curves, log=True)
    assert (axes.get_ylabel(), axes.get_xscale(), axes.get_yscale()) == ("misses", "log", "log")


def test_bytes_by_fate_stacks_every_byte_once() -> None:
    axes = plot_bytes_by_fate(READY.fates)
    assert axes.get_xlabel() == "MB per token"
    assert [each.get_text() for each in axes.get_yticklabels()] == list(LINES)
    for row, name in enumerate(LINES):
        bars = [each[row] for each in axes.containers]
        ends = [bar.get_x() + bar.get_width() for bar in bars]
        np.testing.assert_allclose([bar.get_x() for bar in bars][1:], ends[:-1])
        decode = RUN.layers.filter((pl.col("policy") == name) & (pl.col("phase") == "decode"))
        whole = decode["demand_bytes"].sum() + decode["issued_bytes"].sum()
        assert ends[-1] == pytest.approx(whole / 7 / 1e6)


def test_bytes_by_fate_shows_what_was_never_read_apart() -> None:
    axes = plot_bytes_by_fate(READY.fates)
    cancelled = axes.containers[-1]
    assert cancelled.get_label() == "cancelled, never read" and cancelled[0].get_hatch() == "////"
    partial = next(each for each in axes.containers if each.get_label() == "read in part")
    expected = READY.fates["partial_read_bytes"].to_numpy() / 1e6
    np.testing.assert_allclose([bar.get_width() for bar in partial], expected)


def test_bytes_without_a_clock() -> None:
    ready = prepare(Subject(made_run(timed=False)))
    axes = plot_bytes_by_fate(ready.fates)
    labels = [each.get_label() for each in axes.containers]
    assert labels == ["demand", "read ahead and used", "read ahead, never used"]


def test_heat_map_has_a_cell_a_policy_and_layer() -> None:
    axes = plot_layer_heatmap(READY.layers)
    mesh = axes.collections[0]
    values = READY.layers["misses_per_token"].to_numpy().reshape(3, 3)
    np.testing.assert_allclose(np.asarray(mesh.get_array()), values)
    assert axes.get_xlabel() == "layer"
    assert [each.get_text() for each in axes.get_yticklabels()] == list(LINES)
    assert len([each for each in axes.texts if each.get_text()]) == 9


def test_heat_map_of_many_layers_writes_no_figures() -> None:
    axes = plot_layer_heatmap(prepare(Subject(made_run(layers=48))).layers)
    assert not axes.texts and len(axes.get_xticks()) <= 24


def test_trace_line_has_a_panel_a_measure() -> None:
    axes = plot_trace_line(READY.lines, marks=READY.marks)
    labels = [panel.get_ylabel() for panel in axes]
    assert labels == ["misses\nper window", "MB read\nper window", "ms waited\nper window"]
    assert axes[-1].get_xlabel() == "window"
    line = lines_of(axes[0])["none+lru"]
    expected = RUN.windows.filter((pl.col("policy") == "none+lru") & (pl.col("phase") == "decode"))
    np.testing.assert_array_equal(line.get_xdata(), expected["window"].to_numpy())
    np.testing.assert_allclose(line.get_ydata(), expected["misses"].to_numpy())


def test_trace_line_marks_sessions_and_names_domains() -> None:
    axes = plot_trace_line(READY.lines, marks=READY.marks)
    starts = [line.get_xdata()[0] for line in axes[0].get_lines() if str(line.get_label()).startswith("_")]
    assert starts == [4]
    named = {each.get_text() for each in axes[0].texts}
    legend = axes[0].get_legend()
    named |= {each.get_text() for each in legend.get_texts()} if legend else set()
    assert {"text", "code"} <= named


def test_trace_line_without_a_clock_has_no_waits() -> None:
    ready = prepare(Subject(made_run(timed=False, domains=(None,))))
    assert [
        panel.get_ylabel().split("\n")[0] for panel in plot_trace_line(ready.lines, marks=ready.marks)
    ] == [
        "misses",
        "MB read",
    ]


def test_drafts_show_acceptance_and_worth() -> None:
    survey = made_survey()
    left, right = plot_drafts(draft_frame(survey), looks=draft_looks(survey))
    assert (left.get_xlabel(), left.get_ylabel()) == ("draft step", "accepted of those kept")
    assert lines_of(left)["recorded"].get_ydata().tolist() == pytest.approx([5 / 30, 4 / 30, 3 / 30])
    assert lines_of(left)["best:hindsight"].get_linestyle() == "--"
    assert right.get_xlabel() == "tokens over cost"
    assert [line.get_xdata()[0] for line in right.get_lines()] == [1.2, 1.4, 1.6]


def test_frontier_has_a_marker_a_policy() -> None:
    axes = plot_frontier(pl.DataFrame(RUN.summary))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("MB read per token", "misses per token")
    for row in RUN.summary:
        line = lines_of(axes)[row["policy"]]
        assert line.get_xdata()[0] == pytest.approx(row["read_bytes_per_token"] / 1e6)
        assert line.get_ydata()[0] == pytest.approx(row["misses_per_token"])


DRAWN: dict[str, Callable[..., Any]] = {
    "miss_curve": lambda **more: plot_miss_curve(READY.curves, **more),  # type: ignore[arg-type]
    "bytes_by_fate": lambda **more: plot_bytes_by_fate(READY.fates, **more),
    "layer_heatmap": lambda **more: plot_layer_heatmap(READY.layers, **more),
    "frontier": lambda **more: plot_frontier(pl.DataFrame(RUN.summary), **more),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_given_axes_is_drawn_into(name: str) -> None:
    given = Figure().subplots()
    assert DRAWN[name](ax=given) is given
    assert given.has_data()


def test_given_axes_of_small_multiples_are_drawn_into() -> None:
    assert RUN.curves is not None
    one = Figure().subplots()
    assert list(plot_hit_curves(RUN.curves, ax=one)) == [one]
    assert one.get_title(loc="left") == "all layers"
    three = Figure().subplots(3)
    assert list(plot_trace_line(READY.lines, ax=three)) == list(three)
    two = Figure().subplots(1, 2)
    assert list(plot_drafts(draft_frame(made_survey()), ax=two)) == list(two)


def test_several_routes_are_lines_of_their_own() -> None:
    run = made_run(("none+lru",), routes=("recorded", "rerouted"))
    assert run.curves is not None
    assert list(lines_of(plot_hit_curves(run.curves)[0])) == ["none+lru (recorded)", "none+lru (rerouted)"]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_chart_saves_to_the_same_bytes(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        save(plot_bytes_by_fate(READY.fates), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        save(plot_frontier(pl.DataFrame(RUN.summary)), tmp_path / "a.pdf")


def test_a_file_says_nothing_of_when_it_was_made() -> None:
    text = drawn(plot_frontier(pl.DataFrame(RUN.summary))).decode()
    assert "dc:date" not in text and "matplotlib.org" not in text


@pytest.mark.parametrize(
    "name", ["$x$", "<script>alert(1)</script>", "a\x1b[0m\x00b", "漢字" * 40, "_hidden"]
)
def test_any_name_can_be_drawn(name: str) -> None:
    from xml.etree import ElementTree

    run = made_run((name, "none+lru"), domains=(name,))
    ready = prepare(Subject(run))
    assert ready.curves is not None
    for axes in (
        plot_hit_curves(ready.curves),
        plot_bytes_by_fate(ready.fates),
        plot_layer_heatmap(ready.layers),
        plot_trace_line(ready.lines, marks=ready.marks),
    ):
        root = ElementTree.fromstring(drawn(axes))
        assert not [each for each in root.iter() if each.tag.endswith("script")]


def test_frames_say_where_panels_are() -> None:
    assert RUN.curves is not None
    axes = plot_hit_curves(RUN.curves)
    found = frames(axes)
    assert [each["title"] for each in found] == ["all layers", "layer 0", "layer 1", "layer 2"]
    left, top, right, bottom = found[0]["box"]
    assert 0 < left < right and 0 < top < bottom
    assert found[0]["y"] == pytest.approx([0, 1.04])


def test_one_policy_and_one_layer() -> None:
    run = made_run(("none+lru",), layers=1, windows=1, prefill=0)
    ready = prepare(Subject(run))
    assert ready.curves is not None
    for axes in (
        plot_hit_curves(ready.curves),
        plot_bytes_by_fate(ready.fates),
        plot_layer_heatmap(ready.layers),
        plot_trace_line(ready.lines, marks=ready.marks),
    ):
        assert drawn(axes)


def test_looks_can_be_given() -> None:
    looks = looks_for(["another", *LINES])
    axes = plot_frontier(pl.DataFrame(RUN.summary), looks=looks)
    assert lines_of(axes)["none+lru"].get_marker() == looks["none+lru"].marker


def test_nothing_touches_pyplot() -> None:
    script = (
        "import sys; from made_run import made_run; from replay.report import rendered; rendered(made_run()); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    here = Path(__file__).parent
    path = f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parent)!r}]; "
    done = subprocess.run([sys.executable, "-c", path + script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
