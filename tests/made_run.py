"""A run made by hand: integers that keep every identity, without an engine behind them."""

from typing import Any

import numpy as np
import polars as pl

from replay.ledger.window_table import WindowTable
from replay.run import Run
from replay.schema.result import RESULT

POLICIES = ("none+lru", "unpert1+lru", "oracle+lru")
SIZE = 1_000_000


def cells(rng: np.random.Generator, shape: tuple[int, ...], timed: bool) -> dict[str, Any]:
    """Counters and bytes of some events that agree with each other; null fates without a clock."""

    def draw(most: int) -> np.ndarray:
        return rng.integers(0, most, shape)

    hits, misses, timely, late = draw(9), draw(9) + 1, draw(4), draw(4)
    cancelled, partial, unused = draw(3), draw(3), draw(3)
    read_part = partial * (SIZE // 3)
    claimed, retired = timely + late, cancelled + partial + unused
    zero = np.zeros(shape, np.int64)
    found: dict[str, Any] = {
        "lookups": hits + claimed + misses,
        "hits": hits,
        "prefetch_hits": claimed,
        "misses": misses,
        "issued": claimed + retired,
        "retired": retired,
        "pending": zero,
        "dropped": zero,
        "pollution": zero,
        "demand_bytes": misses * SIZE,
        "issued_bytes": (claimed + retired) * SIZE,
        "claimed_bytes": claimed * SIZE,
        "retired_bytes": retired * SIZE,
        "pending_bytes": zero,
    }
    fates = {
        "timely": timely,
        "late": late,
        "cancelled": cancelled,
        "partial": partial,
        "unused": unused,
        "timely_bytes": timely * SIZE,
        "late_bytes": late * SIZE,
        "late_exposed_bytes": late * (SIZE // 2),
        "cancelled_bytes": cancelled * SIZE + partial * SIZE - read_part,
        "unused_bytes": unused * SIZE + read_part,
        "partial_read_bytes": read_part,
        "partial_unread_bytes": partial * SIZE - read_part,
        "pending_read_bytes": zero,
        "disk_bytes": (misses + claimed + unused) * SIZE + read_part,
        "wait_us": misses * 300.0,
        "limbo_wait_us": unused * 1.0,
    }
    return found | (fates if timed else dict.fromkeys(fates))


def framed(name: str, columns: dict[str, Any]) -> pl.DataFrame:
    """Columns as the result table of that name; one value fills its column, one that is missing is null."""
    types = {"string": pl.String, "int64": pl.Int64, "float64": pl.Float64}
    rows = max(len(each) for each in columns.values() if isinstance(each, list | np.ndarray))

    def filled(value: Any) -> Any:
        return value if isinstance(value, list | np.ndarray) else [value] * rows

    return pl.DataFrame(
        {
            each.name: pl.Series(each.name, filled(columns.get(each.name)), dtype=types[each.type])
            for each in RESULT[name].columns
        }
    )


def made_run(
    policies: tuple[str, ...] = POLICIES,
    *,
    layers: int = 3,
    windows: int = 8,
    prefill: int = 1,
    timed: bool = True,
    curves: bool = True,
    routes: tuple[str, ...] = ("recorded",),
    domains: tuple[str | None, ...] = ("text", "code"),
    model: str = "a model",
    drafts: dict[str, Any] | None = None,
    by_bytes: bool = False,
    seed: int = 0,
) -> Run:
    """A run of some policies; the first ``prefill`` windows are prefill, two sessions, domains in turn."""
    rng = np.random.default_rng(seed)
    phase = np.array(["prefill"] * prefill + ["decode"] * (windows - prefill))
    tables: dict[str, list[pl.DataFrame]] = {"layers": [], "windows": [], "curves": []}
    summary = []
    for kind in routes:
        for policy in policies:
            events = cells(rng, (windows, layers), timed)
            key = {"policy": policy, "routes": kind}
            tables["layers"] += [
                framed(
                    "layers",
                    key
                    | {"phase": name, "layer": np.arange(layers)}
                    | {n: None if v is None else v[phase == name].sum(axis=0) for n, v in events.items()},
                )
                for name in dict.fromkeys(phase[::-1])
            ]
            by_window = {n: None if v is None else v.sum(axis=1) for n, v in events.items()}
            zero = np.zeros(windows, np.int64)
            tables["windows"].append(
                framed(
                    "windows",
                    key
                    | by_window
                    | {
                        "window": np.arange(windows),
                        "session": np.arange(windows) * 2 // windows,
                        "phase": phase.tolist(),
                        "domain": [domains[i * 2 // windows % len(domains)] for i in range(windows)],
                        "rows": zero + 1,
                        "tokens": (phase == "decode").astype(np.int64),
                        "peak_speculative": zero,
                        "peak_limbo": zero,
                        "total_us": by_window["wait_us"],
                    },
                )
            )
            tables["curves"].append(_curves(rng, key, layers, sorted(set(phase.tolist())), by_bytes))
            summary.append(_summary(key, events, phase == "decode", windows - prefill, timed))
    base = {row["routes"]: row for row in summary if row["policy"] == policies[0]}
    for row in summary:
        row["misses_change_ratio"] = row["misses_per_token"] / base[row["routes"]]["misses_per_token"] - 1
    bound = {"slots": None, "bytes": 40 * SIZE} if by_bytes else {"slots": [40], "bytes": None}
    info = {
        "command": ["replay", "compare", "traces/a b", "--out", "run"],
        "versions": {"replay": "1", "python": "3"},
        "trace": {
            "name": "a trace",
            "model": model,
            "layers": layers,
            "experts": 16,
            "top_k": 2,
            "windows": windows,
            "decode_windows": windows - prefill,
            "sessions": 2,
            "sha256": {"windows": "0" * 64},
        },
        "bound": bound | {"origin": "as recorded"},
        "semantics": {"scope": "global", "split": True, "prompt_hot": None},
        "routes": list(routes),
        "grid": [0.5, 1, 2],
        "clock": {"workers": 8, "latency_us": 80.0} if timed else None,
        "baseline": policies[0],
        "policies": [{"policy": p, "routes": r, "resolved": "as given"} for r in routes for p in policies],
        "same_by_construction": [],
        "left_out": [],
        "notes": [],
        "warnings": ["a warning | with a bar"],
    }
    if drafts is not None:
        info["drafts"] = drafts
    frames = {name: pl.concat(parts) for name, parts in tables.items()}
    windows = WindowTable(frames["windows"])
    return Run(frames["layers"], windows, frames["curves"] if curves else None, None, summary, info)


def _curves(
    rng: np.random.Generator, key: dict[str, str], layers: int, phases: list[str], by_bytes: bool
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for capacity in (10, 20, 40, 80):
        for phase in phases:
            misses = rng.integers(1, 50, layers) * 10 // capacity + 1
            for layer in (None, *range(layers)):
                count = int(misses.sum() if layer is None else misses[layer])
                lookups = 20 * (layers if layer is None else 1)
                row: dict[str, Any] = {
                    **key,
                    "phase": phase,
                    "layer": layer,
                    "capacity_slots": None if by_bytes else capacity,
                    "capacity_bytes": capacity * SIZE if by_bytes else None,
                }
                held = capacity > 10  # the smallest cannot hold an event
                row |= {
                    "lookups": lookups if held else None,
                    "hits": lookups - count if held else None,
                    "prefetch_hits": 0 if held else None,
                    "misses": count if held else None,
                    "hit_ratio": 1 - count / lookups if held else None,
                }
                rows.append(row)
    return framed("curves", {name: [row[name] for row in rows] for name in rows[0]})


def _summary(
    key: dict[str, str], events: dict[str, Any], decode: np.ndarray, tokens: int, timed: bool
) -> dict[str, Any]:
    total = {name: None if v is None else v.sum().item() for name, v in events.items()}
    part = {name: None if v is None else v[decode].sum().item() for name, v in events.items()}
    read = part["disk_bytes"] if timed else part["demand_bytes"] + part["issued_bytes"]
    shares = ("picks_kept_ratio", "picks_kept_first_ratio", "picks_kept_last_ratio", "given_up_mean_ratio")
    kept = dict.fromkeys(shares, None if key["routes"] == "recorded" else 0.9)
    return {
        **key,
        "tokens": tokens,
        **total,
        "decode_misses": part["misses"],
        "misses_per_token": part["misses"] / tokens,
        "prefetch_hits_per_token": part["prefetch_hits"] / tokens,
        "issued_per_token": part["issued"] / tokens,
        "read_bytes_per_token": read / tokens,
        "retired_share": part["retired"] / part["issued"],
        "hit_ratio": 1 - part["misses"] / part["lookups"],
        "adjusted_hit_ratio": 1 - (part["misses"] + part["issued"]) / part["lookups"],
        "usefulness": part["prefetch_hits"] / part["issued"],
        "timely_usefulness": part["timely"] / part["issued"] if timed else None,
        "wait_us_per_token": (part["wait_us"] + part["limbo_wait_us"]) / tokens if timed else None,
        **kept,
    }


def made_survey() -> dict[str, Any]:
    """A survey of draft retention: what was recorded, one policy, the optimum."""

    def account(policy: str, kept: int, committed: int, worth: float) -> dict[str, Any]:
        margin = {"rounds": 10, "gain": 1.0, "rate": 0.5, "pays": True}
        steps = [
            {
                "step": step,
                "kept": kept,
                "accepted": 5.0 - step,
                "acceptance_ratio": (5.0 - step) / kept,
                "conditional_ratio": 0.5,
                "kept_margin": margin,
                "next_margin": margin | {"pays": None},
            }
            for step in range(3)
        ]
        return {
            "policy": policy,
            "rounds": 10,
            "kept": kept,
            "mean_kept": kept / 10,
            "committed": committed,
            "wasted_rows": 3,
            "tokens_per_cost": worth,
            "expert_bytes_per_token": 1.5e6,
            "steps": steps,
        }

    return {
        "cost": {"verify": [1.0, 1.5], "fixed": 0.15, "draft_step": 0.0},
        "recorded": None,
        "notes": ["a screen"],
        "policies": [
            account("recorded", 30, 20, 1.2),
            account("flat:0.35", 15, 18, 1.4),
            account("best:hindsight", 12, 20, 1.6),
        ],
    }
