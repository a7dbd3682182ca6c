"""What a slow replay leaves: counters, peaks and the log of what happened in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .trace import Key

COUNTERS = (
    "lookups",
    "hits",
    "prefetch_hits",
    "misses",
    "issued",
    "retired",
    "dropped",
    "pollution",
    "demand_bytes",
    "issued_bytes",
    "claimed_bytes",
    "retired_bytes",
)


class BeginWindow(NamedTuple):
    """A window begins."""

    window: int


class Issue(NamedTuple):
    """A read-ahead read is issued now; its number is its place among the issues of the replay."""

    read: int
    window: int
    key: Key
    size: int


class Event(NamedTuple):
    """One event: the reads it claims and retires by number, and its demand reads by expert (repeats stay)."""

    window: int
    layer: int
    claimed: list[int]
    retired: list[int]
    demanded: list[Key]


@dataclass
class SlowResult:
    """What a slow replay found.

    Attributes
    ----------
    counters
        (window, layer) to the integers of `COUNTERS`; counted windows only.
    peaks
        window to (peak_speculative, peak_limbo), in slots; counted windows only.
    log
        Everything in order, warm windows included.
    picks
        (window, row, layer) to the picks that were used.
    residents
        (window, layer) to that layer's residents just before routing, where asked for.
    agreement
        (window, layer) to (picks made by routes that are not the recorded ones, those of them that the recorded
        row holds too).
    given_up
        (window, row, layer) to the share of the softmax mass of the raw best picks that rerouted ones lack.
    outcomes
        (window, layer) to the experts that gates were asked about, those that all admitted, and how many of
        either the event wanted; every window, only where the spec has gates.
    uncovered_rows
        Rows of counted events that kept their recorded picks for want of scores.
    uncovered_windows
        Counted decode windows without any candidates, under a read-ahead policy.
    """

    counters: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    peaks: dict[int, tuple[int, int]] = field(default_factory=dict)
    log: list[BeginWindow | Issue | Event] = field(default_factory=list)
    picks: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    residents: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    agreement: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    given_up: dict[tuple[int, int, int], float] = field(default_factory=dict)
    outcomes: dict[tuple[int, int], tuple[int, int, int, int]] = field(default_factory=dict)
    uncovered_rows: int = 0
    uncovered_windows: int = 0

    def total(self, name: str) -> int:
        """Sum of one counter over all counted windows and layers."""
        return sum(counts[name] for counts in self.counters.values())
