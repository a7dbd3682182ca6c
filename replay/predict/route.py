"""``route``: the router's rule with p, b and r1 as configured (semantics 3); b <= 0 ranks raw scores."""

from replay.policy import Policy
from replay.predict.ranking import BONUS, PROTECT, R1, TOUCH, K

POLICY = Policy(
    name="route",
    kind="read-ahead",
    summary="the router's rule with p, b, r1",
    needs="C",
    source="semantics 3",
    options={"k": K, "p": PROTECT, "b": BONUS, "r1": R1, "touch": TOUCH},
    environment="STRATA_METAL_PREFETCH_ROUTE=1 STRATA_METAL_MOCE_PROTECT=p STRATA_METAL_MOCE_BONUS_R1=r1",
)
