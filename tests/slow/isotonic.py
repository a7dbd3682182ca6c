"""Isotonic regression by pooling adjacent violators, one block at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def pool(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Non-decreasing values with the least weighted squared error."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, v, m), (b, w, n) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, m + n)]
    return [value for value, _, count in blocks for _ in range(count)]


def curve(p: Sequence[float], hit: Sequence[bool]) -> dict[float, float]:
    """Acceptance at each confidence; every level stretch counts one draft more, half accepted."""
    at: dict[float, list[bool]] = {}
    for x, y in sorted(zip(p, hit, strict=True)):
        at.setdefault(x, []).append(y)
    counts = [len(ys) for ys in at.values()]
    level = pool([sum(ys) / len(ys) for ys in at.values()], counts)
    shrunk: list[float] = []
    for value, group in groupby(zip(level, counts, strict=True), key=lambda pair: pair[0]):
        members = [count for _, count in group]
        held = sum(members)
        shrunk += [(value * held + 0.5) / (held + 1)] * len(members)
    return dict(zip(at, pool(shrunk, counts), strict=True))
