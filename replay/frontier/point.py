"""The points of a frontier: every spec of every family, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replay.arena.bound import Bound
from replay.clock.timing import ClockParams
from replay.comparison.candidate import refusal
from replay.declare.semantics import Routes, Semantics
from replay.errors import InputError
from replay.frontier.family import Family
from replay.spec.grammar import PolicySpec, parse
from replay.spec.resolve import recorded_text, unknown_recorded
from replay.trace import Trace
from replay.trace.view import of_sessions, view


@dataclass(frozen=True)
class Ways:
    """How a frontier is played.

    Attributes
    ----------
    bound : Bound
    semantics : Semantics
    clock : ClockParams or None
    routes : Routes
    """

    bound: Bound
    semantics: Semantics
    clock: ClockParams | None
    routes: Routes


@dataclass(frozen=True)
class Point:
    """A spec to play: its family (an index; -1: none), its kind, the family's value."""

    family: int
    kind: str
    value: float | None
    spec: PolicySpec


def default_families(trace: Trace) -> list[str]:
    """Rankings of 1 to twice top_k, and a margin over the widest: what is drawn where no family is named."""
    widest = 2 * trace.meta.top_k
    if not trace.has("candidates"):
        raise InputError(
            f"{trace.path}: the families drawn by default need the table candidates; name others with -p"
        )
    return [
        f"unpert1:k=1..{widest}",
        f"route:k=1..{widest}",
        f"route:k={widest}+margin:-3..3",
        f"route:k={widest}+confidence",
    ]


def scored_part(trace: Trace, sessions: str | None) -> tuple[Trace, str | None]:
    """The windows to play, and all other sessions as ``static`` names them (None: there are none)."""
    if sessions is None:
        return trace, None
    try:
        keep = of_sessions(trace, sessions)
    except InputError as problem:
        raise InputError(f"--sessions: {problem}") from None
    scored = np.unique(trace.windows.session[keep])
    spans: list[list[int]] = []
    for each in np.setdiff1d(trace.windows.session, scored).tolist():
        if spans and not ((scored > spans[-1][-1]) & (scored < each)).any():
            spans[-1].append(each)
        else:
            spans.append([each])
    if not spans:
        return view(trace, keep), None
    return view(trace, keep), "sessions/" + "/".join(f"{run[0]}-{run[-1]}" for run in spans)


def points_of(
    asked: Sequence[Family], scored: Trace, rest: str | None, ways: Ways
) -> tuple[list[Point], list[str]]:
    """Every spec to play, and what was left out and why."""
    wanted = [
        Point(i, "family", value, spec)
        for i, family in enumerate(asked)
        for value, spec in zip(family.values, family.specs, strict=True)
    ]
    for each in wanted:
        reason = refusal(each.spec, ways.routes, scored, ways.bound)
        if reason is not None:
            raise InputError(f"policy {each.spec.text}: {reason}")
    texts = [(kind, f"{kind}+{part}") for part in _evictions(wanted) for kind in ("none", "oracle")]
    if rest is not None:
        texts.append(("static", f"none+static:train={rest}"))
    unknown = unknown_recorded(scored.meta)
    left = [] if unknown is None else [f"left out the recorded policy: {unknown}"]
    own = None if unknown else recorded_text(scored.meta)
    if own is not None:
        texts.append(("recorded", own))
    for kind, text in texts:
        reason = refusal(parse(text), ways.routes, scored, ways.bound)
        if reason is None or kind == "none":
            wanted.append(Point(-1, kind, None, parse(text)))
        else:
            left.append(f"left out {text}: {reason}")
    return wanted, left


def _evictions(wanted: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(str(each.spec.evict) for each in wanted))
