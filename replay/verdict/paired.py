"""Figures of a paired test: both sides per token, the difference and its interval, for groups of sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from replay.verdict.interval import mean_interval
from replay.verdict.rule import FEWEST
from replay.verdict.session import Sessions


@dataclass(frozen=True)
class Figure:
    """One figure per committed token, as means over sessions.

    Attributes
    ----------
    name : str
        ``misses``, ``late``, ``unused_bytes``, ``disk_bytes``, ``wait_us`` or ``timely``.
    baseline, candidate, difference : float
    low, high : float or None
        95% interval of the difference; None: not bounded on that side, or fewer than 8 sessions.
    zero : bool
        Both sides are equal in every session.
    """

    name: str
    baseline: float
    candidate: float
    difference: float
    low: float | None
    high: float | None
    zero: bool

    @property
    def rises(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low is not None and self.low > 0

    @property
    def falls(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.high is not None and self.high < 0


@dataclass(frozen=True)
class Group:
    """Sessions of one kind, reported apart: ``all``, ``cold``, ``later`` or ``shifted``."""

    name: str
    sessions: int
    figures: list[Figure]


def figures_of(sessions: Sessions, seed: int) -> list[Figure]:
    """Every figure of some sessions; no intervals where they are fewer than 8."""
    return [_figure(sessions, name, seed) for name in sessions.figures] if len(sessions) else []


def _figure(sessions: Sessions, name: str, seed: int) -> Figure:
    differences = sessions.differences(name)
    ends: tuple[float | None, float | None] = (None, None)
    if len(sessions) >= FEWEST:
        _, low, high = mean_interval(differences, seed=seed)
        ends = (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
    return Figure(
        name,
        sessions.per_token(name, 0),
        sessions.per_token(name, 1),
        float(differences.mean()),
        *ends,
        bool((differences == 0).all()),
    )


def groups_of(sessions: Sessions, seed: int) -> list[Group]:
    """All sessions, and the cold, later and shifted ones apart."""
    kinds: dict[str, NDArray[np.bool_]] = {
        "all": np.ones(len(sessions), bool),
        "cold": sessions.cold,
        "later": ~sessions.cold,
        "shifted": sessions.shifted,
    }
    return [
        Group(name, int(mask.sum()), figures_of(_some(sessions, mask), seed)) for name, mask in kinds.items()
    ]


def _some(sessions: Sessions, mask: NDArray[np.bool_]) -> Sessions:
    return replace(
        sessions,
        cold=sessions.cold[mask],
        shifted=sessions.shifted[mask],
        tokens=sessions.tokens[:, mask],
        figures={name: values[:, mask] for name, values in sessions.figures.items()},
    )
