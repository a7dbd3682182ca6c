"""A forward pass while it runs, and how it becomes a window in the processor's memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.errors import InputError
from replay.recorder.ahead import Ahead
from replay.recorder.arena import Emulation, Event
from replay.recorder.stopwatch import Stopwatch
from replay.recorder.window import Window

_MOST_ROWS = 2**16 - 1


@dataclass
class Forward:
    """One forward pass while it runs; lists have one entry a layer.

    Attributes
    ----------
    number, session : int
    prefill : bool
    domain : str or None
    keep : bool[rows] or None
        Rows that are no padding; None: all.
    picks, weights, scores, logits : list
        Tensors [rows, ..]; logits only where the scores are others. A closed loop's scores are arrays.
    events : list of Event or None
    residuals, originals : dict of torch.Tensor
        Residual stream after each decoder layer, by the id of its module, and before it was copied.
    start, asked, ended
        Marks of the stopwatch; asked: two a layer, before and after its picks were taken and perhaps steered.
    """

    number: int
    session: int
    domain: str | None
    prefill: bool
    keep: NDArray[np.bool_] | None
    picks: list[Any]
    weights: list[Any]
    scores: list[Any]
    logits: list[Any]
    events: list[Event | None]
    residuals: dict[int, Any] = field(default_factory=dict)
    originals: dict[int, Any] = field(default_factory=dict)
    start: Any = None
    asked: list[Any] = field(default_factory=list)
    ended: list[Any] = field(default_factory=list)


class Gather:
    """Makes windows of passes.

    Parameters
    ----------
    prefill_scores : bool
    distance : int
    emulation : Emulation or None
        Run here, where it does not steer.
    watch : Stopwatch
    counts : Counter
        Told what was left out.

    Attributes
    ----------
    ahead : Ahead or None
        Candidates; None until the first pass is done.
    fixed : list of int
        Layers whose picks no scores explain.
    copies : bool or None
        Whether residual streams change after they were kept, so that they have to be copied; None: not known yet.
    """

    def __init__(
        self,
        prefill_scores: bool,
        distance: int,
        emulation: Emulation | None,
        watch: Stopwatch,
        counts: Counter[str],
    ):
        self.prefill_scores, self.distance = prefill_scores, distance
        self.emulation, self.watch, self.counts = emulation, watch, counts
        self.ahead: Ahead | None = None
        self.fixed: list[int] = []
        self.copies: bool | None = None

    def window(self, now: Forward) -> Window | None:
        """Bring a pass to the processor's memory.

        Parameters
        ----------
        now : Forward

        Returns
        -------
        Window or None
            None where all rows are padding.

        Raises
        ------
        InputError
            Layers differ in rows or picks, or there are more rows than a window holds.
        """
        import torch

        shapes = {tuple(each.shape) for each in now.picks}
        if len(shapes) != 1:
            raise InputError(
                f"window {now.number}: layers picked for {sorted(shapes)} (rows, experts); expected one"
            )
        keep = now.keep
        rows = whole = next(iter(shapes))[0]
        if keep is not None and len(keep) != rows:
            keep = None
        if keep is not None:
            self.counts["rows of padding, left out"] += int((~keep).sum())
            rows = int(keep.sum())
        if rows == 0:
            return None
        if rows > _MOST_ROWS:
            raise InputError(
                f"window {now.number}: {rows} rows; a trace holds {_MOST_ROWS}: feed shorter pieces"
            )
        picks = _rows_first(now.picks, np.int64, keep)
        weights = None if any(w is None for w in now.weights) else _rows_first(now.weights, np.float32, keep)
        if isinstance(now.scores[0], np.ndarray):
            scores = np.stack(now.scores, axis=1)
            scores = scores if keep is None else scores[keep]
        else:
            scores = _rows_first(now.scores, np.float32, keep)
        logits = None
        if any(each is not None for each in now.logits):
            own = zip(now.logits, now.scores, strict=True)
            logits = _rows_first([torch.as_tensor(b) if a is None else a for a, b in own], np.float32, keep)
        if self.fixed and not isinstance(now.scores[0], np.ndarray):
            logits = scores.copy() if logits is None else logits
            scores[:, self.fixed] = masked(scores[:, self.fixed], picks[:, self.fixed])
        wanted = not now.prefill or self.prefill_scores
        events = [each for each in now.events if each is not None] or None
        if self.emulation is not None and events is None:
            events = [self.emulation.event(now.number, i, picks[:, i]) for i in range(picks.shape[1])]
        return Window(
            now.number, now.session, now.prefill, now.domain, picks, weights, scores, logits, wanted,
            self._residuals(now, keep, whole), events, self._times(now),
        )  # fmt: skip

    def _residuals(self, now: Forward, keep: NDArray[np.bool_] | None, rows: int) -> Any:
        """The residual streams that candidates are made of, [targets, rows, hidden], copied; None without."""
        import torch

        if self.ahead is None or not now.residuals or not self.ahead.targets:
            return None
        if self.copies is None:
            self.copies = any((now.residuals[i] != each).any() for i, each in now.originals.items())
        found = [now.residuals[source] for source in self.ahead.sources]
        if len({each.device for each in found}) > 1:
            found = [each.to(found[0].device) for each in found]
        stacked = torch.stack(found)
        stacked = stacked.reshape(len(found), -1, stacked.shape[-1])
        if stacked.shape[1] != rows:
            self.counts["windows without candidates, as the residual stream is not one row a token"] += 1
            return None
        return stacked if keep is None else stacked[:, torch.from_numpy(keep).to(stacked.device)]

    def score(self, windows: list[Window]) -> None:
        """Make the candidates of windows that wait, all at once, then look whether the routers changed.

        Parameters
        ----------
        windows : list of Window
            Those with residual streams receive candidates instead.
        """
        import torch

        waiting = [each for each in windows if each.residuals is not None]
        if self.ahead is None or not waiting:
            return
        with torch.no_grad():
            scores = self.ahead.scores(torch.cat([each.residuals for each in waiting], dim=1))
        parts = np.split(scores, np.cumsum([len(each.picks) for each in waiting])[:-1])
        targets = np.array(self.ahead.targets)
        for window, part in zip(waiting, parts, strict=True):
            window.targets, window.issued, window.candidates = targets, targets - self.distance, part
            window.residuals = None
        self.ahead.refresh()

    def _times(self, now: Forward) -> NDArray[np.float32] | None:
        if not now.asked:
            return None
        begun = [now.start, *now.ended[:-1]]
        between = self.watch.between_us
        marks = zip(begun, now.asked, now.ended, strict=True)
        pairs = [(between(a, before), between(after, b)) for a, (before, after), b in marks]
        return np.array(pairs, np.float32)


def _rows_first(layers: list[Any], dtype: Any, keep: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Tensors [rows, n] of each layer as one array [rows, L, n]."""
    import torch

    kind = torch.int64 if dtype is np.int64 else torch.float32
    if len({each.device for each in layers}) > 1:
        layers = [each.to(layers[0].device) for each in layers]
    stacked = torch.stack(layers, dim=1).to(kind).cpu().numpy()
    return stacked if keep is None else stacked[keep]


def masked(scores: NDArray[Any], picks: NDArray[np.int64]) -> NDArray[Any]:
    """Give scores [.., E] with every expert but the picks [.., k] masked.

    Parameters
    ----------
    scores : float[.., E]
    picks : int64[.., k]

    Returns
    -------
    float[.., E]

    Examples
    --------
    >>> masked(np.array([0.5, 1.0, 2.0]), np.array([1, 0])).tolist()
    [0.5, 1.0, -inf]
    """
    kept = np.full_like(scores, -np.inf)
    np.put_along_axis(kept, picks, np.take_along_axis(scores, picks, axis=-1), axis=-1)
    return kept


def unpadded(mask: Any, batch: int, tokens: int) -> NDArray[np.bool_] | None:
    """Find the rows that are no padding.

    Parameters
    ----------
    mask : torch.Tensor or None
        The attention mask, [batch, past + tokens], zero where padding is.
    batch, tokens : int

    Returns
    -------
    bool[batch * tokens] or None
        None where all rows are, or nothing tells.
    """
    if mask is None or getattr(mask, "ndim", 0) != 2 or mask.shape[1] < tokens or mask.shape[0] != batch:
        return None
    rows = (mask[:, -tokens:] != 0).reshape(-1).cpu().numpy()
    return None if rows.all() else rows
