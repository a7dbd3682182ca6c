"""A frontier: every point of every family in one pass over a trace, with bounds, the recording and controls.

Figures are of decode windows, per committed token. Choices where the text is silent:

- What is read ahead is what was issued. ``precision`` is the share of it that its event claimed; ``coverage`` the share
  of an event's experts that were not resident (claimed read-ahead and misses) which had been read ahead. An expert of
  a layer without predictions is a miss that no guess could have spared, and counts.
- A miss avoided is one less than without read-ahead, under the same eviction.
- ``pollution``: misses on experts that a guess had evicted and nothing had read since.
- A family's gain is the share of misses that its best point spares. The control ``shuffled`` replays every family on
  the same windows in a seeded random order within each session; a gain that survives is flagged.
- ``static`` is a pinned set learned on the sessions that are not scored, without read-ahead: what a gate has to beat
  that needs no guess.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.arena.bound import resolve as resolve_bound
from replay.clock.timing import ClockParams, load_clock
from replay.comparison.candidate import Builder, Candidate
from replay.comparison.play import Progress, play
from replay.comparison.provenance import learned_notes, price_notes
from replay.declare.semantics import Routes, Semantics
from replay.errors import InputError
from replay.frontier.against import compared
from replay.frontier.control import survivors
from replay.frontier.family import Family, families
from replay.frontier.point import Point, Ways, default_families, points_of, scored_part
from replay.frontier.table import lines_of, points_frame
from replay.origin import command_line, trace_info, versions
from replay.run import RUN_FILE, write_table
from replay.trace import Trace
from replay.trace.shuffle import shuffled


@dataclass
class Frontier:
    """What was found.

    Attributes
    ----------
    points : polars.DataFrame
        See ``schemas/result/frontier.json``.
    against : polars.DataFrame
        See ``schemas/result/frontier_against.json``.
    controls : list of dict
        For each family its best point, its gain, what is left of it on shuffled windows, and whether that is flagged.
    info : dict
        What was asked, and what a reader must know of it.
    """

    points: pl.DataFrame
    against: pl.DataFrame
    controls: list[dict[str, Any]]
    info: dict[str, Any] = field(default_factory=dict)

    def drawable(self) -> pl.DataFrame:
        """The points on recorded windows, with a column ``series``: the family, or what a single point is."""
        kind = pl.col("kind")
        alone = (
            pl.when(kind == "recorded")
            .then(pl.format("recorded: {}", pl.col("policy")))
            .otherwise(pl.col("policy"))
        )
        series = pl.when(kind == "family").then(pl.col("family")).otherwise(alone)
        return self.points.filter(pl.col("windows") == "recorded").with_columns(series=series)

    def write(self, folder: Path) -> None:
        """Write the tables, and what is known of them, into an open folder."""
        write_table(self.points, folder / "frontier.parquet")
        write_table(self.against, folder / "frontier_against.parquet")
        write_table(self.points, folder / "frontier.csv")
        body = {**self.info, "controls": self.controls}
        (folder / RUN_FILE).write_text(json.dumps(body, indent=1, allow_nan=False) + "\n")


def frontier(
    trace: Trace,
    texts: Sequence[str],
    *,
    sessions: str | None = None,
    slots: str | None = None,
    bytes: str | None = None,
    semantics: Semantics | None = None,
    routes: Routes,
    clock: ClockParams | None = None,
    points: int = 9,
    controls: bool = True,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """Play families of policies and set what they read ahead against what they spare.

    Parameters
    ----------
    trace : Trace
    texts : sequence of str
        Families (:mod:`replay.frontier.family`); those of :func:`replay.frontier.point.default_families` where empty.
    sessions : str, optional
        Sessions to score, such as ``4-11``, played cold and in order as a trace of their own; all where None.
    slots, bytes : str, optional
        The bound, as for a comparison.
    semantics : Semantics, optional
    routes : Routes
    clock : ClockParams, optional
        Without one there is no exposed wait.
    points : int
        Specs of each range.
    controls : bool
        Play the families on shuffled windows too.
    seed : int
        Of the shuffling and the intervals.
    threads : int, optional
    progress : callable, optional
        Called with the number of windows done, of both passes.

    Returns
    -------
    Frontier

    Raises
    ------
    InputError
        A family cannot be read or played.
    """
    semantics = semantics or Semantics()
    scored, rest = scored_part(trace, sessions)
    bound = resolve_bound(slots, bytes, trace.meta.policy, trace.classes)
    ways = Ways(bound, semantics, clock, routes)
    size = float(trace.sizes.mean())
    nominal = clock or load_clock(None, trace.meta.io)
    asked = families(texts or default_families(trace), points, nominal, size)
    wanted, left = points_of(asked, scored, rest, ways)
    found = _played(scored, wanted, ways, threads, progress)
    table = points_frame(asked, wanted, found, ways)
    mixed: list[Candidate] = []
    if controls:
        own = [each for each in wanted if each.kind in ("family", "none")]
        after = None if progress is None else lambda n: progress(len(scored.windows) + n)
        mixed = _played(shuffled(scored, seed), own, ways, threads, after)
        table = pl.concat([table, points_frame(asked, own, mixed, ways, "shuffled")])
    lines, idle = lines_of(asked, wanted, found, scored, ways)
    against = compared(lines, idle, seed)
    info = {
        "command": command_line(),
        "versions": versions(),
        "trace": trace_info(trace),
        "sessions": sessions,
        "scored": {"windows": len(scored.windows), "sessions": int(len(np.unique(scored.windows.session)))},
        "bound": {"slots": bound.slots, "bytes": bound.bytes, "origin": bound.origin},
        "semantics": semantics.describe(),
        "routes": routes.text,
        "clock": None if clock is None else clock.as_dict(),
        "seed": seed,
        "families": [{"family": each.text, "option": each.option} for each in asked],
        "left_out": left,
        "warnings": _warnings(scored, asked, found),
    }
    return Frontier(table, against, survivors(table) if controls else [], info)


def _warnings(scored: Trace, asked: Sequence[Family], found: Sequence[Candidate]) -> list[str]:
    """What is to be known of the families' files and prices."""
    notes = [note for each in asked for note in learned_notes(scored, each.text, each.specs)]
    return notes + price_notes([each.policy for each in found])


def _played(
    trace: Trace, wanted: Sequence[Point], ways: Ways, threads: int | None, progress: Progress | None
) -> list[Candidate]:
    """All points in one pass."""
    builder = Builder(trace, ways.bound, ways.semantics, ways.clock)
    found = [builder.candidate(each.spec, ways.routes, ()) for each in wanted]
    play(trace, list({id(c.entry): c.entry for c in found}.values()), threads=threads, progress=progress)
    for each in found:
        if each.entry.lane.failure is not None:
            raise InputError(f"policy {each.text}: {each.entry.lane.failure}")
    return found
