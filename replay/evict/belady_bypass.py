"""``belady-bypass``: ``belady`` that may decline to keep a miss (semantics 5).

A miss is declined (read into a transient slot) when its own next use is farther than that of every resident
that could go for it (one that ``--prompt-hot`` spares could go only where no other could). Where no resident can go it
reclaims like any miss. It never misses more than ``belady``; members of an event stay pinned until its end, so it is no
bound on every way of bypassing.
"""

from replay.arena.record import DECLINED, EQUAL_TIMES, KEY, NEXT_USE
from replay.declare.policy import Policy
from replay.evict.belady import claim, enter, setup, touch, words
from replay.evict.farthest import farthest_eligible, remove
from replay.jit import step

__all__ = ["POLICY", "claim", "enter", "setup", "touch", "victim", "words"]

POLICY = Policy(
    name="belady-bypass",
    kind="evict",
    summary="belady that keeps no miss which is wanted later than all that could go",
    needs="S",
    source="Belady 1966; optimal bypass",
    by_bytes=False,
    looks_ahead="next",
    declines=True,
)


@step
def victim(m, p, key):
    """The eligible resident wanted farthest in the future, unless the miss is wanted farther yet."""
    s = farthest_eligible(m, p)
    if s >= 0:
        moment = m[EQUAL_TIMES]
        if key >= 0 and m[key + NEXT_USE] // moment > m[m[s + KEY] + NEXT_USE] // moment:
            return DECLINED
        remove(m, p, s)
    return s
