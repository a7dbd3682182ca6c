"""Importers: from what an engine already writes to a trace. One file a format, one line each in ``IMPORTERS``.

An importer's module has a function ``convert(source, destination, request) -> Imported``, and names in ``OPTIONS``
what of a request it reads besides licence, note and force. It reads columns by name, keeps what is unknown as
unknown, removes nothing without counting it, and leaves the destination whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path

from replay.errors import InputError, nearest

IMPORTERS: dict[str, str] = {
    "bigmoeonedge": "replay.importers.bigmoeonedge",
    "hf-logits": "replay.importers.hf_logits",
    "imp": "replay.importers.imp",
    "jsonl": "replay.importers.jsonl",
    "llamacpp": "replay.importers.llamacpp",
    "sglang": "replay.importers.sglang",
    "strata": "replay.importers.strata",
    "table": "replay.importers.table",
    "vllm": "replay.importers.vllm",
    "waste": "replay.importers.waste",
}
"""Module of each format's importer."""

COUNTS_ONLY = ("moe-infinity", "imatrix", "coli_usage")
"""Formats that say how often experts were picked, not when: no replay can come of them."""


@dataclass(frozen=True)
class Request:
    """What a file does not say of itself, and how to write the trace.

    Attributes
    ----------
    bytes : int or None
        The byte budget that the engine ran with; None: not known.
    licence : str or None
        The source's licence; None: not known.
    note : str or None
        Where the source is from, in words.
    force : bool
        Whether an old trace at the destination is replaced.
    model : str or None
        The model's name; None: what the source says, else the file's name.
    experts, top_k : int or None
        Experts of a layer, and picks of a row; None: what the source says, else what is in it.
    expert_bytes : int or None
        Size of an expert; None: what the source says, else 1 stands for it, with a note.
    prompt : int or None
        Tokens at each session's start that are its prompt, for a source that tells no phase.
    columns : dict of str
        Column of the source for each thing that a table is read for (``table`` only).
    """

    bytes: int | None = None
    licence: str | None = None
    note: str | None = None
    force: bool = False
    model: str | None = None
    experts: int | None = None
    top_k: int | None = None
    expert_bytes: int | None = None
    prompt: int | None = None
    columns: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, unknown in (
            ("expert_bytes", self.expert_bytes, "the size of an expert"),
            ("bytes", self.bytes, "the budget"),
        ):
            if value is not None and value < 1:
                raise InputError(
                    f"{_flag(name)} {value}: expected at least 1 byte; leave it out where {unknown} is not known"
                )


@dataclass(frozen=True)
class Imported:
    """What an import wrote, and what it left out.

    Attributes
    ----------
    path : str
        The trace.
    windows, rows, lookups : int
        Windows, rows of them, and unique experts wanted, summed over events.
    read : int
        Records read.
    removed : dict of int
        Records that are not in the trace, by reason.
    notes : tuple of str
        What to know of the trace, in words.
    unit : str
        What a record is: ``lines``, or ``lists`` (what one row of one layer was routed to).
    """

    path: str
    windows: int
    rows: int
    lookups: int
    read: int
    removed: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unit: str = "lines"

    def removed_text(self) -> str:
        """Say what was left out, each reason with its share.

        Examples
        --------
        >>> Imported("t", 1, 1, 1, 200, {"step below 0": 3}).removed_text()
        '3 of 200 (1.5%) step below 0'
        """
        parts = [
            f"{count} of {self.read} ({100 * count / self.read:.1f}%) {reason}"
            for reason, count in self.removed.items()
        ]
        return "; ".join(parts) or "none"


def importer(name: str) -> Callable[[Path, Path, Request], Imported]:
    """Load the importer of a format.

    Parameters
    ----------
    name : str
        The format's name.

    Returns
    -------
    function
        Its ``convert``.

    Raises
    ------
    InputError
        No importer has that name, or the format only counts.
    """
    if name in COUNTS_ONLY:
        raise InputError(
            f"{name} only counts how often each expert was picked, not when, so nothing can be replayed; pin by it "
            "instead: -p none+static:train=FILE"
        )
    if name not in IMPORTERS:
        raise InputError(f"no importer is called {name!r}; {nearest(name, IMPORTERS)}")
    convert: Callable[[Path, Path, Request], Imported] = import_module(IMPORTERS[name]).convert
    return convert


def refuse_unread(name: str, request: Request) -> None:
    """Refuse what a format's importer would not read.

    Parameters
    ----------
    name : str
        The format's name.
    request : Request
        What was asked for.

    Raises
    ------
    InputError
        The request gives something that the importer does not read.
    """
    options = import_module(IMPORTERS[name]).OPTIONS
    plain = Request()
    for each in fields(Request):
        if each.name in (*options, "licence", "note", "force"):
            continue
        if getattr(request, each.name) != getattr(plain, each.name):
            known = ", ".join(map(_flag, options)) or "none"
            raise InputError(f"{_flag(each.name)} says nothing to the importer {name}; it reads {known}")


def _flag(name: str) -> str:
    return "--map" if name == "columns" else f"--{name.replace('_', '-')}"
