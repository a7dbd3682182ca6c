"""A small healthy trace as plain data, and a way to write it that keeps every damage."""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LAYERS, EXPERTS, TOP_K = 3, 8, 2
ROWS = [1, 3, 2, 1]
PHASES = ["decode", "prefill", "decode", None]
U16, U32 = pa.uint16(), pa.uint32()
IDS = pa.list_(U16)


@dataclass
class Raw:
    """A trace before it is written: trace.json's content, rows by table, Arrow types by table and column."""

    meta: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    types: dict[str, dict[str, pa.DataType]]
    options: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> "Raw":
        return copy.deepcopy(self)

    def arrow(self, name: str) -> pa.Table:
        return pa.Table.from_pylist(self.tables[name], schema=pa.schema(list(self.types[name].items())))

    def write(self, folder: Path, **tables: pa.Table) -> Path:
        """Write the folder; ``tables`` replaces some by Arrow tables of any shape."""
        folder.mkdir(parents=True, exist_ok=True)
        entries = {}
        for name in self.tables:
            path = folder / f"{name}.parquet"
            pq.write_table(tables.get(name, self.arrow(name)), path, **self.options)
            entries[name] = entry(path)
        document = {**self.meta, "tables": entries | self.meta.get("tables", {})}
        (folder / "trace.json").write_text(json.dumps(document))
        return folder


def entry(path: Path) -> dict[str, Any]:
    """What trace.json says of a table's file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": path.name, "rows": pq.read_metadata(path).num_rows, "sha256": digest}


def healthy() -> Raw:
    """Every table, four windows, small shapes; one window's phase is null."""
    rng = np.random.default_rng(7)
    rows = [(w, r, layer) for w, count in enumerate(ROWS) for r in range(count) for layer in range(LAYERS)]
    events = [(w, layer) for w in range(len(ROWS)) for layer in range(LAYERS)]

    def key(*values: int) -> dict[str, int]:
        names = ("window", "row", "layer") if len(values) == 3 else ("window", "layer")
        return dict(zip(names, values, strict=True))

    def picks() -> list[int]:
        return rng.permutation(EXPERTS)[:TOP_K].tolist()

    def scores() -> list[float]:
        return rng.standard_normal(EXPERTS).astype(np.float16).astype(float).tolist()

    tables: dict[str, list[dict[str, Any]]] = {
        "windows": [
            {
                "window": w,
                "session": w // 2,
                "phase": PHASES[w],
                "rows": count,
                "domain": "text",
                "output_hash": w,
            }
            for w, count in enumerate(ROWS)
        ],
        "selections": [
            {**key(*at), "experts": picks(), "weights": [0.75, 0.25], "outcome": [0, 1]} for at in rows
        ],
        "candidates": [
            {**key(*at), "issued_after": at[2] - 1, "scores": scores()} for at in rows if at[2] and at[0] != 1
        ],
        "router_scores": [{**key(*at), "scores": scores()} for at in rows if at[0] != 1],
        "residents": [{**key(*at), "experts": sorted(picks())} for at in events],
        "experts": [
            {"layer": layer, "expert": e, "bytes": 1000 + e, "size_class": 0}
            for layer in range(LAYERS)
            for e in range(EXPERTS)
        ],
        "counters": [{**key(*at), "hits": 1, "prefetch_hits": 0, "late": 0, "misses": 1} for at in events],
        "reads": [
            {**key(*at), "expert": 3, "kind": "demand", "bytes": 1003, "issued_us": 1.0, "started_us": 2.0}
            | {"done_us": None, "needed_us": 1.0, "fate": None}
            for at in events
        ],
        "timing": [{**key(*at), "pre_us": 200.0, "post_us": 600.0} for at in events],
        "drafts": [{"window": 2, "step": 0, "p": 0.5, "matched": True}],
    }
    f64, half = pa.float64(), pa.list_(pa.float16())
    row_key, event = {"window": U32, "row": U16, "layer": U16}, {"window": U32, "layer": U16}
    types: dict[str, dict[str, pa.DataType]] = {
        "windows": {"window": U32, "session": U32, "phase": pa.string(), "rows": U16, "domain": pa.string()}
        | {"output_hash": pa.uint64()},
        "selections": {**row_key, "experts": IDS, "weights": pa.list_(pa.float32())}
        | {"outcome": pa.list_(pa.uint8())},
        "candidates": {**row_key, "issued_after": pa.int16(), "scores": half},
        "router_scores": {**row_key, "scores": half},
        "residents": {**event, "experts": IDS},
        "experts": {"layer": U16, "expert": U16, "bytes": pa.uint64(), "size_class": pa.uint8()},
        "counters": {**event, "hits": U32, "prefetch_hits": U32, "late": U32, "misses": U32},
        "reads": {**event, "expert": U16, "kind": pa.string(), "bytes": pa.uint64(), "issued_us": f64}
        | {"started_us": f64, "done_us": f64, "needed_us": f64, "fate": pa.string()},
        "timing": {**event, "pre_us": pa.float32(), "post_us": pa.float32()},
        "drafts": {"window": U32, "step": pa.uint8(), "p": f64, "matched": pa.bool_()},
    }
    meta = {
        "format": "moe-decode-trace",
        "version": 1,
        "model": {"name": "tiny", "layers": LAYERS, "experts": EXPERTS, "top_k": TOP_K},
        "router": {"protect": 3, "bonus": 0.85, "r1_bonus": 0.0, "draft_moce": False},
        "policy": {
            "prefetch": {"name": "none"},
            "evict": "lru",
            "slots": [8],
            "scope": "global",
            "split": True,
        },
        "io": None,
        "engine": {"name": "none", "version": "0", "config": {}},
        "source": {"recorder": "a test"},
    }
    return Raw(meta, tables, types)
