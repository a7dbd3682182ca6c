"""The grammar of a policy spec: ``unpert1:k=6,touch=1+decode2q`` (policies.md).

Parts are joined by ``+``; a part's options follow a colon, comma-separated, as ``name=value``, a bare value
(for the part's main option) or a bare name (which sets a flag); a list inside a value uses ``/``. At most one
part a kind, except gates. Order is free. Missing parts are ``none`` and ``lru``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from replay import evict, gate, predict
from replay.declare.policy import Option, Policy, Value, parse_value, show_value
from replay.document import read_toml
from replay.errors import InputError, nearest
from replay.predict.ranking import ROUTER_BONUS, ROUTER_PROTECT, ROUTER_R1

ROUTER = Policy(
    name="router",
    kind="router",
    summary="the router's own p, b, r1, with --routes rerouted",
    needs="R",
    source="Strata's resident bonus; cache-prior routing, arXiv 2412.00099",
    options={"p": ROUTER_PROTECT, "b": ROUTER_BONUS, "r1": ROUTER_R1},
    tables=("router_scores",),
)
FLAT = Policy(
    name="flat",
    kind="retention",
    summary="keep drafts while p >= min_p",
    needs="D",
    source="Strata's min_p",
    options={"min_p": Option("float", 0.35, main=True, low=0, high=1), "append": Option("flag", False)},
)
SCHEDULE = Policy(
    name="schedule",
    kind="retention",
    summary="keep drafts while p >= their place's threshold",
    needs="D",
    source="Strata: STRATA_METAL_SPEC_MIN_P_SCHEDULE",
    options={"thresholds": Option("float", (0.1, 0.35, 0.55), main=True, low=0, high=1, many=(1, 8))},
)
CUMULATIVE = Policy(
    name="cumulative",
    kind="joint retention",
    summary="keep drafts while the product of p >= floor",
    needs="D",
    source="Strata: STRATA_METAL_SPEC_MIN_CUM_P",
    options={"floor": Option("float", 0.2, main=True, low=0, high=1)},
)
PARTS: dict[str, Policy] = {each.name: each for each in (ROUTER, FLAT, SCHEDULE, CUMULATIVE)}
"""Parts that are no policy file of their own."""


@dataclass(frozen=True)
class Part:
    """One part of a spec as given: a policy's name and the options that the spec sets."""

    name: str
    options: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        """Write the part as a spec would, options by name."""
        options = ",".join(f"{name}={show_value(value)}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


@dataclass(frozen=True)
class PolicySpec:
    """A parsed spec.

    Attributes
    ----------
    text : str
        The spec as given, which names the policy in every result.
    read_ahead, evict : Part
        ``none`` and ``lru`` where the spec has none.
    gates : tuple of Part
        Admission gates, in the order given.
    router : Part or None
        The router's settings; None = as recorded.
    retention : tuple of Part
        Draft retention: at most one of ``flat`` and ``schedule``, and at most one ``cumulative``.
    """

    text: str
    read_ahead: Part = Part("none")
    evict: Part = Part("lru")
    gates: tuple[Part, ...] = ()
    router: Part | None = None
    retention: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, defaults included."""
        router = () if self.router is None else (self.router,)
        return (self.read_ahead, *self.gates, self.evict, *router, *self.retention)


def names() -> tuple[str, ...]:
    """List every policy's name, read-ahead first, then gates, in the order of the registries."""
    return (*predict.POLICIES, *gate.POLICIES, *evict.POLICIES, *PARTS)


def declaration(name: str) -> Policy:
    """Return the declaration of a policy.

    Parameters
    ----------
    name : str
        The policy's name.

    Returns
    -------
    Policy
        What its file declares.

    Raises
    ------
    InputError
        No policy has that name.
    """
    if name in PARTS:
        return PARTS[name]
    module = predict.POLICIES.get(name) or gate.POLICIES.get(name) or evict.POLICIES.get(name)
    if module is None:
        raise InputError(f"no policy is called {name!r}; {nearest(name, names())}")
    policy = import_module(module).POLICY
    assert isinstance(policy, Policy)
    return policy


def parse(text: str) -> PolicySpec:
    """Parse a spec.

    Parameters
    ----------
    text : str
        Such as ``unpert1:k=6,touch=1+decode2q``.

    Returns
    -------
    PolicySpec
        Its parts; ``text`` without surrounding blanks.

    Raises
    ------
    InputError
        An empty part, an unknown name or option (the nearest and the list are named), two parts of one kind,
        an option given twice, or a value that its option does not take.

    Examples
    --------
    >>> spec = parse("unpert1:k=4+decode2q:head")
    >>> spec.read_ahead, spec.evict
    (Part(name='unpert1', options={'k': 4}), Part(name='decode2q', options={'head': True}))
    >>> parse("unpert0:p=2")
    Traceback (most recent call last):
    replay.errors.InputError: policy 'unpert0:p=2': unpert0 has no option 'p'; known: k, b, touch, guess, spare
    """
    text = text.strip()
    try:
        return _assemble(text, [_part(each) for each in text.split("+")])
    except InputError as problem:
        raise InputError(f"policy {text!r}: {problem}") from None


def _assemble(text: str, parts: list[tuple[Policy, Part]]) -> PolicySpec:
    """Put the parts where they belong, at most one of a kind but for gates."""
    by_kind: dict[str, list[Part]] = {}
    for policy, part in parts:
        same = by_kind.setdefault(policy.kind, [])
        if any(part.name == each.name for each in same):
            raise InputError(f"{part.name} is given twice")
        if same and policy.kind != "gate":
            raise InputError(f"{same[0].name} and {part.name} are both {policy.kind}; give one")
        same.append(part)
    _check_gates(by_kind)
    _check_guess(by_kind)
    return PolicySpec(
        text,
        read_ahead=by_kind.get("read-ahead", [Part("none")])[0],
        evict=by_kind.get("evict", [Part("lru")])[0],
        gates=tuple(by_kind.get("gate", [])),
        router=by_kind.get("router", [None])[0],
        retention=(*by_kind.get("retention", []), *by_kind.get("joint retention", [])),
    )


def _check_guess(by_kind: dict[str, list[Part]]) -> None:
    """Refuse ``guess=tail`` where the eviction policy has no tail."""
    evicting = by_kind.get("evict", [Part("lru")])[0].name
    for each in by_kind.get("read-ahead", ()):
        if each.options.get("guess") == "tail" and not declaration(evicting).tail:
            known = ", ".join(name for name in evict.POLICIES if declaration(name).tail)
            raise InputError(
                f"{each.name}: guess=tail: {evicting} has no tail to enter at; use it with {known}"
            )


def _check_gates(by_kind: dict[str, list[Part]]) -> None:
    """Refuse gates that have nothing to admit, or no scores to judge by."""
    ahead = by_kind.get("read-ahead", [Part("none")])[0].name
    module = import_module(predict.POLICIES[ahead])
    ranks = hasattr(module, "ranking") or hasattr(module, "picks")
    for each in by_kind.get("gate", ()):
        if ahead == "none":
            raise InputError(f"{each.name} admits what a read-ahead policy guesses; add one, such as unpert1")
        if declaration(each.name).ranked and not ranks:
            raise InputError(
                f"{each.name} judges by candidate scores, which {ahead} does not rank; use unpert1, unpert0 or route"
            )


def _part(text: str) -> tuple[Policy, Part]:
    """Parse one part: ``name`` or ``name:option,option``."""
    name, colon, rest = text.strip().partition(":")
    name = name.strip()
    if not name:
        raise InputError("a part is empty; join parts as unpert1+lru")
    policy = declaration(name)
    options: dict[str, Value] = {}
    for item in rest.split(",") if colon else ():
        key, value = _option(policy, item.strip())
        if key in options:
            raise InputError(f"{name} has the option {key!r} twice")
        options[key] = value
    return policy, Part(name, options)


def _option(policy: Policy, item: str) -> tuple[str, Value]:
    """Parse one option: ``name=value``, a bare flag, or a bare value of the main option."""
    key, equals, value = (each.strip() for each in item.partition("="))
    if not item:
        raise InputError(f"{policy.name} has an empty option; write {policy.name}:name=value,name=value")
    if not equals:
        if key in policy.options and policy.options[key].type == "flag":
            return key, True
        if policy.main is None or key in policy.options:
            reason = f"needs a value ({key}=..)" if key in policy.options else "is no option of it"
            raise InputError(f"{policy.name}: {key!r} {reason}; {nearest(key, policy.options)}")
        key, value = policy.main, key
    if key not in policy.options:
        raise InputError(f"{policy.name} has no option {key!r}; {nearest(key, policy.options)}")
    return key, parse_value(value, policy.options[key], f"{key!r} of {policy.name}")


def read_file(path: Path) -> dict[str, str]:
    """Read named specs from a TOML file: a table ``policies`` of ``name = "spec"``.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to str
        Spec texts by name, in the file's order.

    Raises
    ------
    InputError
        No such file, not TOML, or not of that form.
    """
    content = read_toml(path, "a TOML file of policies")
    table = content.get("policies")
    if not isinstance(table, dict) or not table or not all(isinstance(each, str) for each in table.values()):
        raise InputError(f'{path}: expected a table [policies] with lines such as fast = "unpert1+lru"')
    return table


def parse_all(texts: Iterable[str]) -> list[PolicySpec]:
    """Parse specs, where ``@FILE`` stands for all of a TOML file's and ``@FILE:NAME`` for one of them.

    Parameters
    ----------
    texts : iterable of str
        What ``-p`` was given, in order.

    Returns
    -------
    list of PolicySpec
        One a spec, in order.

    Raises
    ------
    InputError
        A spec or a file that cannot be read, a name that the file lacks, or a spec given twice.
    """
    specs = [parse(each) for text in texts for each in _expand(text)]
    seen: set[str] = set()
    for spec in specs:
        if spec.text in seen:
            raise InputError(f"policy {spec.text!r} is given twice; give it once")
        seen.add(spec.text)
    return specs


def _expand(text: str) -> list[str]:
    """Replace ``@FILE`` and ``@FILE:NAME`` by the specs that they stand for."""
    if not text.startswith("@"):
        return [text]
    file, name = Path(text[1:]), ""
    if not file.exists() and ":" in text:
        head, _, name = text[1:].rpartition(":")
        file = Path(head)
    table = read_file(file)
    if name and name not in table:
        raise InputError(f"{file}: no policy is called {name!r}; {nearest(name, table)}")
    return [table[name]] if name else list(table.values())
