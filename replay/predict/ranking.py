"""The options that the ranked read-ahead policies share (semantics 3), and where a trace records them.

Each value is the spec's option, else ``policy.prefetch`` of trace.json, else its ``router``, else the
default; a recorded 0 counts. ``touch`` is off unless the spec sets it.
"""

from replay.policy import Option

K = Option("int", 6, recorded=("prefetch.k",), low=0)
"""Picks a row."""

PROTECT = Option("int", 3, recorded=("prefetch.protect", "router.protect"), low=0)
"""Ranks that no residency bonus reaches."""

BONUS = Option("float", 0.85, recorded=("prefetch.bonus", "router.bonus"))
"""Bonus of a resident expert from rank p on, added to its score."""

R1 = Option("float", 0.0, recorded=("prefetch.r1", "router.r1_bonus"))
"""Bonus of a resident expert at ranks 1 to p-1, added to its score."""

TOUCH = Option("flag", False)
"""Whether a guess that is already resident counts as recently used."""
