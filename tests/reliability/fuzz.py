"""Damage healthy files and read them, for a stated time; count how it ended, and keep what went wrong."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from reliability.guard import attempt
from reliability.mutation import Step, damaged, plans
from reliability.section import Section
from reliability.targets import CHOSEN, TARGETS, Target

SECONDS = float(os.environ.get("REPLAY_FUZZ_SECONDS", "40"))
"""Seconds of fuzzing in the tests, all targets together."""
BATCH = 40


@dataclass
class Tally:
    """How the executions of a target ended."""

    endings: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Fault(AssertionError):
    """What hypothesis shrinks."""


def execute(target: Target, data: bytes) -> tuple[str, str]:
    """Read damaged bytes once: how it ended, and what was said."""
    with tempfile.TemporaryDirectory(prefix="replay-fuzz.") as name:
        folder = Path(name)
        ending, text = attempt(lambda: target.read(folder, data))
        left = [each.name for each in folder.iterdir() if each.name != "source"]
    if ending != "fault" and left:
        return "fault", f"left behind: {left}"
    return ending, text


def fuzz(target: Target, seconds: float, start: int = 0) -> Tally:
    """Fuzz one target for a while: batches of examples whose seeds count up from ``start``."""
    tally = Tally()
    seeds = target.seeds()
    plain = [execute(target, each) for each in seeds]
    wanted = ("ok", "refused") if target in CHOSEN else ("ok",)
    tally.faults += [f"a healthy file: {text}" for ending, text in plain if ending not in wanted]
    end = time.monotonic() + seconds

    def one(which: int, other: int, plan: list[Step]) -> None:
        data = damaged(seeds[which % len(seeds)], plan, seeds[other % len(seeds)])
        ending, text = execute(target, data)
        tally.endings[ending] += 1
        if ending == "fault":
            raise Fault(f"{target.name}: {data!r}\n{text}")

    rows = st.integers(0, len(seeds) - 1)
    for number in itertools.count(start):
        if time.monotonic() > end or len(tally.faults) > 3:
            break
        quiet = settings(
            max_examples=BATCH, database=None, deadline=None, report_multiple_bugs=False, print_blob=False,
            phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        try:
            seed(number)(quiet(given(rows, rows, plans)(one)))()
        except Fault as fault:
            tally.faults.append(str(fault))
    return tally


def measure(scale: float) -> Section:
    """Fuzz every target for an equal share of 40 s times ``scale``."""
    rows: list[tuple[str, int, int, int, int]] = []
    wrong = []
    for target in TARGETS:
        found = fuzz(target, SECONDS * scale / len(TARGETS))
        ends = found.endings
        rows.append((target.name, ends.total(), ends["refused"], ends["ok"], len(found.faults)))
        wrong += found.faults
    rows.append(("all", *(sum(row[i] for row in rows) for i in range(1, 5))))  # type: ignore[misc,arg-type]
    about = (
        "Healthy files damaged by truncations, flips, splices and swapped numbers, then read. Every execution ends in "
        "a result or in one line: no other exception, no warning, nothing left, at most 20 s and 512 MiB."
    )
    header = ("format", "executions", "refused", "still readable", "faults")
    return Section("Fuzzing", about, header, rows, wrong)
