"""Which column holds what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.errors import InputError, nearest

KNOWN: dict[str, tuple[str, ...]] = {
    "session": ("session", "session_id", "request", "request_id", "req_id", "sequence", "seq_id", "conversation"),
    "step": ("window", "forward_pass", "forward_pass_id"),
    "token": ("token", "token_idx", "token_index", "tok", "position", "pos", "step", "scheduler_step"),
    "phase": ("phase", "stage"),
    "layer": ("layer", "layer_idx", "layer_id", "layer_index"),
    "rank": ("rank", "topk_rank"),
    "expert": ("expert", "experts", "expert_id", "expert_ids", "topk_ids", "selected_ids", "selected_experts",
               "requested_experts"),
    "weight": ("weight", "weights", "topk_weights", "gate_weights", "gate_weight", "gating_probs"),
    "outcome": ("outcome",),
    "domain": ("domain", "dataset"),
}  # fmt: skip
"""What a table is read for, and the names of columns that are taken for it, the likeliest first."""

_NEEDED = ("token", "layer", "expert")
_RAGGED = ("expert", "weight", "outcome")


@dataclass(frozen=True)
class Column:
    """The columns of one thing: one, or several that hold the picks of a row.

    Attributes
    ----------
    names : tuple of str
    given : bool
        Whether they were asked for.
    """

    names: tuple[str, ...]
    given: bool


def match_columns(path: Path, there: Sequence[str], asked: dict[str, str]) -> dict[str, Column]:
    """Find the columns of a table.

    Parameters
    ----------
    path : Path
        The table, for errors.
    there : sequence of str
        Its columns.
    asked : dict of str
        Column by what it holds, as asked for.

    Returns
    -------
    dict of Column
        By what they hold.

    Raises
    ------
    InputError
        Something is asked for that a table is not read for, or a column is not there.
    """
    found: dict[str, Column] = {}
    for what, name in asked.items():
        if what not in KNOWN:
            raise InputError(f"--map {what}={name}: a table is not read for {what!r}; {nearest(what, KNOWN)}")
        names = _several(there, name) if what in _RAGGED and name.endswith("*") else (name,) * (name in there)
        if not names:
            raise InputError(f"{path}: no column {name!r} for {what}; {nearest(name, there)}")
        found[what] = Column(names, True)
    taken = {name for column in found.values() for name in column.names}
    for what, names in KNOWN.items():
        if what not in found:
            free = next((name for name in names if name in there and name not in taken), None)
            if free is not None:
                found[what] = Column((free,), False)
                taken.add(free)
    for what in _NEEDED:
        if what not in found:
            known = ", ".join(there)
            raise InputError(
                f"{path}: which column holds the {what}? say --map {what}=COLUMN; there are {known}"
            )
    return found


def _several(there: Sequence[str], pattern: str) -> tuple[str, ...]:
    """Columns of one name and a number, in the order of the numbers."""
    form = re.compile(re.escape(pattern[:-1]) + r"(\d{1,5})")
    found = [(int(match[1]), name) for name in there for match in [form.fullmatch(name)] if match]
    return tuple(name for _, name in sorted(found))
