"""A table as a source of routed lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from replay.errors import InputError
from replay.importers import Request
from replay.importers.routed.cells import MISS, NOT_KNOWN, UNKNOWN, Cells, join
from replay.importers.routed.log import Log
from replay.importers.routed.phase import phase_codes
from replay.importers.routed.picks import Lists, Picks
from replay.importers.table.columns import Column, match_columns
from replay.importers.table.frame import Frame, Ragged
from replay.importers.table.order import Order
from replay.importers.table.parquet import open_rows

CUT = "cut short by the file's end"
_SORTED = 2**25  # most rows and picks that are sorted in memory
_TOKENS = 2**40  # tokens count up to here
_KEY = frozenset({"session", "step", "token", "layer"})


class TableLog(Log):
    """A table, its columns matched."""

    format = "table"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._rows = open_rows(path)
        self.place = self._rows.place
        self._columns = match_columns(path, self._rows.names, request.columns)
        self.phased = "phase" in self._columns
        self.whole_steps = "step" in self._columns
        self._sessions: dict[str | None, int] = {}
        self._domains: dict[str, int] = {}

    @cached_property
    def _order(self) -> Order:
        """Look at the keys of all rows."""
        order = Order(self.whole_steps)
        wanted: dict[str, Column] = {what: each for what, each in self._columns.items() if what in _KEY}
        for frame in self._rows.frames(wanted):
            order.add(*self._keys(frame))
        order.finish("session" in self._columns)
        return order

    def _keys(self, frame: Frame) -> tuple[np.ndarray, ...]:
        """Session, step, token and layer of each row."""
        zeros = np.zeros(len(frame), np.int64)
        token, layer, step = frame.whole["token"], frame.whole["layer"], frame.whole.get("step", zeros)
        for name, values in (("token", token), ("step", step)):
            self.refuse(
                frame.line,
                (values < 0) | (values >= _TOKENS),
                lambda at, name=name, values=values: f"expected a {name} from 0, found {values[at]}",  # type: ignore[misc]
            )
        session = zeros
        if "session" in frame.text:
            names = frame.text["session"].tolist()
            session = np.array(
                [self._sessions.setdefault(name, len(self._sessions)) for name in names], np.int64
            )
        return session, step, token, layer

    def cells(self) -> Iterator[Cells]:
        """Read the lists in the order of time."""
        state = _State()
        blocks = self._sorted() if self._order.shuffled else self._blocks()
        lists = Lists(self.refuse)
        for block in blocks:
            if isinstance(block, Picks):
                for cells, _ in lists.add(block):
                    yield self._numbered(cells, state)
            else:
                yield self._numbered(block, state)
        for cells, _ in lists.finish(cut=bool(self._rows.cut)):
            yield self._numbered(cells, state)
        self.domains = list(self._domains)
        if self._rows.cut:
            self.read += 1
            self.removed[CUT] = 1

    def _blocks(self) -> Iterator[Picks | Cells]:
        for frame in self._rows.frames(self._columns):
            yield self._block(frame)

    def _sorted(self) -> Iterator[Picks | Cells]:
        """Hold all rows and sort them on the full key."""
        parts = list(self._limited())
        if parts and isinstance(parts[0], Picks):
            picks = [each for each in parts if isinstance(each, Picks)]
            whole = Picks.join(picks)
            rank = np.zeros(len(whole), np.int64) if whole.rank is None else whole.rank
            yield whole.take(
                np.lexsort((whole.line, rank, whole.layer, whole.token, whole.session, whole.step))
            )
        elif parts:
            cells = join([each for each in parts if isinstance(each, Cells)])
            yield cells.take(np.lexsort((cells.line, cells.layer, cells.token, cells.session, cells.step)))

    def _limited(self) -> Iterator[Picks | Cells]:
        held = 0
        for block in self._blocks():
            held += len(block) + (len(block.experts) if isinstance(block, Cells) else 0)
            if held > _SORTED:
                raise InputError(
                    f"{self.path}: not in the order of time, and more than {_SORTED} rows to sort in memory; sort it "
                    "by session, token, layer (and rank), and import it again"
                )
            yield block

    def _block(self, frame: Frame) -> Picks | Cells:
        """Make picks, or lists, of some rows."""
        session, step, token, layer = self._keys(frame)
        phase = np.full(len(frame), UNKNOWN)
        if "phase" in frame.text:
            phase = phase_codes(frame.text["phase"], frame.line, self.refuse)
        domain = None
        if "domain" in frame.text:
            names = frame.text["domain"].tolist()
            domain = np.array(
                [-1 if n is None else self._domains.setdefault(n, len(self._domains)) for n in names]
            )
        expert, weight, outcome = (frame.picks.get(what) for what in ("expert", "weight", "outcome"))
        if isinstance(expert, Ragged):
            return Cells(
                line=frame.line, step=step, session=session, phase=phase, token=token, layer=layer,
                offsets=expert.offsets, experts=expert.values, weights=self._beside(frame, expert, weight, "weight"),
                outcome=self._outcome(frame, self._beside(frame, expert, outcome, "outcome")), domain=domain,
            )  # fmt: skip
        for what, values in (("weight", weight), ("outcome", outcome)):
            if isinstance(values, Ragged):
                raise InputError(
                    f"{self.path}: {what} holds lists, but expert one number a row; map another column"
                )
        assert expert is not None and not isinstance(weight, Ragged) and not isinstance(outcome, Ragged)
        return Picks(
            line=frame.line, run=np.zeros(len(frame), np.int64), step=step, session=session, phase=phase, token=token,
            layer=layer, expert=expert, rank=frame.whole.get("rank"), weight=weight,
            outcome=self._outcome(frame, outcome), domain=domain,
        )  # fmt: skip

    def _beside(
        self, frame: Frame, expert: Ragged, values: np.ndarray | Ragged | None, what: str
    ) -> np.ndarray | None:
        """Check that a list stands beside each list of experts, of the same length."""
        if values is None:
            return None
        if not isinstance(values, Ragged):
            values = Ragged(values, np.arange(len(values) + 1))
        own, other = values.lengths, expert.lengths
        both = (own > 0) & (other > 0)
        self.refuse(
            frame.line, both & (own != other), lambda at: f"expected {other[at]} of {what}, found {own[at]}"
        )
        filled = np.full(len(expert.values), np.nan if what == "weight" else NOT_KNOWN)
        filled[np.repeat(both, other)] = values.values[np.repeat(both, own)]
        return filled

    def _outcome(self, frame: Frame, values: np.ndarray | None) -> np.ndarray | None:
        if values is None:
            return None
        wrong = ~np.isin(values, (MISS, 1, 2, NOT_KNOWN, -1))
        if wrong.any():
            raise InputError(f"{self.path}: expected outcomes 0, 1, 2 or 255, found {values[wrong][0]}")
        return np.where(values == -1, NOT_KNOWN, values).astype(np.int64)

    def _numbered(self, cells: Cells, state: _State) -> Cells:
        """Number steps and sessions: a step is what the table calls one, else a token."""
        self.read += len(cells)
        if len(cells) == 0:
            return cells
        if self.whole_steps:
            token = cells.token + _TOKENS * cells.session if len(self._sessions) > 1 else cells.token
            keys = np.stack([cells.step])
            cells.token = token
        else:
            keys = np.stack([cells.session, cells.token, cells.phase])
        before = np.concatenate(
            [keys[:, :1] - 1 if state.keys is None else state.keys[:, None], keys[:, :-1]], axis=1
        )
        begins = (keys != before).any(axis=0)
        if not self.whole_steps and self._order.restarts:
            tokens = np.append(cells.token[0] if state.keys is None else state.keys[1], cells.token[:-1])
            layers = np.append(-1 if state.keys is None else state.layer, cells.layer[:-1])
            over = (cells.token < tokens) | ((cells.token == tokens) & (cells.layer < layers))
            cells.session = state.sessions + np.cumsum(over)
            state.sessions = int(cells.session[-1])
            begins |= over
        cells.step = state.step + np.cumsum(begins)
        state.keys, state.step, state.layer = keys[:, -1], int(cells.step[-1]), int(cells.layer[-1])
        return cells

    def remarks(self) -> list[str]:
        """Say which columns were taken, and what became of the order."""
        notes = []
        guessed = [f"{what}={each.names[0]}" for what, each in self._columns.items() if not each.given]
        if guessed:
            notes.append(f"columns taken by their names: {', '.join(guessed)}; --map says otherwise")
        read = {name for each in self._columns.values() for name in each.names}
        ignored = [name for name in self._rows.names if name not in read]
        if ignored:
            notes.append(f"columns ignored: {', '.join(ignored)}")
        if self._order.shuffled:
            notes.append("the rows were in no order of time: sorted by session, token and layer")
        if self._order.restarts:
            notes.append(f"token numbers start over {self._order.restarts} times: each begins a session")
        return notes


class _State:
    """What numbering carries from block to block."""

    def __init__(self) -> None:
        self.keys: np.ndarray | None = None
        self.step = -1
        self.layer = -1
        self.sessions = 0
