"""What a spec's options come to on a given trace, and which specs are the same by construction (semantics 3).

An option is the spec's, else what trace.json records (``policy.prefetch`` first, then ``router``; a recorded
0 counts, a null does not), else the default.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from replay import evict, predict
from replay.declare.policy import Option, Policy, Value, Values, show_value
from replay.errors import InputError
from replay.predict.ranking import ACTING, Ranking
from replay.spec.grammar import ROUTER, Part, PolicySpec, declaration, parse

_PREFETCH_FIELDS = {"k": "k", "p": "protect", "b": "bonus", "r1": "r1", "touch": "touch"}


class Recorded(Protocol):
    """What is read of a trace's description: ``policy`` as in trace.json, and the router's settings."""

    @property
    def policy(self) -> Mapping[str, Any] | None:
        """What the engine ran, or None."""

    @property
    def router(self) -> Any:
        """Attributes protect, bonus, r1_bonus and draft_moce, each None where not known; or None."""


@dataclass(frozen=True)
class Router:
    """Settings of the router's own selection (semantics 2)."""

    p: int
    b: float
    r1: float
    draft_moce: bool


@dataclass(frozen=True)
class Resolved:
    """A spec with every option's value.

    Attributes
    ----------
    spec : PolicySpec
        As given.
    values : mapping of str to (mapping of str to value)
        Every declared option of every part, by the part's name and the option's name.
    origins : mapping of str to (mapping of str to str)
        Where each came from: ``spec``, ``policy.prefetch``, ``router`` or ``default``.
    ranking : Ranking or None
        The rule of a ranked read-ahead policy; None for ``none`` and ``oracle``.
    router : Router
        The router's settings, for rerouted routes.
    """

    spec: PolicySpec
    values: Mapping[str, Values] = field(hash=False)
    origins: Mapping[str, Mapping[str, str]] = field(hash=False)
    ranking: Ranking | None
    router: Router

    @property
    def touch(self) -> bool:
        """Whether a guess that is already resident counts as recently used."""
        return bool(self.acting.get("touch", False))

    @property
    def acting(self) -> Values:
        """How its guesses act on the arena: ``touch``, ``guess``, ``spare``; empty without read-ahead."""
        values = self.values[self.spec.read_ahead.name]
        return {name: values[name] for name in ACTING if name in values}

    def describe(self) -> str:
        """Say each part's options, their values and where they came from, in one line."""
        parts = [_describe(each, self.values, self.origins) for each in self.spec.parts]
        return "; ".join(parts)


def _describe(part: Part, values: Mapping[str, Values], origins: Mapping[str, Mapping[str, str]]) -> str:
    options = [
        f"{name}={show_value(value)} ({origins[part.name][name]})"
        for name, value in values[part.name].items()
        if value is not None
    ]
    return f"{part.name} {' '.join(options)}".strip()


def resolve(spec: PolicySpec, recorded: Recorded) -> Resolved:
    """Give every option of a spec its value on a trace.

    Parameters
    ----------
    spec : PolicySpec
        A parsed spec.
    recorded : Recorded
        The trace's description.

    Returns
    -------
    Resolved
        The values, and where each came from.

    Raises
    ------
    InputError
        trace.json records a value that its option cannot take.
    """
    values: dict[str, Values] = {}
    origins: dict[str, Mapping[str, str]] = {}
    for part in spec.parts:
        values[part.name], origins[part.name] = _values(declaration(part.name), part.options, recorded)
    router = values[ROUTER.name] if spec.router else _values(ROUTER, {}, recorded)[0]
    draft_moce = bool(getattr(recorded.router, "draft_moce", False))
    name = spec.read_ahead.name
    rule = getattr(import_module(predict.POLICIES[name]), "ranking", None)
    return Resolved(
        spec,
        values,
        origins,
        ranking=rule(values[name]) if rule else None,
        router=Router(router["p"], router["b"], router["r1"], draft_moce),
    )


def _values(policy: Policy, given: Values, recorded: Recorded) -> tuple[Values, Mapping[str, str]]:
    """Value and origin of every option that a policy declares."""
    found = {name: _value(given, name, option, recorded) for name, option in policy.options.items()}
    return (
        {name: value for name, (value, _) in found.items()},
        {name: origin for name, (_, origin) in found.items()},
    )


def _value(given: Values, name: str, option: Option, recorded: Recorded) -> tuple[Value, str]:
    if name in given:
        return given[name], "spec"
    for place in option.recorded:
        value = _lookup(recorded, place)
        if value is not None:
            return _checked(value, option, place), _origin(place)
    return option.default, "default"


def _origin(place: str) -> str:
    """Name the object of trace.json that holds a recorded value."""
    head = place.partition(".")[0]
    return head if head == "router" else f"policy.{head}"


def _lookup(recorded: Recorded, place: str) -> Any:
    """Find a recorded value: ``router.bonus``, or ``prefetch.k`` under ``policy``."""
    head, _, key = place.partition(".")
    if head == "router":
        return getattr(recorded.router, key, None)
    holder = (recorded.policy or {}).get(head)
    return holder.get(key) if isinstance(holder, Mapping) else None


def _checked(value: Any, option: Option, place: str) -> Value:
    """Return a recorded number as its option's type, or say what is wrong with it."""
    kind = int if option.type == "int" else float
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not option.low <= value <= option.high or kind(value) != value:
        expected = "a whole number" if kind is int else "a finite number"
        bound = f" of at least {option.low:g}" if option.low > float("-inf") else ""
        bound += f", at most {option.high:g}" if option.high < float("inf") else ""
        where = f"{_origin(place)}.{place.partition('.')[2]}"
        raise InputError(f"trace.json: {where} is {value!r}; expected {expected}{bound}")
    return kind(value)


def identity(resolved: Resolved, routes: str = "recorded", top_k: int = 0) -> tuple[Any, ...]:
    """What a policy does, such that two equal ones cannot differ on any trace with these settings.

    Parameters
    ----------
    resolved : Resolved
    routes : str
        The kind of routes. ``rerouted`` ones read the router's settings; ``predicted`` ones rank ``top_k``
        candidates and read the first K of them, and gates look at the top_k-th.
    top_k : int
        Picks of a row.
    """
    spec = resolved.spec
    boosts = None if resolved.ranking is None else resolved.ranking.boosts
    read_ahead: tuple[Any, ...]
    acting = tuple(None if value == "head" else value for value in resolved.acting.values())
    if routes == "predicted" and resolved.ranking is not None:
        wide = resolved.ranking.widened(top_k).boosts[:top_k]
        read_ahead = ("predicted", min(resolved.ranking.k, top_k), wide, acting)
    elif boosts == () or spec.read_ahead.name == "none":
        read_ahead = ("none",)
    elif boosts is not None and spec.gates:
        assert resolved.ranking is not None
        rank = resolved.ranking
        wide = rank.widened(top_k).boosts if top_k else (rank.p, rank.b, rank.r1)
        read_ahead = ("ranked", rank.k, wide, acting)
    elif boosts is not None:
        read_ahead = ("ranked", boosts, acting)
    else:
        own = resolved.values[spec.read_ahead.name]
        read_ahead = (spec.read_ahead.name, *(each for each in own.items() if each[0] not in ACTING), acting)
    others = [*spec.gates, spec.evict, *spec.retention]
    rest = frozenset((each.name, *resolved.values[each.name].items()) for each in others)
    return read_ahead, rest, resolved.router if routes == "rerouted" else None


def same_by_construction(
    policies: Sequence[Resolved], routes: str = "recorded", top_k: int = 0
) -> list[tuple[str, ...]]:
    """Group the policies that must give the same counts, whatever the trace.

    Two ranked read-ahead policies are the same when residency adds the same to the score at every rank: so
    ``route`` with p = 3 and r1 = 0 is ``unpert0``, and with b <= 0 it is ``unpert1``.

    Parameters
    ----------
    policies : sequence of Resolved
        Resolved on one trace.
    routes : str
        The kind of routes that they are replayed with; see :func:`identity`.
    top_k : int
        Picks of a row.

    Returns
    -------
    list of tuple of str
        The spec texts of every group of two or more, in the order given.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> trace = SimpleNamespace(policy=None, router=None)
    >>> same_by_construction([resolve(parse(text), trace) for text in ("unpert0", "route:p=3,r1=0", "none")])
    [('unpert0', 'route:p=3,r1=0')]
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for each in policies:
        groups.setdefault(identity(each, routes, top_k), []).append(each.spec.text)
    return [tuple(texts) for texts in groups.values() if len(texts) > 1]


def recorded_text(recorded: Recorded) -> str | None:
    """Write the policy that a trace was recorded under as a spec.

    Parameters
    ----------
    recorded : Recorded
        The trace's description.

    Returns
    -------
    str or None
        Such as ``route:k=6,p=1+decode2q``; None where trace.json does not say what ran. ``policy.evict`` may
        itself carry options (``decode2q:quota=0.5``).

    Raises
    ------
    InputError
        trace.json names a policy that is not known, or records a value that it cannot have.
    """
    policy = recorded.policy
    if policy is None or not isinstance(policy.get("evict"), str):
        return None
    prefetch = policy.get("prefetch")
    name = "none" if prefetch is None else prefetch.get("name")
    if not isinstance(name, str):
        return None
    for given, table in ((name, predict.POLICIES), (policy["evict"].partition(":")[0], evict.POLICIES)):
        if given not in table:
            raise InputError(f"trace.json: policy names {given!r}; known: {', '.join(table)}")
    options = _recorded_options(declaration(name), prefetch or {})
    text = f"{Part(name, options)}+{policy['evict']}"
    parse(text)
    return text


def unknown_recorded(recorded: Recorded) -> str | None:
    """Say what a recorded policy that is not known here means for a replay's figures.

    Parameters
    ----------
    recorded : Recorded
        The trace's description.

    Returns
    -------
    str or None
        One sentence; None where the policy is known, or trace.json does not say what ran.
    """
    try:
        recorded_text(recorded)
    except InputError as problem:
        said = str(problem).partition("; known:")[0]
        return (
            f"{said}: not known here, so what the engine did cannot be replayed, and nothing holds a replay "
            "against its counts; a row named recorded is what it read (replay policies lists what is known)"
        )
    return None


def _recorded_options(policy: Policy, prefetch: Mapping[str, Any]) -> dict[str, Value]:
    """Recorded options that a read-ahead policy reads, by their names in a spec."""
    options: dict[str, Value] = {}
    for name, option in policy.options.items():
        key = _PREFETCH_FIELDS.get(name, name)
        value = prefetch.get(key)
        if value is not None:
            flag = option.type == "flag"
            options[name] = bool(value) if flag else _checked(value, option, f"prefetch.{key}")
    return options
