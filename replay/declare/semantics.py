"""The options of a replay's semantics (semantics 4): what a run states and a result carries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replay.errors import InputError, nearest

SCOPES = ("global", "layer")
ORDERS = ("id", "rows")
CELLS = ("atomic", "sequential")
ROUTES = ("recorded", "rerouted", "predicted", "cacheprior")
MOST = 2**31 - 1
"""Largest count of an option: windows, experts, slots."""

ENGINE_CAPS = -1
"""Prefill ``stream`` without a cap: 256 experts a layer, 128 from layer 40 on."""


@dataclass(frozen=True)
class Semantics:
    """How events are played.

    Attributes
    ----------
    scope : str
        ``global``: one arena; ``layer``: one for each layer.
    split : bool
        Unwanted speculation goes to limbo (True) or is freed at once (False).
    order : str
        ``id``: hits, then misses, ascending; ``rows``: one pass in the order of each expert's last occurrence.
    cell : str
        ``atomic``: an event's unique experts together; ``sequential``: every occurrence a lookup of its own.
    start : str
        ``cold`` or ``recorded`` (the first resident snapshot of each layer).
    warm : int
        Windows that replay uncounted.
    stream : int or None
        Prefill ``stream``: most experts read ahead for each layer; -1 = the engine's defaults; None = ``demand``.
    prompt_hot : int or None
        Most recent residents of each class that a prefill window spares; None = off.
    """

    scope: str = "global"
    split: bool = True
    order: str = "id"
    cell: str = "atomic"
    start: str = "cold"
    warm: int = 0
    stream: int | None = None
    prompt_hot: int | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("scope", self.scope, SCOPES),
            ("order", self.order, ORDERS),
            ("cell", self.cell, CELLS),
            ("start", self.start, ("cold", "recorded")),
        ):
            if value not in known:
                raise InputError(f"--{name} {value}: no such {name}; {nearest(str(value), known)}")
        if self.prompt_hot is not None and not 0 <= self.prompt_hot <= MOST:
            raise InputError(f"--prompt-hot {self.prompt_hot}: expected a whole number from 0 to {MOST}")

    def describe(self) -> dict[str, Any]:
        """The options as the command line writes them."""
        prefill = {None: "demand", ENGINE_CAPS: "stream"}.get(self.stream, f"stream:{self.stream}")
        return {
            "scope": self.scope,
            "split": self.split,
            "order": self.order,
            "cell": self.cell,
            "start": f"warm:{self.warm}" if self.warm else self.start,
            "prefill": prefill,
            "prompt_hot": self.prompt_hot,
        }


def _count(text: str, option: str, example: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise InputError(f"{option}: {text!r} is not a whole number without a sign; write {example}")
    if len(text) > 15 or int(text) > MOST:
        raise InputError(f"{option}: {text} is more than {MOST}; write {example}")
    return int(text)


def parse_start(text: str) -> tuple[str, int]:
    """Read ``--start``: ``cold``, ``recorded`` or ``warm:N``.

    Returns
    -------
    tuple of str and int
        The start, and the windows that replay uncounted.

    Examples
    --------
    >>> parse_start("warm:16")
    ('cold', 16)
    """
    name, colon, number = text.partition(":")
    if name == "warm" and colon:
        return "cold", _count(number, f"--start {text}", "warm:16")
    if name in ("cold", "recorded") and not colon:
        return name, 0
    raise InputError(
        f"--start {text}: expected cold, recorded or warm:N; {nearest(name, ('cold', 'recorded', 'warm:N'))}"
    )


def parse_prefill(text: str) -> int | None:
    """Read ``--prefill``: ``demand`` (None), ``stream`` (the engine's defaults) or ``stream:CAP``.

    Examples
    --------
    >>> parse_prefill("stream:64"), parse_prefill("stream"), parse_prefill("demand")
    (64, -1, None)
    """
    name, colon, number = text.partition(":")
    if name == "demand" and not colon:
        return None
    if name == "stream":
        if not colon:
            return ENGINE_CAPS
        return _count(number, f"--prefill {text}", "stream:256")
    raise InputError(
        f"--prefill {text}: expected demand, stream or stream:CAP; {nearest(name, ('demand', 'stream'))}"
    )


def semantics_of(
    scope: str = "global",
    split: bool = True,
    order: str = "id",
    cell: str = "atomic",
    start: str = "cold",
    prefill: str = "demand",
    prompt_hot: int | None = None,
) -> Semantics:
    """The semantics that options ask for, each as the command line takes it.

    Examples
    --------
    >>> semantics_of(start="warm:16", prefill="stream:64").describe()["start"]
    'warm:16'
    """
    begin, warm = parse_start(start)
    return Semantics(scope, split, order, cell, begin, warm, parse_prefill(prefill), prompt_hot)


@dataclass(frozen=True)
class Routes:
    """Whose selections a replay follows (semantics 2).

    Attributes
    ----------
    text : str
        As given; a key of every result.
    kind : str
        ``recorded``; ``rerouted``: the router's rule on recorded scores and replayed residency; ``predicted``:
        the read-ahead policy's own best candidates; ``cacheprior``: rerouted with a bonus that follows the
        spread of the layer's scores.
    prior : float
        cacheprior's lambda. Each row moves its layer's average spread before it is ranked, the layer's first row sets
        it; a row's spread is its best less its worst finite score, as float32, and 0 where all are masked.
    protect : int
        cacheprior's J: raw best picks that no bonus reaches.
    """

    text: str
    kind: str
    prior: float = 0.0
    protect: int = 0


RECORDED_ROUTES = Routes("recorded", "recorded")


def parse_routes(text: str) -> Routes:
    """Read ``--routes``: ``recorded``, ``rerouted``, ``predicted`` or ``cacheprior:LAMBDA,J``.

    Examples
    --------
    >>> parse_routes("cacheprior:0.3,1")
    Routes(text='cacheprior:0.3,1', kind='cacheprior', prior=0.3, protect=1)
    >>> parse_routes("cacheprior").prior
    0.2
    """
    name, colon, options = text.partition(":")
    if name not in ROUTES:
        raise InputError(f"--routes {text}: no such routes; {nearest(name, ROUTES)}")
    if name != "cacheprior":
        if colon:
            raise InputError(f"--routes {text}: {name} has no options")
        return Routes(text, name)
    prior, comma, protect = (options if colon else "0.2,2").partition(",")
    try:
        found = Routes(text, name, float(prior), int(protect) if comma else 2)
    except ValueError:
        raise InputError(
            f"--routes {text}: expected cacheprior, or cacheprior:LAMBDA,J such as cacheprior:0.2,2"
        ) from None
    if not 0 <= found.prior <= 1e6:
        raise InputError(f"--routes {text}: LAMBDA is {prior}; expected a number from 0 to 1e6, such as 0.2")
    if not 0 <= found.protect <= MOST:
        raise InputError(f"--routes {text}: J is {protect}; expected a whole number from 0 to {MOST}")
    return found


def routes_of(given: Sequence[str] | None) -> list[Routes]:
    """The kinds of routes that are asked for, each once; commas separate them too; none: ``recorded``.

    Examples
    --------
    >>> [each.text for each in routes_of(["recorded,rerouted", "cacheprior:0.2,2"])]
    ['recorded', 'rerouted', 'cacheprior:0.2,2']
    """
    texts = [each.strip() for text in given or ["recorded"] for each in re.split(r",(?![0-9. ])", text)]
    return [parse_routes(each) for each in dict.fromkeys(texts)]
