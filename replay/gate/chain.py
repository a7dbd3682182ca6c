"""All gates of a spec as one function, which the event loop takes as argument: a number a gate, a branch each here.

Any number of gates costs the loop's caller one argument: numba looks each function that is passed up anew at every
call. Specs without gates pass :mod:`replay.gate.idle` instead and never load this file.
"""

from replay.gate import budget, calibrated, confidence, coverage, margin, mass
from replay.gate.admission import CANDIDATE, GATES, KINDS, OF_READ_AHEAD, OWN
from replay.jit import called, gate
from replay.predict import seqmoe

_margin, _confidence, _mass, _budget, _seqmoe = margin.ask, confidence.ask, mass.ask, budget.ask, seqmoe.ask
_coverage, _calibrated = coverage.ask, calibrated.ask


@called
def _one(kind, operation, at, reals_at, words, reals):
    """Ask or tell one gate; ``kind`` is its place in the registry, or a read-ahead policy's own."""
    if kind == OF_READ_AHEAD:
        return _seqmoe(operation, at, reals_at, words, reals)
    if kind == 0:
        return _margin(operation, at, reals_at, words, reals)
    if kind == 1:
        return _confidence(operation, at, reals_at, words, reals)
    if kind == 2:
        return _mass(operation, at, reals_at, words, reals)
    if kind == 4:
        return _coverage(operation, at, reals_at, words, reals)
    if kind == 5:
        return _calibrated(operation, at, reals_at, words, reals)
    return _budget(operation, at, reals_at, words, reals)


@gate
def ask(operation, at, reals_at, words, reals):
    """A candidate is admitted where every gate admits it, asked in order; everything else is told to all of them."""
    for i in range(words[GATES]):
        own = OWN + 2 * i
        answer = _one(words[KINDS + i], operation, words[own], words[own + 1], words, reals)
        if operation == CANDIDATE and answer == 0:
            return 0
    return 1
