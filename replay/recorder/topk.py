"""What the model chose from: the scores that went into ``topk`` over the experts, and the ids that came out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass
class Choice:
    """One ``topk`` over the experts.

    Attributes
    ----------
    scores : torch.Tensor
        Its input, [.., E].
    values, ids : torch.Tensor
        Its outputs, [.., k].
    in_router : bool
        Whether it ran inside the router.
    """

    scores: Any
    values: Any
    ids: Any
    in_router: bool


@cache
def _watch_type() -> Any:
    """The class behind :func:`watch`, made once torch is there."""
    import torch
    from torch.overrides import TorchFunctionMode

    watched = {torch.topk, torch.Tensor.topk}

    class Watch(TorchFunctionMode):
        def __init__(self, count: int):
            super().__init__()
            self.count = count
            self.in_router = False
            self.seen: list[Choice] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func in watched:
                given = args[0] if args else (kwargs or {})["input"]
                if given.shape[-1] == self.count and result[1].ndim == given.ndim:
                    self.seen.append(Choice(given.detach(), result[0].detach(), result[1], self.in_router))
            return result

    return Watch


def watch(count: int) -> Any:
    """Make a watch over ``topk`` calls on a last dimension of ``count``.

    Parameters
    ----------
    count : int
        Experts of the layer.

    Returns
    -------
    context manager
        Its ``seen`` is the list of :class:`Choice` so far; set ``in_router`` while the router runs.
    """
    return _watch_type()(count)
