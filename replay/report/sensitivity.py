"""Other clocks over the same replays: which fates move with the disk, and who waits least on which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.clock.timing import PARAMETERS
from replay.comparison.sensitivity import FATES, Move, moves
from replay.report.figure import Cell, Grid, Head, Row, mark_best
from replay.report.subject import Subject
from replay.report.wording import NOTHING, listing, milliseconds, percent

UNITS = {
    "latency_us": ("latency", "us"),
    "stream_gbps": ("stream", "GB/s"),
    "device_gbps": ("device", "GB/s"),
    "pre_us": ("pre", "us"),
    "post_us": ("post", "us"),
}
"""How the parameters of a clock read; the others by their names."""


@dataclass(frozen=True)
class Clocks:
    """What a grid of clocks makes of a run.

    Attributes
    ----------
    text : str
        Who waits least on how many of the clocks.
    waits : Grid
        A row a clock: each policy's wait, the least marked.
    fates : Grid
        A row a policy: least and largest share of each fate, and wait.
    """

    text: str
    waits: Grid
    fates: Grid


def clocks(subject: Subject) -> Clocks | None:
    """Make the section on other clocks; None where only one ran, or the experts' sizes are not known."""
    table = subject.run.sensitivity
    if table is None or not len(table) or not subject.sized:
        return None
    waits = _waits(subject, table)
    return Clocks(_in_words(waits), waits, _fates(subject, table))


def _waits(subject: Subject, table: pl.DataFrame) -> Grid:
    wait = (pl.col("wait_us") + pl.col("limbo_wait_us")) / pl.col("tokens")
    shown = subject.of(table.with_columns(wait.alias("wait")))
    varied = [name for name in PARAMETERS if shown[name].n_unique() > 1]
    names = [name for name in subject.rows if name in set(shown["series"])]
    may = [subject.runs_on_engine(name) for name in names]
    rows = []
    for _, clock in shown.group_by(PARAMETERS, maintain_order=True):
        waits = dict(zip(clock["series"], clock["wait"], strict=True))
        values = [waits.get(name) for name in names]
        marks = mark_best(values, may, "low")
        texts = [milliseconds(value) for value in values]
        cells = [Cell(*each) for each in zip(texts, values, marks, strict=True)]
        rows.append(Row(_named(clock.row(0, named=True), varied), cells))
    heads = [Head("clock", numeric=False), *(Head(name) for name in names)]
    return Grid("Wait in ms per token under each clock", heads, rows)


def _named(clock: dict[str, Any], varied: list[str]) -> str:
    """A clock by what the clocks differ in."""
    parts = []
    for name in varied:
        word, unit = UNITS.get(name, (name, ""))
        parts.append(f"{word} {clock[name]:g} {unit}".strip())
    return ", ".join(parts) or "the clock"


def _in_words(waits: Grid) -> str:
    """Who waits least, on how many clocks."""
    wins: dict[str, int] = {}
    for row in waits.rows:
        for head, cell in zip(waits.heads[1:], row.cells, strict=True):
            wins[head.text] = wins.get(head.text, 0) + cell.best
    ranked = sorted((-count, i, name) for i, (name, count) in enumerate(wins.items()) if count)
    if not ranked:
        return f"Under all {len(waits.rows)} clocks no policy waits less than another."
    told = listing([f"{name} on {-count}" for count, _, name in ranked])
    return f"Of {len(waits.rows)} clocks, the shortest wait among policies that an engine can run: {told}."


def _fates(subject: Subject, table: pl.DataFrame) -> Grid:
    heads = [Head("policy", numeric=False), *(Head(fate, "of issued") for fate in FATES)]
    heads += [Head("wait", "ms per token"), Head("moves", "by over 5 points", numeric=False)]
    rows = []
    for move in moves(table):
        name = subject.name(move.policy, move.routes)
        cells = [_ends((move.shares[fate]), lambda v: percent(v, 0)) for fate in FATES]
        cells += [_ends(move.wait_us_per_token, milliseconds), Cell(_moving(move))]
        rows.append(Row(name, cells, subject.look(name), subject.note(name)))
    return Grid("Least and largest share of each fate, and wait, over the clocks", heads, rows)


def _ends(pair: tuple[float, float] | None, show: Callable[[float], str]) -> Cell:
    if pair is None:
        return Cell(NOTHING)
    low, high = (show(each) for each in pair)
    return Cell(low if low == high else f"{low} to {high}", pair[1])


def _moving(move: Move) -> str:
    return listing(move.moving) or ("nothing is read ahead" if move.shares["timely"] is None else "none")
