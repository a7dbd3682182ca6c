"""``oracle``: the event's true union, ascending id: what a perfect predictor would ask for (semantics 3)."""

from replay.declare.policy import Policy
from replay.predict.ranking import ACTING

POLICY = Policy(
    name="oracle",
    kind="read-ahead",
    summary="the event's true union, ascending id",
    needs="S",
    source="a bound: perfect prediction",
    options=ACTING,
    looks_ahead="next",
)
