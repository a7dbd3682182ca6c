"""The residency of a replay, step by step (semantics 3 and 4): the slow twin of the engine.

It decides everything but time, and leaves a log of what happened in order, from which `slow.clock` gives
every read its fate.

Choices where the semantics are silent
--------------------------------------
- A limbo slot's expert is absent for everyone: a miss or a guess of it loads a second copy.
- `issued`, `retired`, `dropped` and their bytes are counted at the target layer, also for a read reclaimed
  at another layer's event.
- A demand miss may evict experts of its own layer that are not pinned; only a guess avoids its layer.
- Hot experts go before anything is reclaimed.
- CAP of `stream` counts absent experts met, issued or dropped; its walk ends with the last of them.
- `warm:N` windows leave no counters at all; peaks count slots, carried-over limbo included.
- A recorded start makes room as a demand load does, nothing pinned; with a byte budget each load trims its
  arena, sparing itself; it counts as a decode window for decode2q.
- What `slow.routes` says of routes that are not the recorded ones.
- A miss that its policy declines to keep stays in a transient slot until the event's end: a repeat of it
  under `cell=sequential` is an arena hit without a claim.
"""

from __future__ import annotations

from collections.abc import Callable

from .arena import Arena, ArenaTooSmall
from .clock import SlowClock
from .evict import POLICIES
from .gate import GATES, Candidate, Deadlines, Plan, features, plain
from .history import PREDICTORS
from .predict import groups, merged
from .result import COUNTERS, BeginWindow, Event, Issue, SlowResult
from .routes import SlowRoutes, mass_given_up
from .spec import SlowOptions, SlowSpec, ranking, router_settings
from .trace import Key, SlowTrace


class _Replay:
    """One replay in progress."""

    def __init__(self, trace: SlowTrace, spec: SlowSpec, options: SlowOptions, clock: SlowClock) -> None:
        self.trace, self.spec, self.options = trace, spec, options
        self.routes = SlowRoutes(trace, options, router_settings(spec, trace), ranking(spec, trace))
        if options.kind != "recorded" and (spec.prefetch == "oracle" or POLICIES[spec.evict].looks_ahead):
            raise ValueError("what looks ahead needs recorded routes")
        self.result = SlowResult()
        future = self.recorded_events() if options.kind == "recorded" else []
        self.arena = Arena(
            trace, spec.evict, spec.evict_options, options.slots, options.budget, options.scope,
            [(layer, ids) for _, layer, ids in future], [number for number, _, _ in future],
        )  # fmt: skip
        teachable = PREDICTORS.get(spec.prefetch)
        self.history = teachable(trace, **spec.prefetch_options) if teachable else None
        self.index = self.entry = -1
        self.popularity: dict[Key, int] = {}
        self.reads = 0
        self.reading: dict[Key, int] = {}
        self.count: dict[tuple[int, int], dict[str, int]] = {}
        self.peak = (0, 0)
        self.plan = Plan(trace, clock)
        own = [Deadlines(trace, {}, self.plan)] if spec.prefetch == "seqmoe" else []
        self.gates = own + [GATES[name](trace, chosen, self.plan) for name, chosen in spec.gates]
        self.named: dict[Key, set[str]] = {}

    def rows(self, window: int) -> int:
        """Rows of a window that draft retention keeps."""
        return min(self.trace.windows[window].rows, self.options.rows_used.get(window, 1 << 30))

    def recorded_events(self) -> list[tuple[int, int, list[int]]]:
        """Under recorded routes every event's (sequential: lookup's event's) number, layer and wanted ids."""
        found = []
        for w in range(len(self.trace.windows)):
            for layer in range(self.trace.layers):
                number = w * self.trace.layers + layer
                picks = [e for row in range(self.rows(w)) for e in self.trace.picks[w, row, layer]]
                if self.options.cell == "sequential":
                    found += [(number, layer, [e]) for e in picks]
                else:
                    found.append((number, layer, sorted(set(picks))))
        return found

    def run(self) -> SlowResult:
        """Replay every window."""
        if self.options.start == "recorded":
            self.start_recorded()
        for window, (_, prefill, _) in enumerate(self.trace.windows):
            self.begin_window(window, prefill)
            ahead = {} if prefill or self.spec.prefetch == "none" else self.predictions(window)
            for gate in [] if prefill else self.gates:
                gate.begin_window()
            self.issue_group(window, -1, ahead.get(-1, []))
            for layer in range(self.trace.layers):
                if prefill:
                    self.stream(window, layer)
                self.event(window, layer)
                self.arena.turn_limbo()
                self.plan.pass_event(window, layer)
                self.issue_group(window, layer, ahead.get(layer, []))
            self.end_window(window)
        return self.result

    def start_recorded(self) -> None:
        """Insert the first resident snapshot of each layer, ascending, without claims."""
        for layer in range(self.trace.layers):
            windows = sorted(w for w, la in self.trace.residents if la == layer)
            for expert in self.trace.residents[windows[0], layer] if windows else []:
                self.insert((layer, expert))

    def insert(self, key: Key) -> None:
        """Insert one expert of a recorded start."""
        found = self.arena.demand(key, (), ())
        if found is not None:
            self.arena.put(key, found[0])
            self.arena.part(key).trim(lambda k: k != key, key)

    def begin_window(self, window: int, prefill: bool) -> None:
        """Start a window's counters and peaks, and tell the arena."""
        for layer in range(self.trace.layers):
            self.count[window, layer] = dict.fromkeys(COUNTERS, 0)
        self.arena.begin_window(prefill, self.options.prompt_hot)
        self.routes.begin_window()
        self.peak = self.arena.counts()
        self.result.log.append(BeginWindow(window))

    def end_window(self, window: int) -> None:
        """Keep a counted window's counters, and check that its read-ahead is settled."""
        assert not self.reading, "every guess meets its event in its own window"
        if self.history is not None and not self.trace.windows[window].prefill:
            self.history.end_window(window, self.rows(window))
        if window >= self.options.warm:
            self.result.peaks[window] = self.peak
            for layer in range(self.trace.layers):
                self.result.counters[window, layer] = self.count[window, layer]

    def note_peaks(self) -> None:
        """Raise the window's peaks to what is speculative and in limbo now."""
        speculative, limbo = self.arena.counts()
        self.peak = (max(self.peak[0], speculative), max(self.peak[1], limbo))

    def predictions(self, window: int) -> dict[int, list[tuple[int, list[int]]]]:
        """Predictions of a decode window by their moment; counts the windows that have none recorded."""
        if self.history is not None:
            return self.history.moments(window, self.rows(window))
        found = groups(self.trace, window, self.rows(window), self.spec.prefetch == "oracle")
        if not found and window >= self.options.warm:
            self.result.uncovered_windows += 1
        return found

    def issue_group(self, window: int, after: int, group: list[tuple[int, list[int]]]) -> None:
        """Act on the predictions of one moment, ascending target layer, each ranked at its own turn."""
        for target, rows in sorted(group):
            if self.spec.prefetch == "oracle":
                kept = range(self.rows(window))
                experts = sorted({e for row in kept for e in self.trace.picks[window, row, target]})
                shown = plain(self.trace, target, experts)
            elif self.history is not None:
                experts = self.history.propose(window, self.rows(window), target)
                shown = plain(self.trace, target, experts)
            else:
                residents = self.arena.residents(target)
                how = self.routes.predict(window, target, rows, residents)
                experts = merged(self.trace, window, target, rows, residents, how)
                shown = []
                if self.gates:
                    shown = features(self.trace, window, target, rows, experts, residents, how)
            deadline = self.plan.deadline(window, after, target)
            self.issue(window, target, experts, self.spec.touch, shown, deadline, len(rows))

    def admitted(self, one: Candidate, deadline: int) -> bool:
        """Ask the gates in order, and note what came of it."""
        marks = self.named.setdefault(one.key, set())
        marks.add("asked")
        if all(gate.admits(one, deadline) for gate in self.gates):
            marks.add("admitted")
            return True
        return False

    def unbeaten(self, key: Key, spared: Callable[[Key], bool]) -> Callable[[Key], bool]:
        """What a guess must not evict: what is spared anyway, and with `spare` what it does not beat."""
        if self.spec.spare is None:
            return spared
        factor, more = self.spec.spare
        mine = self.popularity.get(key, 0)
        return lambda k: spared(k) or mine < factor * self.arena.part(k).held[k] + more

    def settle(self, window: int, layer: int, wanted: list[Key]) -> None:
        """Count what became of the event's candidates, and let the gates learn."""
        mine = {key: marks for key, marks in self.named.items() if key[0] == layer}
        asked = {key for key, marks in mine.items() if "asked" in marks}
        admitted = {key for key, marks in mine.items() if "admitted" in marks}
        self.result.outcomes[window, layer] = (
            len(asked),
            len(admitted),
            len(asked & set(wanted)),
            len(admitted & set(wanted)),
        )
        for key in sorted(mine):
            for gate in self.gates:
                gate.learn(key, key in wanted)
            del self.named[key]

    def issue(
        self,
        window: int,
        target: int,
        experts: list[int],
        touch: bool,
        shown: list[Candidate] | None = None,
        deadline: int = 0,
        rows: int = 0,
    ) -> None:
        """Walk a merged list: skip, touch, issue or drop (semantics 3); `shown` is what gates are asked about."""
        listed = {(target, e) for e in experts}
        spared: Callable[[Key], bool]
        if self.options.scope == "layer":
            spared = listed.__contains__
        else:
            spared = lambda key: key[0] == target  # noqa: E731
        count = self.count[window, target]
        gated = bool(self.gates) and shown is not None
        for gate in self.gates if gated and shown is not None else []:
            gate.begin_list(shown, rows)
        for place, expert in enumerate(experts):
            key = (target, expert)
            if gated:
                self.named.setdefault(key, set())
            if self.arena.is_speculative(key):
                continue
            if self.arena.is_resident(key):
                if touch:
                    self.arena.touch(key)
                continue
            if gated and shown is not None and not self.admitted(shown[place], deadline):
                continue
            if not self.arena.guess(key, self.unbeaten(key, spared) if shown is not None else spared):
                count["dropped"] += 1
                continue
            for gate in self.gates if gated and shown is not None else []:
                gate.issued(shown[place])
            count["issued"] += 1
            count["issued_bytes"] += self.trace.sizes[key]
            self.reading[key] = self.reads
            self.result.log.append(Issue(self.reads, window, key, self.trace.sizes[key]))
            self.reads += 1
            self.note_peaks()

    def stream(self, window: int, layer: int) -> None:
        """Read ahead in a prefill window, right before the layer's event (`stream:CAP`)."""
        cap = self.options.stream_cap(layer)
        if cap is None:
            return
        walk: list[int] = []
        absent = 0
        for expert in sorted(
            range(self.trace.experts), key=lambda e: (-self.popularity.get((layer, e), 0), e)
        ):
            if absent == cap:
                break
            walk.append(expert)
            absent += not self.arena.is_resident((layer, expert))
        self.issue(window, layer, walk, touch=False)

    def routed(self, window: int, layer: int) -> list[list[int]]:
        """Picks of the event's rows: recorded, or new ones over the residency before anything changes."""
        resident = self.arena.residents(layer)
        result, counted = self.result, window >= self.options.warm
        made = kept = 0
        picks = []
        for row in range(self.rows(window)):
            recorded = self.trace.picks[window, row, layer]
            new = self.routes.picks(window, row, layer, resident)
            picks.append(recorded if new is None else new)
            result.picks[window, row, layer] = picks[-1]
            if new is None:
                result.uncovered_rows += counted and self.options.kind != "recorded"
                continue
            made, kept = made + len(new), kept + len(set(new) & set(recorded))
            scores = self.trace.router_scores.get((window, row, layer))
            if new and scores is not None and self.options.kind != "predicted":
                result.given_up[window, row, layer] = mass_given_up(scores, new)
        result.agreement[window, layer] = made, kept
        return picks

    def event(self, window: int, layer: int) -> None:
        """`at_layer` (semantics 4)."""
        self.index += 1
        self.arena.begin_event(self.index)
        if self.options.keep_residents:
            self.result.residents[window, layer] = self.arena.residents(layer)
        occurrences = [(layer, e) for row in self.routed(window, layer) for e in row]
        event = Event(window, layer, [], [], [])
        wanted = sorted(set(occurrences))
        if self.history is not None and not self.trace.windows[window].prefill:
            self.history.learn(layer, {e for _, e in wanted})
        try:
            if self.options.cell == "sequential":
                self.sequential(event, occurrences)
            else:
                self.atomic(event, occurrences)
        except ArenaTooSmall as reason:
            raise ArenaTooSmall(
                f"window {window}, layer {layer}: {reason} cannot hold the event's {len(wanted)} experts"
            ) from None
        for key in self.arena.retire(layer, wanted, self.options.split):
            self.retire_read(event, key)
        self.note_peaks()
        if self.options.cell == "atomic":
            members = set(wanted)
            for key in sorted(self.arena.parts):
                if self.options.scope == "global" or key[0] == layer:
                    self.arena.parts[key].trim(lambda k: k not in members, None)
        if self.gates:
            self.settle(window, layer, wanted)
        for key in wanted:
            self.popularity[key] = self.popularity.get(key, 0) + 1
        self.result.log.append(event)

    def retire_read(self, event: Event, key: Key) -> None:
        """Count a read that ends unclaimed, at its own layer, and give it to the event's generation."""
        event.retired.append(self.reading.pop(key))
        count = self.count[event.window, key[0]]
        count["retired"] += 1
        count["retired_bytes"] += self.trace.sizes[key]

    def atomic(self, event: Event, occurrences: list[Key]) -> None:
        """Steps 2 and 3 for all wanted experts together, in the order of `order`."""
        wanted = set(occurrences)
        self.entry += 1
        self.arena.begin_entry(self.entry)
        present = {k for k in wanted if self.arena.is_resident(k) or self.arena.is_speculative(k)}
        pinned = set(present)
        if self.options.order == "id":
            turns = sorted(present) + sorted(wanted - present)
        else:
            last = {key: i for i, key in enumerate(occurrences)}
            turns = sorted(wanted, key=lambda k: last[k])
        for key in turns:
            self.look_up(event, key, pinned, wanted, set())
            pinned.add(key)

    def sequential(self, event: Event, occurrences: list[Key]) -> None:
        """Steps 2 and 3 one occurrence after another; a byte budget is trimmed after each load."""
        transient: set[Key] = set()
        for key in occurrences:
            self.entry += 1
            self.arena.begin_entry(self.entry)
            if self.look_up(event, key, (), set(occurrences), transient):
                self.arena.part(key).trim(lambda k, key=key: k != key, key)  # type: ignore[misc]

    def look_up(
        self, event: Event, key: Key, pinned: set[Key] | tuple[()], wanted: set[Key], transient: set[Key]
    ) -> bool:
        """One lookup: arena hit, prefetch hit, or miss; says whether it loaded."""
        count = self.count[event.window, event.layer]
        count["lookups"] += 1
        size = self.trace.sizes[key]
        if key in transient:
            count["hits"] += 1
            return False
        if self.arena.is_resident(key):
            count["hits"] += 1
            self.arena.claim(key, pinned)
            return False
        if self.arena.is_speculative(key):
            count["prefetch_hits"] += 1
            count["claimed_bytes"] += size
            event.claimed.append(self.reading.pop(key))
            self.arena.publish(key)
            self.arena.own_claim(key)
            if self.spec.guess == "tail" and not self.trace.windows[event.window].prefill:
                self.arena.to_tail(key)
            return False
        count["misses"] += 1
        count["pollution"] += key in self.arena.displaced
        self.arena.displaced.discard(key)
        count["demand_bytes"] += size
        event.demanded.append(key)
        found = self.arena.demand(key, pinned, wanted)
        if found is None:
            transient.add(key)
            return False
        slot, lost = found
        if lost is not None:
            self.retire_read(event, lost)
        self.arena.put(key, slot)
        self.arena.own_claim(key)
        return True


def replay_slow(
    trace: SlowTrace, spec: SlowSpec, options: SlowOptions, clock: SlowClock | None = None
) -> SlowResult:
    """Replay a trace through one policy, slowly; the clock is only for the nominal plan of gates.

    Raises
    ------
    ArenaTooSmall
        When the arena cannot hold one event.
    ValueError
        When an option is one that the policy does not read.
    """
    return _Replay(trace, spec, options, clock or SlowClock()).run()
