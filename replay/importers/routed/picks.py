"""Sources of one pick a line: lines of one list put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from replay.importers.routed.cells import Cells
from replay.importers.routed.survey import Refuse


@dataclass
class Picks:
    """Some lines, one pick each; arrays of int64 (weights float64), [n].

    Attributes
    ----------
    line, run, step, session, phase, token, layer, expert : numpy.ndarray
        Lines with the same values of run to layer, one after another, are one list.
    rank : numpy.ndarray or None
        Place of each pick in its list; None: the order of the lines.
    weight, outcome, domain : numpy.ndarray or None
    """

    line: np.ndarray
    run: np.ndarray
    step: np.ndarray
    session: np.ndarray
    phase: np.ndarray
    token: np.ndarray
    layer: np.ndarray
    expert: np.ndarray
    rank: np.ndarray | None = None
    weight: np.ndarray | None = None
    outcome: np.ndarray | None = None
    domain: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.line)

    def take(self, which: np.ndarray | slice) -> Picks:
        """Take some lines: a mask, an order or a range."""
        values: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            values[each.name] = None if value is None else value[which]
        return Picks(**values)

    @staticmethod
    def join(parts: Sequence[Picks]) -> Picks:
        """Put lines one after another."""
        values: dict[str, Any] = {}
        for each in fields(Picks):
            columns = [getattr(part, each.name) for part in parts]
            values[each.name] = None if columns[0] is None else np.concatenate(columns)
        return Picks(**values)


class Lists:
    """Puts lines together, block after block.

    Parameters
    ----------
    refuse : function
        Raises for a line.
    """

    def __init__(self, refuse: Refuse):
        self._refuse = refuse
        self._held: Picks | None = None

    def add(self, picks: Picks) -> Iterator[tuple[Cells, np.ndarray]]:
        """Take lines; give the lists that they end, and the run of each."""
        if len(picks) == 0:
            return
        if self._held is not None:
            picks = Picks.join([self._held, picks])
        begins = _begins(picks)
        cut = int(np.flatnonzero(begins)[-1])
        if cut:
            yield self._lists(picks.take(slice(0, cut)), begins[:cut])
        self._held = picks.take(slice(cut, None))

    def finish(self, cut: bool = False) -> Iterator[tuple[Cells, np.ndarray]]:
        """Give the last list; not where the source's end cuts it."""
        if self._held is not None and not cut:
            yield self._lists(self._held, _begins(self._held))
        self._held = None

    def _lists(self, picks: Picks, begins: np.ndarray) -> tuple[Cells, np.ndarray]:
        heads = np.flatnonzero(begins)
        offsets = np.append(heads, len(picks))
        if picks.rank is not None:
            picks = self._ranked(picks, np.cumsum(begins) - 1)
        cells = Cells(
            line=picks.line[heads],
            step=picks.step[heads],
            session=picks.session[heads],
            phase=picks.phase[heads],
            token=picks.token[heads],
            layer=picks.layer[heads],
            offsets=offsets,
            experts=picks.expert,
            weights=picks.weight,
            outcome=picks.outcome,
            domain=None if picks.domain is None else picks.domain[heads],
        )
        return cells, picks.run[heads]

    def _ranked(self, picks: Picks, owner: np.ndarray) -> Picks:
        """Sort the picks of each list by rank; a rank may come once."""
        given = np.arange(len(picks)) if picks.rank is None else picks.rank
        self._refuse(picks.line, given < 0, lambda at: f"expected a rank from 0, found {given[at]}")
        order = np.lexsort((given, owner))
        rank, own = given[order], owner[order]
        again = np.append(False, (rank[1:] == rank[:-1]) & (own[1:] == own[:-1]))
        lines = picks.line[order]
        self._refuse(
            lines,
            again,
            lambda at: f"rank {rank[at]} of one token and layer stands there twice; write each once",
        )
        return picks.take(order)


def _begins(picks: Picks) -> np.ndarray:
    """Say which lines begin a list; the first does."""
    begins = np.ones(len(picks), bool)
    begins[1:] = False
    for values in (picks.run, picks.step, picks.session, picks.phase, picks.token, picks.layer):
        begins[1:] |= values[1:] != values[:-1]
    return begins
