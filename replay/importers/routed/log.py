"""From a source of routed lists to a trace: one pass to learn its shape, a second to write.

An importer of routed lists subclasses :class:`Log` and hands it to :func:`convert_log`; what all of them share
(layers that never route, -1 and zero-filled lists, steps that are not whole, weights that are no numbers, what is not
known) is done and counted here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.routed.cells import PREFILL, UNKNOWN, Cells
from replay.importers.routed.provenance import describe, file_hash
from replay.importers.routed.remarks import remarks
from replay.importers.routed.sheet import append_windows
from replay.importers.routed.steps import Steps
from replay.importers.routed.survey import IDS, Survey
from replay.importers.routed.window import Shape
from replay.trace import TraceWriter

_CELLS = 2**26  # most experts that a trace may have
_LISTS = 2**15  # lists worked on at once


class Log(ABC):
    """A source of routed lists, read twice.

    Parameters
    ----------
    path : Path
        The file or folder.
    request : Request
        What it does not say of itself.

    Attributes
    ----------
    model, experts, top_k, expert_bytes
        What the source says of the model; None: nothing.
    read : int
        Routed lists read in this pass.
    removed : Counter
        Lists left out in this pass, by reason.
    domains : list of str
        Names behind ``Cells.domain``.
    config : dict of str
        What else the source says of the engine.
    """

    format = ""  # name of the importer
    engine = ""  # who wrote the source
    place = "line"  # what a place in the source is called
    zero_filled = False  # whether the source has a place for every layer, 0 where nothing was written
    ordinals = False  # whether its layers are counted without the dense ones
    phased = False  # whether it can tell prompt and generated tokens apart
    begins_at = 0  # largest position that a whole recording may begin at

    def __init__(self, path: Path, request: Request):
        self.path = path
        self.request = request
        self.model: str | None = None
        self.experts: int | None = None
        self.top_k: int | None = None
        self.expert_bytes: int | None = None
        self.read = 0
        self.torn = False  # whether lists were taken out, so that a row may lack some
        self.whole_steps = False  # whether its steps hold even where it has one layer only
        self.removed: Counter[str] = Counter()
        self.domains: list[str] = []
        self.config: dict[str, str] = {}

    @abstractmethod
    def cells(self) -> Iterator[Cells]:
        """Read the lists, in blocks, in the order they were made."""

    def remarks(self) -> list[str]:
        """Say, after the second pass, what to know of the trace."""
        return []

    def sha256(self) -> str:
        """Hash the source."""
        return file_hash(self.path)

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a place in the source."""
        return InputError(f"{self.path}: {self.place} {line}: {text}")

    def refuse(self, lines: np.ndarray, wrong: np.ndarray, text: Callable[[int], str]) -> None:
        """Raise for the first place of a mask."""
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.wrong(int(lines[at]), text(at))


def convert_log(log: Log, destination: Path, request: Request) -> Imported:
    """Write the trace of a log.

    Parameters
    ----------
    log : Log
        The source.
    destination : Path
        The trace's folder.
    request : Request
        What the source does not say, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the source cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    with TraceWriter(destination, {}, request.force) as writer:
        survey = Survey(log.refuse, log.zero_filled)
        for cells in _pieces(log.cells()):
            survey.add(cells)
        shape = _shape(log, survey, request)
        log.read, log.removed = 0, Counter()
        cleaner = Survey(log.refuse)
        steps = Steps(shape, log.refuse, log.torn, log.whole_steps)
        for cells in _pieces(_marked(log.cells(), request.prompt)):
            for windows in steps.add(cleaner.clean(cells)):
                append_windows(writer, shape, windows, steps.figures.windows, survey, log.domains)
        for windows in steps.finish():
            append_windows(writer, shape, windows, steps.figures.windows, survey, log.domains)
        figures = steps.figures
        if not figures.windows:
            raise InputError(f"{log.path}: no whole step in it; nothing to import")
        removed = {reason: count for reason, count in (log.removed + figures.removed).items() if count}
        result = Imported(
            str(destination), figures.windows, figures.rows, figures.lookups, log.read, removed,
            tuple(remarks(log, survey, shape, figures, request)), unit="lists",
        )  # fmt: skip
        writer.meta.update(describe(log, shape, result, request))
    return result


def _shape(log: Log, survey: Survey, request: Request) -> Shape:
    """Take what was asked for, else what the source says, else what was seen."""
    try:
        layer_ids = tuple(survey.layer_numbers())
    except InputError as problem:
        raise InputError(f"{log.path}: {problem}") from None
    experts = request.experts or log.experts or survey.highest + 1
    top_k = request.top_k or log.top_k or survey.widest
    if not (1 <= experts <= IDS and 1 <= top_k <= experts):
        raise InputError(
            f"{log.path}: expected 1 to {IDS} experts and 1 to experts picks, found {experts} experts, top-{top_k}"
        )
    if experts * len(layer_ids) > _CELLS:
        raise InputError(
            f"{log.path}: {len(layer_ids)} layers of {experts} experts are more than {_CELLS}; give --experts"
        )
    return Shape(layer_ids, experts, top_k)


def _pieces(blocks: Iterator[Cells]) -> Iterator[Cells]:
    """Cut large blocks: what is made of a list takes many times its room."""
    for cells in blocks:
        for start in range(0, len(cells), _LISTS):
            yield cells.take(slice(start, start + _LISTS)) if len(cells) > _LISTS else cells


def _marked(blocks: Iterator[Cells], prompt: int | None) -> Iterator[Cells]:
    """Mark the first steps of each session as its prompt, where the source tells no phase."""
    seen: Counter[int] = Counter()
    last: tuple[int, int] | None = None
    for cells in blocks:
        if prompt:
            begins = np.append(True, (np.diff(cells.step) != 0) | (np.diff(cells.session) != 0))
            if len(cells) and last == (int(cells.step[0]), int(cells.session[0])):
                begins[0] = False
            early = np.zeros(len(cells), bool)
            for session in np.unique(cells.session).tolist():
                own = cells.session == session
                ordinal = seen[session] + np.cumsum(begins[own])  # from 1
                early[own] = ordinal <= prompt
                seen[session] = int(ordinal[-1])
            cells.phase = np.where(early & (cells.phase == UNKNOWN), PREFILL, cells.phase)
            if len(cells):
                last = int(cells.step[-1]), int(cells.session[-1])
        yield cells
