"""What the model chose from: the scores that went into ``topk`` over the experts, and the ids that came out.

While a recording runs, ``torch.topk`` and ``Tensor.topk`` are wrapped; a call costs a function call more, and is
looked at only while a router or a block of this thread runs.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
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


class Watch:
    """A watch over ``topk`` calls on a last dimension of ``count``, while it is on; a context manager.

    Parameters
    ----------
    count : int
        Experts of the layer.

    Attributes
    ----------
    seen : list of Choice
        What was chosen so far.
    in_router : bool
        To be set while the router runs.
    """

    def __init__(self, count: int):
        self.count = count
        self.in_router = False
        self.seen: list[Choice] = []
        self.thread = 0

    def __enter__(self) -> Watch:
        self.thread = threading.get_ident()
        if self not in _ON:
            _ON.append(self)
        return self

    def __exit__(self, *problem: object) -> None:
        if self in _ON:
            _ON.remove(self)

    def tell(self, given: Any, result: Any) -> None:
        """Tell of a call: what it was given, and its values and ids."""
        if given.shape[-1] == self.count and result[1].ndim == given.ndim:
            self.seen.append(Choice(given.detach(), result[0].detach(), result[1], self.in_router))


_ON: list[Watch] = []
_WRAPPED: list[tuple[Any, Any]] = []  # an entry a recording: what topk was before


def _wrapped(topk: Any) -> Any:
    def watched_topk(*args: Any, **kwargs: Any) -> Any:
        result = topk(*args, **kwargs)
        if _ON:
            thread = threading.get_ident()
            for watch in reversed(_ON):
                if watch.thread == thread:
                    watch.tell(args[0] if args else kwargs["input"], result)
                    break
        return result

    return watched_topk


def wrap_topk() -> None:
    """Wrap ``topk``; each call wants one of :func:`unwrap_topk`."""
    import torch

    _WRAPPED.append((torch.topk, torch.Tensor.topk))
    if len(_WRAPPED) == 1:
        torch.topk = _wrapped(torch.topk)
        torch.Tensor.topk = _wrapped(torch.Tensor.topk)


def unwrap_topk() -> None:
    """Take the wrappers off, once the last recording is done."""
    import torch

    function, method = _WRAPPED.pop()
    if not _WRAPPED:
        torch.topk, torch.Tensor.topk = function, method
