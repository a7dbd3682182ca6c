"""The ranked read-ahead policies' common part: their options (semantics 3) and the rule they set up.

Each value is the spec's option, else ``policy.prefetch`` of trace.json, else its ``router``, else the
default; a recorded 0 counts. ``touch``, ``guess`` and ``spare`` are never taken from the trace.

Every read-ahead policy but ``none`` has these three; prefill ``stream`` is none of theirs. Choices where the
specification is silent:

- ``guess=tail``: a guess that its event claims enters at the victim end of its list, whatever its eviction policy does
  with a fresh load; its own claim leaves it there, later ones do as always. Defined for eviction policies that are one
  list with the victim at its tail (lru, fifo, decode2q); refused with others. ``head`` is the default: as a fresh load.
- ``spare=1.25/4``: of the residents that a guess might evict, only those count that it beats: its uses are at least
  1.25 times theirs plus 4. The eviction policy chooses among them in its order, also for each that a byte budget asks
  for; with none of them the guess is dropped. A free slot needs no victim. The uses of a guess are the events of this
  replay that wanted its expert so far, uncounted warm windows and prefill included; those of a resident are its claims
  since it was loaded, the load's own included (what `lfu` counts; none for an expert of a recorded start), moving
  touches left out.
"""

from dataclasses import dataclass, replace

from replay.declare.policy import Option

_MOST = 65536  # experts of a layer: no rank is beyond
_WIDEST = 1e6  # largest bonus: twice it, and a score on top, are still far from what a double holds

K = Option("int", 6, main=True, recorded=("prefetch.k",), low=0, high=_MOST)
"""Picks a row."""

PROTECT = Option("int", 3, recorded=("prefetch.protect", "router.protect"), low=0, high=_MOST)
"""Ranks that no residency bonus reaches."""

BONUS = Option("float", 0.85, recorded=("prefetch.bonus", "router.bonus"), low=-_WIDEST, high=_WIDEST)
"""Bonus of a resident expert from rank p on, added to its score; none where it is not above 0."""

R1 = Option("float", 0.0, recorded=("prefetch.r1", "router.r1_bonus"), low=-_WIDEST, high=_WIDEST)
"""Bonus of a resident expert at ranks 1 to p-1, added to its score."""

TOUCH = Option("flag", False)
"""Whether a guess that is already resident counts as recently used."""

GUESS = Option("text", None, choices=("head", "tail"))
"""Where a claimed guess enters the eviction order; not set: ``head``."""

SPARE = Option("float", None, low=0.0, high=1e9, many=(2, 2))
"""Factor and number of uses by which a guess has to beat what it evicts; not set: it may evict what it meets."""

ACTING = {"touch": TOUCH, "guess": GUESS, "spare": SPARE}
"""Options of every read-ahead policy: how its guesses act on the arena."""

ROUTER_PROTECT = Option("int", 3, recorded=("router.protect",), low=0, high=_MOST)
ROUTER_BONUS = Option("float", 0.85, recorded=("router.bonus",), low=-_WIDEST, high=_WIDEST)
ROUTER_R1 = Option("float", 0.0, recorded=("router.r1_bonus",), low=-_WIDEST, high=_WIDEST)


MOST_RANKS = 2**16
"""A row has no more ranks: expert ids are stored as uint16."""


@dataclass(frozen=True)
class Ranking:
    """The router's rule as a read-ahead policy applies it to each row (semantics 2).

    Attributes
    ----------
    k : int
        Picks a row.
    p : int
        Protected ranks.
    b, r1 : float
        Bonus of a resident expert at ranks ``p`` and up, and at ranks 1 to ``p - 1``; 0 = none.
    """

    k: int
    p: int = 0
    b: float = 0.0
    r1: float = 0.0

    def widened(self, count: int) -> "Ranking":
        """The same rule over at least ``count`` ranks: what routes ``predicted`` select with.

        Examples
        --------
        >>> Ranking(2, p=3, b=0.85).widened(4).boosts
        (0.0, 0.0, 0.0, 0.85)
        """
        return replace(self, k=max(self.k, count))

    @property
    def boosts(self) -> tuple[float, ...]:
        """What residency adds to a score at each of the ``k`` ranks (65,536 at most); two equal ones rank alike.

        Examples
        --------
        >>> Ranking(5, p=3, b=0.85, r1=0.4).boosts
        (0.0, 0.4, 0.4, 0.85, 0.85)
        """
        early = self.r1 if self.r1 > 0 and self.p > 1 else 0.0
        late = self.b if self.b > 0 else early
        ranks = range(min(self.k, MOST_RANKS))
        return tuple(late if rank >= self.p else early if rank > 0 else 0.0 for rank in ranks)
