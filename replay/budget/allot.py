"""Slots of one size class over the layers: MoE-CORE's marginal transfer, and the exact optimum.

Both take the cost of every layer at every number of slots, and split a given number of slots so that the sum of
costs is small. The transfer (MoE-CORE, 2610.01950) moves one slot at a time and stops where no single move gains;
the optimum (AdapMoE's dynamic programme) tries every split, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from replay.arena.partition import share
from replay.errors import InputError

Costs = Sequence[NDArray[np.float64]]
"""Cost of each layer with 0, 1, .. slots; infinite where the layer cannot do with so few. The last entry holds for
more slots too."""


def ranges(costs: Costs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fewest slots that each layer can do with, and the most that its costs are known for."""
    low = [int(np.argmax(np.isfinite(each))) for each in costs]
    return np.array(low, np.int64), np.array([len(each) - 1 for each in costs], np.int64)


def total(costs: Costs, slots: NDArray[np.int64]) -> float:
    """Cost of a split."""
    return float(sum(each[min(n, len(each) - 1)] for each, n in zip(costs, slots.tolist(), strict=True)))


def equal(costs: Costs, slots: int) -> NDArray[np.int64]:
    """The equal split, bent where a layer needs more or has no use for so many.

    Parameters
    ----------
    costs : sequence of float64[n]
    slots : int

    Returns
    -------
    int64[L]
        Slots of each layer; their sum is ``slots``, or what all layers together have a use for.

    Raises
    ------
    InputError
        Not every layer can have what it needs.
    """
    low, high = ranges(costs)
    if slots < low.sum():
        raise InputError(
            f"{slots} slots cannot give every layer its widest event; expected at least {low.sum()}"
        )
    split = np.clip(share(slots, len(costs)), low, high)
    slots = min(slots, int(high.sum()))
    while split.sum() > slots:
        split[np.argmax(np.where(split > low, split, -1))] -= 1
    while split.sum() < slots:
        split[np.argmin(np.where(split < high, split, np.iinfo(np.int64).max))] += 1
    return split


def transfer(costs: Costs, slots: int) -> NDArray[np.int64]:
    """Marginal transfer from the equal split.

    One slot at a time moves from the layer that loses least to the layer that gains most, as long as the gain is
    larger; ties to the lower layer. A layer neither gives below what it needs nor takes more than it has a use for.

    Parameters
    ----------
    costs : sequence of float64[n]
    slots : int

    Returns
    -------
    int64[L]

    Examples
    --------
    >>> import numpy as np
    >>> transfer([np.array([9.0, 8, 7]), np.array([9.0, 4, 1, 0])], 3).tolist()
    [1, 2]
    """
    split = equal(costs, slots)
    low, high = ranges(costs)
    gains, losses = np.zeros(len(costs)), np.zeros(len(costs))

    def weigh(layer: int) -> None:
        cost, n = costs[layer], int(split[layer])
        gains[layer] = cost[n] - cost[n + 1] if n < high[layer] else -np.inf
        losses[layer] = cost[n - 1] - cost[n] if n > low[layer] else np.inf

    for layer in range(len(costs)):
        weigh(layer)
    while True:
        gain, to, source = _best_move(gains, losses)
        if not gain > 0:
            return split
        split[to] += 1
        split[source] -= 1
        weigh(to)
        weigh(source)


def _best_move(gains: NDArray[np.float64], losses: NDArray[np.float64]) -> tuple[float, int, int]:
    """What the best move of one slot gains, who takes it and who gives it: two layers; ties to the lower ones."""
    to, source = int(np.argmax(gains)), int(np.argmin(losses))
    if to != source:
        return float(gains[to] - losses[source]), to, source
    other_losses, other_gains = losses.copy(), gains.copy()
    other_losses[to], other_gains[to] = np.inf, -np.inf
    giver, taker = int(np.argmin(other_losses)), int(np.argmax(other_gains))
    given, taken = float(gains[to] - other_losses[giver]), float(other_gains[taker] - losses[source])
    return (given, to, giver) if given >= taken else (taken, taker, source)


def optimum(costs: Costs, slots: int) -> NDArray[np.int64]:
    """The split of least cost.

    Parameters
    ----------
    costs : sequence of float64[n]
    slots : int

    Returns
    -------
    int64[L]
        Where several are best, the one that gives the last layers fewest.

    Raises
    ------
    InputError
        Not every layer can have what it needs.

    Examples
    --------
    >>> import numpy as np
    >>> optimum([np.array([9.0, 9, 0]), np.array([9.0, 8, 7])], 2).tolist()
    [2, 0]
    """
    slots = int(equal(costs, slots).sum())
    best = np.full(slots + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((len(costs), slots + 1), np.int32)
    for layer, cost in enumerate(costs):
        found = np.full(slots + 1, np.inf)
        for n in range(min(len(cost) - 1, slots) + 1):
            if np.isfinite(cost[n]):
                tried = best[: slots + 1 - n] + cost[n]
                better = tried < found[n:]
                found[n:][better] = tried[better]
                taken[layer, n:][better] = n
        best = found
    split, left = np.zeros(len(costs), np.int64), slots
    for layer in range(len(costs) - 1, -1, -1):
        split[layer] = taken[layer, left]
        left -= int(split[layer])
    return split
