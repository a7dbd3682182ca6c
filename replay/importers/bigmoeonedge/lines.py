"""Lines of a route trace, checked one by one: what cannot be kept as it is names its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from replay.importers.bigmoeonedge.preamble import Static
from replay.importers.text_rows import Batch, TextRows

MISS, HIT, READ_AHEAD, UNKNOWN = 0, 1, 2, 255
PREFILL, DECODE = 0, 1

# why a line is not in the trace
NO_STEP = "with a step below 0, so of no known row"
NO_EXPERT = "without an expert (-1)"
DROPPED = "dropped by the engine, so never read"
UNFINISHED = "of a last step that is not whole"


@dataclass
class Figures:
    """What was counted on the way.

    Attributes
    ----------
    removed : Counter
        Lines that are not in the trace, by reason.
    empty : Counter
        Rows without a pick, by phase and layer (counted from 0).
    prompts : Counter
        Passes of each turn's prompt.
    windows, rows, lookups : int
        Windows, rows, and unique experts wanted, summed over events.
    misses, read_aheads : int
        Lookups recorded as misses, and as first touches of a prefetch.
    miss_bytes, stated_bytes : int
        Bytes of the misses by the layers' sizes, and as the lines state them.
    unweighted, short : int
        Rows (of one layer) without weights, and with fewer picks than the model's.
    first_step : int or None
        Position of the first row.
    """

    removed: Counter[str] = field(default_factory=Counter)
    empty: Counter[tuple[int, int]] = field(default_factory=Counter)
    prompts: Counter[int] = field(default_factory=Counter)
    windows: int = 0
    rows: int = 0
    lookups: int = 0
    misses: int = 0
    read_aheads: int = 0
    miss_bytes: int = 0
    stated_bytes: int = 0
    unweighted: int = 0
    short: int = 0
    first_step: int | None = None


class Lines:
    """Checks lines and numbers their layers.

    Parameters
    ----------
    static : Static
        What the preamble says.
    source : TextRows
        Where the lines are from; names them in errors.
    figures : Figures
        Told what was removed.
    """

    def __init__(self, static: Static, source: TextRows, figures: Figures):
        self.static = static
        self.source = source
        self.figures = figures
        self._place = np.full(max(static.layer_ids) + 1, -1)
        self._place[list(static.layer_ids)] = np.arange(static.layers)

    def refuse(self, batch: Batch, wrong: np.ndarray, text: Callable[[int], str]) -> None:
        """Raise for the first line of a mask."""
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.source.wrong(int(batch.line[at]), text(at))

    def checked(self, batch: Batch) -> Batch:
        """Check lines one by one, number the layers that stream from 0, and take out lines without a position."""
        static = self.static
        spans = {
            "turn": (0, 2**32 - 1),
            "phase": (PREFILL, DECODE),
            "step": (-(2**31), 2**31 - 1),
            "slot": (0, static.top_k - 1),
            "expert": (-1, static.experts - 1),
            "residency": (MISS, READ_AHEAD),
            "dropped": (0, 1),
        }
        for name, span in spans.items():
            if name in batch.columns:
                self._check_span(batch, name, *span)
        layer = batch["layer"]
        inside = (layer >= 0) & (layer < len(self._place))
        place = np.where(inside, self._place[np.where(inside, layer, 0)], -1)
        self.refuse(
            batch,
            place < 0,
            lambda at: (
                f"layer {layer[at]} routes, but the preamble gives it no expert_bytes; add its size there (experts "
                "of 0 bytes would always be hits)"
            ),
        )
        if "expert_bytes" in batch.columns:
            self._check_bytes(batch, np.array(static.sizes)[place])
        batch.columns["layer"] = place
        placed = batch["step"] >= 0
        self.figures.removed[NO_STEP] += int((~placed).sum())
        return batch if placed.all() else batch.take(placed)

    def _check_span(self, batch: Batch, name: str, low: int, high: int) -> None:
        values = batch[name]
        outside = (values < low) | (values > high)
        self.refuse(batch, outside, lambda at: f"expected {name} from {low} to {high}, found {values[at]}")

    def _check_bytes(self, batch: Batch, size: np.ndarray) -> None:
        stated = batch["expert_bytes"]
        self.refuse(
            batch,
            (stated != 0) & (stated != size),
            lambda at: (
                f"expected expert_bytes 0 or {size[at]} as the preamble has for layer {batch['layer'][at]}, "
                f"found {stated[at]}"
            ),
        )
        self.figures.stated_bytes += int(stated.sum())
