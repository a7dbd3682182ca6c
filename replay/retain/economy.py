"""What drafts are worth: measured, by the confidence as it is, and by a calibrated acceptance curve."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.errors import InputError
from replay.retain.calibrate import Calibration, StepCalibration, calibrate
from replay.retain.cost import Cost, Margin, margin
from replay.retain.decide import confidence, keep
from replay.retain.grid import DEFAULT_COST
from replay.retain.optimum import best
from replay.retain.policy import Retention
from replay.retain.rounds import Floats, Ints, Rounds
from replay.retain.traffic import Recorded

if TYPE_CHECKING:
    from replay.trace import Trace


@dataclass(frozen=True)
class Worth:
    """One policy's tokens over cost, and the expert bytes behind a token.

    Attributes
    ----------
    policy : str
    mean_kept : float
        Drafts kept in a round.
    measured, identity, calibrated : float
        Tokens over cost: committed ones; expected where acceptance = confidence; expected by the held-out curves.
    bytes_per_token, wasted_bytes_per_token : float
        Expert bytes of the kept rows per committed token, and those of them that only wasted rows wanted.
    """

    policy: str
    mean_kept: float
    measured: float
    identity: float
    calibrated: float
    bytes_per_token: float
    wasted_bytes_per_token: float


@dataclass(frozen=True)
class Marginal:
    """Does draft k pay, over all rounds that have it: by what matched, by the confidence, by the curves."""

    step: int
    measured: Margin
    identity: Margin
    calibrated: Margin


@dataclass(frozen=True)
class Economy:
    """The economics of a trace's drafts.

    Attributes
    ----------
    policies : list of Worth
        The policies, then the optimum that knows p and the curves (``best:calibrated``).
    marginal : list of Marginal
    calibration : list of StepCalibration
    folds : int
        Parts that sessions were dealt into.
    """

    policies: list[Worth]
    marginal: list[Marginal]
    calibration: list[StepCalibration]
    folds: int

    def as_dict(self) -> dict[str, Any]:
        """Give the economics as plain data."""
        return asdict(self)


def economy(
    trace: "Trace", data: Recorded, policies: Sequence[Retention], cost: Cost = DEFAULT_COST
) -> Economy:
    """Work out what drafts are worth.

    Parameters
    ----------
    trace : Trace
    data : Recorded
        Its rounds, as ``read_recorded`` gives them.
    policies : sequence of Retention
        Those that are looser than what was recorded are left out.
    cost : Cost, optional

    Returns
    -------
    Economy
    """
    rounds = data.rounds
    calibration = calibrate(rounds, trace.windows.session[rounds.window])
    rows = []
    for policy in dict.fromkeys((Retention(), *policies)):
        try:
            kept, ran = keep(rounds, policy)
        except InputError:
            continue
        rows.append(_worth(policy.name, data, calibration.accept, kept, ran, cost))
    kept = best(calibration.accept, rounds.verified, cost)
    rows.append(_worth("best:calibrated", data, calibration.accept, kept, kept, cost))
    return Economy(rows, _marginal(rounds, calibration, cost), calibration.steps, calibration.folds)


def _worth(name: str, data: Recorded, accept: Floats, kept: Ints, ran: Ints, cost: Cost) -> Worth:
    rounds, each = data.rounds, np.arange(len(kept))
    good = np.minimum(kept, rounds.matched)
    tokens = len(kept) + int(good.sum())
    total = float(cost.by_kept(rounds.p.shape[1])[kept].sum() + cost.draft_step * ran.sum())
    here = np.arange(rounds.p.shape[1]) < kept[:, None]
    expected = [len(kept) + float(np.where(here, a, 0.0).sum()) for a in (confidence(rounds.p), accept)]
    wanted, needed = (int(data.prefix_bytes[each, rows].sum()) for rows in (kept, good))
    return Worth(
        name,
        float(kept.mean()),
        tokens / total,
        expected[0] / total,
        expected[1] / total,
        wanted / tokens,
        (wanted - needed) / tokens,
    )


def _marginal(rounds: Rounds, calibration: Calibration, cost: Cost) -> list[Marginal]:
    found = []
    for step in range(rounds.p.shape[1]):
        there = rounds.verified > step
        sides = (rounds.accept, confidence(rounds.p), calibration.accept)
        found.append(Marginal(step, *(margin(accept, there, step, cost) for accept in sides)))
    return found
