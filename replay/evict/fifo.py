"""``fifo``: first in, first out (semantics 5).

A load enters at the head, a hit changes nothing, the victim is the first eligible from the tail.
"""

from replay.declare.policy import Policy
from replay.evict.plain import at_head, from_tail, stay

POLICY = Policy(
    name="fifo",
    kind="evict",
    summary="first in, first out",
    needs="S",
    source="textbook; libcachesim's FIFO",
    tail=True,
)

enter = at_head
claim = touch = stay
victim = from_tail
