"""What a lane needs to know of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from replay.trace import Trace


@dataclass(frozen=True)
class Shape:
    """Layers, experts and their sizes.

    Attributes
    ----------
    layers, experts, top_k : int
    sizes : int64[L, E]
        Bytes of every expert.
    classes : uint8[L, E]
    widest : int
        Rows of the widest window.
    """

    layers: int
    experts: int
    top_k: int
    sizes: NDArray[np.int64]
    classes: NDArray[np.uint8]
    widest: int

    @classmethod
    def of(cls, trace: Trace) -> Shape:
        """Read the shape off an open trace."""
        meta, rows = trace.meta, trace.windows.rows
        widest = int(rows.max()) if len(rows) else 1
        return cls(meta.layers, meta.experts, meta.top_k, trace.sizes, trace.classes, widest)
