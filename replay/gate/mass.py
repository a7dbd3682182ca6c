"""``mass:delta``: admit the experts that hold a row's first ``delta`` of probability (policies.md; FineMoE).

Probabilities are the softmax of the candidate's whole score row, in descending order. A candidate is admitted while
the mass of the experts ranked above it by raw score is below ``delta`` (default 0.9): FineMoE's count,
``#(cumulative < delta) + 1``. FineMoE's lower bound on that count, the k of the model, would admit all of a K up to
k; it is the option ``least`` (default 1) here. With several rows the row is the one that gave the candidate its
merged place.
"""

from replay.declare.policy import Option, Policy
from replay.gate.admission import CANDIDATE, MASS, RAW_RANK, area
from replay.jit import gate

POLICY = Policy(
    name="mass",
    kind="gate",
    summary="probability mass of the better candidates of its row < delta",
    needs="P",
    source="FineMoE 2502.05370",
    options={
        "delta": Option("share", 0.9, main=True, low=0.0, high=1.0),
        "least": Option("int", 1, low=0, high=65536),
    },
    ranked=True,
)

DENSE = True


def lay(options, shape, ranking):
    """Write ``delta`` and ``least``."""
    return area(words=[options["least"]], reals=[options["delta"]])


@gate
def ask(operation, at, reals_at, words, reals):
    """Compare the mass, or the raw rank."""
    if operation == CANDIDATE:
        return 1 if reals[MASS] < reals[reals_at] or words[RAW_RANK] < words[at] else 0
    return 0
