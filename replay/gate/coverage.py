"""``coverage:tau``: as many extra candidates as it takes to hold all that an event wants, likely (policies.md; APEX).

The best ``top_k + d`` candidates of every row are admitted, with the smallest d whose probability
``sigmoid(theta_d - w . features)`` of holding all that the event wants reaches ``tau`` (default 0.9); where none does,
the largest d. theta and w come from a file of ``replay calibrate --coverage``; the features are those of
:data:`replay.calibration.file.FEATURES`, taken over the merged list as it is made, resident candidates included. A file
that was fitted for another model shape or another K is refused.
"""

from pathlib import Path

import numpy as np

from replay.declare.policy import Option, Policy
from replay.errors import InputError
from replay.gate.admission import (
    CANDIDATE,
    HELD_SHARE,
    LEAD,
    PREDICTIONS,
    RANK,
    ROWS,
    TAIL,
    TOP_K,
    area,
)
from replay.jit import gate

POLICY = Policy(
    name="coverage",
    kind="gate",
    summary="the fewest extra candidates that hold all an event wants with probability tau",
    needs="C",
    source="APEX 2608.11688",
    options={
        "tau": Option("float", 0.9, main=True, low=0.0, high=1.0),
        "q": Option("text", None),
    },
    ranked=True,
)

SUMMED = True
"""It reads ``LEAD``, ``TAIL`` and ``HELD_SHARE``."""

SEEN, WIDE, STEPS = 0, 1, 2
"""Own words: the prediction that was last looked at, the picks of a row that it admits, values of d. Own reals: tau,
four weights, theta."""


def lay(options, shape, ranking):
    """Read the file; write tau, weights and theta.

    Raises
    ------
    InputError
        No file is named, or it cannot be read, or it was fitted for another shape or K.
    """
    from replay.calibration.file import read_coverage

    if options.get("q") is None:
        raise InputError(
            "coverage needs a file: write route:k=N+coverage:0.9,q=FILE (`replay calibrate TRACE --policy route:k=N "
            f"--coverage FILE --out Q`, N above the model's top-{shape.top_k})"
        )
    fitted = read_coverage(Path(options["q"]), shape.layers, shape.experts, shape.top_k, ranking.k)
    return area(words=[-1, 0, len(fitted.theta)], reals=np.array([options["tau"], *fitted.w, *fitted.theta]))


@gate
def ask(operation, at, reals_at, words, reals):
    """Find d once a prediction, then compare ranks."""
    if operation != CANDIDATE:
        return 0
    if words[at + SEEN] != words[PREDICTIONS]:
        words[at + SEEN] = words[PREDICTIONS]
        w = reals_at + 1
        z = reals[w] * reals[LEAD] + reals[w + 1] * reals[TAIL] + reals[w + 2] * reals[HELD_SHARE]
        z += reals[w + 3] * (words[ROWS] - 1)
        d = 0
        while d < words[at + STEPS] - 1 and 1.0 / (1.0 + np.exp(z - reals[w + 4 + d])) < reals[reals_at]:
            d += 1
        words[at + WIDE] = words[TOP_K] + d
    return 1 if words[RANK] < words[at + WIDE] else 0
