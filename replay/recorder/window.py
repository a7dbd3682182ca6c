"""One forward pass as it was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.recorder.arena import Event


@dataclass
class Window:
    """A window that waits to be written, padding left out.

    Attributes
    ----------
    number, session : int
    prefill : bool
    domain : str or None
    picks : int64[rows, L, k]
    weights : float32[rows, L, k] or None
    scores : float32 or float16[rows, L, E]
        float16: rounded before the selection, so picks and scores agree as they are.
    logits : float32[rows, L, E] or None
        Logits, where ``scores`` are what a biased or grouped selection saw.
    wanted : bool
        Whether the window's scores are kept.
    residuals : torch.Tensor or None
        Residual streams [c, rows, hidden] that candidates are still to be made of.
    events : list of Event or None
        One a layer.
    times : float32[L, 2] or None
        pre_us and post_us.
    targets, issued : int64[c]
        Layers that have candidates, ascending, and the layers after which they were issued.
    candidates : float32[rows, c, E] or None
    """

    number: int
    session: int
    prefill: bool
    domain: str | None
    picks: NDArray[np.int64]
    weights: NDArray[np.float32] | None
    scores: NDArray[Any]
    logits: NDArray[np.float32] | None
    wanted: bool
    residuals: Any
    events: list[Event] | None
    times: NDArray[np.float32] | None
    targets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    issued: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    candidates: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes while it waits."""
        residuals = 0 if self.residuals is None else self.residuals.nbytes
        candidates = 0 if self.residuals is None else len(self.residuals) * self.scores[:, 0].size * 4
        return self.picks.nbytes + self.scores.nbytes + residuals + candidates
