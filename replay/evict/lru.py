"""``lru``: least recently used (semantics 4).

A load enters at the head, a claim moves to the head, the victim is the first eligible from the tail.
"""

from replay.declare.policy import Policy
from replay.evict.plain import at_head, from_tail, to_head

POLICY = Policy(
    name="lru",
    kind="evict",
    summary="least recently used",
    needs="S",
    source="textbook; Strata's default",
    environment="",
    tail=True,
)

enter = at_head
claim = touch = to_head
victim = from_tail
