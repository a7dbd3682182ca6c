"""What a round costs, and whether one more draft pays (semantics 9).

``C_k = fixed + V[k]`` is the cost of a round that keeps k drafts, ``R_k = 1 + sum_{i<k} A_i`` its expected
tokens, with A_i the acceptance of draft i. Chosen where the spec is silent: the marginal rule prices one more
draft at ``V[k+1] - V[k] + draft_step``.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import InputError
from replay.retain.rounds import Floats


@dataclass(frozen=True)
class Cost:
    """The cost of a round, in units of a forward step of one row.

    Attributes
    ----------
    verify : tuple of float
        ``V``, by drafts kept; beyond its end the last difference goes on (of a single entry: 0).
    fixed : float
        What every round costs besides.
    draft_step : float
        What each step costs that a non-chained drafter ran; 0 for a chained one (part of ``fixed``).

    Raises
    ------
    InputError
        No entry, a figure that is negative or not finite, or a round that would cost nothing.
    """

    verify: tuple[float, ...] = (1.0, 1.02, 1.25, 1.60)
    fixed: float = 0.15
    draft_step: float = 0.0

    def __post_init__(self) -> None:
        figures = (*self.verify, self.fixed, self.draft_step)
        if not self.verify or not all(math.isfinite(each) and each >= 0 for each in figures):
            raise InputError(f"cost {figures}: expected finite figures of 0 or more, like 1,1.02,1.25,1.60")

    def by_kept(self, steps: int) -> Floats:
        """Return C_k without draft steps.

        Parameters
        ----------
        steps : int
            The longest round, in drafts.

        Returns
        -------
        float64[steps + 1]
            ``fixed + V[k]``.

        Raises
        ------
        InputError
            One of them is not above 0.
        """
        slope = self.verify[-1] - self.verify[-2] if len(self.verify) > 1 else 0.0
        beyond = [self.verify[-1] + slope * (k + 1) for k in range(steps + 1 - len(self.verify))]
        cost = self.fixed + np.array([*self.verify, *beyond])[: steps + 1]
        if (cost <= 0).any():
            free = int((cost <= 0).argmax())
            raise InputError(f"cost: a round that keeps {free} drafts would cost nothing; raise V or fixed")
        return cost


@dataclass(frozen=True)
class Margin:
    """The marginal rule over some rounds: does draft k pay? All None where there is no such round.

    Attributes
    ----------
    rounds : int
        Rounds it is about.
    gain : float or None
        ``A_k / (C_{k+1} - C_k)``, tokens per cost of draft k; None also where that cost is not above 0.
    rate : float or None
        ``R_k / C_k``, tokens per cost without draft k.
    pays : bool or None
        ``gain > rate``; always where the marginal cost is not above 0.
    """

    rounds: int
    gain: float | None = None
    rate: float | None = None
    pays: bool | None = None


def margin(accept: Floats, chosen: npt.NDArray[np.bool_], step: int, cost: Cost) -> Margin:
    """Apply the marginal rule to one more draft.

    Parameters
    ----------
    accept : float64[rounds, steps]
        Acceptance A_i of each draft.
    chosen : bool[rounds]
        The rounds to ask about.
    step : int
        The draft k that is kept or not.
    cost : Cost
        The cost model.

    Returns
    -------
    Margin
        The rule with A and R averaged over those rounds.
    """
    count = int(chosen.sum())
    if not count:
        return Margin(0)
    by_kept = cost.by_kept(step + 1) + cost.draft_step * np.arange(step + 2)
    mean = accept[chosen, : step + 1].mean(axis=0)
    more, rate = by_kept[step + 1] - by_kept[step], (1.0 + mean[:step].sum()) / by_kept[step]
    gain = float(mean[step] / more) if more > 0 else None
    return Margin(count, gain, float(rate), gain is None or bool(gain > rate))
