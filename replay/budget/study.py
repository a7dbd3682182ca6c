"""A budget study: curves on training sessions, slots by layer from them, and what those are worth on other sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.arena.bound import Bound, write_budget
from replay.arena.bound import resolve as resolve_bound
from replay.budget.allot import equal, optimum, total, transfer
from replay.budget.cost import FIGURES, Ways, build, curves, members, widest
from replay.comparison.play import Progress, play
from replay.errors import InputError
from replay.origin import command_line, versions
from replay.run import RUN_FILE, write_table
from replay.trace import Trace
from replay.trace.view import of_sessions, view

SPLITS = ("equal", "transfer", "optimum")
"""Splits over the layers that a study makes; ``global`` is scored beside them."""

PHASES = ("all", "decode")


@dataclass
class Study:
    """What a budget study found.

    Attributes
    ----------
    layers : polars.DataFrame
        One row a size class and layer: slots of each split, and their cost on the training sessions by its curve.
    scores : polars.DataFrame
        One row a part (train, score) and arena: what its replay counted; null where it cannot hold an event.
    bounds : dict of str to Bound
        The splits.
    info : dict
        What was asked, and what a reader must know of it.
    """

    layers: pl.DataFrame
    scores: pl.DataFrame
    bounds: dict[str, Bound]
    info: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the tables, a budget file for each split, and what is known of them into an open folder."""
        write_table(self.layers, folder / "layers.csv")
        write_table(self.scores, folder / "scores.csv")
        about = {key: str(self.info[key]) for key in ("trace", "policy", "figure", "train", "phase")}
        for name in ("transfer", "optimum"):
            write_budget(folder / f"{name}.toml", self.bounds[name], {"split": name, **about})
        (folder / RUN_FILE).write_text(json.dumps(self.info, indent=1, allow_nan=False) + "\n")


def study(
    trace: Trace,
    ways: Ways,
    *,
    slots: str | None,
    train: str,
    score: str,
    figure: str = "misses",
    phase: str = "all",
    points: int = 64,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Study:
    """Split slots over the layers by one policy's curves, and score the splits on other sessions.

    The windows of the training sessions, and those of the scoring sessions, are each replayed cold and in order as
    a trace of their own.

    Parameters
    ----------
    trace : Trace
    ways : Ways
        The policy and how it is replayed.
    slots : str or None
        Slots in all, one figure a size class, as the command line takes them; None: as recorded.
    train, score : str
        Sessions such as ``0-9``.
    figure : str
        What is made small: ``misses``, ``bytes`` or ``wait`` (needs a clock).
    phase : str
        ``all`` windows, or only ``decode`` ones: a prefill window may want every expert of a layer at once.
    points : int
        Most capacities of each layer to replay.
    threads : int, optional
    progress : callable, optional

    Returns
    -------
    Study

    Raises
    ------
    InputError
        An option cannot be read, the policy cannot run, or the slots cannot hold every layer's widest event.
    """
    _check(figure, phase, points, ways)
    parts = {name: _part(trace, name, text, phase) for name, text in (("train", train), ("score", score))}
    bound = resolve_bound(slots, None, trace.meta.policy, trace.classes)
    if bound.slots is None:
        raise InputError("a budget splits slots, and the trace records a byte budget; give --slots")
    low = widest(list(parts.values()), ways)
    _refuse_narrow(bound, low, phase)
    costs = curves(parts["train"], ways, low, figure, points, threads, progress)
    splits = {
        name: np.stack([rule(of_class, n) for of_class, n in zip(costs, bound.slots, strict=True)])
        for name, rule in (("equal", equal), ("transfer", transfer), ("optimum", optimum))
    }
    bounds = {name: Bound.of_layers(each.tolist(), name) for name, each in splits.items()}
    arenas = {"global": ("global", bound), "equal": ("layer", bound)}
    arenas |= {name: ("layer", bounds[name]) for name in ("transfer", "optimum")}
    scores = pl.concat([_scores(name, each, ways, arenas, threads, progress) for name, each in parts.items()])
    exact = points > int((members(trace.classes) - low).max())
    too_wide = _prefill_too_wide(trace, ways, phase, splits["transfer"])
    info = {
        "command": command_line(),
        "versions": versions(),
        "trace": trace.path.resolve().name,
        "sized": trace.sized,
        "sha256": trace.tables["selections"].sha256,
        "policy": ways.spec.text,
        "figure": figure,
        "phase": phase,
        "train": train,
        "score": score,
        "slots": list(bound.slots),
        "origin": bound.origin,
        "semantics": {**ways.semantics.describe(), "scope": "layer"},
        "clock": None if ways.clock is None else ways.clock.as_dict(),
        "points": "every capacity" if exact else f"{points} capacities a layer, straight lines between",
        "cost": {name: sum(map(total, costs, each)) for name, each in splits.items()},
        "playable": not too_wide,
        "notes": [*_notes(splits, bound, costs), *too_wide],
    }
    return Study(_layers(splits, costs, low), scores, bounds, info)


def _check(figure: str, phase: str, points: int, ways: Ways) -> None:
    if figure not in FIGURES:
        raise InputError(f"--figure {figure}: expected one of {', '.join(FIGURES)}")
    if phase not in PHASES:
        raise InputError(f"--phase {phase}: expected one of {', '.join(PHASES)}")
    if points < 2:
        raise InputError(f"--points {points}: expected at least 2 capacities of each layer")
    if figure == "wait" and ways.clock is None:
        raise InputError("--figure wait: needs a clock; leave out --no-clock")


def _part(trace: Trace, name: str, text: str, phase: str) -> Trace:
    """The windows of some sessions as a trace of their own."""
    try:
        keep = of_sessions(trace, text)
    except InputError as problem:
        raise InputError(f"--{name}: {problem}") from None
    if phase == "decode":
        keep = keep & ~trace.windows.prefill
        if not keep.any():
            raise InputError(f"--{name} {text}: those sessions have no decode window; give others")
    return view(trace, keep)


def _refuse_narrow(bound: Bound, low: NDArray[np.int64], phase: str) -> None:
    for c, (slots, needs) in enumerate(zip(bound.slots or (), low, strict=True)):
        if slots < needs.sum():
            of_class = f" of class {c}" if len(low) > 1 else ""
            other = "; or leave prefill out with --phase decode" if phase == "all" else ""
            raise InputError(
                f"--slots: {slots}{of_class} cannot hold the widest event of every layer; expected at least "
                f"{needs.sum()}{other}"
            )


def _prefill_too_wide(trace: Trace, ways: Ways, phase: str, split: NDArray[np.int64]) -> list[str]:
    """Say that prefill windows, left out here, want more of a layer than it got: other commands play them."""
    if phase == "all" or not trace.windows.prefill.any():
        return []
    short = widest([trace], ways) - split
    if short.max() <= 0:
        return []
    c, layer = np.unravel_index(int(short.argmax()), short.shape)
    held = int(split[c, layer])
    return [
        f"prefill windows want up to {held + int(short[c, layer])} experts at once of layer {layer}, where transfer "
        f"leaves {held}: compare plays them too, and refuses these files on this trace; give more --slots, or "
        "--phase all"
    ]


def _notes(splits: dict[str, Any], bound: Bound, costs: Sequence[Any]) -> list[str]:
    """What a reader must know of the splits."""
    notes = []
    idle = sum(bound.slots or ()) - int(splits["optimum"].sum())
    if idle:
        notes.append(f"{idle} slots are left over: every layer has all of its experts without them")
    gap = sum(map(total, costs, splits["transfer"])) - sum(map(total, costs, splits["optimum"]))
    if gap == 0:
        notes.append("marginal transfer found the optimum of the training curves")
    return notes


def _scores(
    part: str,
    trace: Trace,
    ways: Ways,
    arenas: dict[str, tuple[str, Bound]],
    threads: int | None,
    progress: Progress | None,
) -> pl.DataFrame:
    """Replay the arenas on one part."""
    found = {name: build(trace, ways, bound, scope, True)[1] for name, (scope, bound) in arenas.items()}
    play(trace, [each.entry for each in found.values()], threads=threads, progress=progress)
    rows: list[dict[str, Any]] = []
    for name, one in found.items():
        tally, failed = one.tally, one.entry.lane.failure is not None
        tokens = int(one.tokens[ways.semantics.warm :].sum())
        row: dict[str, Any] = {"part": part, "arena": name, "policy": one.text, "tokens": tokens}
        for column in ("lookups", "misses", "demand_bytes", "issued_bytes"):
            row[column] = None if failed else tally.total(column)
        row["wait_us"] = tally.total("wait_ns") / 1000 if tally.timed and not failed else None
        rows.append(row)
    texts = dict.fromkeys(("part", "arena", "policy"), pl.String)
    whole = dict.fromkeys(("tokens", "lookups", "misses", "demand_bytes", "issued_bytes"), pl.Int64)
    return pl.DataFrame(rows, schema={**texts, **whole, "wait_us": pl.Float64})


def _layers(splits: dict[str, Any], costs: Sequence[Any], low: NDArray[np.int64]) -> pl.DataFrame:
    """One row a size class and layer."""
    rows = []
    for c, of_class in enumerate(costs):
        for layer, cost in enumerate(of_class):
            row: dict[str, Any] = {"class": c, "layer": layer, "widest": int(low[c, layer])}
            for name, split in splits.items():
                n = int(split[c, layer])
                row[f"{name}_slots"], row[f"{name}_cost"] = n, float(cost[min(n, len(cost) - 1)])
            rows.append(row)
    return pl.DataFrame(rows)
