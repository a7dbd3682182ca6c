"""From a study to its cells, and from cells to passes: those of one trace, played together.

A pass reads its trace once for up to :data:`LANES` lanes (a policy at one bound); the clocks of a lane, and the seeds
of a policy that has no use for them, cost no lane of their own. How cells are grouped changes no figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

from replay.comparison.candidate import Builder
from replay.comparison.provenance import learned_notes
from replay.errors import InputError
from replay.sweep.cell import Cell, package_version, trace_hash
from replay.sweep.file import File, at_places, files_in
from replay.sweep.source import is_url, local_folder
from replay.sweep.study import Study, here, seeded
from replay.sweep.trial import Trial
from replay.trace import Trace, open_trace

LANES = 32
"""Most lanes of a pass: enough that reading a trace is a small part, few enough that little is lost with a worker."""


@dataclass(frozen=True)
class Named:
    """A cell, and what the study calls its parts: a line of the sweep's list.

    Attributes
    ----------
    cell : Cell
    trace, policy, bound, clock : str
        As the study gives them; the bound ``default`` where it gives none.
    """

    cell: Cell
    trace: str
    policy: str
    bound: str
    clock: str

    def as_dict(self) -> dict[str, Any]:
        """The line as plain data."""
        return {
            "cell": self.cell.name, "trace": self.trace, "policy": self.policy, "routes": self.cell.routes,
            "bound": self.bound, "clock": self.clock, "seed": self.cell.seed,
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """All of a study's cells.

    Attributes
    ----------
    named : list of Named
        In the study's order; several may name one cell.
    places : dict of str to str
        Where each trace is, by its hash: a local folder, or a URL.
    left : list of str
        What was left out, and why.
    notes : list of str
        What is to be known of the files that policies play with.
    files : dict of str to File
        Those files, by hash.
    shapes : dict of str to (int, int)
        Windows and layers of each trace, by its hash: what a cell costs grows with both.
    """

    named: list[Named]
    places: dict[str, str]
    left: list[str]
    notes: list[str] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def cells(self) -> list[Cell]:
        """Every cell once, in order."""
        return list({each.cell.name: each.cell for each in self.named}.values())

    def work(self, cell: Cell) -> int:
        """What a cell costs beside others: events of its trace.

        Parameters
        ----------
        cell : Cell
        """
        windows, layers = self.shapes[cell.trace]
        return windows * layers


@dataclass(frozen=True)
class Pass:
    """Cells of one trace that are played together.

    Attributes
    ----------
    place : str
        The trace's folder or URL.
    cells : tuple of Cell
    files : tuple of File
        What their policies play with.
    """

    place: str
    cells: tuple[Cell, ...]
    files: tuple[File, ...] = ()


def plan_study(study: Study, scratch: Path, skip: bool = False, by_url: bool = False) -> Plan:
    """Open a study's traces and list its cells.

    Parameters
    ----------
    study : Study
    scratch : Path
        A folder of our own: traces that are not local are copied into it.
    skip : bool
        Leave out policies that cannot run on a trace.
    by_url : bool
        Workers read a trace from where the study says, not from our copy.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        A trace cannot be read, a bound or clock does not fit it, or a policy cannot run and ``skip`` is not set.
    """
    plan = Plan([], {}, [])
    named = {spec.text: files_in(spec, lambda text: here(text, study.path)) for spec in study.policies}
    plan.files.update({file.sha256: file for each in named.values() for file in each})
    for i, text in enumerate(study.traces):
        given = text if is_url(text) else str(here(text, study.path))
        folder = local_folder(given, scratch / f"trace{i}")
        trace = open_trace(folder)
        remote = by_url and is_url(text)
        plan.places.setdefault(trace_hash(trace), given if remote else str(folder.resolve()))
        plan.shapes[trace_hash(trace)] = (len(trace.windows), trace.meta.layers)
        plan.named.extend(_cells(study, trace, text, named, skip, plan.left))
        for spec in study.policies:
            places = {file.name: file.place for file in named[spec.text]}
            plan.notes.extend(learned_notes(trace, f"{spec.text} on {text}", [at_places(spec, places)]))
    if not plan.named:
        raise InputError(f"{study.path}: no cell is left to replay: {plan.left[0]}")
    return plan


def _cells(
    study: Study, trace: Trace, text: str, files: dict[str, list[File]], skip: bool, left: list[str]
) -> Iterable[Named]:
    """A trace's cells."""
    name, semantics = trace_hash(trace), study.semantics
    _check_start(study, trace)
    bounds = [(each.name, each.on(trace)) for each in study.bounds]
    clocks = [(each.name, each.on(trace)) for each in study.clocks]
    trial = Trial(Builder(trace, bounds[0][1], semantics, None))
    for routes, spec, bound in product(study.routes, study.policies, bounds):
        reason = trial.refusal(spec, routes, bound[1], files[spec.text])
        if reason is not None and not skip:
            raise InputError(
                f"{study.path}: policy {spec.text}: {reason}; or leave such cells out with --skip"
            )
        if reason is not None:
            left.append(f"left out {spec.text} on {text}: {reason}")
            continue
        for clock, seed in product(clocks, study.seeds):
            cell = Cell(
                name, seeded(spec, seed).text, routes.text, bound[1].slots, bound[1].bytes, clock[1], seed, semantics,
                package_version(), tuple(file.sha256 for file in files[spec.text]), bound[1].by_layer,
            )  # fmt: skip
            yield Named(cell, text, spec.text, bound[0], clock[0])


def _check_start(study: Study, trace: Trace) -> None:
    """Refuse a start that the trace does not have, and budgets without arenas by layer."""
    semantics = study.semantics
    if semantics.scope != "layer" and any(each.budget is not None for each in study.bounds):
        raise InputError(
            f'{study.path}: budget gives every layer its slots; add scope = "layer" to the table [semantics]'
        )
    if semantics.warm >= len(trace.windows):
        raise InputError(
            f"{study.path}: start warm:{semantics.warm}: {trace.path} has {len(trace.windows)} windows, so none would "
            "be counted; give fewer"
        )
    if semantics.start == "recorded" and not trace.has("residents"):
        raise InputError(
            f"{study.path}: start recorded needs the table residents, which {trace.path} lacks; use cold"
        )


def passes(plan: Plan, todo: Sequence[Cell], workers: int = 1) -> list[Pass]:
    """Group cells into passes: lanes that share a trace, all cells of a lane together.

    Parameters
    ----------
    plan : Plan
    todo : sequence of Cell
        Those that are not finished.
    workers : int
        Passes that can run at once: each gets some where there are enough lanes.

    Returns
    -------
    list of Pass
    """
    lanes: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in todo:
        lanes.setdefault((cell.trace, *cell.lane), []).append(cell)
    by_trace: dict[str, list[list[Cell]]] = {}
    for key, cells in lanes.items():
        by_trace.setdefault(key[0], []).append(cells)
    spread = -(-len(lanes) // (2 * workers)) if workers > 1 else LANES
    found = []
    for trace, each in by_trace.items():
        rest = iter(each)
        while group := list(islice(rest, min(max(spread, 1), LANES))):
            together = tuple(cell for lane in group for cell in lane)
            files = dict.fromkeys(plan.files[name] for cell in together for name in cell.files)
            found.append(Pass(plan.places[trace], together, tuple(files)))
    return found


def halves(each: Pass) -> list[Pass]:
    """A pass cut in two, at a lane where there are several; one cell cannot be cut."""
    middle = len(each.cells) // 2
    parts = (each.cells[:middle], each.cells[middle:])
    return [replace(each, cells=part) for part in parts if part]
