"""What reading a trace costs: memory that does not grow with the trace, time beside pyarrow's own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_trace import entry

from replay.trace import TraceWriter

LAYERS, EXPERTS, TOP_K = 48, 512, 10
META = {
    "model": {"name": "large", "layers": LAYERS, "experts": EXPERTS, "top_k": TOP_K},
    "expert_bytes": 1_700_000,
}

READ = """
import json, sys, time
import pyarrow as pa, pyarrow.parquet as pq
from replay.trace import open_trace

def peak_kb():
    # of this process alone: what getrusage says may be its parent's
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])

trace = open_trace(sys.argv[1])
tables = sys.argv[2:]
before = peak_kb()
seconds = {"ours": [], "pyarrow": []}
for _ in range(3):
    start = time.process_time()
    for chunk in trace.chunks(tables):
        pass
    seconds["ours"].append(time.process_time() - start)
    start = time.process_time()
    for name in tables:
        file = pq.ParquetFile(pa.OSFile(str(trace.tables[name].path)), pre_buffer=False, buffer_size=2**20)
        for batch in file.iter_batches(4096):
            pass
    seconds["pyarrow"].append(time.process_time() - start)
grown = peak_kb() - before
print(json.dumps({"grown_mb": grown / 1024, **{name: min(each) for name, each in seconds.items()}}))
"""


def dense(folder: Path, windows: int) -> Path:
    """Write a dense float16 trace of one-row windows, candidates for all layers but the first."""
    rng = np.random.default_rng(0)
    with TraceWriter(folder, META, check=False) as writer:
        number = np.arange(windows, dtype=np.uint32)
        ones = np.ones(windows, np.uint16)
        phase = pa.array(["decode"] * windows)
        writer.append(
            "windows", pa.table({"window": number, "session": number // 256, "phase": phase, "rows": ones})
        )
        for first in range(0, windows, 64):
            count = min(64, windows - first)
            scores = rng.standard_normal((count, LAYERS, EXPERTS), np.float32).astype(np.float16)
            picks = np.argpartition(-scores.astype(np.float32), TOP_K, axis=-1)[..., :TOP_K]
            for name, column, values, start in (
                ("selections", "experts", picks.astype(np.uint16), 0),
                ("candidates", "scores", scores, 1),
            ):
                kept = values[:, start:]
                lists = kept.shape[0] * kept.shape[1]
                offsets = np.arange(lists + 1, dtype=np.int32) * kept.shape[2]
                key = {
                    "window": np.repeat(number[first : first + count], LAYERS - start),
                    "row": np.zeros(lists, np.uint16),
                    "layer": np.tile(np.arange(start, LAYERS, dtype=np.uint16), count),
                }
                values_of = pa.ListArray.from_arrays(offsets, pa.array(kept.ravel()))
                writer.append(name, pa.table({**key, column: values_of}))
    return folder


def measure(folder: Path, *tables: str) -> dict[str, float]:
    script = [sys.executable, "-c", READ, str(folder), *tables]
    return json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)


@pytest.mark.bench
def test_dense_scores_cost_little_more_than_pyarrow(tmp_path: Path) -> None:
    found = measure(dense(tmp_path / "trace", 2000), "selections", "candidates")
    print(found)
    assert found["ours"] < 1.6 * found["pyarrow"]
    assert found["grown_mb"] < 200


@pytest.mark.bench
def test_one_huge_row_group_streams(tmp_path: Path) -> None:
    """98 million scores in one row group, 5 million picks' rows in another: still a few batches at once."""
    folder = dense(tmp_path / "trace", 4000)
    for name in ("candidates", "selections"):
        table = pq.read_table(folder / f"{name}.parquet")
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", row_group_size=10**9)
        assert pq.read_metadata(folder / f"{name}.parquet").num_row_groups == 1
    document = json.loads((folder / "trace.json").read_text())
    document["tables"] = {name: entry(folder / f"{name}.parquet") for name in document["tables"]}
    (folder / "trace.json").write_text(json.dumps(document))
    found = measure(folder, "selections", "candidates")
    print(found)
    assert found["grown_mb"] < 200


@pytest.mark.bench
def test_many_tiny_row_groups_stream(tmp_path: Path) -> None:
    folder = dense(tmp_path / "trace", 300)
    table = pq.read_table(folder / "selections.parquet")
    pq.write_table(table, folder / "selections.parquet", row_group_size=7)
    document = json.loads((folder / "trace.json").read_text())
    document["tables"] = {name: entry(folder / f"{name}.parquet") for name in document["tables"]}
    (folder / "trace.json").write_text(json.dumps(document))
    found = measure(folder, "selections")
    print(found)
    assert found["ours"] < 2 * found["pyarrow"]
