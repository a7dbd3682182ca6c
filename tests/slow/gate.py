"""Gates of the slow twin: what they are asked about a candidate and what they learn (policies.md, issue 8)."""

from __future__ import annotations

import atexit
import json
import math
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from .clock import SlowClock, nanoseconds
from .router import route
from .spec import Ranking
from .trace import Key, SlowTrace


@dataclass(frozen=True)
class Candidate:
    """One merged candidate as its row shows it; scores are None where nothing was ranked."""

    key: Key
    place: int
    rank: int
    raw_rank: int
    raw: float | None
    kth: float | None
    mass: float | None
    size: int
    margin: float | None = None
    resident: bool = False


@dataclass
class Plan:
    """Nominal time: events take pre + post and never wait."""

    trace: SlowTrace
    clock: SlowClock
    now: int = 0

    def __post_init__(self) -> None:
        self.latency = nanoseconds(self.clock.resolve("latency_us", self.trace.io))
        self.device = self.clock.resolve("device_gbps", self.trace.io)
        self.stream = self.clock.resolve("stream_gbps", self.trace.io)

    def compute(self, window: int, layer: int) -> tuple[int, int]:
        """Pre and post of one event, ns."""
        recorded = self.trace.timing.get((window, layer))
        pre, post = ({"pre_us": recorded[0]}, {"post_us": recorded[1]}) if recorded else ({}, {})
        return (
            nanoseconds(self.clock.resolve("pre_us", pre)),
            nanoseconds(self.clock.resolve("post_us", post)),
        )

    def pass_event(self, window: int, layer: int) -> None:
        """An event is over."""
        self.now += sum(self.compute(window, layer))

    def deadline(self, window: int, after: int, target: int) -> int:
        """When the target's event asks, seen from after layer `after`."""
        between = sum(sum(self.compute(window, la)) for la in range(after + 1, target))
        return self.now + between + self.compute(window, target)[0]

    def done(self, free: int, size: int, rate: float) -> int:
        """When a read issued now is done."""
        return max(self.now + self.latency, free) + math.ceil(size / rate)


class Gate:
    """A gate that admits everything and learns nothing."""

    needs_ranking = False
    needs_dense = False

    def __init__(self, trace: SlowTrace, options: dict[str, Any], plan: Plan) -> None:
        self.trace, self.options, self.plan = trace, options, plan

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Options of a random case."""
        return {}

    def begin_window(self) -> None:
        """A decode window begins."""

    def begin_list(self, shown: list[Candidate], rows: int) -> None:
        """A merged list is about to be walked."""

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Whether the candidate may be read ahead."""
        raise NotImplementedError

    def issued(self, one: Candidate) -> None:
        """Its read was issued."""

    def learn(self, key: Key, selected: bool) -> None:
        """Whether its event selected a candidate."""


class Margin(Gate):
    """Adjusted score less the row's k-th adjusted score >= m."""

    needs_ranking = True

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """Around 0, ties included."""
        return rng.choice([{}, {"m": rng.choice([-1.0, -0.5, 0.25, 0.5])}])

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Compare."""
        assert one.raw is not None and one.kth is not None
        return one.raw - one.kth >= self.options.get("m", 0.0)


class Confidence(Gate):
    """Two-bit counters, start 2, admit at 2."""

    def __init__(self, trace: SlowTrace, options: dict[str, Any], plan: Plan) -> None:
        super().__init__(trace, options, plan)
        self.counter: dict[Key, int] = {}

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Look at the counter."""
        return self.counter.get(one.key, 2) >= 2

    def learn(self, key: Key, selected: bool) -> None:
        """Count up or down within two bits."""
        self.counter[key] = min(3, max(0, self.counter.get(key, 2) + (1 if selected else -1)))


class Mass(Gate):
    """Mass of the better experts of the row < delta."""

    needs_ranking = needs_dense = True

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """No sum of a few equal parts."""
        return {"delta": rng.choice([0.0, 0.2357, 0.5113, 0.7919]), "least": rng.randint(0, 2)}

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Compare."""
        assert one.mass is not None
        return one.mass < self.options["delta"] or one.raw_rank < self.options["least"]


class Budget(Gate):
    """Issued bytes of the window; with a reserve, what moves in time at the rest of the bandwidth."""

    def __init__(self, trace: SlowTrace, options: dict[str, Any], plan: Plan) -> None:
        super().__init__(trace, options, plan)
        self.spent = self.free = 0

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """A few experts' bytes, a share, or both."""
        size, share = max(trace.sizes.values()) * rng.randint(0, 6), rng.choice([0.0, 0.25, 0.5, 0.9])
        return rng.choice([{"bytes": size}, {"reserve": share}, {"bytes": size, "reserve": share}])

    def begin_window(self) -> None:
        """A new budget."""
        self.spent = 0

    def _done(self, one: Candidate) -> int:
        return self.plan.done(self.free, one.size, (1.0 - self.options["reserve"]) * self.plan.device)

    def admits(self, one: Candidate, deadline: int) -> bool:
        """What fits, and what moves in time."""
        if "bytes" in self.options and self.spent + one.size > self.options["bytes"]:
            return False
        return "reserve" not in self.options or self._done(one) <= deadline

    def issued(self, one: Candidate) -> None:
        """Spend."""
        self.spent += one.size
        if "reserve" in self.options:
            self.free = self._done(one)


class Deadlines(Gate):
    """What `seqmoe` admits of its own: a job that ends, behind those issued before, by when its event asks."""

    free = 0

    def _end(self, one: Candidate) -> int:
        return self.plan.done(self.free, one.size, self.plan.device)

    def admits(self, one: Candidate, deadline: int) -> bool:
        """In time."""
        return self._end(one) <= deadline

    def issued(self, one: Candidate) -> None:
        """One more job."""
        self.free = self._end(one)


def expanded(options: dict[str, Any]) -> dict[str, Any]:
    """The content of the file that an option q names."""
    content: dict[str, Any] = json.loads(Path(options["q"]).read_text())
    return content


class Coverage(Gate):
    """top_k + d candidates of each row, the smallest d that is sure enough."""

    needs_ranking = True

    def __init__(self, trace: SlowTrace, options: dict[str, Any], plan: Plan) -> None:
        super().__init__(trace, options, plan)
        self.file = expanded(options)
        self.wide = 0

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """A made-up file."""
        return {"q": draw_coverage(rng, trace), "tau": rng.choice([0.0, 0.37, 0.61, 0.9])}

    def begin_list(self, shown: list[Candidate], rows: int) -> None:
        """Choose d."""
        k = self.trace.top_k
        lead, tail = [c for c in shown if c.rank < k], [c for c in shown if c.rank >= k]
        means = [sum(c.margin or 0.0 for c in part) / max(len(part), 1) for part in (lead, tail)]
        q = [*means, sum(c.resident for c in lead) / max(len(lead), 1), rows - 1]
        z = sum(w * x for w, x in zip(self.file["w"], q, strict=True))
        theta = self.file["theta"]
        sure = [d for d, t in enumerate(theta) if 1 / (1 + math.exp(z - t)) >= self.options["tau"]]
        self.wide = k + (sure[0] if sure else len(theta) - 1)

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Compare the rank."""
        return one.rank < self.wide


class Calibrated(Gate):
    """q x spared stall > price x bytes + victim."""

    needs_ranking = True

    def __init__(self, trace: SlowTrace, options: dict[str, Any], plan: Plan) -> None:
        super().__init__(trace, options, plan)
        self.file = expanded(options)
        self.free = 0

    @classmethod
    def draw(cls, rng: Random, trace: SlowTrace) -> dict[str, Any]:
        """A made-up file, and prices around what an expert's read spares."""
        price = rng.choice([0.0, 1.0, 100.0]) / max(trace.sizes.values())
        return {"q": draw_q(rng, trace), "price": price, "victim": rng.choice([0.0, 0.0, 5.0, 30.0])}

    def admits(self, one: Candidate, deadline: int) -> bool:
        """Weigh."""
        assert one.raw is not None and one.kth is not None
        cell = sum(edge <= one.raw - one.kth for edge in self.file["margin_edges"])
        q = self.file["q_absent"][one.key[0]][one.rank][cell]
        plan = self.plan
        whole = plan.latency + math.ceil(one.size / min(plan.stream, plan.device))
        late = max(0, plan.done(self.free, one.size, plan.device) - deadline)
        spared = max(0, whole - late) / 1000.0
        return bool(q * spared > self.options["price"] * one.size + self.options["victim"])

    def issued(self, one: Candidate) -> None:
        """Move its bytes."""
        self.free = self.plan.done(self.free, one.size, self.plan.device)


MADE = Path(tempfile.mkdtemp(prefix="slow-gate-"))
atexit.register(shutil.rmtree, MADE, ignore_errors=True)


def _write(rng: Random, trace: SlowTrace, content: dict[str, Any]) -> str:
    """Write a file; the K that it is for is filled in where a case has its K (`fit_file`)."""
    model = {"layers": trace.layers, "experts": trace.experts, "top_k": trace.top_k}
    path = MADE / f"{rng.getrandbits(48):012x}.json"
    path.write_text(json.dumps({"version": 1, "model": model, "trained_on": [], **content}))
    return str(path)


def draw_q(rng: Random, trace: SlowTrace) -> str:
    """A q file of random shares over 12 ranks."""
    edges = sorted(rng.sample([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], rng.randint(0, 4)))

    def shares() -> list[Any]:
        return [
            [[rng.random() for _ in range(len(edges) + 1)] for _ in range(12)] for _ in range(trace.layers)
        ]

    tables = {"q": shares(), "q_absent": shares()}
    return _write(rng, trace, {"format": "replay-q", "ranks": 12, "margin_edges": edges, **tables})


def draw_coverage(rng: Random, trace: SlowTrace) -> str:
    """A coverage file of random weights."""
    theta = sorted(rng.gauss(0, 1.5) for _ in range(rng.randint(1, 5)))
    content = {"theta": theta, "w": [rng.gauss(0, 1) for _ in range(4)]}
    return _write(
        rng, trace, {"format": "replay-coverage", "features": ["lead", "tail", "held", "rows"], **content}
    )


def fit_file(path: str, count: int) -> None:
    """Make a drawn file one for K = count."""
    content = json.loads(Path(path).read_text())
    content["ranking"] = {"policy": "drawn", "k": count}
    if "ranks" in content:
        content["ranks"] = count
        for name in ("q", "q_absent"):
            content[name] = [layer[:count] for layer in content[name]]
    Path(path).write_text(json.dumps(content))


GATES: dict[str, type[Gate]] = {
    "margin": Margin,
    "confidence": Confidence,
    "mass": Mass,
    "budget": Budget,
    "coverage": Coverage,
    "calibrated": Calibrated,
}


def boost(rank: int, how: Ranking) -> float:
    """What a resident's score gains at a rank (semantics 2)."""
    rank1 = how.r1_bonus if how.r1_bonus > 0 and how.protect > 1 else 0.0
    if rank < how.protect:
        return rank1 if rank else 0.0
    return how.bonus if how.bonus > 0 else rank1


def features(
    trace: SlowTrace,
    window: int,
    target: int,
    rows: list[int],
    merged: list[int],
    resident: Collection[int],
    how: Ranking,
) -> list[Candidate]:
    """What the row that gave each merged candidate its place shows of it: lowest rank, best score, lowest row."""
    found: dict[int, tuple[tuple[int, float, int], Candidate]] = {}
    for row in rows:
        scores = trace.candidates[window, row, target][1]
        open_scores = {e: z for e, z in scores.items() if z != -math.inf}
        ranking = sorted(open_scores, key=lambda e: (-open_scores[e], e))  # noqa: B023
        wide = route(scores, resident, max(how.count, trace.top_k), how.protect, how.bonus, how.r1_bonus)
        total = math.fsum(math.exp(z - max(open_scores.values())) for z in open_scores.values())
        for rank, e in enumerate(wide[: how.count]):
            last = min(len(wide), trace.top_k) - 1
            kth = scores[wide[last]] + boost(last, how) * (wide[last] in resident)
            raw_rank = ranking.index(e)
            mass = math.fsum(
                math.exp(open_scores[x] - max(open_scores.values())) / total for x in ranking[:raw_rank]
            )
            key = (target, e)
            held = e in resident
            margin = scores[e] + boost(rank, how) * held - kth
            size = trace.sizes[key]
            one = Candidate(key, merged.index(e), rank, raw_rank, scores[e], kth, mass, size, margin, held)
            order = (rank, -scores[e], row)
            if e not in found or order < found[e][0]:
                found[e] = order, one
    return [found[e][1] for e in merged]


def plain(trace: SlowTrace, target: int, experts: list[int]) -> list[Candidate]:
    """Candidates of a read-ahead that ranks nothing."""
    sizes = [trace.sizes[target, e] for e in experts]
    return [
        Candidate((target, e), i, i, i, None, None, None, size)
        for i, (e, size) in enumerate(zip(experts, sizes, strict=True))
    ]


def draw_gates(rng: Random, trace: SlowTrace, prefetch: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """No gate in half of the cases, else one to three that the read-ahead and the trace allow."""
    if prefetch == "none" or rng.random() < 0.5:
        return ()
    ranked = prefetch in ("unpert1", "unpert0", "route", "seqmoe")
    dense = all(len(z) == trace.experts for _, z in trace.candidates.values())
    known = [
        name
        for name, gate in GATES.items()
        if (ranked or not gate.needs_ranking) and (dense or not gate.needs_dense)
    ]
    chosen = rng.sample(known, min(len(known), rng.choice([1, 1, 1, 2, 3])))
    return tuple((name, GATES[name].draw(rng, trace)) for name in chosen)
