"""``confidence``: a two-bit counter for each expert, of how its guesses went (policies.md; ST-MoE).

Counters start at 2 and stay within 0 to 3. A candidate is admitted while its counter is at least 2; at its event the
counter goes up where the expert was selected and down where it was not, for candidates that were withheld or resident
too. An event teaches an expert once, however many predictions named it.
"""

import numpy as np

from replay.declare.policy import Policy
from replay.gate.admission import CANDIDATE, CHOSEN, EXPERT, EXPERTS, OUTCOME, TARGET, area
from replay.jit import gate

POLICY = Policy(
    name="confidence",
    kind="gate",
    summary="two-bit counter of an expert's past guesses >= 2",
    needs="S",
    source="ST-MoE 2606.15453",
)

START, ENOUGH, MOST = 2, 2, 3


def lay(options, shape, ranking):
    """A counter an expert."""
    return area(words=np.full(shape.layers * shape.experts, START))


@gate
def ask(operation, at, reals_at, words, reals):
    """Read the counter, or move it."""
    counter = at + words[TARGET] * words[EXPERTS] + words[EXPERT]
    if operation == CANDIDATE:
        return 1 if words[counter] >= ENOUGH else 0
    if operation == OUTCOME:
        if words[CHOSEN]:
            words[counter] = min(words[counter] + 1, MOST)
        else:
            words[counter] = max(words[counter] - 1, 0)
    return 0
