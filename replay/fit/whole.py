"""A fitted clock: what was fitted, from what, how far off, and the file that ``compare --clock`` takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from replay.clock.timing import load_clock
from replay.errors import InputError
from replay.fit.compute import ComputeFit, fit_compute
from replay.fit.disk import DiskFit, fit_disk
from replay.fit.heldout import training_windows
from replay.trace import Trace


@dataclass(frozen=True)
class ClockFit:
    """Everything that a trace tells of time.

    Attributes
    ----------
    trace : str
        Its folder's name.
    compute : ComputeFit or None
        From the table ``timing``; None without it.
    disk : DiskFit or None
        From the table ``reads``; None without it.
    recorded : dict
        Disk parameters that trace.json records and no read shows: workers, reserved, pieces.
    training, held_out : int
        Windows fitted on, and held out.
    notes : list of str
        What could not be told.
    """

    trace: str
    compute: ComputeFit | None
    disk: DiskFit | None
    recorded: dict[str, int]
    training: int
    held_out: int
    notes: list[str]

    def parameters(self) -> dict[str, float | int]:
        """The clock's parameters, as far as they were fitted or recorded."""
        found: dict[str, float | int] = dict(self.recorded)
        if self.disk is not None:
            found |= {
                name: _round(getattr(self.disk, name))
                for name in ("latency_us", "stream_gbps", "device_gbps")
            }
        if self.compute is not None:
            found |= {name: _round(getattr(self.compute, name)) for name in ("pre_us", "post_us")}
        return found

    def as_dict(self) -> dict[str, Any]:
        """Give the fit as plain data."""
        return asdict(self) | {"clock": self.parameters()}

    def to_toml(self) -> str:
        """Write the file that ``replay compare --clock`` and ``replay drafts --clock`` take."""
        lines = [
            f"# replay fit-clock on {self.trace!r}: fitted on {self.training} windows, {self.held_out} held out",
            *(f"# {note}" for note in self.notes),
            *(f"{name} = {value}" for name, value in self.parameters().items()),
        ]
        if self.compute is not None and self.compute.verify is not None:
            cost = ", ".join(str(_round(each)) for each in self.compute.verify)
            lines += ["", "[verify]", f"cost = [{cost}]", "fixed = 0.0"]
        return "\n".join(lines) + "\n"


def _round(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def fit_clock(trace: Trace) -> ClockFit:
    """Fit a clock on every other session of a trace.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    ClockFit

    Raises
    ------
    InputError
        The trace records neither compute times nor reads with their times.
    """
    training = training_windows(trace)
    io = trace.meta.io or {}
    clock = load_clock(None, io)
    compute = fit_compute(trace, training) if trace.has("timing") else None
    disk = fit_disk(trace, training, clock) if trace.has("reads") else None
    if compute is None and disk is None:
        raise InputError(
            f"{trace.path}: nothing to fit a clock on: needs the table timing, or reads with started_us and done_us; "
            "`replay compare --clock-grid` shows what a clock that is not known would change"
        )
    recorded = {name: int(io[name]) for name in ("workers", "reserved", "pieces") if io.get(name) is not None}
    notes = _notes(compute, disk, recorded)
    name = trace.path.resolve().name
    return ClockFit(name, compute, disk, recorded, int(training.sum()), int((~training).sum()), notes)


def _notes(compute: ComputeFit | None, disk: DiskFit | None, recorded: dict[str, int]) -> list[str]:
    """What the record does not tell."""
    found = []
    if disk is None:
        found.append("no reads with times: the disk is not fitted")
    else:
        said = {"stream_gbps": "set to the device's", "device_gbps": "set to all workers' streams"}
        found += [
            f"the reads do not show {name}: {said.get(name, 'it is close to nothing')}"
            for name in disk.hidden
        ]
        missing = [name for name in ("workers", "reserved", "pieces") if name not in recorded]
        if missing:
            found.append(
                f"{', '.join(missing)} cannot be seen in reads and are not recorded: the defaults hold"
            )
    if compute is None:
        found.append("no compute times: pre_us and post_us are not fitted")
    elif compute.verify is None:
        found.append("V is not fitted: it needs decode windows without drafts and with some")
    return found
