"""Rounds of drafts as a trace records them (semantics 9).

Draft j of a round is row j + 1 of its window. A recorder may list more drafts than its window has rows: those
were drafted, dropped by the policy in force, and never verified. A window with more rows than 1 + drafts is
refused, since no gate can be asked about the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import InputError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rounds:
    """The rounds of some windows, padded to the longest.

    Attributes
    ----------
    window : int64[rounds]
        The window of each round, ascending.
    p : float64[rounds, steps]
        What the draft head gave each draft; NaN beyond a round's length.
    length : int64[rounds]
        Drafts made.
    matched : int64[rounds]
        Drafts in the verifier's matched prefix.
    verified : int64[rounds]
        Drafts that have a row in the window.
    """

    window: Ints
    p: Floats
    length: Ints
    matched: Ints
    verified: Ints

    @property
    def accept(self) -> Floats:
        """Measured acceptance of each draft, float64[rounds, steps]: 1 in the matched prefix, else 0."""
        return (np.arange(self.p.shape[1]) < self.matched[:, None]).astype(np.float64)


def read_rounds(
    drafts: Mapping[str, npt.NDArray[np.generic]],
    rows: Ints,
    prefill: npt.NDArray[np.bool_] | None = None,
    first: int = 0,
) -> Rounds:
    """Read the rounds of consecutive windows from their part of the table ``drafts``.

    Parameters
    ----------
    drafts : mapping of str to array
        Columns window, step, p and matched, sorted by (window, step), of windows in the range only.
    rows : int64[windows]
        Rows of each window.
    prefill : bool[windows], optional
        Which windows are prefill; by default none.
    first : int, optional
        Number of the first window of ``rows``.

    Returns
    -------
    Rounds
        One round a window that has drafts.

    Raises
    ------
    InputError
        Steps that are not 0, 1, 2..; a match after a mismatch, or of a draft without a row; drafts in a
        prefill window; more rows than 1 + drafts.
    """
    window = drafts["window"].astype(np.int64)
    step = drafts["step"].astype(np.int64)
    hit = drafts["matched"].astype(bool)
    starts = np.flatnonzero(np.diff(window, prepend=-1))
    length = np.diff(np.append(starts, len(window)))
    place = np.arange(len(window)) - np.repeat(starts, length)
    _refuse(step != place, window, step, "the steps of a round must be 0, 1, 2.. without a gap")
    index = np.repeat(np.arange(len(starts)), length)
    steps = int(length.max(initial=0))
    p = np.full((len(starts), steps), np.nan)
    p[index, place] = drafts["p"]
    matches = np.zeros((len(starts), steps), bool)
    matches[index, place] = hit
    matched = np.logical_and.accumulate(matches, axis=1).sum(axis=1)
    _refuse(hit & (place >= matched[index]), window, step, "matched after a mismatch; expected a prefix")

    at = window[starts]
    room = rows.astype(np.int64)[at - first] - 1
    if prefill is not None:
        _refuse(prefill[at - first], at, None, "a prefill window; expected drafts in decode windows only")
    _refuse(room > length, at, None, "more rows than 1 + drafts; expected a p for every draft row")
    _refuse(matched > room, at, None, "a matched draft that has no row in the window")
    return Rounds(at, p, length, matched, np.minimum(length, room))


def _refuse(bad: npt.NDArray[np.bool_], window: Ints, step: Ints | None, why: str) -> None:
    """Raise for the first bad row of the table ``drafts``, if there is one."""
    if bad.any():
        at = int(bad.argmax())
        where = "" if step is None else f" step {step[at]}"
        raise InputError(f"drafts: window {window[at]}{where}: {why}; record the trace again")
