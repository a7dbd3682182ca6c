"""What a trace holds, as plain data: shape, windows, sizes, tables, what was recorded of the engine, its look."""

from __future__ import annotations

from typing import Any

import numpy as np

from replay.errors import InputError
from replay.trace.file import TableInfo, brief, open_parquet
from replay.trace.look import Look, look
from replay.trace.reader import Trace


def describe(trace: Trace) -> dict[str, Any]:
    """Describe a trace.

    Parameters
    ----------
    trace : Trace
        An open trace.

    Returns
    -------
    dict
        Plain data, ready for JSON. Shares are from 0 to 1.

    Raises
    ------
    InputError
        Something on the way is refused by the reader.
    """
    seen = look(trace)
    meta = trace.meta
    return {
        "trace": str(trace.path),
        "model": {"name": meta.name, "layers": meta.layers, "experts": meta.experts, "top_k": meta.top_k},
        "windows": _windows(trace),
        "sizes": _sizes(trace),
        "tables": {name: _table(trace, info) for name, info in trace.tables.items()},
        "router": None if meta.router is None else vars(meta.router),
        "policy": meta.policy,
        "io": meta.io,
        "engine": meta.engine,
        "source": meta.source,
        "look": seen.as_dict(),
        "warnings": [*_recorded(trace), *_seen(seen)],
    }


def _windows(trace: Trace) -> dict[str, Any]:
    windows = trace.windows
    prefill = windows.prefill
    domains = sorted({name for name in windows.domain or () if name is not None})
    return {
        "count": len(windows),
        "decode": int((~prefill).sum()),
        "decode_rows": int(windows.rows[~prefill].sum()),
        "prefill": int(prefill.sum()),
        "prefill_rows": int(windows.rows[prefill].sum()),
        "widest_rows": int(windows.rows.max()),
        "phase_not_recorded": int((~windows.recorded).sum()),
        "sessions": len(np.unique(windows.session)),
        "domains": domains,
    }


def _sizes(trace: Trace) -> dict[str, Any]:
    sizes, classes = trace.sizes, trace.classes
    return {
        "experts": sizes.size,
        "known": trace.sized,
        "bytes": sum(int(row.sum()) for row in sizes),
        "smallest_bytes": int(sizes.min()),
        "largest_bytes": int(sizes.max()),
        "classes": {int(each): int((classes == each).sum()) for each in np.unique(classes)},
    }


def _table(trace: Trace, info: TableInfo) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rows": info.rows,
        "bytes": info.bytes,
        "row_groups": info.row_groups,
        "columns": list(info.columns),
        "ignored": list(info.extra),
    }
    if "window" in info.columns:
        found["windows"] = _covered(trace, info)
    if info.name in ("candidates", "router_scores"):
        found["scores"] = "sparse" if "experts" in info.columns else "dense"
    return found


def _covered(trace: Trace, info: TableInfo) -> int:
    """Count the windows that a table covers."""
    there = np.zeros(len(trace.windows), bool)
    try:
        for batch in open_parquet(info.path, info.metadata).iter_batches(columns=["window"]):
            there[batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64)] = True
    except (IndexError, OSError, ValueError) as problem:
        raise InputError(f"{info.path}: table {info.name}: {brief(problem)}; run `replay validate`") from None
    return int(there.sum())


def _recorded(trace: Trace) -> list[str]:
    """Say what is not known of the recording, or makes a fixed-route replay a screen."""
    notes = []
    router = trace.meta.router
    if router is None or router.bonus is None:
        notes.append("the router's bonus is not known: a replay of recorded routes may be only a screen")
    elif router.bonus > 0 or (router.r1_bonus or 0) > 0:
        notes.append(
            f"recorded with a resident bonus ({router.bonus:g}): a replay of recorded routes is a screen, "
            "other evictions would have changed the routes"
        )
    if trace.meta.policy is None:
        notes.append("the engine's policy is not known: there is no recorded run to compare with")
    unknown = int((~trace.windows.recorded).sum())
    if unknown:
        notes.append(f"{unknown} windows without a phase: more than 8 rows are taken for prefill")
    return notes


def _seen(seen: Look) -> list[str]:
    return [f"{warning.share:.2%} {warning.text}" for warning in seen.warnings]
