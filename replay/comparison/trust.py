"""How far a comparison can be trusted: what its reader must know, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from replay.arena.bound import Bound
from replay.comparison.parting import sentence
from replay.comparison.play import Coverage
from replay.declare.semantics import Routes, Semantics
from replay.spec.resolve import Resolved, unknown_recorded
from replay.trace import Trace
from replay.trace.look import ranks_lost
from replay.units import counted, format_bytes


def warnings_for(
    trace: Trace,
    policies: Sequence[Resolved],
    semantics: Semantics,
    bound: Bound,
    routes: Sequence[Routes],
    coverage: Coverage,
    parting: Mapping[str, Any] | None = None,
) -> list[str]:
    """Warnings of a comparison.

    Parameters
    ----------
    trace : Trace
    policies : sequence of Resolved
    semantics : Semantics
    bound : Bound
    routes : sequence of Routes
    coverage : Coverage
    parting : mapping, optional
        How far recorded and rerouted routes part.

    Returns
    -------
    list of str
        One sentence each, the gravest first.
    """
    found = []
    if any(each.kind == "recorded" for each in routes):
        found += _fixed_routes(trace)
        found += [text for text in (sentence(parting),) if text is not None]
    found += _sizes_and_ranks(trace)
    found += _no_bonus(policies)
    found += _retention(policies)
    found += _coverage(trace, policies, routes, coverage)
    found += [text for text in (unknown_recorded(trace.meta),) if text is not None]
    found += _recorded_ways(trace, semantics)
    if bound.bytes is not None and any(p.spec.evict.options.get("quota") is not None for p in policies):
        found.append("decode2q's quota is a share of slots and has no effect under a byte budget")
    if bound.bytes is not None and any(p.spec.evict.name == "belady" for p in policies):
        found.append("under a byte budget belady is a heuristic, no bound, unless all experts have one size")
    return found


def nothing_counted(summary: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say that no decode window is counted, where that is so: a trace of prefill windows, or a start past the rest.

    Parameters
    ----------
    summary : sequence of mapping
        Rows of the summary.

    Returns
    -------
    list of str
        One sentence, or none.
    """
    if any(row["tokens"] for row in summary):
        return []
    return [
        "no decode window is counted, so every figure per token is empty; what prefill windows read is in the totals "
        "of the summary and in the tables layers and windows"
    ]


def holds_none_or_all(trace: Trace, bound: Bound) -> list[str]:
    """Say that an arena holds no expert, or all of them, where that is so.

    Parameters
    ----------
    trace : Trace
    bound : Bound

    Returns
    -------
    list of str
        One sentence, or none.
    """
    if bound.bytes is not None and bound.bytes < (smallest := int(trace.sizes.min())):
        return [
            f"the arena's {bound.bytes:,} bytes hold no expert (the smallest has {format_bytes(smallest)}): "
            "everything misses"
        ]
    if bound.slots is None:
        held = (bound.bytes or 0) >= int(trace.sizes.sum())
    else:
        held = bound.by_layer is None and all(np.bincount(trace.classes.ravel()) <= bound.slots)
    if held:
        experts = counted(trace.sizes.size, "expert")
        return [f"the arena has room for all: {experts}; nothing is ever evicted, so evictions do not differ"]
    return []


def _fixed_routes(trace: Trace) -> list[str]:
    router = trace.meta.router
    bonus = None if router is None else router.bonus
    rank1 = None if router is None else router.r1_bonus
    if router is None or bonus is None:
        return [
            "the trace does not say with what resident bonus it was recorded: a fixed-route replay is exact only "
            "where that was 0"
        ]
    if bonus > 0 or (rank1 or 0) > 0:
        return [
            f"recorded with a resident bonus (b = {bonus:g}, r1 = {rank1 or 0:g}): a fixed-route replay is only a "
            "screen, because other evictions would have changed the routes"
        ]
    return []


def unsized(traces: Sequence[Trace]) -> list[str]:
    """A warning where a trace does not say how large its experts are."""
    if all(trace.sized for trace in traces):
        return []
    return [
        "the sizes of the experts are not known (1 byte stands for each): only counts mean something here, no "
        "bytes, waits or fates of reads; say the size when importing (--expert-bytes)"
    ]


def _sizes_and_ranks(trace: Trace) -> list[str]:
    """What the trace itself does not hold: sizes of experts, the order of picks."""
    found = unsized([trace])
    if ranks_lost(trace):
        found.append(
            "the picks of nearly every row ascend: the ranks are lost, so whatever reads them (order rows, cell "
            "sequential) does not play what the engine did"
        )
    return found


def _no_bonus(policies: Sequence[Resolved]) -> list[str]:
    """Bonuses below 0, which the rule reads as none."""
    return [
        f"{p.spec.text}: {name} of {part.name} is {p.values[part.name][name]:g}: below 0 is no bonus, as 0 is"
        for p in policies
        for part in p.spec.parts
        for name in ("b", "r1")
        if (p.values[part.name].get(name) or 0) < 0
    ]


def _retention(policies: Sequence[Resolved]) -> list[str]:
    if any(p.spec.retention for p in policies):
        return [
            "draft retention is exact within a round; the rounds that would have followed a tighter policy were not "
            "recorded, so across rounds it is a screen"
        ]
    return []


def _coverage(
    trace: Trace, policies: Sequence[Resolved], routes: Sequence[Routes], coverage: Coverage
) -> list[str]:
    found, decode = [], ~trace.windows.prefill
    reading = [p for p in policies if p.ranking is not None or p.spec.read_ahead.name in ("oracle", "seqmoe")]
    if trace.has("candidates") and reading:
        missing = int((decode & ~coverage.candidates).sum())
        if missing:
            found.append(f"{missing} decode windows have no candidates: read-ahead does nothing there")
    past = max(coverage.past.values(), default=0)
    if past:
        found.append(
            f"{past} sparse candidate rows end too early to be exact: a policy might have looked past their end"
        )
    if any(p.spec.read_ahead.name == "finemoe" for p in policies):
        missing = int((decode & ~coverage.router_scores).sum())
        if missing:
            found.append(f"{missing} decode windows have no router scores: finemoe does nothing there")
    if any(each.kind in ("rerouted", "cacheprior") for each in routes):
        missing = int((~coverage.router_scores).sum())
        if missing:
            found.append(f"{missing} windows have no router scores: their recorded picks are kept")
    return found


def _recorded_ways(trace: Trace, semantics: Semantics) -> list[str]:
    policy: dict[str, Any] = trace.meta.policy or {}
    said = semantics.describe()
    other = [
        f"{name} {policy[name]}"
        for name in ("scope", "order", "cell", "split")
        if policy.get(name) is not None and policy[name] != said[name]
    ]
    if not other:
        return []
    return [
        f"the trace was recorded with {', '.join(other)}; this replay plays otherwise (see the options of that name)"
    ]
