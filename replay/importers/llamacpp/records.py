"""The three layouts of one layer of one step a record: text, JSON lines, and binary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from replay.importers import Request
from replay.importers.json_lines import JsonLines, whole_numbers
from replay.importers.llamacpp.events import CUT, Event, EventLog

_LINE = 2**26  # longest line of text


class TextLog(EventLog):
    """Text: lines ``route <step> <layer> <k> <n_tokens> <expert>:<slot> ..``; other lines are passed over."""

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._other = 0

    def events(self) -> Iterator[Event]:
        """Read the lines."""
        self._other = 0
        with self.path.open("rb") as file:
            number = 0
            while raw := file.readline(_LINE + 1):
                number += 1
                if len(raw) > _LINE:
                    raise self.wrong(number, f"longer than {_LINE} bytes")
                words = raw.split()
                if not words or words[0] != b"route":
                    self._other += bool(words)
                    continue
                event = self._event(number, words)
                if event is None and raw.endswith(b"\n"):
                    raise self.wrong(
                        number, "expected route <step> <layer> <k> <n_tokens> and k*n_tokens expert:slot"
                    )
                if event is None:
                    self.read += 1
                    self.removed[CUT] = 1
                    return
                yield event

    def _event(self, line: int, words: list[bytes]) -> Event | None:
        """Read one line; None where it is not whole."""
        try:
            step, layer, width, tokens = (int(word) for word in words[1:5])
            self.check_shape(line, layer, tokens, width)
            pairs = np.array([word.split(b":") for word in words[5:]], np.int64)
        except (ValueError, OverflowError):
            return None
        if pairs.shape != (width * tokens, 2):
            return None
        return Event(line, step, layer, tokens, width, pairs[:, 0], pairs[:, 1])

    def remarks(self) -> list[str]:
        """Say what was passed over."""
        notes = super().remarks()
        return [*notes, f"{self._other} lines that are no route lines passed over"] if self._other else notes


class BinaryLog(EventLog):
    """Binary records of little-endian int32: layer, n_tokens, k, then the ids of each token."""

    place = "record"

    def events(self) -> Iterator[Event]:
        """Read the records."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            number = 0
            while head := file.read(12):
                number += 1
                if len(head) == 12:
                    layer, tokens, width = np.frombuffer(head, "<i4").tolist()
                    self.check_shape(number, layer, tokens, width)
                    body = file.read(min(4 * tokens * width, size))
                if len(head) < 12 or len(body) < 4 * tokens * width:
                    self.read += 1
                    self.removed[CUT] = 1
                    return
                yield Event(number, None, layer, tokens, width, np.frombuffer(body, "<i4").astype(np.int64))


class JsonLog(EventLog):
    """JSON lines of one layer of one step: ``experts`` and ``slots``, or ``expert_ids`` and ``slot_ids``."""

    _STEPS = ("step", "seq", "graph_seq")
    _READ = {
        "layer",
        "n_tokens",
        "n_expert_used",
        "experts",
        "expert_ids",
        "slots",
        "slot_ids",
        "schema",
        *_STEPS,
    }

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._ignored: set[str] = set()

    def events(self) -> Iterator[Event]:
        """Read the lines."""
        lines = JsonLines(self.path)
        for line, value in lines.objects():
            self._ignored |= value.keys() - self._READ
            yield self._event(line, value)
        if lines.cut:
            self.read += 1
            self.removed[CUT] = 1

    def _event(self, line: int, value: dict[str, Any]) -> Event:
        names = [name for name in ("experts", "expert_ids") if name in value]
        if len(names) != 1 or "layer" not in value:
            raise self.wrong(
                line, f"expected layer and experts (or expert_ids), found {', '.join(value) or 'none'}"
            )
        layer = self._whole(line, value, "layer")
        told = [name for name in self._STEPS if name in value]
        step = self._whole(line, value, told[0]) if told else None
        width = self._whole(line, value, "n_expert_used") if "n_expert_used" in value else None
        items = value[names[0]]
        nested = isinstance(items, list) and items and isinstance(items[0], list)
        tokens = self._whole(line, value, "n_tokens") if "n_tokens" in value else len(items) if nested else 1
        self.check_shape(line, layer, tokens, width)
        ids = self._flat(line, items, names[0])
        widths = {len(each) if isinstance(each, list) else -1 for each in items} if nested else set()
        if nested and (len(items) != tokens or len(widths) > 1):
            raise self.wrong(line, f"expected {tokens} lists of one length in {names[0]}, found others")
        slots = None
        for name in ("slots", "slot_ids"):
            if value.get(name) is not None:
                slots = self._flat(line, value[name], name)
                if len(slots) != len(ids):
                    raise self.wrong(
                        line, f"expected as many {name} as {names[0]}, found {len(slots)} and {len(ids)}"
                    )
        return Event(line, step, layer, tokens, len(ids) // tokens if nested else width, ids, slots)

    def _whole(self, line: int, value: dict[str, Any], name: str) -> int:
        found = value[name]
        if not isinstance(found, int) or isinstance(found, bool) or abs(found) >= 2**62:
            raise self.wrong(line, f"expected a whole number in {name}, found {str(found)[:40]!r}")
        return found

    def _flat(self, line: int, items: Any, name: str) -> np.ndarray:
        """Flatten a list, or a list of lists."""
        if not isinstance(items, list):
            raise self.wrong(line, f"expected a list in {name}, found {str(items)[:40]!r}")
        flat = [each for item in items for each in (item if isinstance(item, list) else [item])]
        return whole_numbers(flat, lambda text: self.wrong(line, text), name)

    def remarks(self) -> list[str]:
        """Say which keys were not read."""
        notes = super().remarks()
        return [*notes, f"keys ignored: {', '.join(sorted(self._ignored))}"] if self._ignored else notes
