"""``margin:m``: admit what comes near enough to the row's predicted k-th expert (policies.md).

A candidate is admitted when its adjusted score less the row's k-th adjusted score is at least ``m`` (default 0).
The k-th is the top_k-th pick of the candidate's row under the read-ahead's own ranking, as resident as the moment
says, the last pick of a row with fewer scores; with K above top_k the margin may be negative, and with K below it the
ranking is carried on to top_k for the k-th.
"""

from replay.declare.policy import Option, Policy
from replay.gate.admission import CANDIDATE, MARGIN, area
from replay.jit import gate

POLICY = Policy(
    name="margin",
    kind="gate",
    summary="score - the row's predicted k-th score >= m",
    needs="C",
    source="slotstream",
    options={"m": Option("float", 0.0, main=True)},
    ranked=True,
)


def lay(options, shape, ranking):
    """Write ``m``."""
    return area(reals=[options["m"]])


@gate
def ask(operation, at, reals_at, words, reals):
    """Compare the margin."""
    if operation == CANDIDATE:
        return 1 if reals[MARGIN] >= reals[reals_at] else 0
    return 0
