"""Retention policies on a trace's rounds, side by side: what was recorded, the policies, the offline optima."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from replay.errors import InputError
from replay.retain.account import Account, account
from replay.retain.cost import Cost
from replay.retain.decide import confidence, keep
from replay.retain.grid import DEFAULT_COST, GRID_POLICIES
from replay.retain.optimum import best
from replay.retain.parse import parse_retention
from replay.retain.policy import Retention
from replay.retain.recorded import recorded_retention, require_recorded
from replay.retain.traffic import Recorded, read_recorded

if TYPE_CHECKING:
    from replay.trace import Trace

SCREEN = (
    "a policy tighter than the recorded one is exact within a round; the rounds that would have followed "
    "were not recorded, so its totals across rounds are a screen"
)


@dataclass(frozen=True)
class Survey:
    """What retention policies do on one trace.

    Attributes
    ----------
    accounts : list of Account
        What was recorded, each policy, then the optimum by confidence and in hindsight.
    recorded : Retention or None
        What was in force when the trace was recorded, as far as it tells.
    cost : Cost
        The cost model.
    notes : list of str
        How far the figures can be trusted, and what was left out.
    """

    accounts: list[Account]
    recorded: Retention | None
    cost: Cost
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The survey as JSON holds it."""
        return {
            "cost": asdict(self.cost),
            "recorded": None if self.recorded is None else self.recorded.name,
            "notes": self.notes,
            "policies": [asdict(each) for each in self.accounts],
        }


def default_policies() -> list[Retention]:
    """The four policies of the synthetic table."""
    return [parse_retention(each) for each in GRID_POLICIES]


def survey(
    trace: "Trace",
    policies: Sequence[Retention] = (),
    cost: Cost = DEFAULT_COST,
    *,
    skip: bool = False,
    data: Recorded | None = None,
) -> Survey:
    """Account for what was recorded, for policies and for the optima.

    Parameters
    ----------
    trace : Trace
        An open trace with the table ``drafts``.
    policies : sequence of Retention, optional
        By default the four of the synthetic table, with ``skip``.
    cost : Cost, optional
        The cost model.
    skip : bool, optional
        Leave out a policy that is looser than what was recorded, and say so.
    data : Recorded, optional
        The trace's rounds, where they have been read already.

    Returns
    -------
    Survey

    Raises
    ------
    InputError
        No table ``drafts``, or a policy is looser than what was recorded.
    """
    recorded = recorded_retention(trace.meta.policy, trace.meta.engine)
    data = read_recorded(trace) if data is None else data
    rounds, rows, left = data.rounds, [], []
    chosen = policies or default_policies()
    for policy in dict.fromkeys((Retention(), *chosen)):
        try:
            require_recorded(policy, recorded, rounds.p.shape[1])
            kept, ran = keep(rounds, policy)
        except InputError as problem:
            if policies and not skip:
                raise
            left.append(f"left out: {problem}")
            continue
        rows.append(account(policy.name, rounds, kept, ran, cost, data.prefix_bytes))
    for name, accept in (("confidence", confidence(rounds.p)), ("hindsight", rounds.accept)):
        kept = best(accept, rounds.verified, cost)
        rows.append(account(f"best:{name}", rounds, kept, kept, cost, data.prefix_bytes))
    return Survey(rows, recorded, cost, [*left, *_notes(data, recorded, any(row.screen for row in rows))])


def _notes(data: Recorded, recorded: Retention | None, screen: bool) -> list[str]:
    """Say how far the figures can be trusted."""
    notes = [SCREEN] if screen else []
    if data.undrafted:
        notes.append(f"{data.undrafted} decode windows have no drafts and are in no figure")
    lengths = data.rounds.length
    short = int((lengths < lengths.max(initial=0)).sum())
    if short and recorded is None:
        notes.append(
            f"{short} rounds have fewer than {lengths.max()} drafts and the trace does not say why: a policy "
            "looser than the recorded one would have kept more there"
        )
    return notes
