"""The bound of an arena: slots of each size class, or a byte budget (semantics 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.arena import Plan, plan_bytes, plan_slots
from replay.errors import InputError
from replay.units import format_bytes, parse_bytes, parse_share

DEFAULT_SHARE = 0.176
"""Share of the experts that an arena holds where neither the user nor the trace says."""


@dataclass(frozen=True)
class Bound:
    """How much an arena holds.

    Attributes
    ----------
    slots : tuple of int or None
        Slots of each size class.
    bytes : int or None
        Byte budget; exactly one of the two is set.
    origin : str
        Where the figure came from, in words.
    """

    slots: tuple[int, ...] | None
    bytes: int | None
    origin: str

    @property
    def total_slots(self) -> int | None:
        """Slots of all classes together."""
        return None if self.slots is None else sum(self.slots)

    def describe(self) -> str:
        """Name the bound as a person reads it."""
        if self.slots is None:
            return f"{format_bytes(self.bytes or 0)} ({self.origin})"
        text = (
            f"{self.slots[0]} slots"
            if len(self.slots) == 1
            else f"{'+'.join(map(str, self.slots))} slots by class"
        )
        return f"{text} ({self.origin})"

    def scaled(self, factor: float) -> Bound:
        """The bound times a factor, each class rounded to the nearest whole slot (half up)."""
        if self.slots is None:
            return Bound(None, _nearest((self.bytes or 0) * factor), f"{factor:g} x")
        return Bound(tuple(_nearest(n * factor) for n in self.slots), None, f"{factor:g} x")

    def plan(self, classes: NDArray[np.uint8], by_layer: bool) -> Plan:
        """Cut the bound into parts (see :class:`replay.arena.Plan`)."""
        if self.slots is None:
            layers, experts = classes.shape
            return plan_bytes(layers, experts, self.bytes or 0, by_layer)
        return plan_slots(classes, np.array(self.slots, np.int64), by_layer)


def _nearest(x: float) -> int:
    return math.floor(x + 0.5)


def class_sizes(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Experts of each size class."""
    return np.bincount(classes.ravel()).astype(np.int64)


def from_share(share: float, classes: NDArray[np.uint8], origin: str) -> Bound:
    """A share of the experts, rounded to the nearest, for each class."""
    return Bound(tuple(_nearest(int(n) * share) for n in class_sizes(classes)), None, origin)


def parse_slots(text: str, classes: NDArray[np.uint8]) -> Bound:
    """Read ``--slots``: ``4326``, ``100,20`` (one figure a class) or ``17.6%`` of the experts.

    Raises
    ------
    InputError
        Not such a figure; below 1; or not one figure for each size class.
    """
    count = len(class_sizes(classes))
    if text.strip().endswith("%"):
        bound = from_share(parse_share(text), classes, f"--slots {text}")
        if min(bound.slots or (0,)) < 1:
            raise InputError(f"--slots {text}: leaves a size class without a slot; give a larger share")
        return bound
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() and len(each) < 16 for each in parts) or any(int(each) < 1 for each in parts):
        raise InputError(
            f"--slots {text}: expected whole numbers of at least 1 such as 4326 or 100,20, or 17.6%"
        )
    if len(parts) != count:
        figures = "one figure" if len(parts) == 1 else f"{len(parts)} figures"
        raise InputError(
            f"--slots {text}: {figures} for {count} size classes; give one figure a class, or a share"
        )
    return Bound(tuple(map(int, parts)), None, f"--slots {text}")


def parse_budget(text: str) -> Bound:
    """Read ``--bytes``: a size such as ``4000MiB``."""
    return Bound(None, parse_bytes(text), f"--bytes {text}")


def recorded(policy: dict[str, Any] | None, classes: NDArray[np.uint8]) -> Bound | None:
    """The bound that the trace's engine ran with, or None where trace.json does not say."""
    if policy is None:
        return None
    if policy.get("bytes"):
        return Bound(None, int(policy["bytes"]), "as recorded")
    slots = policy.get("slots")
    if not slots:
        return None
    slots = [slots] if isinstance(slots, int) else slots
    if len(slots) != len(class_sizes(classes)):
        raise InputError(
            f"trace.json: policy.slots has {len(slots)} figures for {len(class_sizes(classes))} size classes; "
            "give --slots or --bytes"
        )
    return Bound(tuple(int(n) for n in slots), None, "as recorded")


def resolve(
    slots: str | None, budget: str | None, policy: dict[str, Any] | None, classes: NDArray[np.uint8]
) -> Bound:
    """The bound of a run: what the user gave, else what the trace recorded, else 17.6% of the experts.

    Raises
    ------
    InputError
        Both bounds are given, or one cannot be read.
    """
    if slots is not None and budget is not None:
        raise InputError("--slots and --bytes are both given; an arena has one bound: give one")
    if slots is not None:
        return parse_slots(slots, classes)
    if budget is not None:
        return parse_budget(budget)
    default = from_share(DEFAULT_SHARE, classes, "17.6% of the experts: the trace records no bound")
    return recorded(policy, classes) or default
