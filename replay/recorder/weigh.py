"""How a model weighs its picks, learned from weights that it gave, so that other picks can be weighed alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.router.rule import weights as renormalised_softmax

Weigh = Callable[[NDArray[np.floating], NDArray[np.int64]], NDArray[np.float64]]


def _softmax(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    z = np.asarray(scores, np.float64)
    exp = np.exp(z - z.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def _sigmoid(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(scores, np.float64)))


def _root_softplus(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.sqrt(np.logaddexp(0.0, np.asarray(scores, np.float64)))


def _plain(value: Callable[[NDArray[np.floating]], NDArray[np.float64]]) -> Weigh:
    return lambda scores, picks: np.take_along_axis(value(scores), picks, axis=1)


def _normed(value: Callable[[NDArray[np.floating]], NDArray[np.float64]]) -> Weigh:
    def weigh(scores: NDArray[np.floating], picks: NDArray[np.int64]) -> NDArray[np.float64]:
        chosen = np.take_along_axis(value(scores), picks, axis=1)
        return chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1e-20)

    return weigh


FORMULAS: dict[str, Weigh] = {
    "softmax over the chosen": renormalised_softmax,
    "softmax over all": _plain(_softmax),
    "sigmoid over their sum": _normed(_sigmoid),
    "sigmoid": _plain(_sigmoid),
    "root of softplus over their sum": _normed(_root_softplus),
    "root of softplus": _plain(_root_softplus),
}


@dataclass(frozen=True)
class Formula:
    """A way to weigh picks.

    Attributes
    ----------
    name : str
        A key of ``FORMULAS``.
    scale : float
        Factor on all weights.
    """

    name: str
    scale: float

    def __str__(self) -> str:
        return self.name if self.scale == 1 else f"{self.name} times {self.scale!r}"

    @classmethod
    def told(cls, text: str) -> Formula | None:
        """Read a formula as ``str`` writes it; None where it is none that is known.

        Examples
        --------
        >>> Formula.told("sigmoid over their sum times 2.5")
        Formula(name='sigmoid over their sum', scale=2.5)
        """
        name, _, factor = text.partition(" times ")
        try:
            scale = float(factor) if factor else 1.0
        except ValueError:
            return None
        return cls(name, scale) if name in FORMULAS and np.isfinite(scale) and scale > 0 else None

    def __call__(self, scores: NDArray[np.floating], picks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weigh ``picks`` [n, k] by their rows of logits [n, E]."""
        return FORMULAS[self.name](scores, picks) * self.scale


def learn(
    scores: NDArray[np.floating], picks: NDArray[np.int64], given: NDArray[np.floating], tolerance: float
) -> Formula | None:
    """Find the formula that gives a model's weights.

    Parameters
    ----------
    scores : float[n, E]
        Logits of the rows.
    picks : int64[n, k]
        The model's picks.
    given : float[n, k]
        The weights that it gave them.
    tolerance : float
        Relative difference that the model's arithmetic may make.

    Returns
    -------
    Formula or None
        The one whose factor is nearest to 1 where several do; None where none does.

    Examples
    --------
    >>> z = np.array([[0.0, 1.0, 2.0, 3.0]])
    >>> learn(z, np.array([[3, 2]]), np.array([[0.731059, 0.268941]]) * 2.5, 1e-3)
    Formula(name='softmax over the chosen', scale=2.5)
    """
    found = []
    for name, formula in FORMULAS.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(given, np.float64) / formula(scores, picks)
        middle = float(np.median(ratio))
        if np.isfinite(ratio).all() and middle > 0 and np.ptp(ratio) <= tolerance * middle:
            found.append(Formula(name, _short(middle, tolerance / 4 * middle)))
    return min(found, key=lambda each: abs(np.log(each.scale)), default=None)


def _short(value: float, slack: float) -> float:
    """The number of fewest decimals, three at most, that is near enough to a value; else the value."""
    near = (round(value, digits) for digits in range(4))
    return next((each for each in near if abs(each - value) <= slack), value)


def learn_of(logits: Any, picks: Any, weights: Any) -> Formula | None:
    """Find the formula of a model's weights from its tensors.

    Parameters
    ----------
    logits : torch.Tensor
        [n, E].
    picks, weights : torch.Tensor
        [n, k], as the model gave them.

    Returns
    -------
    Formula or None
    """
    tolerance = 1e-3 if str(weights.dtype) == "torch.float32" else 3e-2
    wide, given = (each.detach().float().cpu().numpy() for each in (logits, weights))
    return learn(wide, picks.cpu().numpy().astype(np.int64), given, tolerance)
