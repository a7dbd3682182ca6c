"""Windows gathered to rows of the trace's tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from replay.importers.jsonl.event import COUNTERS
from replay.importers.jsonl.header import Header


class Block:
    """Some windows on their way to the tables.

    Parameters
    ----------
    header : Header
        Shape of the model and type of the scores.

    Attributes
    ----------
    windows, lists, scores : int
        How much is in it.
    """

    def __init__(self, header: Header):
        self._header = header
        self.windows = self.lists = self.scores = 0
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._picks = {name: _Lists() for name in ("experts", "weights", "outcome")}
        self._scored = {name: _Scored() for name in ("candidates", "router_scores")}

    def add(self, number: int, window: dict[str, Any], events: list[dict[str, Any]]) -> None:
        """Take a whole window."""
        self.windows += 1
        rows = window["rows"]
        self.lists += rows * len(events)
        named = {name: window.get(name) for name in ("session", "phase", "rows", "domain", "output_hash")}
        self._put("windows", {"window": number, **named})
        for row in range(rows):
            for event in events:
                self._picks["experts"].add(event["experts"][row])
                for name in ("weights", "outcome"):
                    self._picks[name].add(event[name][row] if name in event else None)
                for name, scored in self._scored.items():
                    if name in event:
                        self.scores += scored.add(number, row, event, name)
        for event in events:
            key = {"window": number, "layer": event["layer"]}
            if "residents" in event:
                self._put("residents", key | {"experts": event["residents"]})
            if "counters" in event:
                self._put("counters", key | event["counters"])
            if "timing" in event:
                self._put("timing", key | dict(zip(("pre_us", "post_us"), event["timing"], strict=True)))
        for step, (p, matched) in enumerate(window.get("drafts", ())):
            self._put("drafts", {"window": number, "step": step, "p": p, "matched": matched})

    def _put(self, table: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Give the rows of each table."""
        yield "selections", self._selections()
        for name, rows in self._rows.items():
            yield name, pa.Table.from_pylist(rows, schema=_SCHEMAS[name])
        for name, scored in self._scored.items():
            if scored.keys:
                yield name, scored.table(np.float16 if self._header.half else np.float32)

    def _selections(self) -> pa.Table:
        layers = self._header.layers
        windows = self._rows["windows"]
        counts = np.array([each["rows"] for each in windows])
        starts = np.cumsum(counts) - counts
        row = np.arange(counts.sum()) - np.repeat(starts, counts)
        key = {
            "window": np.repeat([each["window"] for each in windows], counts * layers),
            "row": np.repeat(row, layers),
            "layer": np.tile(np.arange(layers), len(row)),
        }
        types = {"experts": pa.uint16(), "weights": pa.float32(), "outcome": pa.uint8()}
        return pa.table(key | {name: own.array(types[name]) for name, own in self._picks.items()})


class _Lists:
    """Lists one after another; some may be null."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.ends = [0]
        self.null: list[bool] = []

    def add(self, items: list[Any] | None) -> None:
        self.values += items or ()
        self.ends.append(len(self.values))
        self.null.append(items is None)

    def array(self, type: pa.DataType) -> pa.Array:
        offsets = pa.array(self.ends, pa.int32())
        mask = pa.array(self.null, pa.bool_()) if any(self.null) else None
        return pa.ListArray.from_arrays(offsets, pa.array(self.values, type), mask=mask)


class _Scored:
    """Rows of a table of scores."""

    def __init__(self) -> None:
        self.keys: list[tuple[int, ...]] = []
        self._scores: list[np.ndarray] = []
        self._ids: list[list[int] | None] = []

    def add(self, number: int, row: int, event: dict[str, Any], name: str) -> int:
        """Take a row; how many scores it has."""
        scores, ids = event[name]
        issued = (event["issued_after"][row],) if name == "candidates" else ()
        self.keys.append((number, row, event["layer"], *issued))
        self._scores.append(scores[row])
        self._ids.append(None if ids is None else ids[row])
        return len(scores[row])

    def table(self, kind: type) -> pa.Table:
        names = ("window", "row", "layer", "issued_after")
        columns: dict[str, Any] = dict(zip(names, np.array(self.keys, np.int64).T, strict=False))
        values = np.concatenate(self._scores)
        with np.errstate(over="ignore"):
            columns["scores"] = self._listed(
                pa.array(values.astype(kind)), [len(each) for each in self._scores]
            )
        if any(each is not None for each in self._ids):
            ids = list(chain.from_iterable(each or () for each in self._ids))
            columns["experts"] = self._listed(
                pa.array(ids, pa.uint16()), [len(each or ()) for each in self._ids]
            )
        return pa.table(columns)

    def _listed(self, values: pa.Array, lengths: list[int]) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


_KEY = [pa.field("window", pa.int64()), pa.field("layer", pa.int64())]
_SCHEMAS = {
    "windows": pa.schema(
        [pa.field(name, pa.int64()) for name in ("window", "session", "rows")]
        + [
            pa.field("phase", pa.string()),
            pa.field("domain", pa.string()),
            pa.field("output_hash", pa.uint64()),
        ]
    ),
    "residents": pa.schema([*_KEY, pa.field("experts", pa.list_(pa.uint16()))]),
    "counters": pa.schema(
        [*_KEY, *[pa.field(name, pa.float32() if name == "wait_us" else pa.int64()) for name in COUNTERS]]
    ),
    "timing": pa.schema([*_KEY, pa.field("pre_us", pa.float32()), pa.field("post_us", pa.float32())]),
    "drafts": pa.schema(
        [
            pa.field("window", pa.int64()),
            pa.field("step", pa.int64()),
            pa.field("p", pa.float64()),
            pa.field("matched", pa.bool_()),
        ]
    ),
}
