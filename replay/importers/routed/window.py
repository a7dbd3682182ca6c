"""Windows of routed lists, what they share, and what was counted on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

MOST_ROWS = 2**16 - 1  # of a window

# why a list is not in the trace
UNFINISHED = "of a first or last step that is not whole"
TORN = "of a row whose other lists were removed"
SILENT = "of a row without a pick in any layer (-1 or zero-filled)"
DENSE = "of a layer that never routes"


@dataclass
class Shape:
    """What every window of a trace shares.

    Attributes
    ----------
    layer_ids : tuple of int
        Number of each MoE layer in the source, ascending.
    experts, top_k : int
    """

    layer_ids: tuple[int, ...]
    experts: int
    top_k: int

    @property
    def layers(self) -> int:
        """MoE layers."""
        return len(self.layer_ids)


@dataclass
class Windows:
    """Whole windows as a trace has them.

    Attributes
    ----------
    session, phase, rows : numpy.ndarray of int64, [n]
        Of each window.
    offsets : numpy.ndarray of int64, [rows * layers + 1]
        Where the picks of each row and layer begin.
    experts : numpy.ndarray of int64, [m]
        Picks in rank order.
    weights : numpy.ndarray of float64, [m], or None
        NaN where not recorded.
    outcome : numpy.ndarray of int64, [m], or None
        At an expert's first place in its event what was recorded, else 255.
    domain : numpy.ndarray of int64, [n], or None
        Index of each window's domain, -1: none.
    """

    session: np.ndarray
    phase: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    experts: np.ndarray
    weights: np.ndarray | None
    outcome: np.ndarray | None
    domain: np.ndarray | None


@dataclass
class Figures:
    """What was counted on the way.

    Attributes
    ----------
    removed : Counter
        Lists that are not in the trace, by reason.
    empty : Counter
        Rows without a pick, by layer (counted from 0).
    windows, rows, lookups : int
        Windows, rows, and unique experts wanted, summed over events.
    short : int
        Lists with fewer picks than the model's, empty ones aside.
    several : int
        Windows of several rows whose phase is not known.
    merged : int
        Prompt rows that the source has one by one.
    split : int
        Prompts of more rows than a window holds, cut.
    """

    removed: Counter[str] = field(default_factory=Counter)
    empty: Counter[int] = field(default_factory=Counter)
    windows: int = 0
    rows: int = 0
    lookups: int = 0
    short: int = 0
    several: int = 0
    merged: int = 0
    split: int = 0
