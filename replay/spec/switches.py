"""The seed engine's environment switches, read as a policy spec and written from one.

K and the bonus b have no switch here, so a spec that is read from switches leaves both to the trace.
``STRATA_METAL_MOCE_BONUS_R1`` is taken as it stands, as the amount that is added to a score (r1 of semantics
2), not as a scale. Chosen where the spec is silent: ``PREFETCH_ROUTE=1`` with an explicit
``PREFETCH_UNPERT=0`` is refused, as two read-ahead rules, and the two MOCE switches are refused without
``PREFETCH_ROUTE=1``, where read-ahead does not read them.
"""

import shlex

from replay.declare.policy import Option, parse_value, show_value
from replay.errors import InputError, nearest
from replay.spec.resolve import Resolved

UNPERT = "STRATA_METAL_PREFETCH_UNPERT"
ROUTE = "STRATA_METAL_PREFETCH_ROUTE"
PROTECT = "STRATA_METAL_MOCE_PROTECT"
BONUS_R1 = "STRATA_METAL_MOCE_BONUS_R1"
DECODE_2Q = "STRATA_METAL_DECODE_2Q"

SWITCHES: dict[str, Option] = {
    UNPERT: Option("flag", True),
    ROUTE: Option("flag", False),
    PROTECT: Option("int", low=0),
    BONUS_R1: Option("float"),
    DECODE_2Q: Option("flag", False),
}
_DRAFTS = "STRATA_METAL_SPEC_"


def spec_from_switches(text: str) -> str:
    """Write the policy spec that the engine's switches select.

    Parameters
    ----------
    text : str
        ``NAME=value`` words, as a shell would read them; switches that are absent have the engine's default.

    Returns
    -------
    str
        A spec: a read-ahead policy, and the eviction policy where it is not ``lru``.

    Raises
    ------
    InputError
        A word without ``=``, an unknown switch (the nearest and the list are named), a switch given twice, a
        value that it does not take, or switches that contradict each other.

    Examples
    --------
    >>> spec_from_switches("STRATA_METAL_PREFETCH_UNPERT=0 STRATA_METAL_DECODE_2Q=1")
    'unpert0+decode2q'
    >>> spec_from_switches("STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_PROTECT=1")
    'route:p=1'
    """
    given = _read(text)
    values = {name: parse_value(value, SWITCHES[name], name) for name, value in given.items()}
    route = values.get(ROUTE, False)
    for name in (PROTECT, BONUS_R1):
        if name in given and not route:
            raise InputError(
                f"--env: {name} is read by read-ahead only with {ROUTE}=1; add that or leave it out"
            )
    if route and values.get(UNPERT) is False:
        raise InputError(f"--env: {ROUTE}=1 and {UNPERT}=0 are two read-ahead rules; give one")
    if route:
        options = {"p": values.get(PROTECT), "r1": values.get(BONUS_R1)}
        items = ",".join(f"{key}={show_value(value)}" for key, value in options.items() if value is not None)
        read_ahead = f"route:{items}" if items else "route"
    else:
        read_ahead = "unpert1" if values.get(UNPERT, True) else "unpert0"
    return f"{read_ahead}+decode2q" if values.get(DECODE_2Q) else read_ahead


def _read(text: str) -> dict[str, str]:
    """Split ``NAME=value`` words."""
    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise InputError(f"--env {text!r}: {problem}") from None
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--env: {word!r} is not NAME=value")
        if name.startswith(_DRAFTS):
            raise InputError(f"--env: {name} is about drafts; `replay drafts --env` reads it")
        if name not in SWITCHES:
            raise InputError(f"--env: no switch is called {name!r}; {nearest(name, SWITCHES)}")
        if name in given:
            raise InputError(f"--env: {name} is given twice")
        given[name] = value
    return given


def _acts(resolved: Resolved) -> bool:
    """Whether guesses act on the arena in a way that the engine has no switch for."""
    return any(value not in (None, False, "head") for value in resolved.acting.values())


def switches_of(resolved: Resolved) -> dict[str, str] | None:
    """Give the switches with which the engine runs a policy.

    Parameters
    ----------
    resolved : Resolved
        The policy, resolved on a trace. Its K and b are the engine's own: no switch here sets them.

    Returns
    -------
    dict of str to str or None
        Switch values, defaults that matter included; None where the engine has no such policy.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from replay.spec.resolve import resolve
    >>> from replay.spec.grammar import parse
    >>> trace = SimpleNamespace(policy=None, router=None)
    >>> switches_of(resolve(parse("unpert0"), trace))
    {'STRATA_METAL_PREFETCH_UNPERT': '0'}
    >>> switches_of(resolve(parse("oracle"), trace)) is None
    True
    """
    spec = resolved.spec
    options = {name: value for name, value in spec.evict.options.items() if value not in (None, False)}
    if spec.gates or spec.router or spec.retention or options or _acts(resolved):
        return None
    if spec.evict.name not in ("lru", "decode2q"):
        return None
    values = resolved.values[spec.read_ahead.name]
    match spec.read_ahead.name:
        case "unpert1":
            switches = {UNPERT: "1"}
        case "unpert0":
            switches = {UNPERT: "0"}
        case "route":
            switches = {ROUTE: "1", PROTECT: show_value(values["p"]), BONUS_R1: show_value(values["r1"])}
        case _:
            return None
    if spec.evict.name == "decode2q":
        switches[DECODE_2Q] = "1"
    return switches
