"""Recording: a context manager that turns a transformers model's forward passes into a trace.

Needs the extra ``record`` (torch, transformers); importing this package does not load them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from replay.argument import NONE, NUMBER, PATH, TEXT, TRUTH, WHOLE, Kind, either, expect, instance, many
from replay.recorder.arena import Arena
from replay.recorder.option import Options
from replay.recorder.recorder import Recorder
from replay.recorder.spool import recover

__all__ = ["Arena", "Options", "Recorder", "record", "recover"]

_MAYBE_TEXT = either(TEXT, NONE)
_KINDS = {
    "model": Kind("a torch.nn.Module", lambda model: hasattr(model, "named_modules")),
    "path": PATH,
    **dict.fromkeys(("force", "scores", "prefill_scores", "timing"), TRUTH),
    **dict.fromkeys(("name", "licence", "domain"), _MAYBE_TEXT),
    "notes": many(TEXT, "a sequence of str"),
    "distance": WHOLE,
    "bits_per_weight": either(NUMBER, NONE),
    "arena": either(instance(Arena, "an Arena"), NONE),
}
"""What each argument of ``record`` may be."""


def record(
    model: Any,
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    name: str | None = None,
    licence: str | None = None,
    domain: str | None = None,
    notes: Sequence[str] = (),
    distance: int = 1,
    scores: bool = True,
    prefill_scores: bool = False,
    timing: bool = False,
    bits_per_weight: float | None = None,
    arena: Arena | None = None,
) -> Recorder:
    """Record a MoE model's forward passes while ``generate`` or a loop of one's own runs.

    Parameters
    ----------
    model : torch.nn.Module
        A causal language model; its MoE layers are found by their structure.
    path : path
        The trace's folder, written when the block ends well. Until then, and after a crash, the recording lies in
        ``PATH.partial``: ``replay recover`` makes a trace of it.
    force : bool
        Whether an old trace there is replaced.
    name : str, optional
        The model's name; by default what its configuration says.
    licence : str, optional
        Licence of the trace.
    domain : str, optional
        Kind of text, where no session says its own.
    notes : sequence of str
        For the trace's source.
    distance : int
        A layer's candidates are its router's scores (after its own norm) of the residual stream so many MoE layers
        before; 0: none.
    scores : bool
        Whether router scores are recorded: logits before softmax and bias.
    prefill_scores : bool
        Whether prefill windows have router scores and candidates too; they are large.
    timing : bool
        Whether layers are timed: pre_us up to the layer's picks, post_us from there to its end; the time that the
        recorder itself takes between the two, to steer a closed loop above all, is in neither.
    bits_per_weight : float, optional
        Size of the experts as if stored so; by default what their parameters take.
    arena : Arena, optional
        An arena to emulate: residents, counters and outcomes are recorded too; with a bonus, it steers the routing.

    Returns
    -------
    Recorder
        A context manager.

    Raises
    ------
    InputError
        No MoE layer was found, or the path is taken.

    Examples
    --------
    A model of the hub, its first tokens recorded::

        with replay.record(model, "olmoe", arena=Arena(slots=256, bonus=0.5)) as recorder:
            with recorder.session(domain="code"):
                model.generate(**tokenizer("def ", return_tensors="pt"), max_new_tokens=256)
    """
    expect(locals(), _KINDS)
    options = Options(
        name=name,
        licence=licence,
        domain=domain,
        notes=tuple(notes),
        distance=distance,
        scores=scores,
        prefill_scores=prefill_scores,
        timing=timing,
        bits_per_weight=bits_per_weight,
        arena=arena,
    )
    return Recorder(model, path, options, force)
