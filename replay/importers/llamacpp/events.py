"""One layer of one step a record: steps, the rows of a prompt, a warm-up step, slots."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from replay.importers import Request
from replay.importers.routed.cells import HIT, MISS, UNKNOWN, Cells, join
from replay.importers.routed.log import Log
from replay.importers.routed.numbering import WARM_UP, without_warm_up

UNION = "of a prompt whose events have their experts only, not each token's"
CUT = "cut short by the file's end"
_LISTS = 2**16  # lists of a block
_MOST_TOKENS = 2**20  # of an event
_MOST_PICKS = 2**26  # of an event


@dataclass
class Event:
    """One layer of one step.

    Attributes
    ----------
    line : int
        Where it is from.
    step : int or None
        A number that never falls in a run, where told.
    layer, tokens : int
    width : int or None
        Picks of a token, where told.
    ids : numpy.ndarray of int64
        Token after token.
    slots : numpy.ndarray of int64, or None
        Slot of each pick, -1: not resident.
    """

    line: int
    step: int | None
    layer: int
    tokens: int
    width: int | None
    ids: np.ndarray
    slots: np.ndarray | None = None


class EventLog(Log):
    """What the three have in common: steps, prompt rows at the last layer, a warm-up step."""

    format = "llamacpp"
    engine = "llama.cpp"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._passes = 0
        self._single: Counter[int] = Counter()  # picks of events of one token, where not told
        self._widths: set[int] = set()  # and of a token in those of several
        self._slots = False
        self._restarts = 0

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Read the records."""

    def cells(self) -> Iterator[Cells]:
        """Read the lists."""
        self._passes += 1
        self._restarts = 0
        parts: list[Cells] = []
        held = 0
        begun = False
        for cells in self._placed():
            if held >= _LISTS and cells.step[0] != parts[-1].step[0]:
                block, begun = self._begun(join(parts), begun)
                yield block
                parts, held = [], 0
            parts.append(cells)
            held += len(cells)
        if parts:
            yield self._begun(join(parts), begun)[0]
        self.torn |= any(width < self._usual() for width in self._widths)

    def _begun(self, cells: Cells, begun: bool) -> tuple[Cells, bool]:
        if not begun:
            cells, stray = without_warm_up(cells, positions=False)
            self.removed[WARM_UP] += stray
        return cells, True

    def _placed(self) -> Iterator[Cells]:
        """Give each event its step and its rows: one with fewer than the step's first has the last of them."""
        step, session, last, tokens = -1, 0, 2**16, 0
        told: int | None = None
        for event in self.events():
            fallen = told is not None and event.step is not None and event.step < told
            if event.layer <= last or fallen:
                session += fallen
                self._restarts += fallen
                step, tokens = step + 1, event.tokens
            told = event.step
            if event.tokens > tokens:
                raise self.wrong(
                    event.line,
                    f"expected at most the {tokens} tokens of the step's first layer, found {event.tokens}",
                )
            last = event.layer
            self.read += event.tokens
            cells = self._cells(event, step, session, tokens - event.tokens)
            if cells is not None:
                yield cells

    def _cells(self, event: Event, step: int, session: int, first: int) -> Cells | None:
        width = self._width(event)
        if width is None:
            self.torn = True
            self.removed[UNION] += event.tokens
            return None
        outcome = None
        if event.slots is not None:
            self._slots = True
            outcome = np.where(event.slots < 0, MISS, HIT)
        rows = np.arange(event.tokens)
        return Cells(
            line=np.full(event.tokens, event.line),
            step=np.full(event.tokens, step),
            session=np.full(event.tokens, session),
            phase=np.full(event.tokens, UNKNOWN),
            token=first + rows,
            layer=np.full(event.tokens, event.layer),
            offsets=np.arange(event.tokens + 1) * width,
            experts=event.ids,
            outcome=outcome,
        )

    def _width(self, event: Event) -> int | None:
        """Picks of each token; None where the event has those of all of them together, each once."""
        width, odd = divmod(len(event.ids), event.tokens)
        if event.width is not None:
            if width == event.width and not odd:
                return width
            if event.tokens == 1 or len(event.ids) > event.width * event.tokens:
                raise self.wrong(
                    event.line,
                    f"expected {event.width} picks of {event.tokens} tokens, found {len(event.ids)}",
                )
            return None
        if event.tokens == 1:
            self._single[width] += self._passes == 1
            return width
        if odd:
            return None
        self._widths.add(width)
        return None if self._passes > 1 and width < self._usual() else width

    def _usual(self) -> int:
        """Picks of a token, as most events of one token have them; 0 where there is none."""
        return max(self._single, key=lambda width: (self._single[width], width), default=0)

    def check_shape(self, line: int, layer: int, tokens: int, width: int | None) -> None:
        """Refuse an event that no step can have, before anything is made of it."""
        for name, value, low, high in (
            ("a layer", layer, 0, 2**16 - 1),
            ("tokens", tokens, 1, _MOST_TOKENS),
            ("picks of a token", 1 if width is None else width, 1, 2**16),
        ):
            if not low <= value <= high:
                raise self.wrong(line, f"expected {name} from {low} to {high}, found {value}")
        if tokens * (width or 1) > _MOST_PICKS:
            raise self.wrong(line, f"{tokens} tokens of {width} picks are more than {_MOST_PICKS}")

    def remarks(self) -> list[str]:
        """Say what the steps and slots mean."""
        notes = ["sequences are not told apart: all windows are of one session"]
        if self._restarts:
            notes = [f"step numbers restart {self._restarts} times: each begins a session"]
        if self._slots:
            notes.append(
                "slots say what was resident: -1 is a miss, any other a hit; a read-ahead cannot be told from a hit"
            )
        return notes
