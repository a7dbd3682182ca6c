"""What a study chooses from: its bounds and its clocks, each with the name that results call it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.arena.bound import Bound, resolve
from replay.clock.timing import ClockParams, load_clock
from replay.errors import InputError
from replay.trace import Trace

NO_CLOCK, TRACE_CLOCK = "none", "trace"


@dataclass(frozen=True)
class BoundChoice:
    """One bound: at most one of the three is given.

    Attributes
    ----------
    slots, bytes : str or None
        As the command line takes them.
    budget : str or None
        A file of slots by layer, as the study gives it.
    file : Path or None
        Where that is.
    """

    slots: str | None = None
    bytes: str | None = None
    budget: str | None = None
    file: Path | None = None

    @property
    def name(self) -> str:
        """What results call it."""
        return self.slots or self.bytes or self.budget or "default"

    def on(self, trace: Trace) -> Bound:
        """The bound on a trace.

        Parameters
        ----------
        trace : Trace

        Raises
        ------
        InputError
            It does not fit the trace.
        """
        try:
            return resolve(self.slots, self.bytes, trace.meta.policy, trace.classes, self.file)
        except InputError as problem:
            raise InputError(f"{trace.path}: {problem}") from None


@dataclass(frozen=True)
class ClockChoice:
    """One entry of ``clocks``: its name in the results, and the file or the parameters that it stands for.

    Attributes
    ----------
    name : str
        ``none``, ``trace``, the file as given, or the table's ``name``.
    source : Path, dict or None
        What :func:`replay.clock.timing.load_clock` takes; None for ``trace``, and for ``none``.
    """

    name: str
    source: Path | Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def off(self) -> bool:
        """Whether it is no clock at all."""
        return self.name == NO_CLOCK

    def on(self, trace: Trace) -> ClockParams | None:
        """The clock on a trace; None where it is off.

        Parameters
        ----------
        trace : Trace

        Raises
        ------
        InputError
            The file or the parameters cannot be read.
        """
        try:
            return None if self.off else load_clock(self.source, trace.meta.io)
        except InputError as problem:
            raise InputError(f"clock {self.name!r}: {problem}") from None
