"""Miss curves: policies over a range of capacities, in total and apart by layer, phase, session and domain."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replay.bound import Bound
from replay.bound import resolve as resolve_bound
from replay.candidate import Builder, choose
from replay.curve import Lines, lines_frame, shares_of, worst_layers
from replay.depth import StackLane, has_stack
from replay.errors import InputError
from replay.evict.own import files_of
from replay.grid import Grid
from replay.grouping import GroupTally, group_windows
from replay.lane import Lane
from replay.offline import Played, beaten, holds
from replay.play import Entry, Progress, play
from replay.resolve import Resolved, identity, resolve
from replay.run import RUN_FILE, command_line, trace_info, versions, write_table
from replay.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.spec import parse
from replay.trace import Trace
from replay.trust import warnings_for

DEFAULT_SPECS = ("lru", "belady")
"""What is drawn where no policy is named."""


@dataclass
class Curve:
    """One policy over all capacities.

    Attributes
    ----------
    text, routes : str
    policy : Resolved
    rows_used : int64[windows] or None
    entries : list of Entry
        One a capacity, or one for all of them.
    tokens : int
        Counted committed tokens.
    """

    text: str
    routes: str
    policy: Resolved
    rows_used: NDArray[np.int64] | None
    entries: list[Entry]
    tokens: int

    @property
    def stack(self) -> StackLane | None:
        """The lane that played all capacities at once, or None."""
        lane = self.entries[0].lane
        return lane if isinstance(lane, StackLane) else None

    def cells(self) -> NDArray[np.int64]:
        """int64[G, len(FIGURES), C]: what each capacity counted."""
        if self.stack is not None:
            return self.stack.cells()
        return np.stack([each.tally.cells() for each in self.entries if isinstance(each.tally, GroupTally)])

    def fails(self) -> NDArray[np.bool_]:
        """bool[G]: the capacities that cannot hold some event."""
        if self.stack is not None:
            return self.stack.fails()
        return np.array([each.lane.failure is not None for each in self.entries])

    def played(self, bounds: Sequence[Bound]) -> list[Played]:
        """Rows of the bound check."""
        if self.stack is None:
            rows = zip(bounds, self.entries, strict=True)
            return [Played(each.lane, bound, each.tally.misses_in_all) for bound, each in rows]
        points = zip(bounds, self.stack.misses().tolist(), self.stack.fails().tolist(), strict=True)
        return [Played(self.stack, bound, missed) for bound, missed, failed in points if not failed]


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


class Surveyor(Builder):
    """Makes the lanes of a survey; policies that must give the same counts share them."""

    def __init__(self, trace: Trace, grid: Grid, semantics: Semantics) -> None:
        super().__init__(trace, grid.bounds[-1], semantics, None)
        self.grid = grid
        self.grouping = group_windows(trace.meta.layers, trace.windows, semantics.warm)
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._census: dict[int, StackLane] = {}
        self._alone: list[StackLane] = []

    def curve(self, text: str, policy: Resolved, routes: Routes) -> Curve:
        """A policy's lanes over the grid."""
        used, tokens = self.rows(policy.spec)
        key = (identity(policy, routes.kind, self.shape.top_k), routes, id(used))
        if key not in self._lanes:
            self._lanes[key] = self._entries(policy, routes, used)
        counted = int(tokens[self.semantics.warm :].sum())
        return Curve(text, routes.text, policy, used, self._lanes[key], counted)

    def _entries(self, policy: Resolved, routes: Routes, used: NDArray[np.int64] | None) -> list[Entry]:
        name, warm = f"{policy.spec.text} ({routes.text})", self.semantics.warm
        by_slots, prefill = self.grid.unit != "bytes", bool(self.trace.windows.prefill.any())
        if has_stack(policy.spec, routes, self.semantics, by_slots, prefill):
            lane = self._stack(policy, used)
            self._census.setdefault(id(used), lane)
            return [Entry(lane, GroupTally(name, self.grouping, warm))]
        by_layer, classes = self.semantics.scope == "layer", self.trace.classes
        return [
            Entry(
                Lane(
                    self.shape,
                    at.plan(classes, by_layer),
                    policy,
                    self.semantics,
                    routes,
                    used,
                    clock=self.nominal,
                ),
                GroupTally(name, self.grouping, warm),
            )
            for at in self.grid.bounds
        ]

    def _stack(self, policy: Resolved, used: NDArray[np.int64] | None) -> StackLane:
        bounds = self.grid.bounds if self.grid.unit != "bytes" else [Bound((1,) * self._classes, None, "")]
        return StackLane(self.shape, bounds, policy, self.semantics, used, self.grouping)

    @property
    def _classes(self) -> int:
        return int(self.trace.classes.max()) + 1

    def census(self, used: NDArray[np.int64] | None) -> StackLane:
        """A lane that counts first uses of the rows that count: a curve's in one pass, else one of its own."""
        if id(used) not in self._census:
            lane = self._stack(resolve(parse("lru"), self.trace.meta), used)
            self._census[id(used)] = lane
            self._alone.append(lane)
        return self._census[id(used)]

    def census_entries(self) -> list[Entry]:
        """What has to be played for the census alone."""
        return [Entry(each, GroupTally("first uses", self.grouping, 0)) for each in self._alone]


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
