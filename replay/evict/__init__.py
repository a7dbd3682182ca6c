"""Eviction policies: one file each, a line each here (name: module). Nothing heavy is imported.

A policy's file holds its declaration ``POLICY`` and four steps of signature ``STEP`` (:mod:`replay.jit`):

- ``enter(m, p, s)``: slot ``s`` was loaded (or its guess claimed): insert it, ghosts consulted. With
  ``m[OWN]`` the load's own claim follows at once and is part of this step.
- ``claim(m, p, s)``: a hit.
- ``victim(m, p, key)``: choose a slot for which :func:`replay.arena.eligible` holds, take it out of the order,
  return it; -1 where there is none; ``DECLINED`` where the policy would rather not keep ``key``. ``key`` is the
  address of the expert to be loaded, -1 for a guess or a trim. It is asked only when no slot is free.
- ``touch(m, p, s)``: a guess found ``s`` resident; returns 1 where that made it more recent.

and, where it needs them, ``setup(m, options)`` (write options into the parts) and
``words(plan, shape, options)`` (words of its own for each part).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

POLICIES: dict[str, str] = {
    "lru": "replay.evict.lru",
    "decode2q": "replay.evict.decode2q",
}


@dataclass(frozen=True)
class Eviction:
    """The steps of one eviction policy, compiled."""

    enter: Callable[..., int]
    claim: Callable[..., int]
    victim: Callable[..., int]
    touch: Callable[..., int]
    setup: Callable[..., None]
    words: Callable[..., Any]


def _no_setup(memory: Any, options: Any) -> None:
    """Write nothing: the policy has no options."""


def _no_words(plan: Any, shape: Any, options: Any) -> None:
    """Ask for no words of its own."""


def load(name: str) -> Eviction:
    """Import a policy's file and return its steps."""
    module = import_module(POLICIES[name])
    return Eviction(
        module.enter,
        module.claim,
        module.victim,
        module.touch,
        getattr(module, "setup", _no_setup),
        getattr(module, "words", _no_words),
    )
