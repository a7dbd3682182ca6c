"""A lane: one policy at one bound, with the state that it carries from chunk to chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import replay.engine.frame as fr
import replay.gate.admission as ad
from replay import gate
from replay.arena.memory import build
from replay.arena.partition import Plan
from replay.arena.record import (
    EQUAL_TIMES,
    EVENT_TIMES,
    GUESS_TAIL,
    INSIDE,
    KEY_SIZE,
    KEYS,
    LATER,
    LOGGED,
    NEXT_USE,
    TRACKED,
    WINDOW_TIMES,
)
from replay.clock.nominal import Plan as NominalPlan
from replay.clock.nominal import lay_plan
from replay.clock.timing import ClockParams, event_times
from replay.declare.semantics import RECORDED_ROUTES, Routes, Semantics
from replay.engine.loop import run_chunk
from replay.evict import load as load_eviction
from replay.evict.plain import taken_inside
from replay.lane.room import log_rows, output, scratch, widest_row
from replay.lane.setting import rates_of, raw_ranking, reach, read_ahead, settings_of
from replay.lane.shape import Shape
from replay.prepare.chunk import IN_PLAY, Demand, Prepared
from replay.prepare.lookahead import Future
from replay.prepare.moment import listed, no_guesses
from replay.spec.grammar import declaration
from replay.spec.resolve import Resolved
from replay.units import counted

if TYPE_CHECKING:
    from replay.predict.maps import Maps


@dataclass(frozen=True)
class Failure:
    """Why a replay stopped: the arena cannot hold one event."""

    window: int
    layer: int
    size_class: int
    slots: int
    needed: int

    def __str__(self) -> str:
        of_class = f", class {self.size_class}" if self.size_class > 0 else ""
        there, wanted = counted(self.slots, "slot"), counted(self.needed, "expert")
        return (
            f"window {self.window}, layer {self.layer}{of_class}: the arena's {there} cannot hold one event that wants "
            f"{wanted}; give at least {self.needed}{' of that class' if of_class else ''}"
        )


def _maps(shape: Shape, policy: Resolved) -> Maps | None:
    """The store of a policy that matches whole windows, or None."""
    if policy.spec.read_ahead.name != "finemoe":
        return None
    from replay.predict.maps import Maps  # compiled only where it is needed

    values = policy.values["finemoe"]
    return Maps(shape.layers, shape.experts, shape.top_k, values["store"], values["d"], IN_PLAY)


class Lane:
    """One policy at one bound.

    Parameters
    ----------
    shape : Shape
    plan : Plan
        The bound, cut into parts.
    policy : Resolved
    semantics : Semantics
    routes : Routes
    rows_used : int64[windows], optional
        Rows of every window of the trace that count (draft retention); all where None.
    log, got, residents : bool
        Keep the event log, every lookup's outcome, the residents before every event.
    clock : ClockParams, optional
        What the nominal plan is made of (:mod:`replay.clock.nominal`); the defaults where None.

    Attributes
    ----------
    maps : Maps or None
        The store of ``finemoe``, which lanes that see the same may share.
    failure : Failure or None
        Why the lane stopped; a stopped lane ignores further chunks.
    looks_ahead : str
        What its eviction policy reads of the future; where that is something, :meth:`foresee` has to be called
        before anything is played.
    planned : bool
        Whether it asks for the nominal plan: :meth:`step` then reads compute times.
    """

    planned = False
    maps: Maps | None = None

    def __init__(
        self,
        shape: Shape,
        plan: Plan,
        policy: Resolved,
        semantics: Semantics,
        routes: Routes = RECORDED_ROUTES,
        rows_used: NDArray[np.int64] | None = None,
        *,
        log: bool = False,
        got: bool = False,
        residents: bool = False,
        clock: ClockParams | None = None,
    ) -> None:
        self.shape, self.policy, self.semantics, self.routes, self.rows_used = (
            shape,
            policy,
            semantics,
            routes,
            rows_used,
        )
        evict = policy.spec.evict
        self.steps = load_eviction(evict.name)
        options = policy.values[evict.name]
        words = self.steps.words(plan, shape, options)
        ahead = read_ahead(policy)
        taught = policy.values[policy.spec.read_ahead.name]
        past = ahead.words(shape, taught) if hasattr(ahead, "words") else 0
        self.memory = build(plan, shape.sizes, words, top_k=shape.top_k, past_words=past)
        if hasattr(ahead, "setup"):
            ahead.setup(self.memory, shape, taught)
        self.maps = _maps(shape, policy)
        spares = policy.acting.get("spare") is not None
        self.memory[TRACKED] = spares or semantics.prompt_hot is not None
        self.memory[GUESS_TAIL] = policy.acting.get("guess") == "tail"
        self.steps.setup(self.memory, options)
        self.memory[INSIDE] = taken_inside(self.steps.enter, self.steps.claim, self.steps.victim)
        self.settings = settings_of(shape, policy, semantics, routes)
        self.looks_ahead = declaration(evict.name).looks_ahead
        self.settings[fr.LOOK_AHEAD] = self.looks_ahead != ""
        self.logging = log
        self.rates = rates_of(policy, routes, shape.layers)
        self.got, self.residents = got, residents
        self.failure: Failure | None = None
        self._future: Future | None = None
        self._work: fr.Work | None = None
        self._most_wanted = 0
        self._set_gates(clock or ClockParams())

    def _set_gates(self, clock: ClockParams) -> None:
        """Lay out the gates' memory and the nominal plan."""
        shape, names = self.shape, [part.name for part in self.policy.spec.gates]
        loaded = [(gate.load(name), self.policy.values[name]) for name in names]
        ranking = raw_ranking(self.policy, shape) or self.policy.ranking
        areas = [each.lay(options, shape, ranking) for each, options in loaded]
        kinds = [list(gate.POLICIES).index(name) for name in names]
        if own := hasattr(ahead := read_ahead(self.policy), "lay"):
            areas.insert(0, ahead.lay(self.policy.values[self.policy.spec.read_ahead.name], shape))
            kinds.insert(0, ad.OF_READ_AHEAD)
        self.gating = ad.lay(shape.layers, shape.experts, shape.top_k, kinds, areas)
        self.ask = gate.ask_all(bool(kinds))
        if any(each.summed for each, _ in loaded):
            self.gating.words[ad.SUMMED] = 1
        self.dense = any(each.dense for each, _ in loaded)
        self.planned = own or any(each.planned(options) for each, options in loaded)
        self.settings[fr.GATES], self.settings[fr.PLANNED] = len(kinds), self.planned
        self.clock = clock
        self.plan = lay_plan(clock.latency_ns, clock.device_gbps, clock.stream_gbps)

    def _time(self, prepared: Prepared, timing: Mapping[str, NDArray[Any]] | None) -> NominalPlan:
        """The nominal plan over a chunk."""
        if not self.planned:
            return self.plan
        first = prepared.first_window
        pre, post = event_times(self.clock, timing, first, first + len(prepared.prefill), self.shape.layers)
        return self.plan._replace(pre=pre.ravel(), post=post.ravel())

    def foresee(self, future: Future) -> None:
        """Take the future of the rows that count for this lane; experts of a recorded start know theirs."""
        self._future = future
        m = self.memory
        keys = m[KEYS] + KEY_SIZE * np.arange(len(future.first))
        m[keys + NEXT_USE], m[keys + LATER] = future.first, future.first_later
        m[EVENT_TIMES], m[WINDOW_TIMES] = future.span, future.span * self.shape.layers
        m[EQUAL_TIMES] = 1 if future.sequential else future.span

    def demand(self) -> Demand:
        """What this lane reads of the scores."""
        mode, kind = self.settings[fr.READ_AHEAD], self.routes.kind
        rerouted = kind in ("rerouted", "cacheprior")
        router = self.policy.router
        most = max(router.b * (2 if router.draft_moce else 1), router.r1, 0.0)
        picks = int(self.settings[fr.COUNT_K])
        return Demand(
            guesses=mode == fr.RANKED,
            picks=max(picks, self.shape.top_k) if kind == "predicted" or self.settings[fr.GATES] else picks,
            reach=reach(self.policy, self.routes, self.shape),
            moments=mode == fr.ORACLE,
            every=mode >= fr.PREVIOUS,
            rows=mode == fr.LISTED,
            router=rerouted,
            router_picks=self.shape.top_k if rerouted else 0,
            router_reach=most if kind == "rerouted" else 0.0,
            spread=kind == "cacheprior",
            prior=self.routes.prior,
            dense=self.dense,
        )

    def start(self, snapshots: dict[int, NDArray[np.int32]]) -> None:
        """Insert the first resident snapshot of each layer (start ``recorded``)."""
        from replay.engine.start import start_layer  # compiled only where it is needed

        for layer in sorted(snapshots):
            start_layer(
                self.memory, snapshots[layer], layer, self.shape.experts, self.steps.enter, self.steps.victim
            )

    def step(self, prepared: Prepared, timing: Mapping[str, NDArray[Any]] | None = None) -> fr.Output | None:
        """Play one chunk.

        Parameters
        ----------
        prepared : Prepared
        timing : mapping of str to ndarray, optional
            The trace's compute times of these windows, for the nominal plan.

        Returns
        -------
        Output or None
            What the chunk wrote; None where the lane has stopped.
        """
        if self.failure is not None:
            return None
        windows = len(prepared.prefill)
        events = self.view(prepared)
        if self.looks_ahead:
            assert self._future is not None, "foresee comes first"
            next_use, later = self._future.between(prepared.first_window, prepared.first_window + windows)
            events = events._replace(next_use=next_use, later=later)
        guesses = self._guesses(prepared, events)
        out = self._output(events, guesses)
        self.settings[fr.FIRST_WINDOW] = prepared.first_window
        s = self.steps
        stopped = run_chunk(
            self.memory, self.settings, self.rates, events, guesses, prepared.router, self._room(events), out,
            s.enter, s.claim, s.victim, s.touch, self.gating, self._time(prepared, timing), self.ask,
        )  # fmt: skip
        if stopped:
            self.failure = Failure(*(int(x) for x in out.failure[fr.FAIL_WINDOW :]))
            return None
        if self.logging:
            out = out._replace(log=out.log[: self.memory[LOGGED]])
        return out

    def _guesses(self, prepared: Prepared, events: fr.Events) -> fr.Guesses:
        """Where the lane's read-ahead acts in a chunk, and what it sees there."""
        mode = self.settings[fr.READ_AHEAD]
        if mode == fr.NOTHING:
            return no_guesses(len(prepared.prefill), self.shape.layers)
        if mode == fr.RANKED:
            return prepared.guesses
        if self.maps is not None:
            scores, start = prepared.router_rows(events.rows_used)
            return listed(*self.maps.lists(prepared.first_window, scores, start, events.rows_used))
        return prepared.moments if mode == fr.ORACLE else prepared.every

    def notes(self) -> list[str]:
        """What the eviction policy, and a read-ahead policy that admits its guesses itself, remark on the run."""
        found = self.steps.notes(self.memory)
        ahead = read_ahead(self.policy)
        if hasattr(ahead, "notes"):
            found = [*found, *ahead.notes(self.gating.words[self.gating.words[ad.OWN] :])]
        return found

    def view(self, prepared: Prepared) -> fr.Events:
        """The chunk's events over the rows that count for this lane."""
        used = None
        if self.rows_used is not None:
            first = prepared.first_window
            used = np.ascontiguousarray(self.rows_used[first : first + len(prepared.prefill)])
        return prepared.events(used)

    def _room(self, events: fr.Events) -> fr.Work:
        """Scratch space, wide enough for this chunk."""
        picks = self.shape.widest * widest_row(events, self.shape)
        if self._work is None or len(self._work.occurrence) < picks:
            self._work = scratch(self.shape, self.settings, picks)
        return self._work

    def _output(self, events: fr.Events, guesses: fr.Guesses) -> fr.Output:
        """Room for what a chunk writes."""
        rows = 0
        if self.logging:
            learns = self.settings[fr.READ_AHEAD] >= fr.PREVIOUS
            proposed = self._most_proposed(events) if learns else 0
            rows = log_rows(self.shape, self.settings, events, guesses, proposed)
        return output(self.shape, self.settings, events, rows, got=self.got, residents=self.residents)

    def _most_proposed(self, events: fr.Events) -> int:
        """Experts that a policy which learns from events can guess at once, from what was wanted so far."""
        rows = int(events.rows_used[events.prefill == 0].max(initial=0))
        self._most_wanted = max(self._most_wanted, rows * widest_row(events, self.shape))
        followers = self.policy.values[self.policy.spec.read_ahead.name].get("successors", 0)
        return min(self.shape.experts, self._most_wanted * (1 + int(followers)))


def combine(lanes: list[Lane]) -> Demand:
    """What a run's lanes together read of the scores."""
    every: list[Demand] = [lane.demand() for lane in lanes]

    def most(name: str) -> Any:
        return max(getattr(each, name) for each in every)

    return Demand(**{name: most(name) for name in Demand.__dataclass_fields__})
