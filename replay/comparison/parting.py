"""How far ``recorded`` and ``rerouted`` routes part on a trace, so that a reader sees which to believe.

Recorded routes are exact where the engine's bonus was 0. With a bonus they are what the router chose beside the
*recorded* residents; rerouted ones are chosen again beside the replayed residents, hidden states as recorded.
Where the two part, recorded ones describe no engine that could run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from replay.comparison.candidate import Builder, Candidate, refusal
from replay.comparison.play import Entry
from replay.declare.semantics import Routes, parse_routes
from replay.trace import Trace

REROUTED = parse_routes("rerouted")

CHEAP = 2**26
"""Router scores of a trace up to which the parting is measured without being asked for."""

SMALL = 0.01
"""Change of misses up to which either kind of routes will do."""


@dataclass(frozen=True)
class Part:
    """One policy under both kinds of routes.

    Attributes
    ----------
    policy : str
    recorded_misses, rerouted_misses : int
        Of decode windows.
    misses_change_ratio : float or None
        Rerouted over recorded misses, less 1.
    picks_kept_ratio : float or None
        Share of rerouted picks that the recorded rows hold too.
    """

    policy: str
    recorded_misses: int
    rerouted_misses: int
    misses_change_ratio: float | None
    picks_kept_ratio: float | None


def biased(trace: Trace) -> bool:
    """Whether a trace was recorded with a resident bonus, as far as it says."""
    router = trace.meta.router
    return router is not None and ((router.bonus or 0) > 0 or (router.r1_bonus or 0) > 0)


def score_count(trace: Trace) -> int:
    """Router scores of a dense trace: rows of the table times experts."""
    return trace.tables["router_scores"].rows * trace.meta.experts if trace.has("router_scores") else 0


class Parting:
    """Rerouted lanes beside recorded ones, where nobody asked for them and they cost little.

    Parameters
    ----------
    builder : Builder
    found : sequence of Candidate
        The comparison's candidates.
    routes : sequence of Routes
        What was asked for.
    measure : bool
        Measure where it is cheap.

    Attributes
    ----------
    entries : dict of str to Entry
        Rerouted lanes to play, by policy; empty where rerouted routes were asked for, or cost too much.
    """

    def __init__(
        self, builder: Builder, found: Sequence[Candidate], routes: Sequence[Routes], measure: bool
    ) -> None:
        trace = builder.trace
        self.asked = {each.kind for each in routes}
        self.open = biased(trace) and trace.has("router_scores")
        self.entries: dict[str, Entry] = {}
        if not (measure and self.open and self.asked == {"recorded"} and score_count(trace) <= CHEAP):
            return
        for each in found:
            if refusal(each.policy.spec, REROUTED, trace, builder.bound) is None:
                self.entries[each.text] = builder.entry(
                    each.policy, REROUTED, each.entry.lane.rows_used, builder.bound, False
                )

    def report(self, found: Sequence[Candidate]) -> dict[str, Any] | None:
        """What the run's information says: the parts, widest first; None where the question does not arise."""
        if not self.open:
            return None
        recorded = {each.text: each.entry for each in found if each.routes == "recorded"}
        rerouted = {each.text: each.entry for each in found if each.routes == "rerouted"} or self.entries
        parts = [
            _part(text, recorded[text], entry)
            for text, entry in rerouted.items()
            if text in recorded and entry.lane.failure is None
        ]
        parts.sort(key=lambda each: -abs(each.misses_change_ratio or 0.0))
        return {"measured": bool(parts), "policies": [asdict(each) for each in parts]}


def _part(text: str, recorded: Entry, rerouted: Entry) -> Part:
    before, after = (each.tally.total("misses", 0) for each in (recorded, rerouted))
    made, kept = (rerouted.tally.total(name) for name in ("picks_made", "picks_kept"))
    return Part(text, before, after, after / before - 1 if before else None, kept / made if made else None)


def sentence(parting: Mapping[str, Any] | None) -> str | None:
    """Say how far the routes part and which to believe; None where the question does not arise."""
    if parting is None:
        return None
    if not parting["measured"]:
        return "how far rerouted picks part from the recorded ones is not measured: --routes recorded,rerouted does"
    changes = [each["misses_change_ratio"] or 0.0 for each in parting["policies"]]
    first = parting["policies"][0]
    widest = (
        f"{first['policy']}: {changes[0]:+.1%} misses, {first['picks_kept_ratio'] or 0:.1%} of picks kept"
    )
    if abs(changes[0]) <= SMALL:
        return f"recorded and rerouted routes part by at most {abs(changes[0]):.1%} of misses: either will do"
    wide = sum(abs(each) > SMALL for each in changes)
    return (
        f"rerouted misses part from recorded ones by more than {SMALL:.0%} for {wide} of {len(changes)} policies "
        f"(most for {widest}): believe --routes rerouted there"
    )
