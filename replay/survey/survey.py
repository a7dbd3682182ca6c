"""Miss curves: policies over a range of capacities, in total and apart by layer, phase, session and domain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.arena.bound import Bound
from replay.arena.bound import resolve as resolve_bound
from replay.comparison.candidate import choose
from replay.comparison.offline import beaten, holds
from replay.comparison.play import Progress, play
from replay.comparison.provenance import learned_notes
from replay.comparison.trust import warnings_for
from replay.declare.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.errors import InputError
from replay.evict.own import files_of
from replay.origin import command_line, trace_info, versions
from replay.run import RUN_FILE, write_table
from replay.spec.resolve import resolve
from replay.survey.curve import Lines, lines_frame, shares_of, worst_layers
from replay.survey.depth import StackLane
from replay.survey.grid import Grid
from replay.survey.surveyor import Curve, Surveyor
from replay.trace import Trace

DEFAULT_SPECS = ("lru", "belady")
"""What is drawn where no policy is named."""


@dataclass
class Survey:
    """What a survey found.

    Attributes
    ----------
    curves : polars.DataFrame
        See ``schemas/result/curves.json``.
    worst : polars.DataFrame
        Layers at one capacity, those that miss most first.
    info : dict
        Command, versions, trace, options, remarks, warnings.
    """

    curves: pl.DataFrame
    worst: pl.DataFrame
    info: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the tables and what is known of them into an open folder."""
        write_table(self.curves, folder / "curves.parquet")
        write_table(self.worst, folder / "worst_layers.csv")
        (folder / RUN_FILE).write_text(json.dumps(self.info, indent=1, allow_nan=False) + "\n")


def survey(
    trace: Trace,
    policies: Sequence[str],
    grid: Grid,
    *,
    semantics: Semantics | None = None,
    routes: Sequence[Routes] = (RECORDED_ROUTES,),
    layers: Sequence[int] | None = None,
    skip: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Play policies over a range of capacities.

    Parameters
    ----------
    trace : Trace
    policies : sequence of str
        Specs; ``DEFAULT_SPECS`` where empty.
    grid : Grid
        The capacities.
    semantics : Semantics, optional
    routes : sequence of Routes
    layers : sequence of int, optional
        Layers whose curves are kept apart; all where None.
    skip : bool
        Leave out policies that cannot run.
    threads : int, optional
    progress : callable, optional

    Returns
    -------
    Survey
        A capacity that cannot hold some event has null figures.

    Raises
    ------
    InputError
        A policy cannot run, a layer is not there, or no capacity holds every event.
    """
    semantics = semantics or Semantics()
    chosen_layers = _layers(trace, layers)
    largest = grid.bounds[-1]
    chosen, left = choose(trace, policies or DEFAULT_SPECS, routes, largest, skip)
    surveyor = Surveyor(trace, grid, semantics)
    found = [surveyor.curve(spec.text, resolve(spec, trace.meta), kind) for spec, kind in chosen]
    _refuse_every(grid, found)
    census = {id(c.rows_used): surveyor.census(c.rows_used) for c in found}
    entries = {id(e): e for c in found for e in c.entries}
    coverage = play(
        trace, [*entries.values(), *surveyor.census_entries()], threads=threads, progress=progress
    )
    curves = pl.concat(
        lines_frame(lines, grid.bounds, shares_of(grid.bounds, trace.sizes))
        for curve in found
        for lines in _lines(curve, surveyor, census[id(curve.rows_used)], chosen_layers)
    )
    warnings = warnings_for(trace, [c.policy for c in found], semantics, largest, routes, coverage)
    for spec in {c.text: c.policy.spec for c in found}.values():
        warnings += learned_notes(trace, spec.text, [spec])
    if holds(semantics, largest, trace.sizes, bool(trace.windows.prefill.any())):
        warnings += beaten([row for c in found for row in c.played(grid.bounds)])
    at = _reference(trace, grid)
    info = {
        "kind": "curves",
        "command": command_line(),
        "versions": versions(),
        "trace": trace_info(trace),
        "semantics": semantics.describe(),
        "routes": [each.text for each in routes],
        "grid": {"text": grid.text, "unit": grid.unit, "capacities": len(grid.bounds)},
        "policies": [{"policy": c.text, "routes": c.routes, "resolved": c.policy.describe()} for c in found],
        "policy_files": files_of(c.policy.spec.evict.name for c in found),
        "one_pass": [c.text for c in found if c.stack is not None],
        "denominators": {"tokens": {c.text: c.tokens for c in found}},
        "token": token_size(trace),
        "reference": {"slots": at.total_slots, "bytes": at.bytes},
        "left_out": left,
        "notes": _notes(found, grid, semantics),
        "warnings": warnings,
    }
    return Survey(curves, worst_layers(curves, at), info)


def _layers(trace: Trace, layers: Sequence[int] | None) -> list[int]:
    count = trace.meta.layers
    for layer in layers or ():
        if not 0 <= layer < count:
            raise InputError(f"--layers: no layer {layer}; the trace has layers 0 to {count - 1}")
    return sorted(set(range(count) if layers is None else layers))


def _refuse_every(grid: Grid, found: Sequence[Curve]) -> None:
    """Every capacity is for curves that take one pass."""
    slow = [c.text for c in found if c.stack is None]
    if grid.text.strip() == "all" and slow:
        raise InputError(
            f"--grid all: {slow[0]} has no curve in one pass under these options (lru has with --order rows or "
            "--cell sequential, belady always has); give a grid such as 1%..60%:24"
        )


def _notes(found: Sequence[Curve], grid: Grid, semantics: Semantics) -> list[str]:
    """Remarks: what the policies say of their runs, and why lru took more than one pass."""
    notes = []
    plain = [c.text for c in found if c.stack is None and c.policy.spec.evict.name == "lru"]
    if plain and grid.unit != "bytes" and semantics.order == "id" and semantics.cell == "atomic":
        notes.append(
            f"{plain[0]}: with order=id lru lacks the stack property: each capacity was replayed, and a larger arena "
            "can miss more"
        )
    fails = next((c.fails() for c in found if c.fails().any()), None)
    if fails is not None:
        notes.append(f"{int(fails.sum())} of {len(fails)} capacities cannot hold the widest event: null")
    return notes


def token_size(trace: Trace) -> dict[str, Any]:
    """One token's working set: top_k experts of every layer; a global lru below it hits nothing."""
    slots = trace.meta.layers * trace.meta.top_k
    size = float(trace.sizes.mean(axis=1).sum()) * trace.meta.top_k
    return {"slots": slots, "bytes": round(size), "share": slots / trace.sizes.size}


def _reference(trace: Trace, grid: Grid) -> Bound:
    """The grid's capacity that is nearest to the recorded bound, else to 17.6% of the experts."""
    wanted = resolve_bound(None, None, trace.meta.policy, trace.classes)
    share = shares_of([wanted], trace.sizes)[0]
    return grid.bounds[int(np.argmin(np.abs(shares_of(grid.bounds, trace.sizes) - share)))]


def _lines(curve: Curve, surveyor: Surveyor, census: StackLane, layers: Sequence[int]) -> Iterator[Lines]:
    """What a policy's chart lines count, phase by phase: all layers, some of them, sessions, domains."""
    grouping, prefill = surveyor.grouping, surveyor.trace.windows.prefill[surveyor.semantics.warm :]
    cells = curve.cells()
    first_uses = census.first_uses() if curve.routes == "recorded" else None
    for phase, name in enumerate(("decode", "prefill")):
        if not (prefill == phase).any():
            continue
        places = grouping.rows(phase, "layers")
        kept = np.concatenate(
            [places[list(layers)], grouping.rows(phase, "sessions"), grouping.rows(phase, "domains")]
        )
        total = cells[:, :, places].sum(axis=2, keepdims=True)
        compulsory = None
        if first_uses is not None:
            compulsory = np.concatenate([[first_uses[places].sum()], first_uses[kept]])
        yield Lines(
            curve.text, curve.routes, name, list(layers), grouping.sessions.tolist(), list(grouping.domains),
            np.concatenate([total, cells[:, :, kept]], axis=2), compulsory, curve.fails(),
        )  # fmt: skip
