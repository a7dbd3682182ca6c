"""How a bound is cut into parts: by size class, by layer, or not at all (semantics 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Plan:
    """How a bound is cut into parts: the partition map of a replay.

    Attributes
    ----------
    part_of : int64[L * E]
        Part number of every key.
    capacity : int64[P]
        Slots of each part (slots bound); 0 under a byte budget.
    budget : int64[P]
        Bytes of each part; 0 under a slots bound.
    classes : int64[P]
        Size class that a part serves, -1 where classes play no part.
    by_bytes, by_layer : bool
        The bound is a byte budget; every layer has an arena of its own.
    """

    part_of: NDArray[np.int64]
    capacity: NDArray[np.int64]
    budget: NDArray[np.int64]
    classes: NDArray[np.int64]
    by_bytes: bool
    by_layer: bool

    @property
    def keys(self) -> NDArray[np.int64]:
        """int64[P]: experts that each part may hold."""
        return np.bincount(self.part_of, minlength=len(self.capacity))

    @property
    def residents(self) -> NDArray[np.int64]:
        """int64[P]: experts of each part that can be resident at once."""
        return self.keys if self.by_bytes else np.minimum(self.keys, self.capacity)


def share(total: int, layers: int) -> NDArray[np.int64]:
    """Equal split of a bound over layers: ``n // L`` each, the first ``n % L`` one more (semantics 4)."""
    out = np.full(layers, total // layers, np.int64)
    out[: total % layers] += 1
    return out


def plan_slots(classes: NDArray[np.uint8], slots: NDArray[np.int64], by_layer: bool) -> Plan:
    """Partition a slots bound: one part a size class, and a layer each with layer scope.

    Parameters
    ----------
    classes : uint8[L, E]
        Size class of every expert.
    slots : int64[C] or int64[C, L]
        Slots of each class; with two axes the slots of each class in each layer (a budget file).
    by_layer : bool
        Scope ``layer``.
    """
    layers, experts = classes.shape
    count = slots.shape[0]
    of_class = classes.astype(np.int64)
    if not by_layer:
        return Plan(of_class.ravel(), slots.copy(), np.zeros(count, np.int64), np.arange(count), False, False)
    table = slots if slots.ndim == 2 else np.stack([share(int(n), layers) for n in slots])
    part_of = of_class + count * np.arange(layers)[:, None]
    names = np.tile(np.arange(count), layers)
    return Plan(
        part_of.ravel(), table.T.ravel().copy(), np.zeros(count * layers, np.int64), names, False, True
    )


def plan_bytes(layers: int, experts: int, budget: int | NDArray[np.int64], by_layer: bool) -> Plan:
    """Partition a byte budget: one part, or one a layer (an array gives each layer's budget)."""
    if not by_layer:
        zero = np.zeros(layers * experts, np.int64)
        return Plan(zero, np.zeros(1, np.int64), np.array([budget], np.int64), np.full(1, -1), True, False)
    cut = share(int(budget), layers) if np.ndim(budget) == 0 else np.asarray(budget, np.int64)
    part_of = np.repeat(np.arange(layers, dtype=np.int64), experts)
    return Plan(part_of, np.zeros(layers, np.int64), cut, np.full(layers, -1), True, True)
