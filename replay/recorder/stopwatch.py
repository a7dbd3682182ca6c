"""Times of a layer: on the processor by its clock, on CUDA by events, so that nothing waits."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    """Takes marks and tells the time between them.

    Parameters
    ----------
    device : str
        Kind of the device: ``cuda`` uses its events, anything else the processor's clock.
    """

    def __init__(self, device: str):
        self.cuda = device == "cuda"

    def mark(self) -> Any:
        """Take a mark now (on CUDA: after the work queued so far)."""
        if not self.cuda:
            return time.perf_counter_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_us(self, first: Any, second: Any) -> float:
        """Tell the microseconds from one mark to the next.

        Parameters
        ----------
        first, second : mark

        Returns
        -------
        float
        """
        if not self.cuda:
            return (second - first) / 1000
        second.synchronize()
        return float(first.elapsed_time(second)) * 1000
