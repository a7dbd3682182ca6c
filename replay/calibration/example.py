"""Examples: candidates with what a gate may know of them, and whether they were selected."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Examples:
    """Candidates of merged lists, in the order of the trace and of each list; n of them, in m predictions.

    Attributes
    ----------
    session, prediction : int64[n]
        Session, and prediction (an index into ``wanted``), of each.
    layer, expert : int64[n]
    rank, raw_rank : int64[n]
        Place in its row's picks, and among the row's raw scores.
    margin : float64[n]
        Adjusted score less that of the row's predicted k-th.
    rows : int64[n]
        Rows of the prediction.
    resident : bool[n]
        Whether it is resident when the list is made.
    queue : int64[n]
        Candidates before it in the list that are not.
    precision : float64[n]
        Share of the layer's recent candidates that were selected.
    softmax : float64[n]
        Its share of the softmax over its row's scores.
    selected : bool[n]
        The label: the event's union holds it.
    wanted : int64[m]
        Experts that each prediction's event wants.
    """

    session: NDArray[np.int64]
    prediction: NDArray[np.int64]
    layer: NDArray[np.int64]
    expert: NDArray[np.int64]
    rank: NDArray[np.int64]
    raw_rank: NDArray[np.int64]
    margin: NDArray[np.float64]
    rows: NDArray[np.int64]
    resident: NDArray[np.bool_]
    queue: NDArray[np.int64]
    precision: NDArray[np.float64]
    softmax: NDArray[np.float64]
    selected: NDArray[np.bool_]
    wanted: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.layer)

    def where(self, mask: NDArray[np.bool_]) -> Examples:
        """Those where a mask is true; predictions keep their numbers."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return Examples(**{name: each if name == "wanted" else each[mask] for name, each in parts.items()})
