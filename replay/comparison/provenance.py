"""Where what a policy learned comes from: what a reader must know of it beside the policy's figures.

A q or coverage file of another model shape, or of another K, is refused by the gate that reads it. What is left are
sentences: it was learned on sessions that it is scored on, for another ranking, or on another model of the same shape.
So may a pinned set be (``static``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.evict import load
from replay.learning.price import fitted, learned, unreached
from replay.spec.grammar import PolicySpec
from replay.spec.resolve import Resolved, resolve
from replay.trace import Trace, open_trace
from replay.trace.view import whole

OPTIONS = ("q", "file")
"""Options of gates that name a file of `replay calibrate`."""


def learned_notes(trace: Trace, text: str, specs: Sequence[PolicySpec]) -> list[str]:
    """What is to be known of what a policy, or a family of policies, learned before it plays.

    Parameters
    ----------
    trace : Trace
        What is scored.
    text : str
        What the reader calls the policy.
    specs : sequence of PolicySpec
        Its specs; all name the same files.

    Returns
    -------
    list of str
        A sentence each; none where all is well, or the files cannot be read.
    """
    found = _pinned(trace, text, specs[0])
    for part in specs[0].gates:
        for file in (part.options.get(name) for name in OPTIONS):
            if isinstance(file, str):
                found += _learned(trace, text, file)
                said = f"{text}: {file}"
                content = fitted(file)
                found += next(filter(None, (_ranking(trace, said, content, each) for each in specs)), [])
                found += _model(trace, said, content)
    return found


def price_notes(policies: Sequence[Resolved]) -> list[str]:
    """Say of policies priced by a budget where that is not reached (:func:`replay.learning.price.unreached`)."""
    return [text for text in dict.fromkeys(map(unreached, policies)) if text is not None]


def _learned(trace: Trace, text: str, file: str) -> list[str]:
    return _seen(trace, f"{text}: {file}", learned(file, whole(trace)))


def _pinned(trace: Trace, text: str, spec: PolicySpec) -> list[str]:
    """Whether an eviction policy learns from sessions that it is scored on."""
    try:
        source = load(spec.evict.name).training(spec.evict.options)
        if source is None:
            return []
        played = whole(trace)
        other = played if source.trace is None else open_trace(Path(source.trace))
        if other.tables["selections"].sha256 != played.tables["selections"].sha256:
            return []
    except InputError:
        return []  # counts, or what the replay says is wrong with it
    known = np.unique(played.windows.session).tolist()
    runs = source.sessions or ((known[0], known[-1]),)
    taught = {each for each in known for first, last in runs if first <= each <= last}
    return _seen(trace, f"{text}: the pinned set", taught)


def _seen(trace: Trace, said: str, sessions: Set[int]) -> list[str]:
    scored = set(np.unique(trace.windows.session).tolist())
    seen = sorted(scored & sessions)
    if not seen:
        return []
    return [
        f"{said} was learned on {len(seen)} of the scored sessions, session {seen[0]} the first; score on others "
        "with `replay frontier --sessions`"
    ]


def _ranking(trace: Trace, said: str, content: Mapping[str, Any], spec: PolicySpec) -> list[str]:
    """Whether a file was fitted for another ranking than a spec's."""
    ranking = content.get("ranking")
    try:
        ranks = resolve(spec, trace.meta).ranking
    except InputError:
        return []  # the replay says what is wrong with it
    if ranks is None or not isinstance(ranking, dict):
        return []
    mine = {"policy": spec.read_ahead.name, "p": ranks.p, "b": ranks.b, "r1": ranks.r1}
    names = [name for name in mine if name in ranking and ranking[name] != mine[name]]
    if not names:
        return []
    theirs, ours = (", ".join(f"{name} {json.dumps(of[name])}" for name in names) for of in (ranking, mine))
    return [f"{said} was fitted for another ranking: {theirs}; the policy has {ours}"]


def _model(trace: Trace, said: str, content: Mapping[str, Any]) -> list[str]:
    """Whether a file was fitted on a model of another name."""
    model = content.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    if not isinstance(name, str) or name == trace.meta.name:
        return []
    return [
        f"{said} was fitted on the model {json.dumps(name)}; this trace is of {json.dumps(trace.meta.name)}"
    ]
