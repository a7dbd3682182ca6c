"""Counters at their edge, and sums of bytes beyond 2^53, which every output has to hold to the unit."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from raw_trace import EXPERTS, LAYERS, Raw, healthy

from replay.difference import difference
from replay.run import load

Cli = Callable[..., Outcome]
SIZE = 2**54 + 1  # odd, and no double: every product by an odd number is rounded where a float holds it
EXACT = 2**53


def sized(size: int) -> Raw:
    """The healthy trace, every expert of one size."""
    raw = healthy()
    raw.meta["expert_bytes"] = size
    del raw.tables["experts"], raw.types["experts"]
    for row in raw.tables["reads"]:
        row["bytes"] = size
    return raw


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the trace of huge experts."""
    from replay.cli import main

    folder = tmp_path_factory.mktemp("huge")
    trace = sized(SIZE).write(folder / "trace")
    policies = ("-p", "none", "-p", "unpert1:k=2", "-p", "none+belady")
    code = main(
        ["compare", str(trace), *policies, "--slots", "7", "--no-clock", "--out", str(folder / "run"), "-q"]
    )
    assert code == 0
    return folder


def exact(row: dict[str, Any]) -> None:
    """Bytes are reads times the size, to the unit."""
    assert int(row["demand_bytes"]) == int(row["misses"]) * SIZE
    assert int(row["issued_bytes"]) == int(row["issued"]) * SIZE


def test_tables_and_summary_are_exact(made: Path) -> None:
    run = load(made / "run")
    for frame in (run.layers, run.windows):
        for row in frame.filter(pl.col("policy") != "recorded").iter_rows(named=True):
            exact(row)
    rows = [row for row in run.summary if row["policy"] != "recorded"]
    assert len(rows) == 3 and all(row["demand_bytes"] > EXACT for row in rows)
    assert any(
        int(float(row["demand_bytes"])) != row["demand_bytes"] for row in run.layers.iter_rows(named=True)
    )
    for row in rows:
        exact(row)
    with open(made / "run" / "summary.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["policy"] != "recorded":
                exact(row)


def test_compare_as_json_is_exact(made: Path, cli: Cli) -> None:
    done = cli(
        "compare", made / "trace", "-p", "none", "--slots", "7", "--no-clock", "--no-curves", "--json", "-q"
    )
    assert done.code == 0, done.err
    for row in json.loads(done.out)["summary"]:
        if row["policy"] != "recorded":
            exact(row)


SQL = "SELECT policy, sum(misses) AS misses, sum(demand_bytes) AS demand_bytes FROM layers GROUP BY policy"


def wanted(made: Path) -> dict[str, int]:
    """Bytes by policy, by Python's own integers."""
    found: dict[str, int] = {}
    for row in load(made / "run").layers.iter_rows(named=True):
        if row["demand_bytes"] is not None:
            found[row["policy"]] = found.get(row["policy"], 0) + row["demand_bytes"]
    assert max(found.values()) > EXACT
    return found


def test_query_is_exact_in_every_form(made: Path, cli: Cli, tmp_path: Path) -> None:
    mine = wanted(made)
    as_json = json.loads(cli("query", made / "run", SQL, "--json").out)
    as_csv = list(csv.DictReader(io.StringIO(cli("query", made / "run", SQL, "--csv").out)))
    assert cli("query", made / "run", SQL, "--parquet", tmp_path / "q.parquet").code == 0
    as_parquet = pq.read_table(tmp_path / "q.parquet").to_pylist()
    table = cli("query", made / "run", SQL).out
    for rows in (as_json, as_csv, as_parquet):
        assert {row["policy"]: int(row["demand_bytes"]) for row in rows if row["policy"] in mine} == mine
    assert all(f"{value:,}" in table or str(value) in table for value in mine.values())


def test_a_sum_beyond_64_bits_is_exact_or_refused(made: Path, cli: Cli, tmp_path: Path) -> None:
    sql = "SELECT sum(demand_bytes) * 1000 AS n FROM layers WHERE policy = 'none'"
    exact_sum = wanted(made)["none"] * 1000
    assert exact_sum > 2**63
    assert json.loads(cli("query", made / "run", sql, "--json").out) == [{"n": exact_sum}]
    assert cli("query", made / "run", sql, "--csv").out.split() == ["n", str(exact_sum)]
    refused = cli("query", made / "run", sql, "--parquet", tmp_path / "q.parquet")
    assert refused.code == 2 and "CAST" in refused.err and not (tmp_path / "q.parquet").exists()


def test_diff_sees_one_byte(made: Path) -> None:
    """Two sums beyond 2^53 that one double stands for are told apart, and shown whole."""
    before, after = load(made / "run"), load(made / "run")
    one = (pl.col("policy") == "none") & (pl.col("layer") == 1)
    bytes = pl.col("demand_bytes")
    after.layers = after.layers.with_columns(
        pl.when(one).then(bytes + 1).otherwise(bytes).alias("demand_bytes")
    )
    after.summary[0]["demand_bytes"] += 1
    found = difference(before, after)
    assert found.beyond >= 2
    for figure in found.as_dict()["figures"]:
        assert (figure["figure"], figure["b"] - figure["a"]) == ("demand_bytes", 1)
        assert type(figure["a"]) is int
    assert difference(before, load(made / "run")).beyond == 0


def test_reports_write_no_rounded_sum(made: Path) -> None:
    """A page shows units, or the very integer; never a double's neighbour of it."""
    total = wanted(made)["none"]
    near = {str(int(float(total))), f"{int(float(total)):,}"} - {str(total), f"{total:,}"}
    assert near
    for name in ("report.html", "report.md", "run.json"):
        text = (made / "run" / name).read_text()
        assert not [each for each in near if each in text], name


def test_info_and_jsonl_keep_the_size(made: Path, cli: Cli, tmp_path: Path) -> None:
    assert str(SIZE) in json.dumps(json.loads(cli("info", made / "trace", "--json").out))
    assert cli("export", "jsonl", made / "trace", tmp_path / "t.jsonl").code == 0
    assert cli("import", "jsonl", tmp_path / "t.jsonl", tmp_path / "back", "-q").code == 0
    assert json.loads((tmp_path / "back" / "trace.json").read_text())["expert_bytes"] == SIZE


def test_reads_with_a_clock_are_exact(tmp_path: Path, cli: Cli) -> None:
    """The largest read that a clock takes, often enough for a sum beyond 2^53, by fate."""
    size, often = 2**46 - 1, 120
    raw = sized(size)
    for name in set(raw.tables) - {"windows", "selections"}:
        del raw.tables[name], raw.types[name]
    raw.tables["windows"] = [
        {"window": w, "session": 0, "phase": "decode", "rows": 1, "domain": None, "output_hash": None}
        for w in range(often)
    ]
    raw.tables["selections"] = [
        {"window": w, "row": 0, "layer": layer, "experts": [w % EXPERTS, (w + 3) % EXPERTS],
         "weights": None, "outcome": None}
        for w in range(often) for layer in range(LAYERS)
    ]  # fmt: skip
    raw.meta["policy"] = None
    trace = raw.write(tmp_path / "trace")
    (tmp_path / "fast.toml").write_text("stream_gbps = 1e9\ndevice_gbps = 1e9\n")
    arguments = ("--slots", "6", "--clock", tmp_path / "fast.toml", "--no-curves", "--reads", "-q")
    done = cli("compare", trace, "-p", "none", *arguments, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    run = load(tmp_path / "run")
    row = run.summary[0]
    assert row["demand_bytes"] == row["misses"] * size == row["disk_bytes"] > EXACT
    assert run.reads is not None and sum(run.reads["bytes"].to_list()) == row["demand_bytes"]


@pytest.mark.parametrize(("over", "refused"), [(0, False), (1, True)])
def test_the_edge_of_the_counters(over: int, refused: bool, tmp_path: Path, cli: Cli) -> None:
    """The largest size whose sums must fit in 64 bits replays to the unit; one more byte is refused at once."""
    rows = sum(row["rows"] for row in healthy().tables["windows"])
    reads = rows * 2 * LAYERS  # top-2 in each row and layer, nothing read ahead
    size = (2**63 - 1) // reads + over
    trace = sized(size).write(tmp_path / "trace")
    done = cli("compare", trace, "-p", "none", "--slots", "6", "--no-clock", "--no-curves", "--json", "-q")
    if refused:
        assert done.code == 2 and "the most that a counter holds" in done.err and done.out == ""
    else:
        assert done.code == 0, done.err
        mine = json.loads(done.out)["summary"][0]
        assert mine["demand_bytes"] == mine["misses"] * size <= 2**63 - 1
