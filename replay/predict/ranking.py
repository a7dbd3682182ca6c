"""The ranked read-ahead policies' common part: their options (semantics 3) and the rule they set up.

Each value is the spec's option, else ``policy.prefetch`` of trace.json, else its ``router``, else the
default; a recorded 0 counts. ``touch`` is off unless the spec sets it.
"""

from dataclasses import dataclass, replace

from replay.policy import Option

K = Option("int", 6, main=True, recorded=("prefetch.k",), low=0)
"""Picks a row."""

PROTECT = Option("int", 3, recorded=("prefetch.protect", "router.protect"), low=0)
"""Ranks that no residency bonus reaches."""

BONUS = Option("float", 0.85, recorded=("prefetch.bonus", "router.bonus"))
"""Bonus of a resident expert from rank p on, added to its score."""

R1 = Option("float", 0.0, recorded=("prefetch.r1", "router.r1_bonus"))
"""Bonus of a resident expert at ranks 1 to p-1, added to its score."""

TOUCH = Option("flag", False)
"""Whether a guess that is already resident counts as recently used."""

ROUTER_PROTECT = Option("int", 3, recorded=("router.protect",), low=0)
ROUTER_BONUS = Option("float", 0.85, recorded=("router.bonus",))
ROUTER_R1 = Option("float", 0.0, recorded=("router.r1_bonus",))


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
