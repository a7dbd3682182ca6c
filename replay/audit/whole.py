"""All audits of a trace together: does it replay as recorded, does its router follow its rule, how does it look."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from replay.audit.router import RouterAudit, audit_router
from replay.errors import CheckFailed, InputError
from replay.fidelity import Fidelity, check_fidelity
from replay.fidelity.policy import recorded_lane, recorded_things
from replay.trace import Trace
from replay.trace.look import Look, look


@dataclass
class Audit:
    """What the audits of a trace came to.

    Attributes
    ----------
    trace : str
    router : RouterAudit
    fidelity : Fidelity or None
        None where it could not be checked or the recorded arena cannot hold an event.
    fidelity_reason : str or None
        Why there is no fidelity.
    fidelity_failed : bool
        The recorded arena cannot hold an event.
    look : Look
        Its warnings fail no audit.
    """

    trace: str
    router: RouterAudit
    fidelity: Fidelity | None
    fidelity_reason: str | None
    fidelity_failed: bool
    look: Look

    @property
    def failures(self) -> list[str]:
        """What does not hold, in a line each."""
        found = []
        router, fidelity = self.router, self.fidelity
        if not router.holds:
            parts = [("ids", router.ids), ("order", router.order), ("weights", router.weights)]
            named = ", ".join(f"{name} of {count}" for name, count in parts if count)
            found.append(f"router: of {router.rows} rows the {named} differ")
        if self.fidelity_failed:
            found.append(f"fidelity: {self.fidelity_reason}")
        if fidelity is not None and not fidelity.holds:
            found.append(f"fidelity: {fidelity.events - fidelity.equal} of {fidelity.events} events differ")
        return found

    @property
    def audited(self) -> list[str]:
        """Names of the audits that could be made: ``router``, ``fidelity``."""
        parts = {
            "router": self.router.reason is None,
            "fidelity": self.fidelity is not None or self.fidelity_failed,
        }
        return [name for name, made in parts.items() if made]

    @property
    def missing(self) -> list[str]:
        """Why each audit that could not be made could not."""
        reasons = {"router": self.router.reason, "fidelity": self.fidelity_reason}
        return [f"{name}: {reason}" for name, reason in reasons.items() if name not in self.audited]

    @property
    def holds(self) -> bool:
        """Whether at least one audit could be made, and every one that could holds."""
        return bool(self.audited) and not self.failures

    def as_dict(self) -> dict[str, Any]:
        """Give the audits as plain data; ``holds`` is None where nothing could be audited."""
        body = asdict(self)
        body["router"]["holds"] = self.router.holds
        if self.fidelity is not None:
            body["fidelity"]["holds"] = self.fidelity.holds
        said = {"holds": self.holds if self.audited else None, "audited": self.audited}
        return body | said | {"failures": self.failures, "missing": self.missing}


def audit(trace: Trace) -> Audit:
    """Audit a trace: its router, the fidelity of its recorded policy, its look.

    Parameters
    ----------
    trace : Trace
        An open trace.

    Returns
    -------
    Audit
        An audit that the trace does not allow says why and fails nothing.

    Raises
    ------
    InputError
        Something on the way is refused by the reader.
    """
    router = audit_router(trace)
    fidelity, reason, failed = _fidelity(trace)
    return Audit(str(trace.path), router, fidelity, reason, failed, look(trace))


def _fidelity(trace: Trace) -> tuple[Fidelity | None, str | None, bool]:
    """The fidelity of a trace, or why there is none and whether that is a failure."""
    try:
        recorded_things(trace)
        recorded_lane(trace)
    except InputError as problem:
        return None, str(problem).removeprefix(f"{trace.path}: "), False
    try:
        return check_fidelity(trace), None, False
    except CheckFailed as problem:
        return None, str(problem).removeprefix(f"{trace.path}: "), True
