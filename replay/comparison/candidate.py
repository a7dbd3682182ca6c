"""The candidates of a comparison: which policies can run, and the lanes that play them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay import retain
from replay.arena.bound import Bound
from replay.clock.clock import Clock
from replay.clock.timing import ClockParams, load_clock
from replay.comparison.headroom import refuse_overflow
from replay.comparison.play import Entry, play
from replay.comparison.sensitivity import Under
from replay.declare.policy import lacking
from replay.declare.semantics import Routes, Semantics
from replay.engine import frame as fr
from replay.errors import InputError
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.learning.price import asks_budget, priced
from replay.ledger.agreement import GivenUp
from replay.ledger.ledger import Tally
from replay.ledger.outcome import Outcomes
from replay.spec.grammar import PolicySpec, declaration, parse_all
from replay.spec.resolve import Resolved, identity, resolve
from replay.survey.curve import Point
from replay.trace import Trace

DEFAULT_SPECS = (
    "none+lru",
    "unpert1+lru",
    "unpert1+decode2q",
    "unpert0+lru",
    "unpert0+decode2q",
    "route:p=1+lru",
    "route:p=1+decode2q",
)
"""What is compared where no policy is named."""

PLAIN_SPECS = ("none+lru", "none+decode2q", "none+lfu", "none+sieve", "none+belady")
"""What is compared where no policy is named and the trace has no candidates to read ahead by."""


@dataclass
class Row:
    """One row of a comparison: a policy under one kind of routes, or the recording itself.

    Attributes
    ----------
    text : str
        The spec as given, or ``recorded``.
    routes : str
    tokens : int64[windows]
        Committed tokens of each window: what "per token" divides by.
    tally : Tally
    """

    text: str
    routes: str
    tokens: NDArray[np.int64]
    tally: Tally

    @property
    def given_up(self) -> GivenUp | None:
        """Softmax mass that its picks give up, where that is known."""
        return None

    @property
    def outcomes(self) -> Outcomes | None:
        """What its gates made of their candidates, where it has any."""
        return None


@dataclass
class Candidate(Row):
    """A policy with its lanes.

    Attributes
    ----------
    policy : Resolved
    entry : Entry
        The lane at the run's bound.
    points : list of Point
        The same policy at other capacities.
    """

    policy: Resolved
    entry: Entry
    points: list[Point] = field(default_factory=list)

    @property
    def given_up(self) -> GivenUp | None:
        """Softmax mass that its picks give up, where that is known."""
        return self.entry.given_up

    @property
    def outcomes(self) -> Outcomes | None:
        """What its gates made of their candidates, where it has any."""
        return self.entry.outcomes


def refusal(spec: PolicySpec, routes: Routes, trace: Trace, bound: Bound) -> str | None:
    """Why a policy cannot run on a trace under some routes, or None where it can."""
    tables = trace.tables
    for part in spec.parts:
        policy = declaration(part.name)
        reason = lacking(policy, tables, trace.sparse)
        if reason is not None:
            return (
                f"{part.name} {reason}, which {trace.path} lacks; `replay policies TRACE` lists what it has"
            )
        if bound.bytes is not None and not policy.by_bytes:
            return f"{part.name} is not defined under a byte budget; give --slots"
        if routes.kind != "recorded" and policy.looks_ahead:
            return f"{part.name} knows the recorded future, which {routes.kind} routes change; use --routes recorded"
    return _routes_refusal(spec, routes, trace)


def _routes_refusal(spec: PolicySpec, routes: Routes, trace: Trace) -> str | None:
    """Why some routes cannot be followed, or None."""
    if spec.router is not None and routes.kind != "rerouted":
        return "router settings are read only under rerouted routes; add --routes rerouted, or leave the part out"
    if routes.kind in ("rerouted", "cacheprior") and not trace.has("router_scores"):
        return f"--routes {routes.text} needs the table router_scores, which {trace.path} lacks"
    if routes.kind == "cacheprior" and "router_scores" in trace.sparse:
        return "--routes cacheprior needs full score rows; this trace's router_scores are sparse"
    if routes.kind == "predicted" and spec.read_ahead.name not in ("unpert1", "unpert0", "route"):
        return "--routes predicted needs a ranked read-ahead policy: unpert1, unpert0 or route"
    return None


def choose(
    trace: Trace, texts: Sequence[str], routes: Sequence[Routes], bound: Bound, skip: bool
) -> tuple[list[tuple[PolicySpec, Routes]], list[str]]:
    """The specs to run, under which routes, and what was left out and why.

    Raises
    ------
    InputError
        A named policy cannot run and ``skip`` is not set, or none is left.
    """
    chosen, left = [], []
    plain = not texts and not trace.has("candidates")
    specs = parse_all(texts or (PLAIN_SPECS if plain else DEFAULT_SPECS))
    if plain:
        left.append(
            "left out the read-ahead policies unpert1, unpert0 and route: they need the table candidates, which "
            f"{trace.path} lacks; evictions are compared instead"
        )
    for kind in routes:
        for spec in specs:
            reason = refusal(spec, kind, trace, bound)
            if reason is None:
                chosen.append((spec, kind))
            elif skip or not texts:
                left.append(f"left out {spec.text}: {reason}")
            else:
                others = "" if len(specs) == 1 else "; or leave this policy out with --skip"
                raise InputError(f"policy {spec.text}: {reason}{others}")
    if not chosen:
        raise InputError(f"no policy is left to run: {left[-1]}")
    return chosen, left


def _retention(
    trace: Trace, spec: PolicySpec, drafts: Any
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows that count and committed tokens of every window, under a spec's draft retention."""
    windows = trace.windows
    if drafts is None:
        return None, (~windows.prefill).astype(np.int64)
    policy = retain.from_parts(spec.retention)
    tokens = retain.committed(windows.rows, windows.prefill, drafts, policy)
    if not spec.retention:
        return None, tokens
    retain.require_recorded(
        policy,
        retain.recorded_retention(trace.meta.policy, trace.meta.engine),
        int(windows.rows.max(initial=1)) - 1,
    )
    return retain.rows_used(windows.rows, drafts, policy), tokens


@dataclass
class Builder:
    """Makes the lanes of a comparison; those that must give the same counts share one.

    Attributes
    ----------
    trace : Trace
    bound : Bound
    semantics : Semantics
    clock : ClockParams or None
    keep_reads : bool
    clocks : sequence of ClockParams
        Further clocks over every main lane.
    keep_windows : bool
        Keep every window's sums of the main lanes.
    """

    trace: Trace
    bound: Bound
    semantics: Semantics
    clock: ClockParams | None
    keep_reads: bool = False
    clocks: Sequence[ClockParams] = ()
    keep_windows: bool = True

    def __post_init__(self) -> None:
        self.shape = Shape.of(self.trace)
        self.drafts = retain.read_drafts(self.trace) if self.trace.has("drafts") else None
        self.nominal = self.clock or load_clock(None, self.trace.meta.io)
        self._shared: dict[Hashable, Entry] = {}
        self._views: dict[bytes, NDArray[np.int64]] = {}

    def rows(self, spec: PolicySpec) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Rows that count (None: all; one array for each choice) and committed tokens of every window."""
        used, tokens = _retention(self.trace, spec, self.drafts)
        if used is not None:
            used = self._views.setdefault(used.tobytes(), used)
        return used, tokens

    def candidate(self, spec: PolicySpec, routes: Routes, grid: Sequence[float]) -> Candidate:
        """A policy's lanes at the bound and over the grid (factors of the bound)."""
        policy = self._priced(resolve(spec, self.trace.meta), routes)
        for clock in (self.clock, *self.clocks):
            refuse_overflow(self.trace, policy, self.semantics, clock)
        used, tokens = self.rows(spec)
        main = self.entry(policy, routes, used, self.bound, True)
        one = Candidate(spec.text, routes.text, tokens, main.tally, policy, main)
        for factor in grid:
            at = self.bound.scaled(factor)
            same = (at.slots, at.bytes) == (self.bound.slots, self.bound.bytes)
            one.points.append(Point(at, main if same else self.entry(policy, routes, used, at, False)))
        return one

    def _priced(self, policy: Resolved, routes: Routes) -> Resolved:
        """A policy whose price is a number, where need be found on the sessions that its q file was learned on."""
        if not asks_budget(policy):
            return policy

        def read(training: Trace, policies: Sequence[Resolved]) -> list[float]:
            builder = Builder(training, self.bound, self.semantics, self.nominal, keep_windows=False)
            used, tokens = builder.rows(policy.spec)
            entries = [builder.entry(each, routes, used, self.bound, False) for each in policies]
            play(training, list({id(each): each for each in entries}.values()))
            for each in entries:
                if each.lane.failure is not None:
                    raise InputError(f"policy {policy.spec.text}: in training, {each.lane.failure}")
            count = max(int(tokens[self.semantics.warm :].sum()), 1)
            return [each.tally.total("issued_bytes", 0) / count for each in entries]

        slowest = min(self.nominal.stream_gbps, self.nominal.device_gbps)
        sizes = self.trace.sizes
        whole_us = self.nominal.latency_us + float(sizes.max()) / slowest / 1000.0
        return priced(policy, self.trace, whole_us / float(sizes.min()), read)

    def entry(
        self, policy: Resolved, routes: Routes, used: NDArray[np.int64] | None, at: Bound, main: bool
    ) -> Entry:
        """The lane of a policy at one capacity; the main one has the clock and keeps windows and reads."""
        does = identity(policy, routes.kind, self.shape.top_k)
        key = (does, routes, id(used), at.slots, at.bytes, at.by_layer, main)
        if key not in self._shared:
            timed, trace = main and self.clock is not None, self.trace
            plan = at.plan(trace.classes, self.semantics.scope == "layer")
            lane = Lane(self.shape, plan, policy, self.semantics, routes, used, log=timed, clock=self.nominal)
            name = f"{policy.spec.text} ({routes.text})"
            tally = Tally(name, self.shape.layers, self.semantics.warm, timed, main and self.keep_windows)
            clock = None
            if main and self.clock is not None:
                clock = Clock(self.clock, trace.sizes, split=self.semantics.split)
            entry = Entry(lane, tally, clock, self.keep_reads and main)
            if main and lane.settings[fr.GATES]:
                entry.outcomes = Outcomes(self.shape.layers, self.semantics.warm)
            if main and routes.kind in ("rerouted", "cacheprior"):
                entry.given_up = GivenUp(self.shape.layers, self.semantics.warm)
            if main:
                entry.others = [self._under(params, name) for params in self.clocks]
            self._shared[key] = entry
        return self._shared[key]

    def _under(self, params: ClockParams, name: str) -> Under:
        """One more clock over a lane, and its sums."""
        clock = Clock(params, self.trace.sizes, split=self.semantics.split)
        return Under(clock, Tally(name, self.shape.layers, self.semantics.warm, True, False))
