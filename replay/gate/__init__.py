"""Admission gates: one file each, a line each here (name: module) and a branch in ``chain``. Nothing heavy is imported.

A gate stands between any read-ahead policy and the disk: a guess that is absent is read only where every gate of the
spec admits it. A gate's file holds its declaration ``POLICY``, the function ``ask`` (see :mod:`replay.gate.admission`)
and ``lay(options, shape, ranking)``, which returns the :class:`~replay.gate.admission.Area` that it starts with
(``ranking`` is None where read-ahead ranks nothing); where it needs them also ``planned(options)`` (whether it asks
for the nominal plan, :mod:`replay.clock.nominal`), ``DENSE = True`` (it reads ``MASS``, which needs full score rows) or
``SUMMED = True`` (it reads the features of the whole list).

Choices where the specification is silent
-----------------------------------------
- Gates act in decode windows only, and not on prefill ``stream``. Under ``predicted`` routes they withhold reads;
  the routes are the ranking's before any gate.
- A guess that is withheld is not ``dropped``; it neither touches nor spares anything else.
- An expert that several predictions of one event name is asked about by each, learned from once, and counted once:
  asked (and admitted) where it was in any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.gate.admission import Area

POLICIES: dict[str, str] = {
    "margin": "replay.gate.margin",
    "confidence": "replay.gate.confidence",
    "mass": "replay.gate.mass",
    "budget": "replay.gate.budget",
    "coverage": "replay.gate.coverage",
    "calibrated": "replay.gate.calibrated",
}


@dataclass(frozen=True)
class Gate:
    """What one gate asks for.

    Attributes
    ----------
    lay : callable
        ``lay(options, shape, ranking)``: what it starts with.
    planned : callable
        ``planned(options)``: whether it asks for the nominal plan.
    dense : bool
        Whether it reads whole score rows.
    summed : bool
        Whether it reads features of the whole merged list.
    """

    lay: Callable[..., Area]
    planned: Callable[..., bool]
    dense: bool
    summed: bool


def _unplanned(options: Any) -> bool:
    """No time is needed."""
    return False


def load(name: str) -> Gate:
    """Import a gate's file and return what it does."""
    module = import_module(POLICIES[name])
    dense, summed = getattr(module, "DENSE", False), getattr(module, "SUMMED", False)
    return Gate(module.lay, getattr(module, "planned", _unplanned), dense, summed)


def ask_all(some: bool) -> Callable[..., int]:
    """The function that the event loop asks: all gates of a spec, or one that is never asked."""
    ask: Callable[..., int] = import_module(f"replay.gate.{'chain' if some else 'idle'}").ask
    return ask
