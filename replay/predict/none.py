"""``none``: no read-ahead."""

from replay.declare.policy import Policy

POLICY = Policy(
    name="none",
    kind="read-ahead",
    summary="no read-ahead",
    needs="S",
    source="reading on demand",
)
