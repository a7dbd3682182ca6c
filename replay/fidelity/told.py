"""Fidelity as a run tells it beside its figures: measured where that costs little, else how to measure it."""

from __future__ import annotations

from typing import Any

from replay.errors import ReplayError
from replay.fidelity.check import check_fidelity
from replay.trace import Trace

CHEAP_EVENTS, CHEAP_SCORES = 2**18, 2**26
"""Events, and candidate scores, of a trace up to which the recorded policy is replayed without being asked for."""


def fidelity_of(trace: Trace) -> dict[str, Any]:
    """Replay the recorded policy where it is recorded and the trace is not large.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict
        ``events`` and ``equal`` (None: not measured), the ``policy`` and what was ``compared``, and where it was not
        measured the ``reason``.
    """
    found: dict[str, Any] = dict.fromkeys(("policy", "compared", "events", "equal", "reason"))
    scores = trace.tables["candidates"].rows * trace.meta.experts if trace.has("candidates") else 0
    if len(trace.windows) * trace.meta.layers > CHEAP_EVENTS or scores > CHEAP_SCORES:
        return found | {"reason": "the trace is large; replay fidelity TRACE measures it"}
    try:
        result = check_fidelity(trace)
    except ReplayError as problem:
        return found | {"reason": str(problem).removeprefix(f"{trace.path}: ")}
    return found | {
        "policy": result.policy,
        "compared": list(result.compared),
        "events": result.events,
        "equal": result.equal,
    }
