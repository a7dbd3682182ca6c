"""What a slow replay is asked to do, with every default of semantics 3 and 4 resolved in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .trace import SlowTrace

ACTING = ("touch", "guess", "spare")
"""How guesses act on the arena: options of every read-ahead policy but none."""

READS = {
    "none": frozenset[str](),
    "unpert1": frozenset({"k", *ACTING}),
    "unpert0": frozenset({"k", "b", *ACTING}),
    "route": frozenset({"k", "p", "b", "r1", *ACTING}),
    "oracle": frozenset({*ACTING}),
    "previous": frozenset({*ACTING}),
    "finemoe": frozenset({*ACTING, "d", "store"}),
    "seqmoe": frozenset({*ACTING, "k", "extra"}),
    "stmoe": frozenset({*ACTING, "successors", "new"}),
}
"""Options that each read-ahead policy reads; another one is an error."""


@dataclass(frozen=True)
class SlowSpec:
    """Policies and their options.

    Attributes
    ----------
    prefetch, k, p, b, r1, touch
        Read-ahead policy; an option that is None comes from the trace's recorded `policy.prefetch`, then from
        its `router` (p, b, r1), then is 6, 3, 0.85 or 0. `touch` is never taken from the trace.
    guess, spare
        Where a claimed guess enters (`head`, `tail`); factor and number by which its uses beat a victim's.
    prefetch_options
        Options of its own that a read-ahead policy of `slow.history` reads.
    evict, evict_options
        Eviction policy of `slow.evict.POLICIES`.
    router_p, router_b, router_r1
        The router of rerouted routes; None: the trace's `router`, then 3, 0.85, 0.
    gates
        Name and options of each admission gate of `slow.gate.GATES`, in order.
    """

    prefetch: str = "none"
    k: int | None = None
    p: int | None = None
    b: float | None = None
    r1: float | None = None
    touch: bool = False
    guess: str | None = None
    spare: tuple[float, float] | None = None
    prefetch_options: dict[str, Any] = field(default_factory=dict)
    evict: str = "lru"
    evict_options: dict[str, Any] = field(default_factory=dict)
    router_p: int | None = None
    router_b: float | None = None
    router_r1: float | None = None
    gates: tuple[tuple[str, dict[str, Any]], ...] = ()

    def __post_init__(self) -> None:
        given = {name for name in ("k", "p", "b", "r1") if getattr(self, name) is not None}
        given |= {name for name in ("guess", "spare") if getattr(self, name) is not None}
        given |= {"touch"} if self.touch else set()
        given |= set(self.prefetch_options)
        unread = given - READS[self.prefetch]
        if unread:
            raise ValueError(f"{self.prefetch} does not read {sorted(unread)}")


@dataclass(frozen=True)
class Ranking:
    """Resolved read-ahead: picks a row, and the router's settings to pick them with."""

    count: int
    protect: int
    bonus: float
    r1_bonus: float


def first_known(*values: Any) -> Any:
    """First value that is not None: a recorded 0 counts."""
    return next(value for value in values if value is not None)


def ranking(spec: SlowSpec, trace: SlowTrace) -> Ranking:
    """Resolve K, p, b and r1 of the read-ahead policy (semantics 3)."""
    said = trace.prefetch
    count = first_known(spec.k, said.get("k"), 6)
    protect = first_known(spec.p, said.get("protect"), trace.protect, 3)
    bonus = first_known(spec.b, said.get("bonus"), trace.bonus, 0.85)
    r1_bonus = first_known(spec.r1, said.get("r1"), trace.r1_bonus, 0.0)
    if spec.prefetch == "seqmoe":
        count = first_known(spec.k, trace.top_k) + spec.prefetch_options.get("extra", 3)
    if spec.prefetch == "unpert0":
        return Ranking(count, 3, bonus, 0.0)
    if spec.prefetch == "route" and bonus > 0:
        return Ranking(count, protect, bonus, r1_bonus)
    return Ranking(count, count, 0.0, 0.0)


def router_settings(spec: SlowSpec, trace: SlowTrace) -> Ranking:
    """Resolve the router of rerouted routes."""
    return Ranking(
        trace.top_k,
        first_known(spec.router_p, trace.protect, 3),
        first_known(spec.router_b, trace.bonus, 0.85),
        first_known(spec.router_r1, trace.r1_bonus, 0.0),
    )


@dataclass(frozen=True)
class SlowOptions:
    """Bounds and the ways of semantics 4.

    Attributes
    ----------
    slots
        Slots of each class, or of each (layer, class) (a budget file, scope `layer`).
    budget
        Bytes instead of slots: in all, or of each layer (scope `layer`).
    scope, order, cell, split
        `global` or `layer`; `id` or `rows`; `atomic` or `sequential`; limbo or not.
    start
        `cold`, `recorded` or `warm:N`.
    prefill
        `demand`, `stream` (engine defaults) or `stream:CAP`.
    prompt_hot
        N of `--prompt-hot`, 0 is off.
    routes
        `recorded`, `rerouted`, `predicted`, or `cacheprior:LAMBDA,J`.
    rows_used
        Rows kept of some windows (draft retention); windows that it does not name keep all.
    keep_residents
        Whether to keep the layer's residents just before every event's routing.
    """

    slots: dict[int, int] | dict[tuple[int, int], int] | None = None
    budget: int | dict[int, int] | None = None
    scope: str = "global"
    order: str = "id"
    cell: str = "atomic"
    split: bool = True
    start: str = "cold"
    prefill: str = "demand"
    prompt_hot: int = 0
    routes: str = "recorded"
    rows_used: dict[int, int] = field(default_factory=dict)
    keep_residents: bool = False

    def __post_init__(self) -> None:
        if (self.slots is None) == (self.budget is None):
            raise ValueError("give slots or a budget")
        known = {
            "scope": ("global", "layer"),
            "order": ("id", "rows"),
            "cell": ("atomic", "sequential"),
            "kind": ("recorded", "rerouted", "predicted", "cacheprior"),
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} is one of {values}, not {getattr(self, name)!r}")

    @property
    def kind(self) -> str:
        """The kind of routes, its options apart."""
        return self.routes.partition(":")[0]

    @property
    def prior(self) -> float:
        """Lambda of `cacheprior`."""
        return float(self.routes.partition(":")[2].partition(",")[0])

    @property
    def prior_protect(self) -> int:
        """J of `cacheprior`."""
        return int(self.routes.partition(",")[2])

    @property
    def warm(self) -> int:
        """Windows that are replayed uncounted."""
        return int(self.start.removeprefix("warm:")) if self.start.startswith("warm:") else 0

    def stream_cap(self, layer: int) -> int | None:
        """CAP of `stream` at one layer; None under `demand`."""
        if self.prefill == "demand":
            return None
        if self.prefill == "stream":
            return 128 if layer >= 40 else 256
        return int(self.prefill.removeprefix("stream:"))
