"""What is left of a family's gain where time means nothing: the control ``shuffled`` (semantics 8)."""

from __future__ import annotations

from typing import Any

import polars as pl

from replay.spec.grammar import parse

SURVIVES = 0.9
"""Share of a gain that may be left on shuffled windows before it is flagged."""


def survivors(table: pl.DataFrame) -> list[dict[str, Any]]:
    """What is left of every family's gain on shuffled windows.

    Parameters
    ----------
    table : polars.DataFrame
        Points, of recorded and shuffled windows.

    Returns
    -------
    list of dict
        family, policy (its best point), gain, shuffled, left, flagged; ``left`` is None where there is no gain.
    """
    found = []
    none = {
        (row["windows"], row["policy"].partition("+")[2]): row["misses"]
        for row in table.filter(pl.col("kind") == "none").to_dicts()
    }
    mine = table.filter(pl.col("kind") == "family")
    for (family,), rows in mine.group_by(["family"], maintain_order=True):
        best = (
            rows.filter(pl.col("windows") == "recorded")
            .sort("misses", maintain_order=True)
            .row(0, named=True)
        )
        eviction = str(parse(best["policy"]).evict)
        twin = rows.filter((pl.col("windows") == "shuffled") & (pl.col("policy") == best["policy"]))
        gains = [
            1 - misses / none[name, eviction] if none[name, eviction] else 0.0
            for name, misses in (("recorded", best["misses"]), ("shuffled", twin["misses"][0]))
        ]
        left = gains[1] / gains[0] if gains[0] > 0 else None
        flagged = left is not None and left >= SURVIVES
        found.append(
            {"family": family, "policy": best["policy"], "gain": gains[0], "shuffled": gains[1], "left": left,
             "flagged": flagged}
        )  # fmt: skip
    return found
