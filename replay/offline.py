"""The bound check (semantics 8): no row of forced admission misses less than ``belady`` under the same bound."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from replay.bound import Bound
from replay.play import Entry
from replay.semantics import Semantics
from replay.spec import declaration

OPTIMUM = "belady"


def holds(semantics: Semantics, bound: Bound, sizes: NDArray[np.int64], prefill: bool) -> bool:
    """Whether ``belady`` is a bound: experts count alike, and nothing but demand and recency decides.

    Parameters
    ----------
    semantics : Semantics
    bound : Bound
    sizes : int64[L, E]
    prefill : bool
        The trace has prefill windows, for which ``stream`` and ``prompt_hot`` exist.
    """
    alike = bound.bytes is None or bool((sizes == sizes.flat[0]).all())
    return alike and not (prefill and (semantics.stream is not None or semantics.prompt_hot is not None))


def is_forced(entry: Entry) -> bool:
    """Whether a lane has no read-ahead, recorded routes, and keeps every miss."""
    lane, spec = entry.lane, entry.lane.policy.spec
    plain = lane.routes.kind == "recorded" and spec.read_ahead.name == "none"
    return plain and lane.failure is None and not declaration(spec.evict.name).declines


def beaten(rows: Iterable[tuple[Bound, Entry]]) -> list[str]:
    """Rows that miss less than ``belady`` with the same rows of the trace at the same bound.

    Misses are those of the whole replay, uncounted warm windows included: over a part of it ``belady`` is no
    bound.

    Parameters
    ----------
    rows : iterable of (Bound, Entry)
        Played, under semantics for which :func:`holds` holds; those that the check is not about are passed over.

    Returns
    -------
    list of str
        One sentence a policy, for the first bound at which it does.
    """
    chosen = [(bound, entry) for bound, entry in rows if is_forced(entry)]
    least = {
        (bound.slots, bound.bytes, id(entry.lane.rows_used)): entry.tally.misses_in_all
        for bound, entry in chosen
        if entry.lane.policy.spec.evict.name == OPTIMUM
    }
    found: dict[str, str] = {}
    for bound, entry in chosen:
        floor = least.get((bound.slots, bound.bytes, id(entry.lane.rows_used)))
        misses, text = entry.tally.misses_in_all, entry.lane.policy.spec.text
        if floor is not None and misses < floor and text not in found:
            at = f"{bound.total_slots} slots" if bound.slots else f"{bound.bytes} bytes"
            found[text] = (
                f"{text} misses {misses} at {at}, less than belady's {floor}: one of the two is wrong; "
                "report it as a defect of this program"
            )
    return list(found.values())
