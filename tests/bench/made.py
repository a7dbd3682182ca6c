"""Traces that the benches read: an engine of 48 layers of 512 experts, top-10, one row a window.

Picks are drawn as :func:`tests.bench.plain.stream` draws them; candidates are their scores with noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replay.trace import TraceWriter

LAYERS, EXPERTS, TOP_K, SLOTS = 48, 512, 10, 4326
SPARSE = 32
META = {
    "model": {"name": "bench", "layers": LAYERS, "experts": EXPERTS, "top_k": TOP_K},
    "expert_bytes": 1_769_472,
    "policy": {"slots": [SLOTS]},
}
_GROUP = 64  # windows drawn and written at once


def draw(windows: int, seed: int = 0):
    """Yield groups of windows: router scores, float32[n, LAYERS, EXPERTS]; a domain lasts 200 windows.

    Parameters
    ----------
    windows : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    ranks = np.log(np.arange(1, EXPERTS + 1, dtype=np.float32) + 3)
    popular = -1.1 * rng.permuted(np.broadcast_to(ranks, (4, LAYERS, EXPERTS)), axis=2)
    last = np.zeros((LAYERS, TOP_K), np.int64)
    layer = np.arange(LAYERS)[:, None]
    domain = 0
    for first in range(0, windows, _GROUP):
        count = min(_GROUP, windows - first)
        scores = -np.log(rng.standard_exponential((count, LAYERS, EXPERTS), np.float32) + 1e-9)
        for i in range(count):
            if (first + i) % 200 == 0:
                domain = int(rng.integers(len(popular)))
            scores[i] += popular[domain]
            if first + i:
                scores[i][layer, last] += 2.2
            last = np.argpartition(-scores[i], TOP_K, axis=1)[:, :TOP_K]
        yield first, scores, rng


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Ids of the best scores of every row, best first."""
    best = np.argpartition(-scores, count - 1, axis=-1)[..., :count]
    order = np.argsort(-np.take_along_axis(scores, best, -1), axis=-1)
    return np.take_along_axis(best, order, -1)


def _lists(values: NDArray[np.generic]) -> pa.Array:
    flat = values.reshape(-1, values.shape[-1])
    offsets = np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(flat).ravel()))


def write(folder: Path, windows: int, candidates: str = "dense") -> Path:
    """Write a trace of one-row decode windows.

    Parameters
    ----------
    folder : Path
    windows : int
    candidates : str
        ``dense`` (float16, all layers but the first), ``sparse`` (the best 32, float16 with ids) or ``none``.
    """
    with TraceWriter(folder, META, check=False) as writer:
        number = np.arange(windows, dtype=np.uint32)
        phase = pa.array(["decode"] * windows)
        ones = np.ones(windows, np.uint16)
        writer.append(
            "windows", pa.table({"window": number, "session": number // 1000, "phase": phase, "rows": ones})
        )
        for first, scores, rng in draw(windows):
            count = len(scores)

            def keys(start: int, first: int = first, count: int = count) -> dict[str, NDArray[np.generic]]:
                layers = np.arange(start, LAYERS, dtype=np.uint16)
                return {
                    "window": np.repeat(number[first : first + count], len(layers)),
                    "row": np.zeros(count * len(layers), np.uint16),
                    "layer": np.tile(layers, count),
                }

            picks = _best(scores, TOP_K).astype(np.uint16)
            writer.append("selections", pa.table({**keys(0), "experts": _lists(picks)}))
            if candidates == "none":
                continue
            early = (scores[:, 1:] + rng.standard_normal(scores[:, 1:].shape, np.float32) * 0.7).astype(
                np.float16
            )
            if candidates == "dense":
                writer.append("candidates", pa.table({**keys(1), "scores": _lists(early)}))
                continue
            ids = _best(early.astype(np.float32), SPARSE)
            found = np.take_along_axis(early, ids, -1)
            order = np.argsort(ids, axis=-1)
            columns = {
                "experts": _lists(np.take_along_axis(ids, order, -1).astype(np.uint16)),
                "scores": _lists(np.take_along_axis(found, order, -1)),
            }
            writer.append("candidates", pa.table({**keys(1), **columns}))
    return folder
