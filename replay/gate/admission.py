"""What an admission gate sees and is told: one memory of words and reals, operations, a candidate's features.

A gate is one compiled function ``ask(operation, at, reals_at, words, reals)`` (:func:`replay.jit.gate`). Its own
words begin at ``words[at]``, its own reals at ``reals[reals_at]``; what all gates share stands at the fixed places
below. Operations:

- ``WINDOW``: a decode window begins.
- ``CANDIDATE``: may the candidate be read ahead? 1 or 0. Asked for candidates that are absent, best first; the
  answer holds for this prediction only. A gate is asked only where all gates before it, in the order of the spec,
  said 1.
- ``ISSUED``: the candidate's read was issued (every gate admitted it, and room was found). The place to count bytes.
- ``OUTCOME``: the target's event is over: ``CHOSEN`` says whether it wanted the expert. Told once an event for
  every expert that any of its predictions named, read ahead or withheld or resident.

A candidate's features are those of the row that gave it its merged place (of two such rows the lower one). Its
adjusted score is its raw score, as it is absent; ``KTH`` is the score, with its boost where it is resident, of that
row's top_k-th pick under the same ranking, whatever K is (the last pick of a row with fewer scores), ``MARGIN`` the
difference. Where read-ahead has no scores (oracle and others) ranks are the merged place and the reals are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from replay.jit import MEMORY, REALS

WINDOW, CANDIDATE, ISSUED, OUTCOME = range(4)

# -- shared words
GATES = 0  # how many there are
LAYERS, EXPERTS, TOP_K = 1, 2, 3
TARGET, EXPERT = 4, 5
PLACE = 6  # merged place
RANK = 7  # place among the picks of its row
RAW_RANK = 8  # place among all experts of its row by raw score
ROWS = 9  # rows of the prediction
BYTES = 10
CHOSEN = 11
NOW, DEADLINE = 12, 13  # nominal time of the guess and of its event's asking, ns (replay.clock.nominal)
LATENCY = 14  # ns
PREDICTIONS = 15  # predictions of this chunk's windows so far: a new value, a new prediction
NOTED, LIST, FLAGS = 20, 21, 22  # addresses: experts noted for each layer, who they are, what became of them
RANKS, RAW_RANKS, PUBLISHED = (
    16,
    17,
    18,
)  # addresses: of the merged experts, by expert; resident when the list was made
SUMMED = 19  # 1: a gate reads the features of the whole list
KINDS = 25  # from here on, a word a gate: its place in the registry
OWN = 32  # from here on, two words a gate: where its own words and its own reals begin
MOST = 7
"""Gates that a spec may hold at most, a read-ahead policy's own among them."""
OF_READ_AHEAD = -1
"""What stands for a place in the registry where a read-ahead policy admits its guesses itself (``seqmoe``)."""
HEADER = OWN + 2 * MOST

# -- shared reals
RAW, KTH, MARGIN = 0, 1, 2
MASS = (
    3  # softmax mass of the row's experts that rank above it by raw score; where a gate asks for dense rows
)
DEVICE, STREAM = 4, 5  # bytes a nanosecond
LEAD, TAIL, HELD_SHARE = (
    6,
    7,
    8,
)  # of the whole merged list (replay.calibration.file.FEATURES), where a gate asks
REALS_HEADER = 16
"""Then raw score, k-th score, mass and margin of the merged experts, by expert."""

# -- flags of a noted expert
NAMED, ASKED, ADMITTED = 1, 2, 4

OUTCOMES = ("asked", "admitted", "asked_wanted", "admitted_wanted")
"""What is counted at an event, in experts: asked about (absent at the time), admitted by every gate, and how many
of either the event wanted."""


class Gating(NamedTuple):
    """The gates' memory.

    Attributes
    ----------
    words, reals : int64[n], float64[m]
    """

    words: NDArray[np.int64]
    reals: NDArray[np.float64]


class Area(NamedTuple):
    """What a gate starts with: its own words and reals."""

    words: NDArray[np.int64]
    reals: NDArray[np.float64]


GATING = types.NamedTuple((MEMORY, REALS), Gating)


def area(words: object = (), reals: object = ()) -> Area:
    """An area of these words and reals."""
    return Area(np.array(words, np.int64), np.array(reals, np.float64))


def lay(layers: int, experts: int, top_k: int, kinds: list[int], areas: list[Area]) -> Gating:
    """Lay out the memory of a lane's gates.

    Parameters
    ----------
    layers, experts, top_k : int
    kinds : list of int
        Each gate's place in the registry, in the order of the spec.
    areas : list of Area
        What each gate starts with, in that order; empty: no memory at all.
    """
    if not areas:
        return Gating(np.zeros(0, np.int64), np.zeros(0))
    cells = layers * experts
    starts = HEADER + np.cumsum([0, layers, cells, cells, experts, experts, experts])
    words = [np.zeros(starts[-1], np.int64), *(each.words for each in areas)]
    reals = [np.zeros(REALS_HEADER + 4 * experts), *(each.reals for each in areas)]
    first = words[0]
    first[[GATES, LAYERS, EXPERTS, TOP_K]] = len(areas), layers, experts, top_k
    first[[NOTED, LIST, FLAGS, RANKS, RAW_RANKS, PUBLISHED]] = starts[:-1]
    first[KINDS : KINDS + len(kinds)] = kinds
    for i in range(len(areas)):
        first[OWN + 2 * i] = sum(len(each) for each in words[: i + 1])
        first[OWN + 2 * i + 1] = sum(len(each) for each in reals[: i + 1])
    return Gating(np.concatenate(words), np.concatenate(reals))
