"""A replay's own reads, recorded as a trace's table, are accounted like the replay itself."""

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.trace import open_trace, write_trace

SAME = (
    *("lookups", "hits", "prefetch_hits", "misses", "issued", "retired", "demand_bytes", "issued_bytes"),
    *("claimed_bytes", "retired_bytes", "timely", "late", "cancelled", "partial", "unused"),
    *("timely_bytes", "late_bytes"),
)


@pytest.mark.parametrize("spec", ["none+lru", "unpert1+lru"])
def test_the_recorded_row_equals_the_replay_that_made_it(root, tmp_path, spec):
    source = root / "traces" / "e256-moce"
    run = compare(open_trace(source), [spec], clock=load_clock(), reads=True, grid=())
    tables = {
        name: pq.read_table(source / f"{name}.parquet") for name in ("windows", "selections", "candidates")
    }
    reads = run.reads.drop("policy", "routes").sort("window", "layer", "expert", "kind")
    tables["reads"] = reads.to_arrow()
    meta = json.loads((source / "trace.json").read_text())
    del meta["tables"]
    write_trace(tmp_path / "trace", meta, tables)
    again = compare(open_trace(tmp_path / "trace"), [spec], clock=load_clock(), grid=())
    layers = again.layers.partition_by("policy", as_dict=True)
    replayed, recorded = layers[(spec,)], layers[("recorded",)]
    for name in SAME:
        assert recorded[name].to_list() == replayed[name].to_list(), name
    assert recorded["dropped"].null_count() == len(recorded)
    assert (recorded["wait_us"] - replayed["wait_us"]).abs().max() < 1e-3
    assert again.windows.filter(pl.col("policy") == "recorded")["session"].null_count() == 0


def test_pending_reads_are_accounted(root, tmp_path):
    """Read-ahead neither claimed nor retired when the recording ended: issued = claimed + retired + pending."""
    source = root / "traces" / "e256-moce"
    run = compare(open_trace(source), ["unpert1+lru"], clock=load_clock(), reads=True, grid=())
    reads = run.reads.drop("policy", "routes").sort("window", "layer", "expert", "kind")
    last = pl.col("window") == reads["window"].max()
    gone = last & pl.col("fate").is_in(["unused", "partial", "cancelled"])
    pending = pl.when(gone).then(pl.lit("pending")).otherwise(pl.col("fate"))
    count = reads.select(gone.sum()).item()
    tables = {
        name: pq.read_table(source / f"{name}.parquet") for name in ("windows", "selections", "candidates")
    }
    tables["reads"] = reads.with_columns(fate=pending).to_arrow()
    meta = json.loads((source / "trace.json").read_text())
    del meta["tables"]
    write_trace(tmp_path / "trace", meta, tables)
    again = compare(open_trace(tmp_path / "trace"), ["none+lru"], clock=load_clock(), grid=())
    (row,) = [each for each in again.summary if each["policy"] == "recorded"]
    assert row["pending"] == count > 0
    assert row["issued"] == row["prefetch_hits"] + row["retired"] + count
