"""JSON lines of the ``VLLM_LOG_MOE`` patches: one routed list a line, after a line of ``meta``.

``{"type": "route", "req_id": .., "token_idx": .., "layer": .., "topk_ids": [..], "topk_weights": [..]}``

- Start-up profiling is no traffic: lists that repeat without a change, 16 times or more, with uniform weights or a
  power of two times, are left out, and so is every list equal to one of these.
- ``token_idx`` is one of three things. A *counter* over the log: it never falls, and every token is a window. A *row*
  of its forward pass: it restarts with each, and a pass is a window. A *position*: it restarts with each request,
  and every token is a window. With several layers a pass ends where the layer falls.
- Another ``meta`` in mid-file is another run, appended: it begins a session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from replay.importers import Request
from replay.importers.json_lines import JsonLines, numbers, whole_numbers
from replay.importers.routed.cells import UNKNOWN, Cells
from replay.importers.routed.log import Log

PROFILING = "of start-up profiling (the same list over and over), no traffic"
CUT = "cut short by the file's end"
_RUN = 16  # lists that repeat at least as often are looked at
_EVEN = 1e-3  # weights whose spread is at most this share are uniform
_HELD = 2**16  # equal lists held at once
_KEYS = 2**20  # keys counted
_LISTS = 2**15  # lists of a block
_READ = {"type", "req_id", "token_idx", "layer", "topk_ids", "topk_weights"}


@dataclass
class _Line:
    """One routed list."""

    line: int
    request: int
    token: int
    layer: int
    ids: tuple[int, ...]
    weights: tuple[float, ...] | None

    @property
    def value(self) -> tuple[Any, ...]:
        """What a profiling row repeats."""
        return self.layer, self.ids, self.weights


@dataclass
class _Seen:
    """What the first pass learned of ``token_idx``."""

    layers: set[int] = field(default_factory=set)
    requests: int = 0  # stretches of one request
    restarts: int = 0  # inside a request
    lone: int = 0  # stretches of one token between them
    length: int = 0  # of the run that is not over
    last: tuple[int, int, int] | None = None  # request, layer, token
    keys: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def add(self, each: _Line) -> None:
        """Count a list."""
        self.layers.add(each.layer)
        other = self.last is None or each.request != self.last[0]
        again = self.last is not None and each.token <= self.last[2]
        if other or again:
            self.requests += other
            self.restarts += again and not other
            self.lone += self.length == 1
            self.length = 0
        self.length += 1
        self.last = each.request, each.layer, each.token
        key = each.request, each.layer, each.token
        if key in self.keys or len(self.keys) < _KEYS:
            self.keys[key] += 1

    @property
    def kind(self) -> str:
        """``counter``, ``row`` or ``position``."""
        if not self.restarts:
            return "position" if self.requests > 1 and len(self.layers) == 1 else "counter"
        stretches = self.requests + self.restarts
        rows = len(self.layers) > 1 or 2 * (self.lone + (self.length == 1)) >= stretches
        return "row" if rows else "position"


class RouteLog(Log):
    """A log of routed lists."""

    format = "vllm"
    engine = "vLLM"

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._seen: _Seen | None = None
        self._requests: dict[str, int] = {}
        self._profiled: set[tuple[Any, ...]] = set()
        self._metas = 0
        self._other: Counter[str] = Counter()
        self._ignored: set[str] = set()

    def cells(self) -> Iterator[Cells]:
        """Read the lists."""
        self._requests, self._profiled, self._metas, self._other = {}, set(), 0, Counter()
        seen = _Seen()
        block: list[tuple[_Line, int]] = []
        step, last = -1, None
        for each in self._traffic():
            seen.add(each)
            if self._begins(last, each):
                step += 1
            last = each
            block.append((each, step))
            if len(block) == _LISTS:
                yield self._block(block)
                block = []
        if block:
            yield self._block(block)
        if self._seen is None:
            self._seen = seen
            self.whole_steps = seen.kind == "row"

    def _begins(self, last: _Line | None, each: _Line) -> bool:
        """Say whether a list begins a forward pass."""
        if last is None or each.request != last.request:
            return True
        kind = "row" if self._seen is None else self._seen.kind
        if kind == "counter" and self._seen is not None and len(self._seen.layers) > 1:
            return each.layer < last.layer
        if kind != "row" and each.layer == last.layer:
            return True
        return each.layer < last.layer or (each.layer == last.layer and each.token <= last.token)

    def _block(self, block: list[tuple[_Line, int]]) -> Cells:
        lines = [each for each, _ in block]
        count = len(lines)
        several = self._seen is not None and self._seen.kind == "counter" and len(self._seen.layers) > 1
        weighed = any(each.weights is not None for each in lines)
        weights = (
            [w for each in lines for w in (each.weights or [np.nan] * len(each.ids))] if weighed else None
        )
        return Cells(
            line=np.array([each.line for each in lines], np.int64),
            step=np.array([step for _, step in block], np.int64),
            session=np.array([each.request for each in lines], np.int64),
            phase=np.full(count, UNKNOWN),
            token=np.array([-1 if several else each.token for each in lines], np.int64),
            layer=np.array([each.layer for each in lines], np.int64),
            offsets=np.append(0, np.cumsum([len(each.ids) for each in lines])),
            experts=np.array([expert for each in lines for expert in each.ids], np.int64),
            weights=None if weights is None else np.array(weights, np.float64),
        )

    def _traffic(self) -> Iterator[_Line]:
        """Leave out profiling: hold a stretch of equal lists until it is over."""
        held: list[_Line] = []
        for each in self._lines():
            if held and (each.value != held[-1].value or each.token <= held[-1].token):
                yield from self._judged(held)
                held = []
            held.append(each)
            if len(held) == _HELD:
                yield from self._judged(held)
                held = []
        yield from self._judged(held)

    def _judged(self, held: list[_Line]) -> list[_Line]:
        if not held:
            return held
        count = len(held)
        weights = held[0].weights
        uniform = (
            weights is not None and len(weights) > 1 and max(weights) - min(weights) <= _EVEN * max(weights)
        )
        if count >= _RUN and (uniform or count & (count - 1) == 0):
            self._profiled.add(held[0].value)
        if held[0].value not in self._profiled:
            return held
        self.removed[PROFILING] += count
        self.torn = True
        return []

    def _lines(self) -> Iterator[_Line]:
        """Read and check the lines."""
        file = JsonLines(self.path)
        for line, value in file.objects():
            kind = value.get("type", "route")
            if kind == "meta":
                self._meta(value)
            elif kind != "route":
                self._other[str(kind)[:40]] += 1
            else:
                self.read += 1
                yield self._line(line, value)
        if file.cut:
            self.read += 1
            self.removed[CUT] = 1

    def _meta(self, value: dict[str, Any]) -> None:
        """Take the shape; another one begins another run."""
        self._metas += 1
        self._requests = {f"{self._metas} {name}": number for name, number in self._requests.items()}
        for name, attribute in (("num_experts", "experts"), ("top_k", "top_k")):
            found = value.get(name)
            if isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= 2**16:
                setattr(self, attribute, found)
        if isinstance(value.get("model_id"), str):
            self.model = value["model_id"]
        self.config = {name: str(value[name]) for name in ("vllm_version", "device", "seed") if name in value}

    def _line(self, line: int, value: dict[str, Any]) -> _Line:
        for name in ("token_idx", "layer"):
            found = value.get(name)
            if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**40:
                raise self.wrong(line, f"expected a whole number from 0 in {name}, found {str(found)[:40]!r}")
        if not isinstance(value.get("topk_ids"), list):
            raise self.wrong(line, f"expected a list topk_ids, found {str(value.get('topk_ids'))[:40]!r}")
        self._ignored |= value.keys() - _READ
        ids = whole_numbers(value["topk_ids"], lambda text: self.wrong(line, text), "topk_ids")
        weights = value.get("topk_weights")
        if weights is not None:
            if not isinstance(weights, list) or len(weights) != len(ids):
                raise self.wrong(line, f"expected {len(ids)} topk_weights, found {str(weights)[:40]!r}")
            weights = tuple(numbers(weights, lambda text: self.wrong(line, text), "topk_weights").tolist())
        request = self._requests.setdefault(str(value.get("req_id", "")), len(self._requests))
        return _Line(line, request, value["token_idx"], value["layer"], tuple(ids.tolist()), weights)

    def remarks(self) -> list[str]:
        """Say what ``token_idx`` and ``req_id`` turned out to be."""
        notes = []
        if self._metas > 1:
            notes.append(f"{self._metas - 1} further meta lines: runs were appended; each begins a session")
        seen = self._seen
        if seen is not None:
            notes.append(
                {
                    "counter": "token_idx counts over the whole log: forward passes are not told apart",
                    "row": f"token_idx restarts {seen.restarts} times, with each forward pass: a pass is a window",
                    "position": f"token_idx restarts {seen.restarts} times, with a request: a token is a window",
                }[seen.kind]
            )
            most = max(seen.keys.values(), default=0)
            if most > 1:
                notes.append(
                    f"(req_id, layer, token_idx) repeats up to {most} times: taken in the order of the lines"
                )
            if len(seen.layers) == 1:
                notes.append(f"one layer only ({min(seen.layers)}): of the others nothing is known")
        if len(self._requests) == 1:
            notes.append("req_id is always the same: requests are not told apart")
        if self._other:
            notes.append(f"lines of other types passed over: {', '.join(sorted(self._other))}")
        if self._ignored:
            notes.append(f"keys ignored: {', '.join(sorted(self._ignored))}")
        return notes
