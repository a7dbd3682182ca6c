"""The summary of a comparison: one row a policy, totals as integers, ratios derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from replay.ledger.agreement import drift
from replay.ledger.ledger import COUNTED, FATES, PENDING, TIMES
from replay.ledger.outcome import figures, reference, without_read_ahead

if TYPE_CHECKING:
    from replay.comparison.candidate import Row

DECODE = 0


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def summarise(
    candidates: Sequence[Row], baseline: str, warm: int, prefill: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """One row a policy and routes.

    Totals are over all counted windows; figures per token are over decode windows, whose committed tokens they
    divide by.

    Parameters
    ----------
    candidates : sequence of Row
        Played or recorded.
    baseline : str
        The spec whose misses a change is against, under the same routes.
    warm : int
        First windows that are not counted.
    prefill : bool[windows]
        Which windows are prefill.

    Returns
    -------
    list of dict
        In the order of the candidates. Rows with gates have figures of them besides
        (:func:`replay.ledger.outcome.figures`).
    """
    base = {c.routes: c.tally.total("misses", DECODE) for c in candidates if c.text == baseline}
    tokens = {c.routes: int(c.tokens[warm:].sum()) for c in candidates if c.text == baseline}
    rows = [_row(c, base.get(c.routes), tokens.get(c.routes), warm, prefill) for c in candidates]
    plain = without_read_ahead(candidates)
    for candidate, row in zip(candidates, rows, strict=True):
        if candidate.outcomes is not None:
            row |= figures(candidate.outcomes, candidate.tally, plain.get(reference(candidate)))
    return rows


def _row(
    candidate: Row,
    base_misses: int | None,
    base_tokens: int | None,
    warm: int,
    prefill: NDArray[np.bool_],
) -> dict[str, Any]:
    tally, tokens = candidate.tally, int(candidate.tokens[warm:].sum())
    row: dict[str, Any] = {"policy": candidate.text, "routes": candidate.routes, "tokens": tokens}
    for name in (*COUNTED, *PENDING, *(FATES if tally.timed else ())):
        row[name] = tally.total(name)
    for name in TIMES:
        row[name.replace("_ns", "_us")] = tally.total(name) / 1000 if tally.timed else None
    decode = {name: tally.total(name, DECODE) for name in tally.columns}
    misses, issued, lookups = decode["misses"], decode["issued"], decode["lookups"]
    hits = decode["prefetch_hits"]
    row["decode_misses"] = misses
    row["misses_per_token"] = _ratio(misses, tokens)
    row["prefetch_hits_per_token"] = _ratio(hits, tokens)
    row["issued_per_token"] = _ratio(issued, tokens)
    read = decode["demand_bytes"] + decode["issued_bytes"]
    if tally.timed:
        read = decode["disk_bytes"]
    row["read_bytes_per_token"] = _ratio(read, tokens)
    row["retired_share"] = _ratio(decode["retired"], issued)
    row["hit_ratio"] = _ratio(decode["hits"] + hits, lookups)
    row["adjusted_hit_ratio"] = None if not lookups else 1 - (misses + issued) / lookups
    row["usefulness"] = _ratio(hits, issued)
    row["timely_usefulness"] = _ratio(decode["timely"], issued) if tally.timed else None
    row["wait_us_per_token"] = (
        _ratio((decode["wait_ns"] + decode["limbo_wait_ns"]) / 1000, tokens) if tally.timed else None
    )
    change = None
    if base_misses and base_tokens and tokens:
        change = (misses / tokens) / (base_misses / base_tokens) - 1
    row["misses_change_ratio"] = change
    for name in sorted(tally.unknown):  # a set: its own order is another in every process
        row[name.replace("_ns", "_us")] = None
    row.update(_agreement(candidate, prefill))
    return row


def _agreement(candidate: Row, prefill: NDArray[np.bool_]) -> dict[str, Any]:
    """Picks made anew and kept, their drift, and the mass given up; all None under recorded routes."""
    names = (
        "picks_made",
        "picks_kept",
        "picks_kept_ratio",
        "picks_kept_first_ratio",
        "picks_kept_last_ratio",
    )
    row: dict[str, Any] = dict.fromkeys((*names, "given_up_mean_ratio", "given_up_p99_ratio"))
    if candidate.routes == "recorded":
        return row
    made, kept = candidate.tally.total("picks_made"), candidate.tally.total("picks_kept")
    row["picks_made"], row["picks_kept"], row["picks_kept_ratio"] = made, kept, _ratio(kept, made)
    tenths = drift(candidate.tally, prefill)
    if tenths:
        row["picks_kept_first_ratio"], row["picks_kept_last_ratio"] = tenths[0], tenths[-1]
    if candidate.given_up is not None:
        row["given_up_mean_ratio"] = candidate.given_up.mean()
        row["given_up_p99_ratio"] = candidate.given_up.p99()
    return row
