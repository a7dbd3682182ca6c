"""A calibrated acceptance curve: how often a draft of confidence p is accepted, learned on other sessions.

For each draft step an isotonic curve (pool adjacent violators; Barlow et al. 1972) from p to the share of drafts
that matched, among those whose earlier drafts all matched. A round's acceptance is the product of its steps'.
Sessions are dealt into folds and each is judged by curves that were fitted on the others, so that no round is
judged by itself; the identity (acceptance = confidence) stands beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.retain.rounds import Floats, Ints, Rounds

FOLDS = 5
BINS = 10
_LEAST = 1e-6


@dataclass(frozen=True)
class Curve:
    """A non-decreasing curve through knots: linear between them, level beyond.

    Attributes
    ----------
    p, accept : tuple of float
        Confidence, ascending, and the share of such drafts that was accepted.
    """

    p: tuple[float, ...]
    accept: tuple[float, ...]

    def at(self, p: Floats) -> Floats:
        """Read the curve; 0 where p is no probability, the identity where the curve has no knot."""
        known = (p >= 0.0) & (p <= 1.0)
        inside = np.where(known, p, 0.0)
        read = np.interp(inside, self.p, self.accept) if self.p else inside
        return np.where(known, read, 0.0)


def fit_curve(p: Floats, hit: npt.NDArray[np.bool_]) -> Curve:
    """Fit an isotonic curve.

    Each level stretch counts one draft more, half accepted, so that a few drafts never make a certainty.

    Parameters
    ----------
    p : float64[n]
        Confidence of each draft, in [0, 1].
    hit : bool[n]
        Whether it was accepted.

    Returns
    -------
    Curve
        One knot a distinct confidence, those inside a level stretch left out.

    Examples
    --------
    >>> fit_curve(np.array([0.2, 0.4, 0.4, 0.8]), np.array([False, True, False, True]))
    Curve(p=(0.2, 0.4, 0.8), accept=(0.25, 0.5, 0.75))
    """
    from scipy.optimize import isotonic_regression

    if not len(p):
        return Curve((), ())
    values, place = np.unique(p, return_inverse=True)
    count = np.bincount(place)
    level = isotonic_regression(np.bincount(place, hit) / count, weights=count).x
    _, block = np.unique(level, return_inverse=True)
    held = np.bincount(block, count)[block]
    level = isotonic_regression((level * held + 0.5) / (held + 1.0), weights=count).x
    inner = np.zeros(len(level), bool)
    inner[1:-1] = (level[1:-1] == level[:-2]) & (level[1:-1] == level[2:])
    return Curve(tuple(values[~inner].tolist()), tuple(level[~inner].tolist()))


@dataclass(frozen=True)
class StepCalibration:
    """One draft step: how well the identity and the calibrated curve tell acceptance, on held-out sessions.

    Attributes
    ----------
    step : int
    drafts, accepted : int
        Drafts with a row whose earlier drafts all matched, and those of them that matched.
    mean_p : float or None
        Their mean confidence.
    brier : tuple of float or None
        Mean squared error of the identity, and of the curve.
    log_loss : tuple of float or None
        Mean negative log likelihood of the identity, and of the curve.
    reliability : list of (float, int, int)
        By tenth of the confidence: mean p, drafts, accepted; tenths without drafts left out.
    curve : Curve
        Fitted on all sessions.
    """

    step: int
    drafts: int
    accepted: int
    mean_p: float | None
    brier: tuple[float, float] | None
    log_loss: tuple[float, float] | None
    reliability: list[tuple[float, int, int]]
    curve: Curve


@dataclass(frozen=True)
class Calibration:
    """Acceptance of every draft by curves that its own session had no part in.

    Attributes
    ----------
    accept : float64[rounds, steps]
        Acceptance of each draft: the product of its round's curves so far.
    folds : int
    steps : list of StepCalibration
    """

    accept: Floats = field(repr=False)
    folds: int
    steps: list[StepCalibration]


def folds_of(session: Ints) -> Ints:
    """Deal sessions into folds, in the order in which they come; one session is dealt in blocks of 64 rounds."""
    ids, first, place = np.unique(session, return_index=True, return_inverse=True)
    if len(ids) == 1:
        return np.arange(len(session)) // 64 % FOLDS
    rank = np.empty(len(ids), np.int64)
    rank[np.argsort(first)] = np.arange(len(ids))
    return np.asarray(rank[place] % min(FOLDS, len(ids)))


def calibrate(rounds: Rounds, session: Ints) -> Calibration:
    """Calibrate acceptance, each session by the others.

    Parameters
    ----------
    rounds : Rounds
        Recorded rounds.
    session : int64[rounds]
        Session of each.

    Returns
    -------
    Calibration
    """
    fold = folds_of(session)
    folds = np.unique(fold)
    conditional = np.zeros(rounds.p.shape)
    steps = []
    for step in range(rounds.p.shape[1]):
        p = rounds.p[:, step]
        asked = (rounds.matched >= step) & (rounds.verified > step) & (p >= 0.0) & (p <= 1.0)
        hit = rounds.matched > step
        for each in folds:
            curve = fit_curve(p[asked & (fold != each)], hit[asked & (fold != each)])
            conditional[fold == each, step] = curve.at(p[fold == each])
        steps.append(_judged(step, p[asked], conditional[asked, step], hit[asked]))
    return Calibration(np.cumprod(conditional, axis=1, dtype=np.float64), len(folds), steps)


def _judged(step: int, p: Floats, fitted: Floats, hit: npt.NDArray[np.bool_]) -> StepCalibration:
    """Scores of a step."""
    if not len(p):
        return StepCalibration(step, 0, 0, None, None, None, [], Curve((), ()))
    both = (p, fitted)
    tenth = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    bins = [(tenth == each) for each in range(BINS)]
    return StepCalibration(
        step,
        len(p),
        int(hit.sum()),
        float(p.mean()),
        _pair([float(((each - hit) ** 2).mean()) for each in both]),
        _pair([_log_loss(each, hit) for each in both]),
        [(float(p[mine].mean()), int(mine.sum()), int(hit[mine].sum())) for mine in bins if mine.any()],
        fit_curve(p, hit),
    )


def _pair(values: Sequence[float]) -> tuple[float, float]:
    return values[0], values[1]


def _log_loss(p: Floats, hit: npt.NDArray[np.bool_]) -> float:
    sure = np.clip(p, _LEAST, 1.0 - _LEAST)
    return float(-np.where(hit, np.log(sure), np.log1p(-sure)).mean())
