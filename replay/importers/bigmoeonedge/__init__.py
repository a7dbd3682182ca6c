"""BigMoeOnEdge ``route_trace v1``: which experts the router asked for, and whether each was there.

The engine's ``docs/telemetry.md`` (github Helldez/BigMoeOnEdge) describes the format: a ``#`` preamble with
shapes and sizes, then one line a routed expert. What is made of it:

- A *pass* is a stretch of lines of one turn and phase in which the layer number never falls: one forward step,
  one window. A prompt is one pass, in which each layer's lines run over all its steps; where the engine cut a
  prompt, each piece is a pass. A decode pass has one step; further steps are drafts. A session is a turn.
- A layer that routed only some rows of a prompt (the last one does) has empty lists for the others.
- ``residency`` goes to ``outcome`` at an expert's first place in an event; repeats inside the event are 255.
- ``expert_bytes`` of the preamble is the size of each expert of a layer, and each distinct size is a class.
  A layer without is dense and must not route.
- A pick that the engine dropped (column ``dropped``) was never read: it is left out.
- The policy is the engine's default, an LRU over all layers within a byte budget, in the order of each expert's
  last use. The lines do not say the budget.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from replay import __version__
from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.bigmoeonedge.lines import PREFILL, Figures
from replay.importers.bigmoeonedge.passes import Passes, Windows
from replay.importers.bigmoeonedge.preamble import Static, read_preamble
from replay.importers.text_rows import TextRows
from replay.trace import TraceWriter

OPTIONS = ("bytes",)

_NEEDED = ("turn", "phase", "step", "layer", "slot", "expert")
_READ: dict[str, type] = dict.fromkeys(_NEEDED, int) | {
    "weight": float,
    "residency": int,
    "expert_bytes": int,
    "dropped": int,
}


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a route trace.

    Parameters
    ----------
    source : Path
        The CSV file.
    destination : Path
        The trace's folder.
    request : Request
        The budget, the licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the file cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    with TextRows(source) as rows:
        static = read_preamble(rows)
        missing = [name for name in _NEEDED if name not in rows.columns]
        if missing:
            raise InputError(f"{source}: expected a column {missing[0]}, found {', '.join(rows.columns)}")
        passes = Passes(static, rows)
        kinds = {name: kind for name, kind in _READ.items() if name in rows.columns}
        with TraceWriter(destination, {}, request.force) as writer:
            read = 0
            for batch in rows.batches(kinds):
                read += len(batch)
                for windows in passes.add(batch):
                    _append(writer, static, windows, passes.figures, rows.columns)
            for windows in passes.finish():
                _append(writer, static, windows, passes.figures, rows.columns)
            if not passes.figures.windows:
                raise InputError(f"{source}: no whole step in it; nothing to import")
            writer.append("experts", _experts(static))
            result = _result(destination, static, passes.figures, rows, read, request)
            writer.meta.update(_meta(source, static, passes.figures, result, request))
    return result


def _append(
    writer: TraceWriter, static: Static, windows: Windows, figures: Figures, columns: tuple[str, ...]
) -> None:
    """Write some windows and their selections."""
    count = len(windows.rows)
    window = np.arange(figures.windows - count, figures.windows)
    phases = pa.array(["prefill" if phase == PREFILL else "decode" for phase in windows.phase.tolist()])
    table = {"window": window, "session": windows.session, "phase": phases, "rows": windows.rows}
    writer.append("windows", pa.table(table))
    starts = np.cumsum(windows.rows) - windows.rows
    row = np.arange(windows.rows.sum()) - np.repeat(starts, windows.rows)
    offsets = pa.array(windows.offsets, pa.int32())
    lists = {"experts": pa.ListArray.from_arrays(offsets, pa.array(windows.experts, pa.uint16()))}
    if "weight" in columns:
        lists["weights"] = _weights(windows, offsets)
    if "residency" in columns:
        lists["outcome"] = pa.ListArray.from_arrays(offsets, pa.array(windows.outcome, pa.uint8()))
    key = {
        "window": np.repeat(window, windows.rows * static.layers),
        "row": np.repeat(row, static.layers),
        "layer": np.tile(np.arange(static.layers), len(row)),
    }
    writer.append("selections", pa.table(key | lists))


def _weights(windows: Windows, offsets: pa.Array) -> pa.Array:
    """Weights of each row; null where one of the row's is not a number."""
    lengths = np.diff(windows.offsets)
    row = np.repeat(np.arange(len(lengths)), lengths)
    unknown = np.bincount(row[~np.isfinite(windows.weights)], minlength=len(lengths)) > 0
    values = pa.array(windows.weights.astype(np.float32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(unknown))


def _experts(static: Static) -> pa.Table:
    """Sizes, and a class for each distinct one, ascending."""
    distinct, classes = np.unique(static.sizes, return_inverse=True)
    if len(distinct) > 256:
        raise InputError(f"{len(distinct)} sizes of experts in the preamble; a trace has at most 256 classes")
    columns = {
        "layer": np.repeat(np.arange(static.layers), static.experts),
        "expert": np.tile(np.arange(static.experts), static.layers),
        "bytes": np.repeat(np.array(static.sizes), static.experts),
        "size_class": np.repeat(classes.astype(np.uint8), static.experts),
    }
    return pa.table(columns)


def _result(
    destination: Path, static: Static, figures: Figures, rows: TextRows, read: int, request: Request
) -> Imported:
    removed = {reason: count for reason, count in figures.removed.items() if count}
    if rows.cut:
        removed["cut short by the file's end"] = rows.cut
    return Imported(
        str(destination),
        figures.windows,
        figures.rows,
        figures.lookups,
        read + rows.cut,
        removed,
        tuple(_notes(static, figures, rows, request)),
    )


def _notes(static: Static, figures: Figures, rows: TextRows, request: Request) -> list[str]:
    """Say what a reader of the trace has to know."""
    notes = []
    ignored = [name for name in rows.columns if name not in _READ]
    if ignored:
        notes.append(f"columns ignored: {', '.join(ignored)}")
    if rows.comments:
        notes.append(f"{rows.comments} comment lines between the rows passed over")
    for (phase, layer), count in sorted(figures.empty.items()):
        kind = "prompt" if phase == PREFILL else "decode"
        notes.append(f"layer {static.layer_ids[layer]} routed nothing in {count} {kind} rows: empty lists")
    if figures.short:
        notes.append(f"{figures.short} lists have fewer than {static.top_k} picks")
    if figures.unweighted:
        notes.append(f"{figures.unweighted} lists have no weights: the graph exposed none (nan)")
    cut = sum(count > 1 for count in figures.prompts.values())
    if cut:
        notes.append(f"{cut} prompts came in several passes, each of them a window")
    if figures.first_step:
        notes.append(f"the file begins at position {figures.first_step}: what came before is not in it")
    if "residency" not in rows.columns:
        notes.append("the file has no column residency: nothing to hold a replay to")
    if figures.read_aheads:
        notes.append(
            f"{figures.read_aheads} lookups were served by read-ahead; the file does not say what else it read, "
            "nor by which rule, so the policy is not known"
        )
    if "expert_bytes" in rows.columns and figures.stated_bytes != figures.miss_bytes:
        notes.append(
            f"the lines state {figures.stated_bytes} bytes read, the recorded misses come to {figures.miss_bytes}"
        )
    if request.bytes is None:
        notes.append("the engine's byte budget is not known: give it with --bytes, as in --bytes 4000MiB")
    return notes


def _meta(
    source: Path, static: Static, figures: Figures, result: Imported, request: Request
) -> dict[str, Any]:
    """Make trace.json, but for the tables."""
    model: dict[str, Any] = {
        "name": static.model,
        "layers": static.layers,
        "experts": static.experts,
        "top_k": static.top_k,
    }
    if static.layer_ids != tuple(range(static.layers)):
        model["layer_ids"] = list(static.layer_ids)
    policy: dict[str, Any] = {"scope": "global", "order": "rows", "cell": "atomic", "start": "cold"}
    if not figures.read_aheads:
        policy = {"prefetch": {"name": "none"}, "evict": "lru"} | policy
    if request.bytes is not None:
        policy["bytes"] = request.bytes
    with source.open("rb") as handle:
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
    return {
        "model": model,
        "router": None,
        "policy": policy,
        "io": None,
        "engine": {"name": "BigMoeOnEdge", "version": "unknown", "config": {"arch": static.arch}},
        "source": {
            "importer": "replay import bigmoeonedge",
            "version": __version__,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "file": source.name,
            "sha256": sha256,
            "licence": request.licence or "not given",
            "notes": "; ".join([*([request.note] if request.note else []), *result.notes]),
            "lines_read": result.read,
            "lines_removed": result.removed,
            "recorded": {
                "lookups": figures.lookups,
                "misses": figures.misses,
                "read_ahead_hits": figures.read_aheads,
                "read_bytes": figures.stated_bytes,
            },
        },
    }
