"""``unpert1``: the K best raw scores of each row (semantics 3); Strata's default."""

from replay.declare.policy import Policy, Values
from replay.predict.ranking import ACTING, K, Ranking

POLICY = Policy(
    name="unpert1",
    kind="read-ahead",
    summary="raw top-K of the candidate scores",
    needs="C",
    source="Strata's default",
    options={"k": K, **ACTING},
    environment="STRATA_METAL_PREFETCH_UNPERT=1 (default)",
)


def ranking(values: Values) -> Ranking:
    """Raw scores: no rank is boosted."""
    return Ranking(int(values["k"]))
