"""``route``: the router's rule with p, b and r1 as configured (semantics 3); b <= 0 ranks raw scores."""

from replay.declare.policy import Policy, Values
from replay.predict.ranking import ACTING, BONUS, PROTECT, R1, K, Ranking

POLICY = Policy(
    name="route",
    kind="read-ahead",
    summary="the router's rule with p, b, r1",
    needs="C",
    source="Strata",
    options={"k": K, "p": PROTECT, "b": BONUS, "r1": R1, **ACTING},
    environment="STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_PROTECT=p STRATA_METAL_MOCE_BONUS_R1=r1",
)


def ranking(values: Values) -> Ranking:
    """Apply p, b and r1 as they stand; ``b <= 0`` falls back to raw scores, whatever r1 is."""
    k, p, b, r1 = int(values["k"]), int(values["p"]), float(values["b"]), float(values["r1"])
    return Ranking(k, p, b, r1) if b > 0 else Ranking(k)
