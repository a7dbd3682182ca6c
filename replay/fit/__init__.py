"""Clock parameters from what a trace recorded of time (its tables ``timing`` and ``reads``), with held-out errors."""

from replay.fit.compute import ComputeFit
from replay.fit.disk import DiskFit
from replay.fit.heldout import HeldOut
from replay.fit.whole import ClockFit, fit_clock

__all__ = ["ClockFit", "ComputeFit", "DiskFit", "HeldOut", "fit_clock"]
