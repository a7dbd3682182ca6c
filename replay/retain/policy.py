"""Draft retention policies (semantics 9)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Retention:
    """Which drafts of a round are kept: the longest prefix in which every gate that is in use passes.

    Attributes
    ----------
    min_p : float or None
        Flat floor: a draft passes when ``p >= min_p``; None where a schedule replaces it or nothing is flat.
    append : bool
        Keep the first draft that fails the flat floor too, then stop (the engine's old non-chained path).
        The other gates still apply to that draft.
    schedule : tuple of float
        Thresholds by step, the last one repeating; empty: none.
    min_cum_p : float or None
        Floor of the product of the probabilities so far; 0 disables it.
    """

    min_p: float | None = None
    append: bool = False
    schedule: tuple[float, ...] = ()
    min_cum_p: float | None = None

    @property
    def gated(self) -> bool:
        """Whether any gate is in use; without one every draft that was verified is kept."""
        return self.min_p is not None or self.closed

    @property
    def closed(self) -> bool:
        """Whether a value that is no probability ends the prefix: a schedule or cumulative floor is used."""
        return bool(self.schedule or self.min_cum_p)

    @property
    def name(self) -> str:
        """The policy as parts of a spec, which ``parse_retention`` reads back; ``recorded`` without parts."""
        parts = []
        if self.min_p is not None:
            parts.append(f"flat:{decimal(self.min_p)}" + (",append=1" if self.append else ""))
        if self.schedule:
            parts.append("schedule:" + "/".join(map(decimal, self.schedule)))
        if self.min_cum_p is not None:
            parts.append(f"cumulative:{decimal(self.min_cum_p)}")
        return "+".join(parts) or "recorded"

    def floors(self, steps: int) -> npt.NDArray[np.float64]:
        """Return the threshold of each step.

        Parameters
        ----------
        steps : int
            How many steps to cover.

        Returns
        -------
        float64[steps]
            The flat floor, or the schedule with its last threshold repeated, or -inf where neither is in use.
        """
        if self.schedule:
            return np.array([self.schedule[min(j, len(self.schedule) - 1)] for j in range(steps)])
        return np.full(steps, -np.inf if self.min_p is None else self.min_p)

    def looser_than(self, other: "Retention", steps: int) -> bool:
        """Say whether this policy may keep a draft that another one does not.

        Parameters
        ----------
        other : Retention
            The policy to compare with.
        steps : int
            The longest round to consider, in drafts.

        Returns
        -------
        bool
            False only when, for every sequence of probabilities in [0, 1], this policy keeps no more.
        """
        least = np.maximum(self.floors(steps), self.min_cum_p or 0.0)  # what p of a kept draft is at least
        product = np.full(steps, self.min_cum_p or 0.0)  # and what its product is at least
        if not self.append:
            product = np.maximum(product, np.cumprod(least))
        return bool(
            (other.floors(steps) > least).any()
            or (product < (other.min_cum_p or 0.0)).any()
            or (self.append and not other.append and other.floors(steps).max(initial=0.0) > 0)
        )


def decimal(value: float) -> str:
    """Write a threshold as its shortest exact decimal.

    Parameters
    ----------
    value : float
        The threshold.

    Returns
    -------
    str
        Such as ``0.35`` or ``1``.
    """
    return repr(value).removesuffix(".0")
