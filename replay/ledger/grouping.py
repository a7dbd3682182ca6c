"""What a curve is counted by: layer, session and domain, each in both phases, as numbered cells.

Cell 0 counts everything, uncounted warm windows too; behind it come the layers of decode and of prefill, then the
sessions, then the domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.engine.frame import COUNTERS
from replay.ledger.ledger import Tally

FIGURES = ("lookups", "hits", "prefetch_hits", "misses", "demand_bytes")
"""What a curve's cells count."""


@dataclass(frozen=True)
class Grouping:
    """The cells of a trace's windows.

    Attributes
    ----------
    layers : int
    sessions : int64[S]
        Numbers of the sessions; empty where there is only one.
    domains : tuple of str
    layer_cell : int32[W]
        Cell of each window's layer 0; -1: not counted.
    group_cells : int32[J, W]
        Cell of each window's session, and of its domain (those that are there).
    """

    layers: int
    sessions: NDArray[np.int64]
    domains: tuple[str, ...]
    layer_cell: NDArray[np.int32]
    group_cells: NDArray[np.int32]

    @property
    def size(self) -> int:
        """How many cells there are."""
        return 1 + 2 * (self.layers + len(self.sessions) + len(self.domains))

    def rows(self, phase: int, kind: str) -> NDArray[np.int64]:
        """Cells of one phase: of the ``layers``, ``sessions`` or ``domains``, in their order."""
        sizes = {"layers": self.layers, "sessions": len(self.sessions), "domains": len(self.domains)}
        first = 1
        for name, size in sizes.items():
            if name == kind:
                return first + phase * size + np.arange(size)
            first += 2 * size
        raise AssertionError(kind)

    def cells_of(self, first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """``group_cells`` and ``layer_cell`` of some windows."""
        return np.ascontiguousarray(self.group_cells[:, first:last]), self.layer_cell[first:last]


def group_windows(layers: int, windows: Any, warm: int) -> Grouping:
    """Number the cells of a trace's windows.

    Parameters
    ----------
    layers : int
    windows : Windows
        Sessions, phases and domains of the trace.
    warm : int
        First windows that are not counted.
    """
    phase = windows.prefill.astype(np.int64)
    sessions, session = np.unique(windows.session, return_inverse=True)
    if len(sessions) < 2:
        sessions = sessions[:0]
    names = sorted({each for each in windows.domain or () if each is not None})
    layer_cell = (1 + phase * layers).astype(np.int32)
    layer_cell[:warm] = -1
    groups = []
    first = 1 + 2 * layers
    if len(sessions):
        groups.append(first + phase * len(sessions) + session)
        first += 2 * len(sessions)
    if names:
        place = {name: i for i, name in enumerate(names)}
        domain = np.array([place.get(each, -1) for each in windows.domain])
        cell = first + phase * len(names) + domain
        groups.append(np.where(domain < 0, 1 + 2 * (layers + len(sessions) + len(names)), cell))
    cells = np.array(groups, np.int32).reshape(len(groups), len(phase))
    return Grouping(layers, sessions.astype(np.int64), tuple(names), layer_cell, cells)


class GroupTally(Tally):
    """Sums of one lane by the cells of a grouping.

    Parameters
    ----------
    name : str
        What an error calls it.
    grouping : Grouping
    warm : int
        First windows that are not counted.
    """

    def __init__(self, name: str, grouping: Grouping, warm: int) -> None:
        super().__init__(name, grouping.layers, warm, False, False)
        self.grouping = grouping
        self._groups = np.zeros((len(FIGURES), grouping.size + 1), np.int64)

    def add(self, first: int, prefill: NDArray[np.uint8], counts: NDArray[np.int64], *rest: Any) -> None:
        """Add a chunk, see :meth:`Tally.add`."""
        super().add(first, prefill, counts, *rest)
        skip = min(max(self.warm - first, 0), len(prefill))
        groups, _ = self.grouping.cells_of(first + skip, first + len(prefill))
        for i, name in enumerate(FIGURES):
            sums = counts[:, COUNTERS.index(name)].reshape(len(prefill), self.layers)[skip:].sum(axis=1)
            for cells in groups:
                np.add.at(self._groups[i], cells, sums)

    def cells(self) -> NDArray[np.int64]:
        """Sums of every cell: int64[len(FIGURES), C]."""
        out = self._groups[:, : self.grouping.size].copy()
        for i, name in enumerate(FIGURES):
            for phase in (0, 1):
                out[i, self.grouping.rows(phase, "layers")] = self.by_layer[name][phase]
        return out
