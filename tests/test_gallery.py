"""The gallery: what is committed says what a fresh replay of the samples says, integer by integer."""

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from conftest import ROOT, Outcome

from replay.errors import InputError
from replay.report.gallery import LAYERS, sample_run, samples, write_sample
from replay.run import Run

Cli = Callable[..., Outcome]
TRACES = sorted(each.parent for each in (ROOT / "traces").glob("*/trace.json"))
FIX = "regenerate it with: replay gallery"


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> tuple[Path, Run]:
    """A sample's folder in the gallery, and a fresh run of it."""
    return ROOT / "reports" / request.param.name, sample_run(request.param)


def test_every_sample_has_a_report() -> None:
    readme = (ROOT / "reports/README.md").read_text()
    for trace in samples(ROOT / "traces"):
        folder = ROOT / "reports" / trace.name
        assert {"report.md", "report.html", "summary.csv", LAYERS} <= {
            each.name for each in folder.iterdir()
        }, FIX
        assert f"{trace.name}/report.md" in readme


def test_the_gallery_is_small() -> None:
    for trace in samples(ROOT / "traces"):
        folder = ROOT / "reports" / trace.name
        assert sum(each.stat().st_size for each in folder.iterdir()) < 1_500_000


def test_layers_hold_the_integers_of_a_fresh_run(sample: tuple[Path, Run]) -> None:
    folder, run = sample
    kept = pl.read_csv(folder / LAYERS)
    whole = [name for name, type_ in run.layers.schema.items() if type_ in (pl.Int64, pl.String)]
    assert kept.columns == run.layers.columns, FIX
    assert kept.select(whole).equals(run.layers.select(whole)), FIX


def test_the_summary_holds_the_integers_of_a_fresh_run(sample: tuple[Path, Run]) -> None:
    folder, run = sample
    with open(folder / "summary.csv", newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    for old, new in zip(kept, run.summary, strict=True):
        assert old["policy"] == new["policy"], FIX
        whole = {name: str(value) for name, value in new.items() if isinstance(value, int)}
        assert {name: old[name] for name in whole} == whole, FIX


def test_a_committed_report_shows_the_committed_figures(sample: tuple[Path, Run]) -> None:
    folder, run = sample
    text = (folder / "report.md").read_text()
    for row in run.summary:
        assert f"{row['misses_per_token']:.2f}" in text, FIX


def test_a_sample_is_written_whole(tmp_path: Path) -> None:
    if not TRACES:
        pytest.skip("no sample trace here")
    folder = write_sample(TRACES[0], tmp_path)
    assert {"report.md", "report.html", "summary.csv", LAYERS, "hit_curves.svg"} <= {
        p.name for p in folder.iterdir()
    }
    assert not list(folder.glob("*.parquet"))
    assert write_sample(TRACES[0], tmp_path) == folder  # and again over it


def test_no_sample_is_an_error(tmp_path: Path, cli: Cli) -> None:
    with pytest.raises(InputError, match="no trace there"):
        samples(tmp_path)
    code, _, err = cli("gallery", "--traces", tmp_path, "--out", tmp_path)
    assert code == 2 and "give --traces DIR" in err


def test_the_command_is_in_no_list(cli: Cli) -> None:
    assert "gallery" not in cli("--help").out
