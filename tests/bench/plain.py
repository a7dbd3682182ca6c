"""The event loop beside libcachesim on one request stream: ``python -m tests.bench.plain [REQUESTS] [--write]``.

The stream is MoE-shaped: tokens pick 10 of 512 experts in each of 48 layers, by a popularity that changes with the
domain, and with a bonus for what the last token picked. Both programs run in this process, one after the other,
several times; a figure is the least processor time of the thread, over the requests. Ours plays whole events
(``cell=atomic``) and its time includes the unions of every event, which a run of several policies makes once; theirs
plays one request after the other from a trace file in memory. Next uses are known to both before the clock starts.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.arena.partition import plan_slots
from replay.declare.semantics import Semantics
from replay.engine.frame import MISSES
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.ledger.grouping import Grouping
from replay.prepare.chunk import Demand, Prepared, prepare
from replay.prepare.lookahead import foresee
from replay.spec.grammar import parse
from replay.spec.resolve import Resolved, resolve
from replay.survey.depth import StackLane

LAYERS, EXPERTS, TOP_K, SLOTS = 48, 512, 10, 4326
WINDOWS = 64  # of a chunk, as the reader cuts them
PAIRS = (
    ("lru", "LRU"),
    ("fifo", "FIFO"),
    ("clock", "Clock"),
    ("s3fifo", "S3FIFO"),
    ("2q", "TwoQ"),
    ("belady", "Belady"),
)
"""A policy here, and libcachesim's class."""

TARGETS = {"16": (1.5, 1.5), "default": (3.5, 4.0)}
"""By hashpower: how many times faster lru, and all of them in the geometric mean, ought to be."""

FLOORS = {"16": (1.2, 1.3), "default": (3.0, 4.0)}
"""What a busy machine still showed: below it something became slower."""

CURVE = 1.5
"""At most so many of libcachesim's lru runs at one capacity ought lru at all capacities to cost."""

REPORT = Path(__file__).parents[2] / "reports" / "bench" / "plain.md"


def stream(requests: int, seed: int = 0) -> NDArray[np.int32]:
    """Draw the picks: int32[windows, LAYERS, TOP_K], each row's in descending score.

    Parameters
    ----------
    requests : int
        About how many; whole chunks of windows.
    seed : int
    """
    rng = np.random.default_rng(seed)
    chunks = max(requests // (LAYERS * TOP_K * WINDOWS), 1)
    ranks = np.log(np.arange(1, EXPERTS + 1, dtype=np.float32) + 3)
    popular = -1.1 * rng.permuted(np.broadcast_to(ranks, (4, LAYERS, EXPERTS)), axis=2)
    picks = np.empty((chunks * WINDOWS, LAYERS, TOP_K), np.int32)
    last = np.zeros((LAYERS, TOP_K), np.int64)
    layer = np.arange(LAYERS)[:, None]
    domain = 0
    for w in range(len(picks)):
        if w % 200 == 0:
            domain = int(rng.integers(len(popular)))
        scores = popular[domain] - np.log(rng.standard_exponential((LAYERS, EXPERTS), np.float32) + 1e-9)
        if w:
            scores[layer, last] += 2.2
        best = np.argpartition(-scores, TOP_K, axis=1)[:, :TOP_K]
        order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
        last = np.take_along_axis(best, order, 1)
        picks[w] = last
    return picks


def chunks(picks: NDArray[np.int32]) -> Iterator[Prepared]:
    """The stream as the engine reads a trace; unions are not made yet."""
    offsets = np.arange(WINDOWS * LAYERS + 1, dtype=np.int64) * TOP_K
    prefill = np.zeros(WINDOWS, bool)
    for w in range(0, len(picks), WINDOWS):
        lists = SimpleNamespace(values=picks[w : w + WINDOWS].ravel(), offsets=offsets)
        chunk: Any = SimpleNamespace(
            w0=w, w1=w + WINDOWS, row_start=np.arange(WINDOWS + 1), selections=lists,
            candidates=None, router_scores=None,
        )  # fmt: skip
        yield prepare(chunk, LAYERS, EXPERTS, prefill, Demand(), False)


def shape() -> Shape:
    """The stream's model: one size for all."""
    classes, sizes = np.zeros((LAYERS, EXPERTS), np.uint8), np.full((LAYERS, EXPERTS), 1_700_000, np.int64)
    return Shape(LAYERS, EXPERTS, TOP_K, sizes, classes, 1)


def resolved(policy: str) -> Resolved:
    """An eviction policy without read-ahead."""
    recorded: Any = SimpleNamespace(policy=None, router=None)
    return resolve(parse(f"none+{policy}"), recorded)


def lane_of(policy: str) -> Lane:
    """A lane at the bench's bound."""
    model = shape()
    plan = plan_slots(model.classes, np.array([SLOTS], np.int64), False)
    return Lane(model, plan, resolved(policy), Semantics())


def curve(picks: NDArray[np.int32]) -> tuple[float, float]:
    """Seconds of lru at every capacity in one pass, unions included, and its misses a request at ``SLOTS``."""
    ready = list(chunks(picks))
    layer = np.full(len(picks), 1, np.int32)
    grouping = Grouping(LAYERS, np.empty(0, np.int64), (), layer, np.empty((0, len(picks)), np.int32))
    bounds = [Bound((n,), None, "") for n in range(1, LAYERS * EXPERTS + 1)]
    lane = StackLane(shape(), bounds, resolved("lru"), Semantics(order="rows"), None, grouping)
    found: list[int] = []

    def run() -> None:
        for each in ready:
            each.events(None)
            lane.step(each)
        found.append(int(lane.misses()[SLOTS - 1]))

    return seconds(run), found[0] / picks.size


def seconds(action: Callable[[], Any]) -> float:
    """Processor time of this thread."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def ours(picks: NDArray[np.int32], policy: str) -> tuple[float, float, int]:
    """Seconds of the loop, seconds of the unions, misses."""
    ready = list(chunks(picks))
    unions = seconds(lambda: [each.events(None) for each in ready])
    lane = lane_of(policy)
    if lane.looks_ahead:
        lane.foresee(foresee([lane.view(each) for each in ready], LAYERS, EXPERTS))
    missed = 0

    def run() -> None:
        nonlocal missed
        for each in ready:
            out = lane.step(each)
            assert out is not None
            missed += int(out.counts[:, MISSES].sum())

    return seconds(run), unions, missed


def oracle_file(picks: NDArray[np.int32], path: Path) -> None:
    """Write the requests as libcachesim's oracleGeneral trace."""
    keys = (picks + EXPERTS * np.arange(LAYERS, dtype=np.int32)[:, None]).ravel()
    order = np.argsort(keys, kind="stable")
    following = np.full(len(keys), -1, np.int64)
    same = keys[order][1:] == keys[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    rows = np.zeros(len(keys), [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows["time"], rows["key"], rows["size"], rows["next"] = np.arange(len(keys)), keys, 1, following
    rows.tofile(path)


def theirs(library: Any, path: Path, kind: str, hashpower: int | None) -> tuple[float, float]:
    """Seconds and miss ratio of libcachesim."""
    options = {} if hashpower is None else {"hashpower": hashpower}
    cache = getattr(library, kind)(cache_size=SLOTS, **options)
    init = library.ReaderInitParam(ignore_obj_size=True)
    reader = library.TraceReader(str(path), library.TraceType.ORACLE_GENERAL_TRACE, init)
    missed: list[float] = []
    took = seconds(lambda: missed.append(cache.process_trace(reader)[0]))
    return took, missed[0]


@dataclass(frozen=True)
class Line:
    """Least nanoseconds a request of one policy, and misses a request."""

    policy: str
    loop: float
    unions: float
    theirs: dict[str, float]
    missed: float
    their_missed: float

    @property
    def ours(self) -> float:
        """Loop and unions."""
        return self.loop + self.unions

    def ratio(self, hashpower: str) -> float:
        """How many times faster ours is."""
        return self.theirs[hashpower] / self.ours


def measure(requests: int, repeats: int = 3) -> tuple[int, list[Line], tuple[float, float]]:
    """Measure every pair, and lru at all capacities (ns a request, misses a request), of so many requests."""
    import libcachesim

    picks = stream(requests)
    count = picks.size
    lines, curves = [], [curve(picks)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.oracleGeneral"
        oracle_file(picks, path)
        for policy, kind in PAIRS:
            mine, other = [], {"16": [], "default": []}
            for _ in range(repeats):
                mine.append(ours(picks, policy))
                if policy == "lru":
                    curves.append(curve(picks))
                for name, power in (("16", 16), ("default", None)):
                    other[name].append(theirs(libcachesim, path, kind, power))
            lines.append(
                Line(
                    policy,
                    min(each[0] for each in mine) / count * 1e9,
                    min(each[1] for each in mine) / count * 1e9,
                    {name: min(each[0] for each in runs) / count * 1e9 for name, runs in other.items()},
                    mine[0][2] / count,
                    other["16"][0][1],
                )
            )
    return count, lines, (min(took for took, _ in curves) / count * 1e9, curves[0][1])


def mean(lines: list[Line], hashpower: str) -> float:
    """Geometric mean of the ratios."""
    return math.exp(sum(math.log(each.ratio(hashpower)) for each in lines) / len(lines))


def table(count: int, lines: list[Line], curve: tuple[float, float]) -> str:
    """The figures as Markdown."""
    columns = (
        "policy",
        "ours: loop",
        "+ unions",
        "libcachesim, hashpower 16",
        "ratio",
        "default hashpower",
        "ratio",
    )
    head = f"| {' | '.join((*columns, 'missed', 'theirs'))} |"
    rows = [
        f"| {x.policy} | {x.loop:.1f} | {x.ours:.1f} | {x.theirs['16']:.1f} | {x.ratio('16'):.2f} | "
        f"{x.theirs['default']:.1f} | {x.ratio('default'):.2f} | {x.missed:.4f} | {x.their_missed:.4f} |"
        for x in lines
    ]
    means = f"| geometric mean | | | | {mean(lines, '16'):.2f} | | {mean(lines, 'default'):.2f} | | |"
    return "\n".join(
        [
            f"{count:,} requests, {SLOTS:,} slots; ns a request.",
            "",
            head,
            "|---" + "|---:" * 8 + "|",
            *rows,
            means,
            "",
            *(
                f"Hashpower {name}: lru {lines[0].ratio(name):.2f} (aimed at {lru}; the loop alone "
                f"{lines[0].theirs[name] / lines[0].loop:.2f}), mean {mean(lines, name):.2f} (aimed at {every})."
                for name, (lru, every) in TARGETS.items()
            ),
            "",
            f"lru (order=rows) at all {LAYERS * EXPERTS:,} capacities in one pass, unions included: {curve[0]:.1f} ns "
            f"a request, {curve[0] / lines[0].theirs['16']:.2f} of libcachesim's lru runs at one capacity with "
            f"hashpower 16, {curve[0] / lines[0].theirs['default']:.2f} with its default (aimed at {CURVE} at most); "
            f"missed {curve[1]:.4f} at {SLOTS:,} slots.",
        ]
    )


def main(arguments: list[str]) -> None:
    """Print the table; with ``--write`` keep it in reports/bench."""
    sizes = [int(each) for each in arguments if each != "--write"] or [2_000_000]
    tables = [table(*measure(size)) for size in sizes]
    print("\n\n".join(tables))
    if "--write" in arguments:
        text = (__doc__ or "").split("\n\n", 1)[1].strip()
        sizes_given = " ".join(map(str, sizes))
        command = (
            f"Written by `python -m tests.bench.plain {sizes_given} --write`; read the ratios, not the times."
        )
        title = "# Plain streams: the event loop beside libcachesim 0.3.5"
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text("\n\n".join([title, text, command, *tables]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
