"""How far new routes leave the recorded ones: picks kept, and softmax mass of the raw best picks given up.

Picks are counted by the event loop; the mass that each rerouted row gives up is gathered here, by phase and
layer, in bounded memory: an exact mean, and a 99th percentile to the ten-thousandth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from replay.ledger.ledger import Tally

if TYPE_CHECKING:
    import polars as pl

BINS = 10_000
TENTHS = 10


class GivenUp:
    """Shares of softmax mass given up, by phase (0 decode, 1 prefill) and layer.

    Parameters
    ----------
    layers : int
    warm : int
        First windows that are not counted.

    Attributes
    ----------
    rows : int64[2, L]
        Rows measured.
    total : float64[2, L]
        Sum of their shares.
    counts : int32[2, L, BINS + 1]
        Rows by share, to the nearest ``1 / BINS``.
    """

    def __init__(self, layers: int, warm: int = 0) -> None:
        self.layers, self.warm = layers, warm
        self.rows = np.zeros((2, layers), np.int64)
        self.total = np.zeros((2, layers))
        self.counts = np.zeros((2, layers, BINS + 1), np.int32)

    def add(
        self,
        first: int,
        row_start: NDArray[np.int64],
        prefill: NDArray[np.uint8],
        shares: NDArray[np.float32],
    ) -> None:
        """Add a chunk.

        Parameters
        ----------
        first : int
            Its first window.
        row_start : int64[W + 1]
            First row of each window.
        prefill : uint8[W]
        shares : float32[rows * L]
            Share of each row and layer; NaN where a row kept its recorded picks.
        """
        skip = min(max(self.warm - first, 0), len(prefill))
        table = shares.reshape(-1, self.layers)[row_start[skip] :]
        phase = np.repeat(prefill[skip:], np.diff(row_start[skip:])).astype(np.int64)
        row, layer = np.nonzero(~np.isnan(table))
        found = table[row, layer].astype(np.float64)
        cell = phase[row] * self.layers + layer
        size = 2 * self.layers
        self.rows += np.bincount(cell, minlength=size).reshape(2, -1)
        self.total += np.bincount(cell, found, size).reshape(2, -1)
        place = cell * (BINS + 1) + np.rint(found * BINS).astype(np.int64)
        np.add.at(self.counts.reshape(-1), place, 1)

    def mean(self, phase: int | None = None) -> float | None:
        """Mean share over all layers, of one phase or of both; None without rows."""
        chosen = slice(None) if phase is None else phase
        rows = int(self.rows[chosen].sum())
        return float(self.total[chosen].sum()) / rows if rows else None

    def p99(self, phase: int | None = None) -> float | None:
        """99th percentile over all layers: the least share that at least 99% of the rows do not exceed."""
        counts = self.counts if phase is None else self.counts[phase][None]
        return _percentile(counts.sum(axis=(0, 1), dtype=np.int64))

    def by_layer(self, phase: int) -> tuple[list[float | None], list[float | None]]:
        """Mean and 99th percentile of each layer in one phase."""
        rows = self.rows[phase].tolist()
        means = [t / n if n else None for t, n in zip(self.total[phase].tolist(), rows, strict=True)]
        return means, [_percentile(each) for each in self.counts[phase]]


def _percentile(counts: NDArray[np.integer]) -> float | None:
    """99th percentile of a histogram over shares; None where it is empty.

    Examples
    --------
    >>> _percentile(np.bincount([0] * 98 + [5, 7], minlength=BINS + 1))
    0.0005
    """
    total = int(counts.sum())
    if not total:
        return None
    rank = -(-99 * total // 100)
    return int(np.searchsorted(np.cumsum(counts), rank)) / BINS


def drift(tally: Tally, prefill: NDArray[np.bool_]) -> list[float | None]:
    """Share of picks kept in each tenth of the decode windows, in time; None where none was made.

    Parameters
    ----------
    tally : Tally
        One that keeps its windows.
    prefill : bool[windows]
        Which of the trace's windows are prefill.
    """
    sums = tally.by_window()
    if not len(sums["window"]):
        return []
    decode = ~prefill[sums["window"]]
    made, kept = (sums[name][decode] for name in ("picks_made", "picks_kept"))
    parts = zip(np.array_split(made, TENTHS), np.array_split(kept, TENTHS), strict=True)
    return [int(k.sum()) / int(m.sum()) if m.sum() else None for m, k in parts]


def routes_frame(policy: str, routes: str, tally: Tally, given_up: GivenUp | None) -> pl.DataFrame:
    """Rows of ``routes.parquet`` of one policy: one a phase that the trace has, and layer.

    Parameters
    ----------
    policy, routes : str
    tally : Tally
    given_up : GivenUp or None
        None where no router scores were read.
    """
    import polars as pl

    phases = [i for i in (0, 1) if tally.windows[i]]
    layers = tally.layers
    means: list[float | None] = []
    tails: list[float | None] = []
    for phase in phases:
        mean, tail = ([None] * layers,) * 2 if given_up is None else given_up.by_layer(phase)
        means, tails = [*means, *mean], [*tails, *tail]
    rows = None if given_up is None else given_up.rows[phases].ravel()
    columns = {
        "policy": pl.Series([policy] * len(means), dtype=pl.String),
        "routes": pl.Series([routes] * len(means), dtype=pl.String),
        "phase": pl.Series(
            np.repeat([("decode", "prefill")[i] for i in phases], layers).tolist(), dtype=pl.String
        ),
        "layer": np.tile(np.arange(layers), len(phases)),
        "picks_made": tally.by_layer["picks_made"][phases].ravel(),
        "picks_kept": tally.by_layer["picks_kept"][phases].ravel(),
        "rows": pl.Series([None] * len(means) if rows is None else rows, dtype=pl.Int64),
        "given_up_mean_ratio": pl.Series(means, dtype=pl.Float64),
        "given_up_p99_ratio": pl.Series(tails, dtype=pl.Float64),
    }
    return pl.DataFrame(columns)
