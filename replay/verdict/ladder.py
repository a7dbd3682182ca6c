"""The one-at-a-time ladder: from a baseline to a candidate, one part of the spec a rung."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replay.errors import InputError
from replay.spec.grammar import Part, PolicySpec, parse

KINDS = ("read-ahead", "gates", "eviction", "router settings", "draft retention")
_FIELDS = ("read_ahead", "gates", "evict", "router", "retention")


@dataclass(frozen=True)
class Step:
    """One rung: what changes, and the spec that this gives."""

    change: str
    spec: PolicySpec


def changed(baseline: PolicySpec, candidate: PolicySpec) -> list[str]:
    """Name the parts in which two specs differ.

    Examples
    --------
    >>> changed(parse("none+lru"), parse("unpert1+decode2q"))
    ['read-ahead', 'eviction']
    """
    return [
        kind
        for kind, name in zip(KINDS, _FIELDS, strict=True)
        if _text(getattr(baseline, name)) != _text(getattr(candidate, name))
    ]


def ladder(baseline: PolicySpec, candidate: PolicySpec) -> list[Step]:
    """Change one part after the other; a rung that no policy can have is taken together with the next.

    Parameters
    ----------
    baseline, candidate : PolicySpec

    Returns
    -------
    list of Step
        From the first change to the candidate; empty where they differ in at most one part.

    Examples
    --------
    >>> [(step.change, step.spec.text) for step in ladder(parse("none+lru"), parse("unpert1+decode2q"))]
    [('read-ahead: none -> unpert1', 'unpert1+lru'), ('eviction: lru -> decode2q', 'unpert1+decode2q')]
    """
    kinds = changed(baseline, candidate)
    if len(kinds) < 2:
        return []
    steps: list[Step] = []
    now, waiting = baseline, []
    for kind, name in zip(KINDS, _FIELDS, strict=True):
        if kind not in kinds:
            continue
        waiting.append(f"{kind}: {_text(getattr(baseline, name))} -> {_text(getattr(candidate, name))}")
        now = replace(now, **{name: getattr(candidate, name)})
        last = kind == kinds[-1]
        spec = candidate if last else _written(now)
        if spec is not None:
            steps.append(Step("; ".join(waiting), spec))
            waiting = []
    return steps


def _written(spec: PolicySpec) -> PolicySpec | None:
    """The spec with its parts written out, or None where they do not go together."""
    try:
        return parse("+".join(map(str, spec.parts)))
    except InputError:
        return None


def _text(part: Part | tuple[Part, ...] | None) -> str:
    if part is None or part == ():
        return "none"
    return "+".join(map(str, part)) if isinstance(part, tuple) else str(part)
