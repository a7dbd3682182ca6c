"""Paired verdicts: does a candidate do better than a baseline, session by session, beyond noise."""

from replay.verdict.interval import Interval, mean_interval
from replay.verdict.paired import Figure, Group
from replay.verdict.recorded import verdict_recorded
from replay.verdict.replayed import verdict_replayed
from replay.verdict.rule import FEWEST, INCONCLUSIVE, PASSED, REJECTED
from replay.verdict.whole import Rung, Verdict

__all__ = [
    "FEWEST",
    "INCONCLUSIVE",
    "PASSED",
    "REJECTED",
    "Figure",
    "Group",
    "Interval",
    "Rung",
    "Verdict",
    "mean_interval",
    "verdict_recorded",
    "verdict_replayed",
]
