"""The policy that a trace was recorded under, as a lane."""

from __future__ import annotations

from typing import Any

from replay.arena import bound as bounds
from replay.comparison.play import first_snapshots
from replay.declare.policy import lacking
from replay.declare.semantics import Semantics, parse_prefill, parse_start
from replay.errors import InputError
from replay.lane.lane import Lane
from replay.lane.shape import Shape
from replay.prepare.training import teach
from replay.spec.grammar import PolicySpec, declaration, parse
from replay.spec.resolve import recorded_text, resolve
from replay.trace import Trace


def recorded_things(trace: Trace) -> tuple[str, ...]:
    """List what a trace records that a replay can be held to.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    tuple of str
        Of ``outcome``, ``counters`` and ``residents``.

    Raises
    ------
    InputError
        None of them.
    """
    found = ["outcome"] if "outcome" in trace.tables["selections"].columns else []
    found += [name for name in ("counters", "residents") if trace.has(name)]
    if not found:
        raise InputError(
            f"{trace.path}: nothing to compare with; needs the column outcome of selections, or the table counters "
            "or residents"
        )
    return tuple(found)


def recorded_lane(trace: Trace) -> tuple[Lane, bounds.Bound]:
    """Make the lane of the policy that a trace was recorded under.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    Lane
        Cold, or with the first snapshots in it; keeps outcomes and residents.
    Bound

    Raises
    ------
    InputError
        trace.json does not record the policy or its bound, or the policy cannot be replayed.
    """
    meta = trace.meta
    text = recorded_text(meta)
    if text is None:
        raise InputError(
            f"{trace.path}: trace.json does not say which policy ran (policy.evict, policy.prefetch); nothing to replay"
        )
    bound = bounds.recorded(meta.policy, trace.classes)
    if bound is None:
        raise InputError(
            f"{trace.path}: trace.json says neither policy.slots nor policy.bytes; without the arena's bound the "
            "recorded policy cannot be replayed"
        )
    spec = parse(text)
    semantics = recorded_semantics(meta.policy or {})
    _refuse(spec, trace, bound)
    plan = bound.plan(trace.classes, semantics.scope == "layer")
    lane = Lane(Shape.of(trace), plan, resolve(spec, meta), semantics, got=True, residents=True)
    teach(trace, [lane])
    if semantics.start == "recorded":
        lane.start(first_snapshots(trace))
    return lane, bound


def _refuse(spec: PolicySpec, trace: Trace, bound: bounds.Bound) -> None:
    """Refuse a recorded policy that this trace cannot replay."""
    for part in spec.parts:
        policy = declaration(part.name)
        reason = lacking(policy, trace.tables, trace.sparse)
        if reason is None and bound.bytes is not None and not policy.by_bytes:
            reason = "is not defined under a byte budget"
        if reason is not None:
            raise InputError(
                f"{trace.path}: the recorded policy {spec.text} cannot be replayed: {part.name} {reason}"
            )


def recorded_semantics(policy: dict[str, Any]) -> Semantics:
    """Read the options of the recorded replay from ``policy``; the defaults of semantics 4 where it is silent.

    Parameters
    ----------
    policy : dict
        ``policy`` of trace.json.

    Returns
    -------
    Semantics

    Raises
    ------
    InputError
        A value that the option cannot take.

    Examples
    --------
    >>> recorded_semantics({"order": "rows"}).order
    'rows'
    """
    names = {"scope": "global", "order": "id", "cell": "atomic", "start": "cold", "prefill": "demand"}
    given = {name: policy.get(name) or default for name, default in names.items()}
    for name, value in given.items():
        if not isinstance(value, str):
            raise InputError(
                f"trace.json: policy.{name} is {value!r}; expected a text such as {names[name]!r}"
            )
    hot = policy.get("prompt_hot")
    if hot is not None and (isinstance(hot, bool) or not isinstance(hot, int)):
        raise InputError(f"trace.json: policy.prompt_hot is {hot!r}; expected a whole number")
    split = policy.get("split")
    try:
        start, warm = parse_start(given["start"])
        stream = parse_prefill(given["prefill"])
        return Semantics(
            given["scope"],
            True if split is None else bool(split),
            given["order"],
            given["cell"],
            start,
            warm,
            stream,
            hot,
        )
    except InputError as problem:
        raise InputError(f"trace.json: policy: {problem}") from None
