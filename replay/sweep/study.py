"""The study file of a sweep (GRID.toml): what to cross with what.

.. code-block:: toml

    traces = ["traces/e256-moce", "s3://bucket/other"]  # folders, or URLs that fsspec reads
    policies = ["none+lru", "unpert1+lru", "none+random"]
    slots = ["10%", "17.6%", 1442]  # as --slots; bytes = ["4000MiB"] as --bytes, budget = ["layers.toml"] as --budget
    routes = ["recorded"]
    clocks = ["trace", "none", "disk.toml", { name = "slow", device_gbps = 1.5 }]
    seeds = [0, 1, 2]

    [semantics]  # as the flags of compare
    start = "warm:16"

Bounds are those of all three lists; where there are none, the one that ``compare`` takes. ``budget`` needs scope
``layer``. ``clocks``: ``trace`` is the clock that ``compare`` takes without ``--clock``, ``none`` is ``--no-clock``.
``seeds`` set the option ``seed`` of every part of a spec that has one and does not set it; a policy without one is the
same under every seed, and played once. A relative path, in an option of a policy too, is read from the study file's
folder, or where nothing is there from the current one. Policy files are not named here: a study may come from anyone,
and they are code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.declare.semantics import Routes, Semantics, routes_of, semantics_of
from replay.errors import InputError, nearest
from replay.spec.grammar import PolicySpec, declaration, parse, parse_all
from replay.sweep.choice import NO_CLOCK, TRACE_CLOCK, BoundChoice, ClockChoice

KEYS = ("traces", "policies", "slots", "bytes", "budget", "routes", "clocks", "seeds", "semantics")
SEMANTICS = {
    "scope": str, "split": bool, "order": str, "cell": str, "start": str, "prefill": str, "prompt_hot": int,
}  # fmt: skip
MOST_SEED = 10**18 - 1


@dataclass(frozen=True)
class Study:
    """What a study file asks for.

    Attributes
    ----------
    path : Path
    traces : tuple of str
        As given; :func:`here` finds the local ones.
    policies : tuple of PolicySpec
        Seeds not yet put in.
    bounds : tuple of BoundChoice
    routes : tuple of Routes
    clocks : tuple of ClockChoice
    seeds : tuple of int or None
        ``(None,)`` where the study has none.
    semantics : Semantics
    document : dict
        The file's content.
    """

    path: Path
    traces: tuple[str, ...]
    policies: tuple[PolicySpec, ...]
    bounds: tuple[BoundChoice, ...]
    routes: tuple[Routes, ...]
    clocks: tuple[ClockChoice, ...]
    seeds: tuple[int | None, ...]
    semantics: Semantics
    document: dict[str, Any]


def read_study(path: Path) -> Study:
    """Read a study file.

    Parameters
    ----------
    path : Path
        A TOML file; see the module.

    Returns
    -------
    Study

    Raises
    ------
    InputError
        It cannot be read, a key is not known, or a value is not what the key takes.
    """
    document = _document(path)
    for name in document:
        if name not in KEYS:
            raise InputError(f"{path}: unknown key {name!r}; {nearest(name, KEYS)}")
    try:
        return Study(
            path,
            _texts(document, "traces", 'traces = ["traces/e256-moce"]', need=True),
            tuple(parse_all(_texts(document, "policies", 'policies = ["none+lru"]', need=True))),
            _bounds(document, path),
            tuple(routes_of(_texts(document, "routes", 'routes = ["recorded"]') or None)),
            _clocks(document, path),
            _seeds(document),
            _semantics(document),
            document,
        )
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}; give a TOML file with traces and policies") from None
    except (ValueError, RecursionError) as problem:
        raise InputError(
            f'{path}: not TOML ({problem}); write lines such as policies = ["none+lru"]'
        ) from None


def _list(document: Mapping[str, Any], name: str, example: str, need: bool = False) -> list[Any]:
    """A key's list; empty where the key is not there and need not be."""
    if name not in document:
        if need:
            raise InputError(f"{name}: missing; write {example}")
        return []
    values = document[name]
    if not isinstance(values, list) or not values:
        raise InputError(f"{name}: expected a list with entries, found {_shown(values)}; write {example}")
    for i, value in enumerate(values):
        if value in values[:i]:
            raise InputError(f"{name}: {_shown(value)} is given twice; give it once")
    return values


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _texts(document: Mapping[str, Any], name: str, example: str, need: bool = False) -> tuple[str, ...]:
    values = _list(document, name, example, need)
    for value in values:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise InputError(f"{name}: expected texts, found {_shown(value)}; write {example}")
    return tuple(values)


def _bounds(document: Mapping[str, Any], path: Path) -> tuple[BoundChoice, ...]:
    """Slots first, then byte budgets, then budget files; one default where there is none of them."""
    found: list[BoundChoice] = []
    for name, example in (("slots", 'slots = [721, "17.6%"]'), ("bytes", 'bytes = ["4000MiB"]')):
        for value in _list(document, name, example):
            if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
                raise InputError(f"{name}: expected figures or texts, found {_shown(value)}; write {example}")
            text = str(value)
            found.append(BoundChoice(slots=text) if name == "slots" else BoundChoice(bytes=text))
    for text in _texts(document, "budget", 'budget = ["budget/transfer.toml"]'):
        found.append(BoundChoice(budget=text, file=here(text, path)))
    return tuple(found) or (BoundChoice(),)


def _clocks(document: Mapping[str, Any], path: Path) -> tuple[ClockChoice, ...]:
    example = 'clocks = ["trace", "none", "disk.toml", {name = "slow", device_gbps = 1.5}]'
    found = []
    for value in _list(document, "clocks", example) or [TRACE_CLOCK]:
        if isinstance(value, str) and value.strip() and "\0" not in value:
            source = None if value in (NO_CLOCK, TRACE_CLOCK) else here(value, path)
            found.append(ClockChoice(value, source))
        elif isinstance(value, dict) and isinstance(value.get("name"), str) and value["name"].strip():
            given = {name: each for name, each in value.items() if name != "name"}
            found.append(ClockChoice(value["name"], given))
        else:
            raise InputError(
                f"clocks: expected a name, a file or a table with a name, found {_shown(value)}; write {example}"
            )
    names = [each.name for each in found]
    for each in found:
        if names.count(each.name) > 1 or (each.name in (NO_CLOCK, TRACE_CLOCK) and each.source is not None):
            raise InputError(f"clocks: {each.name!r} names two clocks; give each a name of its own")
    return tuple(found)


def _seeds(document: Mapping[str, Any]) -> tuple[int | None, ...]:
    seeds = _list(document, "seeds", "seeds = [0, 1, 2]")
    for value in seeds:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_SEED:
            raise InputError(
                f"seeds: expected whole numbers from 0 to {MOST_SEED}, found {_shown(value)}; write seeds = [0, 1, 2]"
            )
    return tuple(seeds) or (None,)


def _semantics(document: Mapping[str, Any]) -> Semantics:
    given = document.get("semantics", {})
    if not isinstance(given, dict):
        raise InputError(
            f'semantics: expected a table, found {_shown(given)}; write [semantics] scope = "layer"'
        )
    for name, value in given.items():
        if name not in SEMANTICS:
            raise InputError(f"semantics: unknown key {name!r}; {nearest(name, SEMANTICS)}")
        kind = SEMANTICS[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {str: "a text", bool: "true or false", int: "a whole number"}
            raise InputError(f"semantics: {name}: expected {words[kind]}, found {_shown(value)}")
    return semantics_of(**given)


def here(text: str, path: Path) -> Path:
    """A path of a study file: from the file's folder, or where nothing is there from the current one."""
    beside = path.parent / text
    return beside if beside.exists() else Path(text)


def seeded(spec: PolicySpec, seed: int | None) -> PolicySpec:
    """A spec with a seed: as option ``seed`` of every part that has it and does not set it.

    Parameters
    ----------
    spec : PolicySpec
    seed : int or None
        None leaves the spec as it is.

    Returns
    -------
    PolicySpec
        Its text names the seed.

    Examples
    --------
    >>> seeded(parse("unpert1+random"), 3).text, seeded(parse("unpert1+lru"), 3).text
    ('unpert1+random:seed=3', 'unpert1+lru')
    >>> seeded(parse("none+random:7"), 3).text
    'none+random:7'
    """
    if seed is None:
        return spec
    taken = {part.name for part in spec.parts if "seed" in part.options}
    texts = []
    for text in spec.text.split("+"):
        name = text.partition(":")[0].strip()
        if name not in taken and "seed" in declaration(name).options:
            text = f"{text}{',' if ':' in text else ':'}seed={seed}"
        texts.append(text)
    return parse("+".join(texts))
