"""The bound check (semantics 8): no row of forced admission misses less than ``belady`` under the same bound."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replay.arena.bound import Bound
from replay.declare.semantics import Semantics
from replay.lane.lane import Lane
from replay.spec.grammar import declaration

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


class Played(NamedTuple):
    """A lane's misses at one bound, of the whole replay, uncounted warm windows included."""

    lane: Lane
    bound: Bound
    misses: int


def is_forced(lane: Lane) -> bool:
    """Whether a lane has no read-ahead, recorded routes, and keeps every miss."""
    spec = lane.policy.spec
    plain = lane.routes.kind == "recorded" and spec.read_ahead.name == "none"
    return plain and not declaration(spec.evict.name).declines


def beaten(rows: Iterable[Played]) -> list[str]:
    """Rows that miss less than ``belady`` with the same rows of the trace at the same bound.

    Parameters
    ----------
    rows : iterable of Played
        Under semantics for which :func:`holds` holds. Lanes that stopped, and those that :func:`is_forced` does
        not hold for, are passed over.

    Returns
    -------
    list of str
        One sentence a policy, for the first bound at which it does.
    """
    chosen = [row for row in rows if row.lane.failure is None and is_forced(row.lane)]
    least = {_place(row): row.misses for row in chosen if row.lane.policy.spec.evict.name == OPTIMUM}
    found: dict[str, str] = {}
    for row in chosen:
        floor, text, bound = least.get(_place(row)), row.lane.policy.spec.text, row.bound
        if floor is not None and row.misses < floor and text not in found:
            at = f"{bound.total_slots} slots" if bound.slots else f"{bound.bytes} bytes"
            found[text] = (
                f"{text} misses {row.misses} at {at}, less than belady's {floor}: one of the two is wrong; "
                "report it as a defect of this program"
            )
    return list(found.values())


def _place(row: Played) -> Hashable:
    return row.bound.slots, row.bound.bytes, row.bound.by_layer, id(row.lane.rows_used)
