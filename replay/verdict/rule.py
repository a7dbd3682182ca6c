"""The rule of a verdict: rejected, screen passed, or inconclusive; never "faster".

A figure rises or falls *beyond noise* where its whole 95% interval lies on one side of zero.

- *rejected*: two recorded runs with bonus 0 differ in routes or output hashes; or demand misses rise beyond
  noise; or disk bytes fall and exposed wait rises, both beyond noise (lower traffic that only turned timely
  hits into exposed waits).
- *inconclusive*: fewer than 8 sessions; or the interval of demand misses spans zero; or misses fall but exposed
  wait rises beyond noise.
- *screen passed*: otherwise, so demand misses fall beyond noise. Where they are equal in every session, the
  exposed wait decides in their place, then the disk bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from replay.units import counted

if TYPE_CHECKING:
    from replay.verdict.paired import Figure

FEWEST = 8
PASSED, REJECTED, INCONCLUSIVE = "screen passed", "rejected", "inconclusive"

DECIDING = ("misses", "wait_us", "disk_bytes")
NAMES = {
    "misses": "demand misses",
    "late": "late hits",
    "timely": "timely hits",
    "unused_bytes": "unused bytes",
    "disk_bytes": "disk bytes",
    "wait_us": "exposed wait (us)",
}


def decide(figures: Sequence[Figure], sessions: int, differing: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Apply the rule.

    Parameters
    ----------
    figures : sequence of Figure
        Over all sessions.
    sessions : int
    differing : sequence of str
        What differs between two recorded runs that must not, a line each.

    Returns
    -------
    str
        ``PASSED``, ``REJECTED`` or ``INCONCLUSIVE``.
    list of str
        Why.
    """
    by_name = {each.name: each for each in figures}
    reasons = [*differing, *_rejections(by_name)]
    if reasons:
        return REJECTED, reasons
    if sessions < FEWEST:
        return INCONCLUSIVE, [f"{counted(sessions, 'session')}; at least {FEWEST} are needed"]
    name = next((each for each in DECIDING if each in by_name and not by_name[each].zero), None)
    if name is None:
        return INCONCLUSIVE, ["both sides are equal in every session"]
    figure = by_name[name]
    equal = "" if name == "misses" else "demand misses are equal in every session; "
    if not figure.falls:
        return INCONCLUSIVE, [f"{equal}the interval of {NAMES[name]} spans zero: {span(figure)}"]
    wait = by_name.get("wait_us")
    if wait is not None and wait.rises:
        return INCONCLUSIVE, [f"{NAMES[name]} fall, but the exposed wait rises beyond noise: {span(wait)}"]
    return PASSED, [f"{equal}{NAMES[name]} fall beyond noise: {span(figure)}"]


def _rejections(by_name: Mapping[str, Figure]) -> list[str]:
    found = []
    misses, disk, wait = by_name.get("misses"), by_name.get("disk_bytes"), by_name.get("wait_us")
    if misses is not None and misses.rises:
        found.append(f"demand misses rise beyond noise: {span(misses)}")
    if disk is not None and wait is not None and disk.falls and wait.rises:
        timely = by_name.get("timely")
        hits = "timely hits" if timely is None or timely.difference < 0 else "read-ahead hits"
        found.append(
            f"lower traffic only turned {hits} into exposed waits: disk bytes {span(disk)}, exposed wait (us) "
            f"{span(wait)}"
        )
    return found


def span(figure: Figure) -> str:
    """Write a difference per token with its interval."""
    low, high = ("unbounded" if each is None else f"{each:+.4g}" for each in (figure.low, figure.high))
    return f"{figure.difference:+.4g} per token ({low} to {high})"
