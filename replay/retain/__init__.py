"""Draft retention: which speculative drafts a round keeps, and what that commits and costs (semantics 9)."""

from replay.retain.account import Account, Step, account
from replay.retain.calibrate import Calibration, Curve, calibrate, fit_curve
from replay.retain.cost import Cost, Margin, margin
from replay.retain.decide import committed, confidence, decide, keep, rows_used
from replay.retain.economy import Economy, Worth, economy
from replay.retain.grid import GRID_POLICIES, grid
from replay.retain.optimum import best
from replay.retain.parse import (
    CUMULATIVE_SETTING,
    SCHEDULE_SETTING,
    SETTINGS,
    from_parts,
    parse_probability,
    parse_retention,
    parse_schedule,
    read_settings,
)
from replay.retain.policy import Retention
from replay.retain.recorded import recorded_retention, require_recorded
from replay.retain.rounds import Rounds, read_rounds
from replay.retain.survey import Survey, default_policies, survey
from replay.retain.sweep import Sweep, sweep
from replay.retain.traffic import Recorded, prefix_bytes, read_drafts, read_recorded

__all__ = [
    "sweep",
    "fit_curve",
    "economy",
    "calibrate",
    "Worth",
    "Sweep",
    "Economy",
    "Curve",
    "Calibration",
    "CUMULATIVE_SETTING",
    "GRID_POLICIES",
    "SCHEDULE_SETTING",
    "SETTINGS",
    "Account",
    "Cost",
    "Margin",
    "Recorded",
    "Retention",
    "Rounds",
    "Step",
    "Survey",
    "account",
    "best",
    "committed",
    "confidence",
    "decide",
    "default_policies",
    "from_parts",
    "grid",
    "keep",
    "margin",
    "parse_probability",
    "parse_retention",
    "parse_schedule",
    "prefix_bytes",
    "read_drafts",
    "read_recorded",
    "read_rounds",
    "read_settings",
    "recorded_retention",
    "require_recorded",
    "rows_used",
    "survey",
]
