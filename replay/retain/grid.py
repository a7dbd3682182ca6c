"""The synthetic table of semantics 9: retention policies on a grid of confidences."""

from collections.abc import Sequence

import numpy as np

from replay.retain.account import Account, account
from replay.retain.cost import Cost
from replay.retain.decide import confidence, decide
from replay.retain.optimum import best
from replay.retain.parse import parse_retention
from replay.retain.policy import Retention
from replay.retain.rounds import Rounds

GRID_POLICIES = (
    "flat:0.35",
    "schedule:0.10/0.35/0.55",
    "cumulative:0.25",
    "schedule:0.10/0.35/0.55+cumulative:0.2",
)
DEFAULT_COST = Cost()


def grid(policies: Sequence[Retention] | None = None, cost: Cost = DEFAULT_COST) -> list[Account]:
    """Account for policies on the synthetic grid: all 1,000 triples on 0.1..1.0, acceptance = confidence.

    Parameters
    ----------
    policies : sequence of Retention, optional
        By default the four of semantics 9.
    cost : Cost, optional
        The cost model; by default V = 1, 1.02, 1.25, 1.60 and fixed 0.15.

    Returns
    -------
    list of Account
        One a policy, and the offline optimum.

    Examples
    --------
    >>> [round(row.tokens_per_cost, 6) for row in grid()]
    [1.322892, 1.325972, 1.370152, 1.376354, 1.408909]
    """
    axis = np.arange(1, 11) / 10
    p = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    three = np.full(len(p), 3)
    rounds = Rounds(np.arange(len(p)), p, three, np.zeros(len(p), np.int64), three)
    rows = []
    for policy in policies or map(parse_retention, GRID_POLICIES):
        kept, ran = decide(p, three, policy)
        rows.append(account(policy.name, rounds, kept, ran, cost, modelled=True))
    kept = best(confidence(p), three, cost)
    return [*rows, account("best:confidence", rounds, kept, kept, cost, modelled=True)]
