"""Which traces may be pooled: a session counts once, and a mean is over one model.

Choices where the semantics are silent
--------------------------------------
- Two traces are the same where their tables ``selections`` are byte for byte the same: their sessions are not
  independent, whatever else the traces hold. So they are where trace.json says of both that they were cut from one
  table, and where one begins with the other's windows (the first 64, or as many as both have): rows and picks equal.
- Two models are the same where name, layers, experts and top_k are. Other expert sizes (another quantisation) are
  pooled and noted, as every difference is paired within a session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from replay.errors import InputError
from replay.trace import Chunk, Trace

FIRST = 64
"""Windows by which two traces are told apart."""


def pooled(traces: Sequence[Trace], mixed: bool = False) -> list[str]:
    """Refuse traces whose sessions may not be pooled.

    Parameters
    ----------
    traces : sequence of Trace
    mixed : bool
        Whether they may be of different models.

    Returns
    -------
    list of str
        What to know of the mixture.

    Raises
    ------
    InputError
        Two traces hold the same selections, or a part of them, or are of different models without ``mixed``.
    """
    _refuse_twice(traces)
    if not traces:
        return []
    base, found = traces[0], []
    for trace in traces[1:]:
        differs = _differs(base, trace)
        if differs and not mixed:
            raise InputError(
                f"{trace.path}: another model than {base.path}: {differs}; test each model by itself, or pool them "
                "with --mixed-models"
            )
        if differs:
            found.append(f"different models are pooled: {trace.path} has other {differs} than {base.path}")
        elif not np.array_equal(base.sizes, trace.sizes):
            found.append(f"{trace.path} has experts of other sizes than {base.path}")
    return found


def _refuse_twice(traces: Sequence[Trace]) -> None:
    """Refuse traces that hold, or begin with, the same windows."""
    seen: list[tuple[Trace, set[str], list[bytes]]] = []
    for trace in traces:
        own = trace.tables["selections"].sha256
        tables, begin = {own, *_cut_from(trace)}, list(_windows(trace)) if len(traces) > 1 else []
        for other, others, its_begin in seen:
            common = min(len(begin), len(its_begin))
            if own == other.tables["selections"].sha256:
                how = f"holds the same selections as {other.path}"
            elif tables & others:
                how = f"is cut from the same recording as {other.path}, or one from the other (trace.json, source.cut)"
            elif common and begin[:common] == its_begin[:common]:
                how = f"begins with the same windows as {other.path} (the first {common} are equal)"
            else:
                continue
            raise InputError(f"{trace.path}: {how}; its sessions would count twice: name each trace once")
        seen.append((trace, tables, begin))


def _cut_from(trace: Trace) -> Iterator[str]:
    """Hashes of the tables of selections that a trace says it was cut from."""
    told = trace.meta.source.get("cut")
    while isinstance(told, dict):
        hashes = told.get("sha256")
        if isinstance(hashes, dict) and isinstance(hashes.get("selections"), str):
            yield hashes["selections"]
        told = told.get("before")


def _windows(trace: Trace) -> Iterator[bytes]:
    """A digest of rows and picks of each of the first windows."""
    chunks = trace.chunks({"selections"}, max_rows=1024)
    return islice((each for chunk in chunks for each in _digests(chunk, trace.meta.layers)), FIRST)


def _digests(chunk: Chunk, layers: int) -> Iterator[bytes]:
    picks = chunk.selections
    assert picks is not None
    for start, stop in zip(chunk.row_start[:-1] * layers, chunk.row_start[1:] * layers, strict=True):
        ends = picks.offsets[start : stop + 1]
        lengths, values = np.diff(ends), picks.values[ends[0] : ends[-1]]
        yield blake2b(lengths.astype(np.int64).tobytes() + values.astype(np.int64).tobytes()).digest()


def _differs(base: Trace, other: Trace) -> str:
    """What of the model differs, with both figures."""
    names = ("name", "layers", "experts", "top_k")
    parts = [
        f"{name} {getattr(other.meta, name)!r} against {getattr(base.meta, name)!r}"
        for name in names
        if getattr(other.meta, name) != getattr(base.meta, name)
    ]
    return ", ".join(parts)
