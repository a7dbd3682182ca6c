"""Prices that meet a byte budget: ``calibrated:q=q.json,price=budget:80MB/token`` (policies.md).

The price is the least, to one part in 2^15 of the largest that can matter, at which the policy reads no more than the
budget ahead a committed token on the sessions that its q file was learned on, played cold and in order at the run's
bound and semantics. Several prices are played in each pass, so that five passes halve the bracket fifteen times. Bytes
need not fall everywhere as the price rises (what is read changes what is resident): the bracket keeps a price that
meets the budget at its upper end and one that does not at its lower.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.declare.policy import BUDGET
from replay.errors import InputError
from replay.spec.resolve import Resolved
from replay.trace import Trace
from replay.trace.view import View, view, whole
from replay.units import parse_per_token

GATE, OPTION = "calibrated", "price"
PASSES, HALVINGS = 5, 3
ROUNDING = 1e-3
"""What is read is told in four digits: a budget that it comes so near to is reached."""

Read = Callable[[View, Sequence[Resolved]], Sequence[float]]
"""Plays policies over some windows: bytes read ahead a committed token of each."""


def asks_budget(policy: Resolved) -> bool:
    """Whether a policy's price is a budget yet to be met."""
    return isinstance(policy.values.get(GATE, {}).get(OPTION), str)


def priced(policy: Resolved, trace: Trace, most_us: float, read: Read) -> Resolved:
    """Give a policy the price that meets its budget.

    Parameters
    ----------
    policy : Resolved
        With ``price=budget:SIZE/token``.
    trace : Trace
        The trace that is replayed, or a view of it.
    most_us : float
        Microseconds a byte from which on nothing is admitted.
    read : callable

    Returns
    -------
    Resolved
        The same with a number for its price.

    Raises
    ------
    InputError
        The trace does not hold the sessions that the q file was learned on.
    """
    asked = str(policy.values[GATE][OPTION])
    budget = parse_per_token(asked.removeprefix(BUDGET))
    training = _training(policy, whole(trace))
    low, high = 0.0, most_us
    (now,) = read(training, [with_price(policy, 0.0, asked)])
    if now <= budget:
        return with_price(policy, 0.0, f"{asked}: {now / 1e6:.4g}MB on its training sessions")
    now = 0.0
    for _ in range(PASSES):
        inner = np.linspace(low, high, 2**HALVINGS + 1)[1:-1].tolist()
        found = list(read(training, [with_price(policy, price, asked) for price in inner]))
        while inner:
            half = len(inner) // 2
            if found[half] <= budget:
                high, now = inner[half], found[half]
                inner, found = inner[:half], found[:half]
            else:
                low = inner[half]
                inner, found = inner[half + 1 :], found[half + 1 :]
    return with_price(policy, high, f"{asked}: {now / 1e6:.4g}MB on its training sessions")


def with_price(policy: Resolved, price: float, origin: str) -> Resolved:
    """A policy with another price, and where that came from."""
    values: dict[str, Mapping[str, Any]] = dict(policy.values)
    origins: dict[str, Mapping[str, str]] = dict(policy.origins)
    values[GATE] = {**values[GATE], OPTION: price}
    origins[GATE] = {**origins[GATE], OPTION: origin}
    return replace(policy, values=values, origins=origins)


def _training(policy: Resolved, trace: Trace) -> View:
    """The windows of a trace that the policy's q file was learned on."""
    file = policy.values[GATE].get("q")
    if file is None:
        raise InputError(f"policy {policy.spec.text}: calibrated needs a file; write calibrated:q=FILE")
    sessions = learned(str(file), trace)
    keep: NDArray[np.bool_] = np.isin(trace.windows.session, sorted(sessions))
    if not keep.any():
        raise InputError(
            f"policy {policy.spec.text}: price=budget is found on the sessions that {file} was learned on, and "
            f"{trace.path} holds none of them; give price= a number"
        )
    return view(trace, keep)


def learned(file: str, trace: Trace) -> set[int]:
    """Sessions of a trace that a file of `replay calibrate` was learned on; none where it cannot be read.

    Parameters
    ----------
    file : str
    trace : Trace

    Returns
    -------
    set of int
    """
    try:
        content = fitted(file)
        sha256 = trace.tables["selections"].sha256
        sources = [each for each in content["trained_on"] if each["sha256"] == sha256]
        return {int(session) for each in sources for session in each["sessions"]}
    except (ValueError, KeyError, TypeError):
        return set()  # the gate's own reader says what is wrong with it


def fitted(file: str) -> dict[str, Any]:
    """What a file of `replay calibrate` holds; nothing where it cannot be read.

    Parameters
    ----------
    file : str

    Returns
    -------
    dict
    """
    try:
        content = json.loads(Path(file).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def unreached(policy: Resolved) -> str | None:
    """Say that a policy reads less than its budget even at price 0, where that is so.

    Parameters
    ----------
    policy : Resolved
        Its price found (:func:`priced`).

    Returns
    -------
    str or None
    """
    if policy.values.get(GATE, {}).get(OPTION) != 0:
        return None
    asked, _, read = policy.origins[GATE][OPTION].partition(": ")
    if not asked.startswith(BUDGET):
        return None
    now = float(read.partition("MB")[0])
    if now * 1e6 > parse_per_token(asked.removeprefix(BUDGET)) * (1 - ROUNDING):
        return None
    return (
        f"{policy.spec.text}: the budget is not reached: even at price 0 only {now:.4g} MB a token are read ahead on "
        "its training sessions"
    )
