"""What trace.json says of a recording."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from replay import __version__
from replay.recorder.ahead import needs_router
from replay.recorder.arena import Arena
from replay.recorder.find import Block
from replay.recorder.layer import Layer
from replay.recorder.option import Options
from replay.units import spans


def model_section(model: Any, name: str | None, blocks: Sequence[Block], top_k: int) -> dict[str, Any]:
    """Make ``model`` of trace.json.

    Parameters
    ----------
    model : torch.nn.Module
    name : str or None
        What to call it; its configuration's name by default.
    blocks : sequence of Block
    top_k : int

    Returns
    -------
    dict
    """
    config = getattr(model, "config", None)
    told = (
        name
        or getattr(config, "name_or_path", "")
        or getattr(config, "model_type", "")
        or type(model).__name__
    )
    section: dict[str, Any] = {
        "name": str(told),
        "layers": len(blocks),
        "experts": blocks[0].count,
        "top_k": top_k,
    }
    numbers = [block.number for block in blocks]
    if numbers != list(range(len(blocks))) and len(set(numbers)) == len(numbers) and min(numbers) >= 0:
        section["layer_ids"] = numbers
    return section


def router_section(arena: Arena | None, weighed: set[str], kinds: set[str]) -> dict[str, Any]:
    """Make ``router``.

    Parameters
    ----------
    arena : Arena or None
        Its bonus, where it steers; else there was none.
    weighed : set of str
        Formulas of the layers' weights.
    kinds : set of str
        Types that the layers' weights have in the model.

    Returns
    -------
    dict
        ``weights`` says how the model weighs its picks: ``softmax over the chosen`` is the rule of semantics 2;
        ``weights_type`` in which type, as a column cannot hold them as bfloat16.
    """
    section: dict[str, Any] = {"protect": 0, "bonus": 0.0, "r1_bonus": 0.0, "draft_moce": False}
    if arena is not None and arena.steers:
        section |= {"protect": arena.protect, "bonus": arena.bonus, "r1_bonus": arena.r1}
    if weighed:
        section["weights"] = next(iter(weighed)) if len(weighed) == 1 else "not one formula in all layers"
    if len(kinds) == 1:
        section["weights_type"] = next(iter(kinds))
    return section


def policy_section(arena: Arena | None) -> dict[str, Any] | None:
    """Make ``policy``: what the emulated arena did; None without one."""
    if arena is None:
        return None
    return {
        "prefetch": {"name": "none"},
        "evict": "lru",
        "slots": [arena.slots],
        "scope": "global",
        "order": "id",
        "cell": "atomic",
    }


def engine_section(model: Any) -> dict[str, Any]:
    """Make ``engine``: transformers, and how the model ran."""
    import torch
    import transformers

    parameter = next(model.parameters())
    config = getattr(model, "config", None)
    told = {
        "class": type(model).__name__,
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "device": parameter.device.type,
        "torch": torch.__version__,
    }
    for name in ("model_type", "_experts_implementation", "_attn_implementation"):
        value = getattr(config, name, None)
        if isinstance(value, str):
            told[name.lstrip("_")] = value
    return {"name": "transformers", "version": transformers.__version__, "config": told}


def source_section(licence: str | None, notes: Sequence[str], counts: dict[str, int]) -> dict[str, Any]:
    """Make ``source``.

    Parameters
    ----------
    licence : str or None
    notes : sequence of str
    counts : dict of int
        Rows and windows that need a word; zeros are left out.

    Returns
    -------
    dict
    """
    section: dict[str, Any] = {
        "recorder": "replay.record",
        "version": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    if licence is not None:
        section["licence"] = licence
    return section | {
        "notes": list(notes),
        "counts": {name: count for name, count in counts.items() if count},
    }


def notes_of(layers: Sequence[Layer], options: Options) -> list[str]:
    """What the readings of layers have to say, those that say the same together.

    Parameters
    ----------
    layers : sequence of Layer
    options : Options

    Returns
    -------
    list of str
    """
    said: dict[str, list[int]] = {}
    for layer in layers:
        notes = list(layer.reading.notes) if layer.reading else []
        if options.distance and layer.index >= options.distance:
            if layer.norm is None:
                notes.append(
                    "no norm before the router was found: candidates are its scores of the residual as it is"
                )
            if needs_router(layer) and not layer.given_dims:
                notes.append("no candidates: its router takes more than the residual stream")
        for note in notes:
            said.setdefault(note, []).append(layer.index)
    bits = options.bits_per_weight
    extra = [] if bits is None else [f"expert sizes are computed at {bits:g} bits a weight"]
    return [f"{layers_of(numbers)}: {note}" for note, numbers in said.items()] + extra


def layers_of(numbers: Sequence[int]) -> str:
    """Name layers shortly.

    Parameters
    ----------
    numbers : sequence of int
        Ascending.

    Returns
    -------
    str

    Examples
    --------
    >>> layers_of([0, 1, 2, 5]), layers_of([3])
    ('layers 0-2, 5', 'layer 3')
    """
    return f"layer{'' if len(numbers) == 1 else 's'} {spans(numbers)}"
