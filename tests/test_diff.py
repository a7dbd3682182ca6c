"""``replay diff``: what changed between two runs of a trace, and when that is an error."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from conftest import Outcome
from made_run import made_run

from replay.difference import difference
from replay.errors import InputError
from replay.ledger.window_table import WindowTable
from replay.run import Run

Cli = Callable[..., Outcome]


def run_of(**options: object) -> Run:
    run = made_run(**options)  # type: ignore[arg-type]
    run.info["trace"]["sha256"] = {"windows": "1" * 64, "selections": "2" * 64}
    return run


def place(frame: pl.DataFrame, column: str) -> int:
    """The first row where a column has a value."""
    return frame[column].is_not_null().to_list().index(True)


def changed(run: Run, table: str, column: str, by: float) -> Run:
    """The run with the first figure of one column changed."""
    other = copy.deepcopy(run)
    frame: pl.DataFrame = getattr(other, table)
    at = pl.int_range(pl.len()) == place(frame, column)
    values = pl.when(at).then(pl.col(column) + by).otherwise(pl.col(column)).cast(frame.schema[column])
    frame = frame.with_columns(values.alias(column))
    if table == "windows":
        other.by_window = WindowTable(frame)
    else:
        setattr(other, table, frame)
    return other


@pytest.fixture
def run() -> Run:
    return run_of()


def test_a_run_and_itself(run: Run) -> None:
    found = difference(run, copy.deepcopy(run), level="window")
    assert len(found.figures) == 0 and found.compared > 300
    assert (found.versions, found.settings, found.beyond) == ([], [], 0)


@pytest.mark.parametrize(
    ("table", "column", "level"),
    [
        ("layers", "misses", "layer"),
        ("layers", "disk_bytes", "layer"),
        ("curves", "hits", "layer"),
        ("windows", "issued", "window"),
    ],
)
def test_one_whole_number(table: str, column: str, level: str, run: Run) -> None:
    found = difference(run, changed(run, table, column, 1), level=level)  # type: ignore[arg-type]
    assert len(found.figures) == found.beyond == 1
    row = found.as_dict()["figures"][0]
    assert (row["table"], row["figure"], row["b"] - row["a"]) == (table, column, 1)
    assert isinstance(row["a"], int)
    frame = getattr(run, table)
    first = frame.row(place(frame, column), named=True)
    assert row["policy"] == first["policy"] and row["phase"] == first["phase"]
    assert row["layer"] == first.get("layer") and row["window"] == first.get("window")


def test_windows_only_where_asked(run: Run) -> None:
    assert not len(difference(run, changed(run, "windows", "misses", 1)).figures)
    assert not len(difference(run, changed(run, "layers", "misses", 1), level="total").figures)


def test_floats_are_rounded_and_tolerances_relative(run: Run) -> None:
    wait = float(run.layers["wait_us"][0])
    assert not len(difference(run, changed(run, "layers", "wait_us", wait * 1e-12)).figures)
    one = changed(run, "layers", "wait_us", wait * 0.004)
    assert difference(run, one).beyond == 1
    assert difference(run, one, tolerance=0.005).beyond == 0
    assert len(difference(run, one, tolerance=0.005).figures) == 1
    lookups = int(run.layers["lookups"][0])
    more = changed(run, "layers", "lookups", 1)
    assert difference(run, more, tolerance=0.99 / lookups).beyond == 1
    assert difference(run, more, tolerance=1.01 / lookups).beyond == 0
    assert difference(run, changed(run, "layers", "pending", 1), tolerance=0.5).beyond == 1, "from 0 to 1"


def test_ratios_differ_by_their_difference(run: Run) -> None:
    ratio = changed(run, "curves", "hit_ratio", 0.004)
    assert difference(run, ratio, tolerance=0.005).beyond == 0
    assert difference(run, ratio, tolerance=0.003).beyond == 1


def test_policies_of_one_run_only(run: Run) -> None:
    fewer = run_of(policies=("none+lru", "unpert1+lru"))
    found = difference(run, fewer, tolerance=0.5, level="total")
    gone = found.figures.filter(pl.col("policy") == "oracle+lru")
    assert len(gone) > 10 and gone["b"].null_count() == len(gone) and gone["beyond"].all()


def test_a_clock_in_one_run_only() -> None:
    found = difference(run_of(), run_of(timed=False))
    assert "timely" in found.figures.filter(pl.col("b").is_null())["figure"].to_list()


def test_versions_and_settings(run: Run) -> None:
    other = copy.deepcopy(run)
    other.info["versions"] = {**run.info["versions"], "numba": "9.9"}
    other.info["semantics"] = {**run.info["semantics"], "scope": "layer"}
    other.info["grid"] = (1, 2)
    found = difference(run, other)
    assert [name for name, _, _ in found.versions] == ["numba"]
    assert {name: b for name, _, b in found.settings} == {"semantics.scope": "layer", "grid": [1, 2]}
    assert found.beyond == 0


def test_other_traces_are_refused(run: Run) -> None:
    other = run_of()
    other.info["trace"]["sha256"]["selections"] = "3" * 64
    with pytest.raises(InputError, match="different traces: .* differ in the table selections; give"):
        difference(run, other)
    del other.info["trace"]["sha256"]
    with pytest.raises(InputError, match="does not say which trace"):
        difference(run, other)


def test_the_command(run: Run, cli: Cli, tmp_path: Path) -> None:
    a, b = run.save(tmp_path / "a"), changed(run, "layers", "misses", 1).save(tmp_path / "b")
    code, out, err = cli("diff", a, a)
    assert (code, err) == (0, "") and "figures are the same" in out
    code, out, err = cli("diff", a, b)
    assert code == 1 and err.startswith("replay: error: 1 of ") and err.count("\n") == 1
    assert "layers" in out and "misses" in out and "decode, layer 0" in out
    assert cli("diff", a, b, "--tolerance", "100%").code == 0
    assert cli("diff", a, b, "--per", "total").code == 0
    code, out, _ = cli("diff", a, b, "--json")
    assert code == 1 and len(json.loads(out)["figures"]) == 1
    assert "no such level; did you mean layer?" in cli("diff", a, b, "--per", "layr").err
    assert "no percent sign" in cli("diff", a, b, "--tolerance", "0.5").err
    assert "run.json" in cli("diff", a, tmp_path).err


def test_two_runs_of_the_sample(root: Path) -> None:
    """A larger arena: other settings, fewer misses in every layer."""
    import replay

    runs = [
        replay.compare(root / "traces/e64-spec", "none+lru", slots=slots, grid=None, clock=False)
        for slots in (200, 260)
    ]
    found = difference(*runs)
    assert {"bound.slots", "bound.origin"} == {name for name, _, _ in found.settings}
    misses = found.figures.filter((pl.col("table") == "layers") & (pl.col("figure") == "misses"))
    assert len(misses) and (misses["b"] < misses["a"]).all()
    lines = found.by_figure()
    assert lines["differ"].sum() == len(found.figures) and lines["beyond"].sum() == found.beyond
