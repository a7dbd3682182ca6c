"""Closed-loop recording: the emulated arena's residents steer what the model computes with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.errors import InputError
from replay.recorder.arena import Emulation, Event
from replay.recorder.forward import masked
from replay.recorder.layer import Layer
from replay.recorder.rows import halved
from replay.recorder.weigh import Formula, learn_of


class Loop:
    """Routes with the resident bonus, in the model's place.

    Parameters
    ----------
    emulation : Emulation

    Notes
    -----
    Scores are rounded to float16 before the selection and recorded so: an audit recomputes the same picks. The
    weights follow the model's own formula, learned from its own weights at the first pass.
    """

    def __init__(self, emulation: Emulation):
        self.emulation = emulation
        self.formulas: dict[int, Formula] = {}

    def steer(
        self, layer: Layer, window: int, picks: Any, weights: Any, scores: Any, keep: NDArray[np.bool_] | None
    ) -> tuple[Any, Any, NDArray[np.float16], Event]:
        """Route one event.

        Parameters
        ----------
        layer : Layer
        window : int
        picks, weights : torch.Tensor
            The model's own, [rows, k].
        scores : torch.Tensor
            [rows, E].
        keep : bool[rows] or None
            Rows that are no padding; padding keeps the model's picks.

        Returns
        -------
        picks, weights : torch.Tensor
            What the experts are to use.
        scores : float16[rows, E]
            What is recorded.
        Event

        Raises
        ------
        InputError
            The model's weights follow no known formula, or a row has too few finite scores.
        """
        import torch

        if layer.reading is None or layer.reading.picks != "experts":
            raise InputError(
                f"{layer.block.path}: its experts are not handed their picks, so a resident bonus cannot steer them; "
                "record with an arena of bonus 0"
            )
        given = scores.float().cpu().numpy()
        if np.isnan(given).any():
            raise InputError(f"window {window}, layer {layer.index}: a router's score is not a number")
        half = halved(given)
        wide = half.astype(np.float32)
        logits = layer.logits().float().cpu().numpy() if layer.reading.chosen else None
        formula = self._formula(layer, picks, weights)
        if layer.reading.fixed:  # steering can change nothing here
            logits = wide if logits is None else logits
            half = masked(half, picks.cpu().numpy())
            wide = half.astype(np.float32)
        routed = self.emulation.route(layer.index, wide, picks.shape[1])
        if (routed < 0).any():
            raise InputError(
                f"window {window}, layer {layer.index}: a row has too few finite scores to route"
            )
        weighed = formula(wide if logits is None else logits, routed)
        if keep is not None and not keep.all():
            routed[~keep] = picks.cpu().numpy()[~keep]
            weighed[~keep] = weights.float().cpu().numpy()[~keep]
        event = self.emulation.event(window, layer.index, routed if keep is None else routed[keep])
        new_picks = torch.from_numpy(routed).to(picks.device)
        new_weights = torch.from_numpy(weighed.astype(np.float32)).to(weights.device)
        return new_picks, new_weights, half, event

    def _formula(self, layer: Layer, picks: Any, weights: Any) -> Formula:
        if layer.index not in self.formulas:
            found = None if weights is None else learn_of(layer.logits(), picks, weights)
            if found is None:
                raise InputError(
                    f"{layer.block.path}: its weights follow no formula that is known here, so other picks cannot be "
                    "weighed; record with an arena of bonus 0"
                )
            self.formulas[layer.index] = found
        return self.formulas[layer.index]
