"""A verdict as data: what was compared, the figures, and what they come to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from replay.verdict.paired import Figure, Group, groups_of
from replay.verdict.rule import PASSED, decide
from replay.verdict.session import Sessions


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder: one part changed against the rung before.

    Attributes
    ----------
    change : str
        The part, before and after.
    policy : str
        The spec of this rung.
    outcome : str
        The rule against the rung before.
    reasons : list of str
    figures : list of Figure
        Over all sessions, against the rung before.
    """

    change: str
    policy: str
    outcome: str
    reasons: list[str]
    figures: list[Figure]


@dataclass
class Verdict:
    """What a paired comparison came to.

    Attributes
    ----------
    kind : str
        ``replayed`` or ``recorded``.
    traces : list of str
    baseline, candidate : str
        Policies; of recorded runs what their traces say.
    outcome : str
        ``screen passed``, ``rejected`` or ``inconclusive``.
    reasons, notes : list of str
        Why, and what else to know.
    sessions : int
    groups : list of Group
        All sessions, and the cold, later and shifted ones apart.
    ladder : list of Rung
        One rung a part, where the specs differ in more than one.
    info : dict
        Bounds, semantics, routes, clock, seed; of recorded runs what differs between them.
    """

    kind: str
    traces: list[str]
    baseline: str
    candidate: str
    outcome: str
    reasons: list[str]
    sessions: int
    groups: list[Group]
    notes: list[str] = field(default_factory=list)
    ladder: list[Rung] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the screen is passed."""
        return self.outcome == PASSED

    @property
    def figures(self) -> list[Figure]:
        """The figures over all sessions."""
        return self.groups[0].figures

    def as_dict(self) -> dict[str, Any]:
        """Give the verdict as plain data."""
        return asdict(self) | {"passed": self.passed}


def settle(
    kind: str,
    traces: list[str],
    names: tuple[str, str],
    sessions: Sessions,
    seed: int,
    differing: list[str] | None = None,
) -> Verdict:
    """Compute the figures of every group and apply the rule.

    Parameters
    ----------
    kind : str
    traces : list of str
    names : tuple of str
        Baseline and candidate.
    sessions : Sessions
    seed : int
    differing : list of str, optional
        What differs between recorded runs that must not.
    """
    groups = groups_of(sessions, seed)
    outcome, reasons = decide(groups[0].figures, len(sessions), differing or [])
    return Verdict(kind, traces, *names, outcome, reasons, len(sessions), groups)
