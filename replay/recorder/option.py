"""What to record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.recorder.arena import Arena


@dataclass(frozen=True)
class Options:
    """What to record of a model, and how.

    Attributes
    ----------
    name, licence, domain : str or None
        Of the model, the trace, and the kind of text.
    notes : sequence of str
        For the trace's source.
    distance : int
        Layers between a candidate's source and its target; 0: no candidates.
    scores : bool
        Whether router scores are kept.
    prefill_scores : bool
        Whether prefill windows have scores and candidates too.
    timing : bool
        Whether layers are timed.
    bits_per_weight : float or None
        Size of the experts as if stored so.
    arena : Arena or None
        The arena to emulate.
    """

    name: str | None = None
    licence: str | None = None
    domain: str | None = None
    notes: Sequence[str] = ()
    distance: int = 1
    scores: bool = True
    prefill_scores: bool = False
    timing: bool = False
    bits_per_weight: float | None = None
    arena: Arena | None = None
