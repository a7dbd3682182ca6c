"""Forward steps and sessions of lists that carry positions but neither of these."""

from __future__ import annotations

import numpy as np

from replay.importers.routed.cells import Cells

WARM_UP = "of a warm-up row before the first prompt"


class Numbering:
    """Numbers steps and sessions, block after block.

    A step begins where the run, the given session or the phase changes, where the layer falls, and where a layer
    comes again without a later position: an engine runs each layer once a step, over all its rows. A session begins
    where a run or a given session does, and where a step's first position is not later than that of the step before:
    positions restart with every sequence. (A draft that was rejected comes again inside a step's span.)

    Attributes
    ----------
    restarts : int
        Sessions that restarting positions began.
    """

    def __init__(self) -> None:
        self.restarts = 0
        self._last: tuple[int, ...] | None = None  # run, session, phase, layer, token
        self._step = -1
        self._session = -1
        self._first = 0  # first token of the step

    def number(self, cells: Cells, run: np.ndarray | None = None) -> None:
        """Set ``step`` and ``session``.

        Parameters
        ----------
        cells : Cells
            Lists in the order of the source; ``session`` holds what the source says (0 where nothing).
        run : numpy.ndarray of int64, [n], optional
            Number of the run that each list is from.
        """
        if len(cells) == 0:
            return
        runs = np.zeros(len(cells), np.int64) if run is None else run
        keys = np.stack([runs, cells.session, cells.phase, cells.layer, cells.token])
        before = keys[:, 0] if self._last is None else np.array(self._last)
        earlier = np.concatenate([before[:, None], keys[:, :-1]], axis=1)
        other = (keys[:2] != earlier[:2]).any(axis=0)
        falls = keys[3] < earlier[3]
        again = (keys[3] == earlier[3]) & (keys[4] <= earlier[4])
        begins = other | (keys[2] != earlier[2]) | falls | again
        if self._last is None:
            begins[0] = other[0] = True
        starts = np.flatnonzero(begins)
        firsts = cells.token[starts]
        back = firsts <= np.append(self._first, firsts[:-1])
        given = other[starts]
        self.restarts += int((back & ~given).sum())
        session = self._session + np.cumsum(back | given)
        steps = np.append(self._session, session)
        at = np.cumsum(begins)
        cells.session = steps[at]
        cells.step = self._step + at
        self._last = tuple(int(each) for each in keys[:, -1])
        if len(starts):
            self._first = int(firsts[-1])
        self._step, self._session = int(cells.step[-1]), int(cells.session[-1])


def without_warm_up(cells: Cells, positions: bool) -> tuple[Cells, int]:
    """Leave out a stray first step, which engines run to load the weights before the first prompt.

    Parameters
    ----------
    cells : Cells
        The first lists of a source, steps and sessions numbered.
    positions : bool
        Whether the source tells positions, so that the prompt shows by a restart; else by its more rows.

    Returns
    -------
    Cells, int
        The lists without it, and how many were left out.

    Notes
    -----
    It is one where a list of it has more picks than the next step's (llama.cpp warms up with all experts), or where
    it has at most two rows and the next step begins a session, or, without positions, has more rows.
    """
    steps = np.unique(cells.step)
    if len(steps) < 2:
        return cells, 0
    own, following = cells.step == steps[0], cells.step == steps[1]
    rows = [len(np.unique(cells.token[each])) for each in (own, following)]
    wider = cells.lengths[own].max() > cells.lengths[following].max()
    restarts = cells.session[following][0] != cells.session[own][0]
    stray = wider or (rows[0] <= 2 and (restarts if positions else rows[1] > rows[0]))
    if not stray:
        return cells, 0
    return cells.take(~own), int(own.sum())
