"""``belady``: the offline bound with forced admission (semantics 5; Belady 1966).

Every miss is kept; the victim is the eligible resident whose next event is the farthest, ties by lowest expert
number (layer * experts + id). Under ``cell=sequential`` the next lookup takes the place of the next event. A
claimed guess enters with the next use that is known then.

For experts of one size it misses least among all policies that keep every miss, without read-ahead: per part,
an expert that is kept from one use to the next saves one miss and takes one slot at every event between, and
an event leaves all but its own members' slots to such experts. Dropping the one that ends last wherever there
are too many is optimal for intervals of equal worth under any such limits (Carlisle and Lloyd 1995). Under a
byte budget it is a heuristic.
"""

from replay.declare.policy import Policy
from replay.evict.farthest import add, farthest_eligible, heap_words, lay_heap, remove, renew
from replay.evict.plain import stay
from replay.jit import step

POLICY = Policy(
    name="belady",
    kind="evict",
    summary="offline bound: the farthest next event goes, every miss is kept",
    needs="S",
    source="Belady 1966",
    looks_ahead="next",
)

words = heap_words


def setup(m, options):
    """The heaps are empty."""
    lay_heap(m)


@step
def enter(m, p, s):
    """A load, or a claimed guess, enters by its next use."""
    add(m, p, s)
    return 0


@step
def claim(m, p, s):
    """A hit moves to its new next use."""
    renew(m, p, s)
    return 0


@step
def victim(m, p, key):
    """The eligible resident wanted farthest in the future, taken out."""
    s = farthest_eligible(m, p)
    if s >= 0:
        remove(m, p, s)
    return s


touch = stay  # a guess tells nothing of the next use: nothing moves
