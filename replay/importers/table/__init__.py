"""Any table, CSV, Parquet or JSON lines, of one row a pick, or one row a token and layer.

``--map WHAT=COLUMN,..`` says which column holds what; without, columns of known names are taken, and the trace says
which. ``token`` and ``layer`` and ``expert`` are needed, ``session``, ``step``, ``phase``, ``rank``, ``weight``,
``outcome`` and ``domain`` are read where they are there. ``expert=e*`` takes columns e0, e1, .. as the picks of a row.

- Time is the order of sessions, and of tokens in a session: each token is a window, the prompt tokens of a session
  (``phase``) are one. With ``step`` each forward step is a window instead.
- Rows in another order are sorted on the full key; token numbers that start over, where no column tells sessions,
  begin a session.
- A list in a text column is read whichever way it is written: ``[3, 1]``, ``3 1``, ``3;1``.
"""

from __future__ import annotations

from pathlib import Path

from replay.importers import Imported, Request
from replay.importers.counted import refuse_counts
from replay.importers.routed.log import convert_log
from replay.importers.table.log import TableLog

OPTIONS = ("model", "experts", "top_k", "expert_bytes", "prompt", "columns")


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a table.

    Parameters
    ----------
    source : Path
        The file: Parquet, JSON lines, or CSV.
    destination : Path
        The trace's folder.
    request : Request
        Columns, model, experts, top-k, size of an expert, prompt, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        A column is missing, something in the table cannot be kept as it is, or the destination is taken; nothing is
        written then.
    """
    refuse_counts(source)
    return convert_log(TableLog(source, request), destination, request)
