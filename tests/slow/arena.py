"""Slots, speculation, limbo and room-making of the slow twin (semantics 3 and 4).

Slots of every part are numbered from 0. With a byte budget slots have no bound and their numbers mean
nothing, but an expert in use still holds one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from .evict import POLICIES, Context, Eviction
from .trace import Key, SlowTrace


class ArenaTooSmall(Exception):
    """The arena cannot hold one event (semantics 4)."""


@dataclass
class Part:
    """One arena of one size class: its slots, who is in them, and its eviction policy.

    A slot is in exactly one of `free`, `resident`, `speculative`, `old_limbo` and `new_limbo`. The last four
    map an expert to its slot, or a limbo slot to the bytes that it still holds.
    """

    name: str
    policy: Eviction
    free: set[int] = field(default_factory=set)
    resident: dict[Key, int] = field(default_factory=dict)
    speculative: dict[Key, int] = field(default_factory=dict)
    old_limbo: dict[int, int] = field(default_factory=dict)
    new_limbo: dict[int, int] = field(default_factory=dict)
    last_use: dict[Key, int] = field(default_factory=dict)
    held: dict[Key, int] = field(default_factory=dict)
    hot: set[Key] = field(default_factory=set)
    top: int = 0

    @property
    def context(self) -> Context:
        """What the policy knows, bounds included."""
        return self.policy.context

    def used_bytes(self) -> int:
        """Bytes of every slot in use, limbo and speculation too."""
        held = sum(self.context.sizes[key] for key in [*self.resident, *self.speculative])
        return held + sum(self.old_limbo.values()) + sum(self.new_limbo.values())

    def take_free(self) -> int | None:
        """Lowest-numbered free slot, or None; with a byte budget always one."""
        if not self.free and self.context.slots is None:
            self.free.add(self.top)
            self.top += 1
        if not self.free:
            return None
        slot = min(self.free)
        self.free.remove(slot)
        return slot

    def evict_one(self, eligible: Callable[[Key], bool], incoming: Key | None) -> bool:
        """Evict one eligible resident, a hot one only when nothing else is; say whether there was one."""
        key = self.policy.victim(lambda k: eligible(k) and k not in self.hot, incoming)
        if key is None and self.hot:
            key = self.policy.victim(eligible, incoming)
        if key is None:
            return False
        assert key in self.resident and eligible(key)
        self.evict(key)
        return True

    def evict(self, key: Key) -> None:
        """Evict a resident."""
        self.policy.leave(key)
        self.free.add(self.resident.pop(key))
        self.hot.discard(key)
        del self.last_use[key], self.held[key]

    def trim(self, eligible: Callable[[Key], bool], incoming: Key | None) -> None:
        """Evict in victim order until the byte budget holds or nothing is left to evict."""
        budget = self.context.budget
        while budget is not None and self.used_bytes() > budget and self.evict_one(eligible, incoming):
            pass


class Arena:
    """All parts, and the moves of semantics 4 between free, resident, speculative and limbo.

    Parameters
    ----------
    trace
        Shapes, sizes and classes.
    evict, evict_options
        The eviction policy of every part.
    slots
        Slots a class; or slots of each (layer, class), a budget file. None with a byte budget.
    budget
        Bytes in all; or bytes of each layer. None with a slots bound.
    scope
        `global` or `layer`.
    events, numbers
        What look-ahead policies know, see `Context`.

    Attributes
    ----------
    displaced
        Experts that a guess evicted and nothing has read since: a miss on one is pollution.
    """

    def __init__(
        self,
        trace: SlowTrace,
        evict: str,
        evict_options: dict[str, Any],
        slots: dict[int, int] | dict[Key, int] | None,
        budget: int | dict[int, int] | None,
        scope: str,
        events: list[tuple[int, list[int]]],
        numbers: list[int],
    ) -> None:
        self.trace = trace
        self.scope = scope
        self.by_class = slots is not None
        self.ticks = 0
        self.parts: dict[tuple[int, int], Part] = {}
        self.displaced: set[Key] = set()
        for part in sorted({self.part_key(key) for key in trace.sizes}):
            bound = None if slots is None else slots_of(part, slots, scope, trace.layers)
            share = None if budget is None else bytes_of(part, budget, scope, trace.layers)
            context = Context(
                bound,
                share,
                trace.sizes,
                events,
                numbers,
                options=dict(evict_options),
                number=self.number(part),
                keys=frozenset(key for key in trace.sizes if self.part_key(key) == part),
                trace=trace,
                token=trace.top_k * (1 if scope == "layer" else trace.layers),
            )
            name = f"layer {part[0]}, class {part[1]}" if scope == "layer" else f"class {part[1]}"
            self.parts[part] = Part(name, POLICIES[evict](context), set(range(bound or 0)))

    def part_key(self, key: Key) -> tuple[int, int]:
        """(layer or -1, class or 0) of the part that holds an expert."""
        return (key[0] if self.scope == "layer" else -1, self.trace.classes[key] if self.by_class else 0)

    def number(self, part: tuple[int, int]) -> int:
        """Number of a part: its class, or layer x classes + class."""
        classes = max(self.trace.classes.values()) + 1 if self.by_class else 1
        return part[1] if self.scope == "global" else part[0] * classes + part[1]

    def part(self, key: Key) -> Part:
        """The part that holds an expert."""
        return self.parts[self.part_key(key)]

    def is_resident(self, key: Key) -> bool:
        """Whether the expert is in the arena and published."""
        return key in self.part(key).resident

    def is_speculative(self, key: Key) -> bool:
        """Whether the expert is in a speculative slot."""
        return key in self.part(key).speculative

    def residents(self, layer: int) -> list[int]:
        """Published residents of one layer, ascending."""
        return sorted(e for part in self.parts.values() for (la, e) in part.resident if la == layer)

    def begin_window(self, prefill: bool, prompt_hot: int) -> None:
        """Tell the policies the phase, and fix the hot experts of a prefill window as of its start."""
        for part in self.parts.values():
            part.context.prefill = prefill
            recent = sorted(part.last_use, key=lambda k: -part.last_use[k])
            part.hot = part.context.hot = set(recent[:prompt_hot]) if prefill else set()

    def begin_event(self, number: int) -> None:
        """Tell the policies which event begins."""
        for part in self.parts.values():
            part.context.event = number

    def begin_entry(self, index: int) -> None:
        """Tell the policies which entry of their list of events begins."""
        for part in self.parts.values():
            part.context.now = index

    def use(self, key: Key) -> None:
        """Note a use (a load, a claim, or a touch that moved) for `--prompt-hot`."""
        self.ticks += 1
        self.part(key).last_use[key] = self.ticks

    def claim(self, key: Key, pinned: Collection[Key]) -> None:
        """Claim a resident, a hit; a policy may evict another at once."""
        part = self.part(key)
        lost = part.policy.pushed_out(key, lambda k: k not in pinned and k not in part.hot)
        if lost is not None:
            part.evict(lost)
        part.policy.claim(key)
        part.held[key] += 1
        self.use(key)

    def own_claim(self, key: Key) -> None:
        """Count a load's own claim."""
        self.part(key).policy.own_claim(key)
        self.part(key).held[key] += 1
        self.use(key)

    def touch(self, key: Key) -> None:
        """Touch a resident guess."""
        if self.part(key).policy.touch(key):
            self.use(key)

    def put(self, key: Key, slot: int) -> None:
        """Enter a fresh load into a slot, published."""
        part = self.part(key)
        part.resident[key] = slot
        part.held[key] = 0
        part.policy.enter(key)
        self.use(key)

    def publish(self, key: Key) -> None:
        """Make a speculative expert a fresh resident."""
        self.put(key, self.part(key).speculative.pop(key))

    def to_tail(self, key: Key) -> None:
        """Put a claimed guess at the victim end of its list (`guess=tail`)."""
        policy: Any = self.part(key).policy
        order = policy.order if hasattr(policy, "order") else policy.queue
        order.remove(key)
        order.append(key)

    def guess(self, key: Key, spared: Callable[[Key], bool]) -> bool:
        """Find room for a guess and make it speculative; say whether there was any (semantics 3)."""
        part = self.part(key)
        before = set(part.resident)
        found = self._room(part, key, spared)
        self.displaced |= before - set(part.resident)
        if found:
            self.displaced.discard(key)
        return found

    def _room(self, part: Part, key: Key, spared: Callable[[Key], bool]) -> bool:
        """Evict until a guess has a slot and fits."""

        def eligible(k: Key) -> bool:
            return not spared(k)

        budget = part.context.budget
        if budget is not None:
            while part.used_bytes() + self.trace.sizes[key] > budget:
                if not part.evict_one(eligible, None):
                    return False
        slot = part.take_free()
        if slot is None:
            if not part.evict_one(eligible, None):
                return False
            slot = part.take_free()
        assert slot is not None
        part.speculative[key] = slot
        return True

    def demand(
        self, key: Key, pinned: Collection[Key], wanted: Collection[Key]
    ) -> tuple[int, Key | None] | None:
        """Find a slot for a demand miss (semantics 4, step 3 and the paragraph on reclaiming).

        Returns
        -------
        tuple of the slot and the speculative expert that was reclaimed for it, if any; None when the policy
        declines to keep the miss.

        Raises
        ------
        ArenaTooSmall
            When nothing can be evicted or reclaimed.
        """
        part = self.part(key)

        def eligible(k: Key) -> bool:
            return k not in pinned

        slot = part.take_free()
        if slot is not None:
            return slot, None
        if part.policy.declines(key, eligible):
            return None
        if part.evict_one(eligible, key):
            slot = part.take_free()
            assert slot is not None
            return slot, None
        for limbo in (part.old_limbo, part.new_limbo):
            assert limbo is not part.new_limbo or not limbo, "the new generation is empty before step 4"
            if limbo:
                slot = min(limbo)
                del limbo[slot]
                return slot, None
        unwanted = sorted((slot, k) for k, slot in part.speculative.items() if k not in wanted)
        if unwanted:
            slot, lost = unwanted[0]
            del part.speculative[lost]
            return slot, lost
        raise ArenaTooSmall(part.name)

    def retire(self, layer: int, wanted: Collection[Key], split: bool) -> list[Key]:
        """Retire the layer's unwanted speculation (step 4), to the new limbo generation or to free slots."""
        retired = []
        for part in self.parts.values():
            for key in sorted(k for k in part.speculative if k[0] == layer and k not in wanted):
                slot = part.speculative.pop(key)
                if split:
                    part.new_limbo[slot] = self.trace.sizes[key]
                else:
                    part.free.add(slot)
                retired.append(key)
        return sorted(retired)

    def turn_limbo(self) -> None:
        """Free the old generation; the new one becomes old (`after_layer`)."""
        for part in self.parts.values():
            part.free.update(part.old_limbo)
            part.old_limbo, part.new_limbo = part.new_limbo, {}

    def counts(self) -> tuple[int, int]:
        """Speculative and limbo slots now, of all parts."""
        parts: Iterable[Part] = self.parts.values()
        limbo = sum(len(p.old_limbo) + len(p.new_limbo) for p in self.parts.values())
        return sum(len(p.speculative) for p in parts), limbo


def equal_share(total: int, layers: int, layer: int) -> int:
    """The layer's equal share: `total // layers`, the first `total % layers` layers one more."""
    return total // layers + (layer < total % layers)


def slots_of(part: tuple[int, int], slots: dict[Any, int], scope: str, layers: int) -> int:
    """Slots of one part; a class or a (layer, class) that the bound does not name has none."""
    layer, size_class = part
    if scope == "global":
        return slots.get(size_class, 0)
    if slots and all(isinstance(key, tuple) for key in slots):
        return slots.get((layer, size_class), 0)
    return equal_share(slots.get(size_class, 0), layers, layer)


def bytes_of(part: tuple[int, int], budget: int | dict[int, int], scope: str, layers: int) -> int:
    """Bytes of one part."""
    if isinstance(budget, dict):
        return budget.get(part[0], 0)
    return budget if scope == "global" else equal_share(budget, layers, part[0])
