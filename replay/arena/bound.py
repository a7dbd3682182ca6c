"""The bound of an arena: slots of each size class, or a byte budget (semantics 4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from replay.arena.partition import Plan, plan_bytes, plan_slots
from replay.document import read_toml
from replay.errors import InputError
from replay.units import format_bytes, parse_bytes, parse_share

T = TypeVar("T")

_WHOLE = re.compile(r"[0-9]{1,15}")

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
    by_layer : tuple of tuple of int, or None
        Slots of each size class in each layer, which ``slots`` are the sums of (a budget file); None: scope
        ``layer`` splits the bound equally.
    """

    slots: tuple[int, ...] | None
    bytes: int | None
    origin: str
    by_layer: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of_layers(cls, table: Sequence[Sequence[int]], origin: str) -> Bound:
        """A bound from the slots of each size class in each layer."""
        rows = tuple(tuple(int(n) for n in row) for row in table)
        return cls(tuple(map(sum, rows)), None, origin, rows)

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
        if self.by_layer is not None:
            return Bound.of_layers(
                [[_nearest(n * factor) for n in row] for row in self.by_layer], f"{factor:g} x"
            )
        return Bound(tuple(_nearest(n * factor) for n in self.slots), None, f"{factor:g} x")

    def plan(self, classes: NDArray[np.uint8], by_layer: bool) -> Plan:
        """Cut the bound into parts (see :class:`replay.arena.partition.Plan`)."""
        if self.slots is None:
            layers, experts = classes.shape
            return plan_bytes(layers, experts, self.bytes or 0, by_layer)
        table = self.by_layer if by_layer and self.by_layer is not None else self.slots
        return plan_slots(classes, np.array(table, np.int64), by_layer)


def part_slots(bounds: Sequence[Bound], layers: int, by_layer: bool) -> NDArray[np.int64]:
    """Slots of each part (``Plan.capacity``) of many bounds at once, as :meth:`Bound.plan` cuts them.

    Parameters
    ----------
    bounds : sequence of Bound
        G bounds in slots, equal in every layer.
    layers : int
    by_layer : bool
        Scope ``layer``.

    Returns
    -------
    int64[G, P]

    Examples
    --------
    >>> part_slots([Bound((5,), None, ""), Bound((7,), None, "")], 3, True).tolist()
    [[2, 2, 1], [3, 2, 2]]
    """
    slots = np.array([each.slots for each in bounds], np.int64)
    if not by_layer:
        return slots
    return ((slots[:, None] + np.arange(layers)[::-1, None]) // layers).reshape(len(bounds), -1)


def _nearest(x: float) -> int:
    return math.floor(x + 0.5)


def class_sizes(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Experts of each size class."""
    return np.bincount(classes.ravel()).astype(np.int64)


def from_share(share: float, classes: NDArray[np.uint8], origin: str) -> Bound:
    """A share of the experts, rounded to the nearest, for each class."""
    return Bound(tuple(_nearest(int(n) * share) for n in class_sizes(classes)), None, origin)


def _named(option: str, parse: Callable[[str], T], text: str) -> T:
    """Parse an option's value; what is wrong with it begins with the option."""
    try:
        return parse(text)
    except InputError as problem:
        raise InputError(f"{option}: {problem}") from None


def parse_slots(text: str, classes: NDArray[np.uint8]) -> Bound:
    """Read ``--slots``: ``4326``, ``100,20`` (one figure a class) or ``17.6%`` of the experts.

    Raises
    ------
    InputError
        Not such a figure; below 1; or not one figure for each size class.
    """
    count = len(class_sizes(classes))
    if text.strip().endswith("%"):
        bound = from_share(_named("--slots", parse_share, text), classes, f"--slots {text}")
        if min(bound.slots or (0,)) < 1:
            raise InputError(f"--slots {text}: leaves a size class without a slot; give a larger share")
        return bound
    parts = [each.strip() for each in text.split(",")]
    if any(re.fullmatch(r"[0-9]{16,}", each) for each in parts):
        raise InputError(f"--slots {text}: expected at most 999999999999999 slots")
    if not all(_WHOLE.fullmatch(each) and int(each) >= 1 for each in parts):
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
    """Read ``--bytes``: a size such as ``4000MiB``; an arena of none is refused."""
    size = _named("--bytes", parse_bytes, text)
    if size < 1:
        raise InputError(f"--bytes {text}: an arena holds at least 1 byte; give a size such as 4000MiB")
    return Bound(None, size, f"--bytes {text}")


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


def read_budget(path: Path, classes: NDArray[np.uint8]) -> Bound:
    """Read a budget file (``replay budget``): ``slots`` in TOML, a list of one figure a layer for each size class.

    Parameters
    ----------
    path : Path
    classes : uint8[L, E]
        Size class of every expert of the trace that it is for.

    Raises
    ------
    InputError
        The file cannot be read, or its figures are not of this trace's layers and classes.
    """
    given = read_toml(path, "a file that `replay budget` wrote")
    table = given.get("slots")
    count, layers = len(class_sizes(classes)), len(classes)
    if not isinstance(table, list) or len(table) != count or not all(isinstance(row, list) for row in table):
        found = "none"
        if isinstance(table, list):
            nested = all(isinstance(row, list) for row in table)
            found = f"{len(table)} lists" if nested else f"{len(table)} entries that are no lists"
        raise InputError(
            f"{path}: slots: expected a list for each size class of this trace ({count}), in it a number for each "
            f"layer ({layers}), such as slots = [[8, 8, ..]]; found {found}"
        )
    for c, row in enumerate(table):
        where = f"{path}: slots of class {c}"
        if len(row) != layers:
            raise InputError(
                f"{where}: {len(row)} figures for this trace's {layers} layers; make a budget for it"
            )
        for layer, n in enumerate(row):
            needed = int((classes[layer] == c).any())
            if type(n) is not int or not needed <= n < 2**40:
                raise InputError(
                    f"{where}, layer {layer}: expected a whole number of at least {needed}, found {n!r}"
                )
    sums = [sum(row) for row in table]
    if given.get("total", sums) != sums:
        raise InputError(
            f"{path}: total is {given['total']!r}, but the slots add up to {sums}; correct either"
        )
    return Bound.of_layers(table, f"--budget {path}")


def write_budget(path: Path, bound: Bound, about: Mapping[str, str]) -> None:
    """Write a budget file.

    Parameters
    ----------
    path : Path
    bound : Bound
        With slots by layer.
    about : mapping of str to str
        What it was made of and for: lines that no reader needs.
    """
    rows = [f"    {list(row)}," for row in bound.by_layer or ()]
    lines = [
        "# slots of each size class (a list) in each layer; for `replay compare TRACE --scope layer --budget`",
        *(f"{name} = {json.dumps(text)}" for name, text in about.items()),
        f"total = {list(bound.slots or ())}",
        "slots = [",
        *rows,
        "]",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def resolve(
    slots: str | None,
    budget: str | None,
    policy: dict[str, Any] | None,
    classes: NDArray[np.uint8],
    file: Path | None = None,
) -> Bound:
    """The bound of a run: what the user gave, else what the trace recorded, else 17.6% of the experts.

    Raises
    ------
    InputError
        Several bounds are given, or one cannot be read.
    """
    if file is not None:
        if slots is not None or budget is not None:
            raise InputError("--budget says how many slots there are; leave out --slots and --bytes")
        return read_budget(file, classes)
    if slots is not None and budget is not None:
        raise InputError("--slots and --bytes are both given; an arena has one bound: give one")
    if slots is not None:
        return parse_slots(slots, classes)
    if budget is not None:
        return parse_budget(budget)
    default = from_share(DEFAULT_SHARE, classes, "17.6% of the experts: the trace records no bound")
    return recorded(policy, classes) or default
