"""Reading, replaying, clocks, curves, memory and start-up: ``python -m tests.bench.engine [WINDOWS] [--write]``.

The traces are made here (:mod:`tests.bench.made`): 48 layers of 512 experts, top-10, one row a window, 4,326 slots;
candidates for all layers but the first, dense as float16 or the best 32 with their ids. A bare loop is
``read_row_group`` of pyarrow over the columns that a replay reads. What stands beside is measured in the same process,
a run of each by turns; a figure is the least of several runs. Whole comparisons are given in wall time on all cores,
which is what a user waits for and what other work on the machine blurs, and in processor time, all threads together;
everything else is processor time.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from replay.arena.bound import resolve as resolve_bound
from replay.clock.timing import ClockParams
from replay.comparison.candidate import DEFAULT_SPECS, Builder, choose
from replay.comparison.comparison import compare
from replay.comparison.play import tables_for
from replay.declare.semantics import RECORDED_ROUTES, Semantics
from replay.lane.lane import combine
from replay.prepare.chunk import prepare
from replay.survey.grid import parse_grid
from replay.survey.survey import survey
from replay.sweep.plan import Pass, plan_study
from replay.sweep.study import read_study
from replay.sweep.task import play_pass
from replay.trace import Trace, open_trace
from replay.trace.cut import cut
from tests.bench.made import write

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "reports" / "bench" / "engine.md"
FEW = 2_000
Line = tuple[str, str, str, str]


class Took(NamedTuple):
    """Seconds of processor time, all threads together, and of wall time."""

    cpu: float
    wall: float


def timed(actions: Sequence[Callable[[], Any]], repeats: int = 3) -> list[Took]:
    """Least times of each action, one run of each by turns."""
    best = [Took(float("inf"), float("inf"))] * len(actions)
    for _ in range(repeats):
        for i, action in enumerate(actions):
            cpu, wall = time.process_time(), time.perf_counter()
            action()
            took = Took(time.process_time() - cpu, time.perf_counter() - wall)
            best[i] = Took(min(best[i].cpu, took.cpu), min(best[i].wall, took.wall))
    return best


def seconds(*actions: Callable[[], Any], repeats: int = 3) -> list[float]:
    """Least processor time of each action, one run of each by turns."""
    return [each.cpu for each in timed(actions, repeats)]


def bare(trace: Trace, *tables: str) -> None:
    """Read the columns of some tables, row group after row group."""
    for name in tables:
        file = pq.ParquetFile(trace.tables[name].path)
        for group in range(file.metadata.num_row_groups):
            file.read_row_group(group, columns=list(trace.tables[name].columns))


def read(trace: Trace, *tables: str) -> None:
    """The same through our reader: checked, as arrays."""
    for _ in trace.chunks(set(tables), halves=True):
        pass


def reading(traces: dict[str, Trace], repeats: int) -> list[Line]:
    """Our reader beside a bare loop."""
    lines, took = [], {}
    for kind in ("dense", "sparse"):
        trace, tables = traces[kind], ("selections", "candidates")
        ours, theirs = seconds(lambda: read(trace, *tables), lambda: bare(trace, *tables), repeats=repeats)  # noqa: B023
        took[kind] = ours, theirs
        beside = f"bare loop {theirs:.3f} s"
        lines.append((f"reading, {kind}: time", f"{ours:.3f} s", beside, f"{ours / theirs:.2f} x"))
    ours, theirs = (took["dense"][i] / took["sparse"][i] for i in (0, 1))
    lines.append(("reading, sparse against dense: speed", "", f"bare loops {theirs:.2f} x", f"{ours:.2f} x"))
    return lines


def replaying(traces: dict[str, Trace], repeats: int) -> list[Line]:
    """Whole comparisons beside a bare loop."""
    lines: list[Line] = []
    loops: dict[str, Took] = {}
    speeds: dict[tuple[str, bool], float] = {}
    for kind, trace in traces.items():
        tables = ("selections",) if kind == "none" else ("selections", "candidates")
        specs = ["none+lru"] if kind == "none" else list(DEFAULT_SPECS)
        for clock in (ClockParams(), None):
            ours, theirs = timed(
                (
                    lambda: compare(open_trace(trace.path), specs, grid=(), clock=clock),  # noqa: B023
                    lambda: bare(trace, *tables),  # noqa: B023
                ),
                repeats,
            )
            loops[kind] = theirs
            speeds[kind, clock is None] = len(trace.windows) / ours.wall
            named = "selections only" if kind == "none" else f"{kind} candidates"
            what = f"{len(specs)} polic{'y' if len(specs) == 1 else 'ies'}, {named}, {'clock' if clock else 'no clock'}"
            for name, mine, other in (("wall", ours.wall, theirs.wall), ("processor", ours.cpu, theirs.cpu)):
                rate, beside = (
                    f"{len(trace.windows) / mine:,.0f} windows/s",
                    f"bare loop {other:.3f} s of {mine:.2f} s",
                )
                lines.append((f"{what}: speed, {name}", rate, beside, f"{other / mine:.3f} x"))
    for off in (False, True):
        beside = f"bare loops {loops['dense'].wall / loops['sparse'].wall:.2f} x"
        ratio = speeds["sparse", off] / speeds["dense", off]
        what = f"sparse against dense, {'no clock' if off else 'clock'}: speed, wall"
        lines.append((what, "", beside, f"{ratio:.2f} x"))
    return lines


class Parts:
    """The parts of a comparison, each timed by itself in this thread."""

    def __init__(self, trace: Trace, clock: ClockParams | None) -> None:
        self.trace, self.clock, self.spent = trace, clock, dict[str, float]()
        bound = resolve_bound(None, None, trace.meta.policy, trace.classes)
        chosen, _ = choose(trace, [], [RECORDED_ROUTES], bound, True)
        builder = Builder(trace, bound, Semantics(), clock)
        self.found = [builder.candidate(spec, routes, ()) for spec, routes in chosen]
        self.lookups = 0

    def timed(self, name: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = action()
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - start
        return result

    def run(self) -> None:
        """Read everything first: whatever reads ahead in another thread would count elsewhere."""
        trace = self.trace
        self.timed("open", lambda: open_trace(trace.path))
        demand = combine([each.entry.lane for each in self.found])
        tables = tables_for(trace, demand, self.clock is not None)
        source = trace.chunks(tables, decode_only={"candidates"} & tables, halves=True)
        for chunk in self.timed("read", lambda: list(source)):
            ready = self.timed("prepare", lambda: self._prepared(chunk, demand))  # noqa: B023
            self.lookups += len(ready.events(None).wants)
            for each in self.found:
                self._step(each, ready)

    def _prepared(self, chunk: Any, demand: Any) -> Any:
        trace, meta = self.trace, self.trace.meta
        prefill = trace.windows.prefill[chunk.w0 : chunk.w1]
        ready = prepare(chunk, meta.layers, meta.experts, prefill, demand, trace.has("candidates"))
        ready.events(None)
        return ready

    def _step(self, each: Any, ready: Any) -> None:
        entry, first, last = each.entry, ready.first_window, ready.first_window + len(ready.prefill)
        out = self.timed(f"lane {each.text}", lambda: entry.lane.step(ready))
        account = None
        if entry.clock is not None:
            account = self.timed(f"clock {each.text}", lambda: entry.clock.step(out.log, first, last, None))
        self.timed("sums", lambda: entry.tally.add(first, ready.prefill, out.counts, out.peaks, account))


def engine(traces: dict[str, Trace], repeats: int) -> list[Line]:
    """Lanes by themselves, in nanoseconds a lookup, beside none+lru; and the whole command beside its parts."""
    best: dict[tuple[str, str], float] = {}
    total: dict[str, float] = {}
    for kind in ("dense", "sparse"):
        for _ in range(repeats):
            parts = Parts(traces[kind], ClockParams())
            parts.run()
            for name, spent in parts.spent.items():
                best[kind, name] = min(best.get((kind, name), 1e9), spent / parts.lookups * 1e9)
            total[kind] = min(total.get(kind, 1e9), sum(parts.spent.values()))
    base = best["dense", "lane none+lru"]
    beside = f"lane none+lru {base:.1f}"

    def line(what: str, ns: float) -> Line:
        return what, f"{ns:.1f} ns/lookup", beside, f"{ns / base:.2f} x"

    lines = []
    for spec in DEFAULT_SPECS:
        lines += [line(f"{part} {spec}: time", best["dense", f"{part} {spec}"]) for part in ("lane", "clock")]
    for kind in ("dense", "sparse"):
        lines += [
            line(f"{name}, {kind}, once for all seven: time", best[kind, name])
            for name in ("open", "read", "prepare")
        ]
    lines.append(line("sums, all seven: time", best["dense", "sums"]))
    for kind in ("dense", "sparse"):
        path = traces[kind].path
        whole = seconds(partial(compare_all, path), repeats=repeats)[0]
        parts = f"sum of its parts {total[kind]:.2f} s"
        lines.append(
            (f"whole comparison, {kind}: time", f"{whole:.2f} s", parts, f"{whole / total[kind]:.2f} x")
        )
    return lines


def compare_all(path: Path) -> None:
    """The seven policies under a clock, from opening the trace on."""
    compare(open_trace(path), grid=(), clock=ClockParams())


def curves(trace: Trace, repeats: int) -> list[Line]:
    """LRU and Belady at every capacity in one pass, beside the same at one."""
    grid = parse_grid("all", trace.classes)
    lines = []
    for name, semantics in (("lru", Semantics(order="rows")), ("belady", Semantics())):
        ours, theirs = seconds(
            lambda: survey(trace, [f"none+{name}"], grid, semantics=semantics, layers=[]),  # noqa: B023
            lambda: compare(trace, [f"none+{name}"], grid=(), semantics=semantics),  # noqa: B023
            repeats=repeats,
        )
        what, beside = f"{name} at {len(grid.bounds):,} capacities: time", f"at one capacity {theirs:.2f} s"
        lines.append((what, f"{ours:.2f} s", beside, f"{ours / theirs:.2f} x"))
    return lines


def grouping(trace: Trace, folder: Path) -> list[Line]:
    """Eight cells of a sweep in one pass, beside eight passes."""
    cut(trace, folder / "few", 400)
    study = folder / "grid.toml"
    study.write_text(
        f'traces = ["{folder / "few"}"]\npolicies = ["none+lru", "unpert1+lru"]\nslots = [2000, 3000, 4000, 5000]\n'
    )
    plan = plan_study(read_study(study), folder)
    place = plan.places[plan.cells[0].trace]
    together = Pass(place, tuple(plan.cells))
    one, many = seconds(
        lambda: play_pass(together), lambda: [play_pass(Pass(place, (each,))) for each in plan.cells]
    )
    return [
        (
            "8 cells of a sweep in one pass: time",
            f"{one:.2f} s",
            f"8 passes {many:.2f} s",
            f"{one / many:.2f} x",
        )
    ]


RUNS = 3
"""Processes whose largest memory is measured, the median taken: one varies by 10 MiB."""

PEAK = """
import sys
from replay.comparison.comparison import compare
from replay.clock.timing import ClockParams
from replay.trace import open_trace
compare(open_trace(sys.argv[1]), grid=(), clock=ClockParams(), threads=2)
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def memory(few: Path, many: Path, windows: int) -> list[Line]:
    """Largest memory of a process that compares seven policies on dense candidates."""
    peaks = [
        median(
            int(
                subprocess.run(
                    [sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True
                ).stdout
            )
            for _ in range(RUNS)
        )
        / 1024
        for path in (few, many)
    ]
    return [
        (
            f"largest memory, {windows:,} windows",
            f"{peaks[1]:.0f} MiB",
            f"{FEW:,} windows {peaks[0]:.0f} MiB",
            f"{peaks[1] / peaks[0]:.2f} x",
        )
    ]


def start_up() -> list[Line]:
    """Processor time of whole processes, beside an empty one."""

    def spent(*command: str) -> float:
        best = float("inf")
        for _ in range(5):
            before = os.times()
            subprocess.run([sys.executable, *command], capture_output=True, check=True, cwd=ROOT)
            after = os.times()
            best = min(
                best,
                after.children_user + after.children_system - before.children_user - before.children_system,
            )
        return best

    empty = spent("-c", "pass")
    lines = []
    for name, command in (
        ("replay --help", ("--help",)),
        ("replay compare traces/e256-moce, kernels compiled", ("compare", "traces/e256-moce", "-q")),
    ):
        took = spent("-m", "replay", *command)
        lines.append(
            (f"{name}: time", f"{took:.2f} s", f"python alone {empty:.3f} s", f"{took / empty:.0f} x")
        )
    return lines


def measure(windows: int) -> list[Line]:
    """Every row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traces = {
            kind: open_trace(write(folder / kind, windows, kind)) for kind in ("dense", "sparse", "none")
        }
        few = {kind: open_trace(write(folder / f"few-{kind}", FEW, kind)) for kind in ("dense", "sparse")}
        repeats = 3 if windows <= FEW else 2
        return [
            *reading(traces, repeats),
            *replaying(traces, repeats),
            *engine(few, 3),
            *curves(traces["none"], repeats),
            *grouping(few["dense"], folder),
            *memory(few["dense"].path, traces["dense"].path, windows),
            *start_up(),
        ]


def table(windows: int, lines: list[Line]) -> str:
    """The rows as Markdown."""
    head = ["| what | measured | beside | ratio |", "|---|---:|---:|---:|"]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join(
        [f"{windows:,} windows; {machine}.", "", *head, *(f"| {' | '.join(each)} |" for each in lines)]
    )


def main(arguments: list[str]) -> None:
    """Print the table; with ``--write`` keep it in reports/bench."""
    sizes = [int(each) for each in arguments if each != "--write"] or [20_000]
    text = table(sizes[0], measure(sizes[0]))
    print(text)
    if "--write" in arguments:
        about = (__doc__ or "").split("\n\n", 1)[1].strip()
        command = (
            f"Written by `python -m tests.bench.engine {sizes[0]} --write`; read the ratios, not the times."
        )
        title = "# The engine: reading, replaying, clocks, curves, memory, start-up"
        REPORT.write_text("\n\n".join([title, about, command, text]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
