"""Eviction policies: one file each, a line each here (name: module). Nothing heavy is imported.

A policy's file holds its declaration ``POLICY`` and four steps of signature ``STEP`` (:mod:`replay.jit`):

- ``enter(m, p, s)``: slot ``s`` was loaded (or its guess claimed): insert it, ghosts consulted. With
  ``m[OWN]`` the load's own claim follows at once and is part of this step.
- ``claim(m, p, s)``: a hit.
- ``victim(m, p, key)``: choose a slot for which :func:`replay.arena.record.eligible` holds, take it out of the order,
  return it; -1 where there is none; ``DECLINED`` where the policy would rather not keep ``key``. ``key`` is the
  address of the expert to be loaded, -1 for a guess or a trim. It is asked only when no slot is free.
- ``touch(m, p, s)``: a guess found ``s`` resident; returns 1 where that made it more recent.

Steps that many policies share are in :mod:`replay.evict.plain` (``enter = at_head``).

Where it needs them a policy's file also holds

- ``setup(m, options)``: write the options into the parts;
- ``words(plan, shape, options)``: words of its own for each part (at ``m[part + EXTRA]``);
- ``training(options)``: what it learns from (:class:`Training`), and ``learn(m, counts)``: learn from it, where
  ``counts[layer * experts + id]`` is the number of those sessions' events that wanted the expert. It is called once,
  after ``setup`` and before anything is loaded;
- ``notes(m)``: remarks on a finished run, one line each, such as a hand that never wrapped.

``POLICY.by_bytes`` says whether the policy is defined under a byte budget (semantics 5). A load's own claim is
no hit for the queue policies: it sets no bit, moves nothing and promotes nothing.

``POLICY.looks_ahead`` says whether it reads the future (:mod:`replay.prepare.lookahead`): the event then writes each
want's next use into its key record (``NEXT_USE``, ``LATER``) before the claims and loads. ``POLICY.declines``
says whether it may return ``DECLINED``.

A user's own policy (``--policy-file``, :mod:`replay.evict.own`) is one such file. It imports ``step`` and ``inline``
from :mod:`replay.jit`, ``Policy`` and ``Option`` from :mod:`replay.declare.policy`, and from
:mod:`replay.arena.record` what moves slots in lists (``unlink``, ``link_head``, ``link_tail``, ``link_after``), what
says whether one may go (``eligible``, ``first_eligible``) and the words that are a policy's own: ``A`` to ``D`` of a
slot, ``GHOST``, ``NOTE`` and ``MARK`` of an expert, ``WORK`` to ``WORK + 15`` and the lists at ``LISTS + 2 * i`` of a
part. The main list's sentinel is the part itself. :class:`PolicyFile` types the interface. A slot that ``victim``
does not return stays in the order; nothing but the policy's own words and the lists may be written. The steps are
compiled without bounds checks and without negative indices: ``NUMBA_BOUNDSCHECK=1`` finds a wrong address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from replay.declare.policy import Policy

    Memory = NDArray[np.int64]

POLICIES: dict[str, str] = {
    "lru": "replay.evict.lru",
    "decode2q": "replay.evict.decode2q",
    "fifo": "replay.evict.fifo",
    "clock": "replay.evict.clock",
    "lfu": "replay.evict.lfu",
    "lfuda": "replay.evict.lfuda",
    "heat": "replay.evict.heat",
    "sieve": "replay.evict.sieve",
    "random": "replay.evict.random",
    "static": "replay.evict.static",
    "belady": "replay.evict.belady",
    "belady-bypass": "replay.evict.belady_bypass",
    "belady-n": "replay.evict.belady_n",
    "arc": "replay.evict.arc",
    "2q": "replay.evict.two_queue",
    "s3fifo": "replay.evict.s3fifo",
    "lirs": "replay.evict.lirs",
}


STEPS = ("enter", "claim", "victim", "touch")
"""What every policy's file must hold besides ``POLICY``."""


class Step(Protocol):
    """A compiled step: :func:`replay.jit.step` of a function of the memory, a part, and a slot or an expert."""

    def __call__(self, memory: Memory, part: int, slot_or_key: int, /) -> int:
        """Take the step."""


class PolicyFile(Protocol):
    """What a policy's module holds at least; see this module's text for what it may hold besides."""

    POLICY: Policy
    enter: Step
    claim: Step
    victim: Step
    touch: Step


@dataclass(frozen=True)
class Training:
    """What a policy learns from before a run.

    Attributes
    ----------
    trace : str or None
        Path of a trace of the same model; None: the trace that is replayed.
    sessions : tuple of (int, int), or None
        Runs of sessions, the first and last of each, both included; None: all of them.
    """

    trace: str | None
    sessions: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class Eviction:
    """The steps of one eviction policy, compiled."""

    enter: Callable[..., int]
    claim: Callable[..., int]
    victim: Callable[..., int]
    touch: Callable[..., int]
    setup: Callable[..., None]
    words: Callable[..., Any]
    training: Callable[..., Training | None]
    learn: Callable[..., None]
    notes: Callable[..., list[str]]


def _no_setup(memory: Any, options: Any) -> None:
    """Write nothing: the policy has no options."""


def _no_words(plan: Any, shape: Any, options: Any) -> None:
    """Ask for no words of its own."""


def _no_training(options: Any) -> None:
    """Learn from nothing."""


def _no_learning(memory: Any, counts: Any) -> None:
    """Learn nothing."""


def _no_notes(memory: Any) -> list[str]:
    """Nothing to remark."""
    return []


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
        getattr(module, "training", _no_training),
        getattr(module, "learn", _no_learning),
        getattr(module, "notes", _no_notes),
    )
