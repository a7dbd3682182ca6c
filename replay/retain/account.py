"""What each retention policy keeps, commits, wastes and reads (semantics 9).

A policy's figure is a ratio of sums over all rounds. Acceptance is measured (a draft is in the matched prefix
or not) where there is a verifier, and the draft head's confidence where it is modelled. Chosen where the spec
is silent: with ``draft_step`` a drafter that is not chained stops after the first failing draft, and has run
that one too.
"""

from dataclasses import dataclass, field

import numpy as np

from replay.retain.cost import Cost, Margin, margin
from replay.retain.decide import confidence
from replay.retain.rounds import Floats, Ints, Rounds


@dataclass(frozen=True)
class Step:
    """One draft step under a policy.

    Attributes
    ----------
    step : int
        The step, from 0.
    kept : int
        Rounds that keep this draft.
    accepted : float
        Those among them where it is in the matched prefix (expected ones where acceptance is modelled).
    acceptance_ratio : float or None
        accepted / kept.
    conditional_ratio : float or None
        accepted / kept rounds whose earlier drafts all matched.
    kept_margin, next_margin : Margin
        The marginal rule over the rounds that keep this draft, and over those that stop just before it.
    """

    step: int
    kept: int
    accepted: float
    acceptance_ratio: float | None
    conditional_ratio: float | None
    kept_margin: Margin
    next_margin: Margin


@dataclass(frozen=True)
class Account:
    """What a policy did over all rounds.

    Attributes
    ----------
    policy : str
        Its name.
    rounds, kept : int
        Rounds, and drafts kept in them.
    mean_kept : float or None
        kept / rounds.
    committed, wasted_rows : int or None
        Tokens committed and draft rows verified in vain; None where acceptance is modelled.
    expected_tokens : float
        Sum of R_k with acceptance = confidence.
    cost : float
        Sum of C_k, draft steps included.
    tokens_per_cost : float or None
        committed / cost; expected_tokens / cost where acceptance is modelled.
    expert_bytes : int or None
        Bytes of the experts that rows 0..k want, each once an event; None where not known.
    expert_bytes_per_token : float or None
        expert_bytes / committed.
    screen : bool
        Some round keeps fewer drafts than were verified: exact within a round, a screen across rounds.
    steps : list of Step
        By draft step.
    """

    policy: str
    rounds: int
    kept: int
    mean_kept: float | None
    committed: int | None
    wasted_rows: int | None
    expected_tokens: float
    cost: float
    tokens_per_cost: float | None
    expert_bytes: int | None
    expert_bytes_per_token: float | None
    screen: bool
    steps: list[Step] = field(default_factory=list)


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _expected(accept: Floats, kept: Ints) -> Floats:
    """Return R_k of each round."""
    return 1.0 + np.where(np.arange(accept.shape[1]) < kept[:, None], accept, 0.0).sum(axis=1)


def _step(step: int, accept: Floats, kept: Ints, limit: Ints, cost: Cost) -> Step:
    """Account for one draft step."""
    here = kept > step
    count, accepted = int(here.sum()), float(accept[here, step].sum())
    reached = float(accept[here, step - 1].sum()) if step else count
    stopped = (kept == step) & (limit > step)
    return Step(
        step,
        count,
        accepted,
        _ratio(accepted, count),
        _ratio(accepted, reached),
        margin(accept, here, step, cost),
        margin(accept, stopped, step, cost),
    )


def account(
    name: str,
    rounds: Rounds,
    kept: Ints,
    ran: Ints,
    cost: Cost,
    prefix_bytes: Ints | None = None,
    modelled: bool = False,
) -> Account:
    """Account for one policy over all rounds.

    Parameters
    ----------
    name : str
        The policy.
    rounds : Rounds
        The rounds.
    kept, ran : int64[rounds]
        Drafts kept and draft steps run, as ``keep`` gives them.
    cost : Cost
        The cost model.
    prefix_bytes : int64[rounds, steps + 1], optional
        Expert bytes of rows 0..k of each round.
    modelled : bool, optional
        There is no verifier: acceptance = confidence.

    Returns
    -------
    Account
        Totals and steps.
    """
    steps = rounds.p.shape[1]
    confident = confidence(rounds.p)
    accept = confident if modelled else rounds.accept
    expected = float(_expected(confident, kept).sum())
    good = np.minimum(kept, rounds.matched)
    tokens = None if modelled else len(kept) + int(good.sum())
    total = float(cost.by_kept(steps)[kept].sum() + cost.draft_step * ran.sum())
    traffic = None if prefix_bytes is None else int(prefix_bytes[np.arange(len(kept)), kept].sum())
    return Account(
        policy=name,
        rounds=len(kept),
        kept=int(kept.sum()),
        mean_kept=_ratio(int(kept.sum()), len(kept)),
        committed=tokens,
        wasted_rows=None if modelled else int((kept - good).sum()),
        expected_tokens=expected,
        cost=total,
        tokens_per_cost=_ratio(expected if tokens is None else tokens, total),
        expert_bytes=traffic,
        expert_bytes_per_token=None if traffic is None or not tokens else traffic / tokens,
        screen=bool((kept < rounds.verified).any()),
        steps=[_step(step, accept, kept, rounds.verified, cost) for step in range(steps)],
    )
