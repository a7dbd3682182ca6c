"""Which traces may be pooled: a session counts once, and a mean is over one model.

Choices where the semantics are silent
--------------------------------------
- Two traces are the same where their tables ``selections`` are byte for byte the same: their sessions are not
  independent, whatever else the traces hold. ``replay cut`` makes another table of a part of one, which this cannot
  see.
- Two models are the same where name, layers, experts and top_k are. Other expert sizes (another quantisation) are
  pooled and noted, as every difference is paired within a session.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.errors import InputError
from replay.trace import Trace


def pooled(traces: Sequence[Trace], mixed: bool = False) -> list[str]:
    """Refuse traces whose sessions may not be pooled.

    Parameters
    ----------
    traces : sequence of Trace
    mixed : bool
        Whether they may be of different models.

    Returns
    -------
    list of str
        What to know of the mixture.

    Raises
    ------
    InputError
        Two traces hold the same selections, or are of different models without ``mixed``.
    """
    seen: dict[str, Trace] = {}
    for trace in traces:
        first = seen.setdefault(trace.tables["selections"].sha256, trace)
        if first is not trace:
            raise InputError(
                f"{trace.path}: holds the same selections as {first.path}; its sessions would count twice: name each "
                "trace once"
            )
    if not traces:
        return []
    base, found = traces[0], []
    for trace in traces[1:]:
        differs = _differs(base, trace)
        if differs and not mixed:
            raise InputError(
                f"{trace.path}: another model than {base.path}: {differs}; test each model by itself, or pool them "
                "with --mixed-models"
            )
        if differs:
            found.append(f"different models are pooled: {trace.path} has other {differs} than {base.path}")
        elif not np.array_equal(base.sizes, trace.sizes):
            found.append(f"{trace.path} has experts of other sizes than {base.path}")
    return found


def _differs(base: Trace, other: Trace) -> str:
    """What of the model differs, with both figures."""
    names = ("name", "layers", "experts", "top_k")
    parts = [
        f"{name} {getattr(other.meta, name)!r} against {getattr(base.meta, name)!r}"
        for name in names
        if getattr(other.meta, name) != getattr(base.meta, name)
    ]
    return ", ".join(parts)
