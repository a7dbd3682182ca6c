"""Read-ahead that read nothing: said in one line with the reason, so that it is not taken for a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replay.gate.admission import OUTCOMES
from replay.ledger.outcome import DECODE
from replay.units import counted

if TYPE_CHECKING:
    from replay.comparison.candidate import Candidate
    from replay.trace import Trace

OTHERWISE = "none of its guesses was absent or admitted"


def unread(one: Candidate, trace: Trace) -> list[str]:
    """Say that a read-ahead policy issued no read in the counted decode windows, and why where that is known.

    Parameters
    ----------
    one : Candidate
        A policy whose lane was played to the end.
    trace : Trace
        What it was played on.

    Returns
    -------
    list of str
        One sentence; none where it issued a read, reads nothing ahead, has said so itself
        (:meth:`replay.lane.lane.Lane.notes`), or no decode window is counted.
    """
    name = one.policy.spec.read_ahead.name
    if name in ("none", "seqmoe") or not one.tally.windows[DECODE] or one.tally.total("issued", DECODE):
        return []
    return [
        f"issued no read ahead: {_beyond(one, trace) or _withheld(one, trace) or _dropped(one) or OTHERWISE}"
    ]


def _beyond(one: Candidate, trace: Trace) -> str | None:
    """No prediction is made at all: it takes no candidate, or looks back over more layers than there are."""
    back = one.policy.values[one.policy.spec.read_ahead.name].get("d")
    layers = trace.meta.layers
    if one.policy.spec.read_ahead.name == "finemoe" and isinstance(back, int) and back >= layers:
        return f"no prediction reaches a layer, as d = {back} and the model has {counted(layers, 'layer')}"
    if one.policy.ranking is not None and one.policy.ranking.k == 0:
        return "it takes no candidate (k = 0)"
    return None


def _withheld(one: Candidate, trace: Trace) -> str | None:
    """What its gates did, where it has any; those of a lane that counts their outcomes."""
    if one.outcomes is None:
        return None
    totals = dict(zip(OUTCOMES, one.outcomes.by_layer.sum(axis=0).tolist(), strict=True))
    if not totals["asked"]:
        return "none of its guesses was absent, so its gates were never asked"
    if totals["admitted"]:
        return None
    text = f"its gates withheld every guess ({totals['asked']:,})"
    return "; ".join([text, *_budget(one, trace)])


def _budget(one: Candidate, trace: Trace) -> list[str]:
    """What the gate ``budget`` asks that no guess can meet, or may not."""
    values = one.policy.values.get("budget")
    if values is None:
        return []
    found, limit = [], values.get("bytes")
    smallest = int(np.min(trace.sizes))
    if isinstance(limit, int) and limit < smallest:
        found.append(f"budget allows {counted(limit, 'byte')} a window, the smallest expert has {smallest:,}")
    if values.get("reserve") is not None:
        found.append("budget's reserve refuses what the nominal plan cannot move by its deadline")
    return found


def _dropped(one: Candidate) -> str | None:
    """No guess found room."""
    dropped = one.tally.total("dropped", DECODE)
    return f"no guess found room in the arena ({dropped:,} dropped)" if dropped else None
