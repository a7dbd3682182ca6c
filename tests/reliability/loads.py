"""Large and lopsided traces, written fast, and one comparison of five evictions with its time and memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from reliability.section import Section
from replay.trace.writer import TraceWriter

EVICTIONS = ("none+lru", "none+fifo", "none+sieve", "none+lfu", "none+s3fifo")
FULL = 2_000_000  # windows of the large trace: 48 layers, top-10 of 512
GIB = 2**30
_LISTS = 2**20  # lists written at once


@dataclass(frozen=True)
class Shape:
    """A trace of selections alone; ``rows`` in every window, the sessions equally long."""

    windows: int
    layers: int
    experts: int
    top_k: int
    rows: int = 1
    sessions: int = 1
    phase: str = "decode"


def write_trace(path: Path, shape: Shape, seed: int = 0) -> Path:
    """Write a trace: popular experts come often, and the picks of a list are different by construction.

    Parameters
    ----------
    path : Path
        The trace's folder, made here.
    shape : Shape
    seed : int
    """
    rng = np.random.default_rng(seed)
    model = {"name": "load", "layers": shape.layers, "experts": shape.experts, "top_k": shape.top_k}
    each = shape.rows * shape.layers
    step = max(_LISTS // each, 1)
    with TraceWriter(
        path, {"model": model, "expert_bytes": 1_770_000, "source": {"recorder": "tests"}}, check=False
    ) as w:
        for first in range(0, shape.windows, step):
            window = np.arange(first, min(first + step, shape.windows), dtype=np.uint32)
            session = (window.astype(np.int64) * shape.sessions // shape.windows).astype(np.uint32)
            phase = pa.array([shape.phase]).take(pa.array(np.zeros(len(window), np.int8)))
            rows = np.full(len(window), shape.rows, np.uint16)
            w.append(
                "windows", pa.table({"window": window, "session": session, "phase": phase, "rows": rows})
            )
            w.append("selections", _selections(shape, window, rng))
    return path


def _selections(shape: Shape, window: np.ndarray, rng: np.random.Generator) -> pa.Table:
    each, lists = shape.rows * shape.layers, len(window) * shape.rows * shape.layers
    start = (shape.experts * rng.random(lists, np.float32) ** 3).astype(np.int32)
    stride = 2 * rng.integers(0, 4, lists, np.int32) + 1 if shape.experts & (shape.experts - 1) == 0 else 1
    ids = start[:, None] + np.asarray(stride).reshape(-1, 1) * np.arange(shape.top_k, dtype=np.int32)
    ids %= shape.experts
    offsets = np.arange(0, lists * shape.top_k + 1, shape.top_k, dtype=np.int32)
    experts = pa.ListArray.from_arrays(offsets, ids.astype(np.uint16).ravel())
    row = np.repeat(np.arange(shape.rows, dtype=np.uint16), shape.layers)
    layer = np.arange(shape.layers, dtype=np.uint16)
    key = {
        "window": np.repeat(window, each),
        "row": np.tile(row, len(window)),
        "layer": np.tile(layer, len(window) * shape.rows),
    }
    return pa.table({**key, "experts": experts})


@dataclass(frozen=True)
class Held:
    """What one comparison took: seconds, peak bytes of its process, and the lookups of its first policy."""

    seconds: float
    peak: int
    lookups: int


def compare(trace: Path, policies: tuple[str, ...], slots: str = "17.6%") -> Held:
    """Compare policies in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "replay",
        "compare",
        str(trace),
        "--slots",
        slots,
        "--no-clock",
        "--no-curves",
        "-q",
    ]
    command += ["--json", *(part for each in policies for part in ("-p", each))]
    root = str(Path(__file__).resolve().parents[2])
    start = time.monotonic()
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Held(seconds, peak, json.loads(done.stdout)["summary"][0]["lookups"])


def measure(scale: float) -> Section:
    """The large trace at a twentieth of its windows times ``scale`` (20: the whole of it)."""
    windows = int(FULL * min(scale, 20) / 20)
    shape = Shape(windows, 48, 512, 10, sessions=max(windows // 200, 1))
    folder = Path(tempfile.mkdtemp(prefix="replay-load."))
    wrong = []
    try:
        need = 60 * windows * shape.layers
        free = shutil.disk_usage(folder).free
        if free < need:
            raise OSError(f"{need} bytes of disk are needed, {free} are free")
        start = time.monotonic()
        trace = write_trace(folder / "trace", shape)
        made = time.monotonic() - start
        size = sum(each.stat().st_size for each in trace.iterdir())
        held = compare(trace, EVICTIONS)
        if held.peak > 24 * GIB:
            wrong.append(f"{held.peak / GIB:.1f} GiB are more than 24")
    finally:
        shutil.rmtree(folder)
    rows = [
        ("windows", f"{windows:,}"),
        ("layers x experts, top-k", f"{shape.layers} x {shape.experts}, top-{shape.top_k}"),
        ("lookups of each policy", f"{held.lookups:,}"),
        ("policies", ", ".join(EVICTIONS)),
        ("size of the trace", f"{size / 1e9:.2f} GB, written in {made:.0f} s"),
        ("whole command", f"{held.seconds:.0f} s"),
        ("lookups a second, all policies", f"{held.lookups * len(EVICTIONS) / held.seconds / 1e6:.1f} M"),
        ("most memory", f"{held.peak / GIB:.2f} GiB"),
    ]
    about = (
        "Selections alone, five evictions compared by one command (no clock, no curves) in a process of its own; "
        "times include start-up, and depend on what else the machine did."
    )
    return Section("Load held", about, ("what", "figure"), rows, wrong)
