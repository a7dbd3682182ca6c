"""``unpert0``: the router's rule with three protected ranks and the bonus, without r1 (semantics 3)."""

from replay.declare.policy import Policy, Values
from replay.predict.ranking import ACTING, BONUS, K, Ranking

PROTECT = 3
"""The protected ranks of ``unpert0``: fixed, no option."""

POLICY = Policy(
    name="unpert0",
    kind="read-ahead",
    summary="the router's rule with p = 3, b, no r1",
    needs="C",
    source="Strata",
    options={"k": K, "b": BONUS, **ACTING},
    environment="STRATA_METAL_PREFETCH_UNPERT=0",
)


def ranking(values: Values) -> Ranking:
    """Protect three ranks, boost the others by ``b``."""
    return Ranking(int(values["k"]), PROTECT, float(values["b"]))
