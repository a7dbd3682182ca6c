"""The trace as ``moe-decode-jsonl``: what ``replay import jsonl`` reads back to the same tables, but for ``reads``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow.parquet as pq

from replay.importers.jsonl.event import COUNTERS
from replay.importers.jsonl.header import FORMAT, VERSION
from replay.trace import Chunk, Lists, Scores, Trace

_HELD = ("candidates", "router_scores", "residents", "counters", "timing", "drafts")


def export(trace: Trace, file: IO[str]) -> tuple[str, ...]:
    """Write a trace.

    Parameters
    ----------
    trace : Trace
    file : text file
        Open for writing.

    Returns
    -------
    tuple of str
        What the format does not hold.
    """
    _line(file, _header(trace))
    names = ["selections", *(name for name in _HELD if trace.has(name))]
    for chunk in trace.chunks(names, {"selections": ("weights", "outcome")}):
        layers = _Chunk(trace, chunk)
        for window in range(chunk.w0, chunk.w1):
            _line(file, layers.window(window))
            for event in layers.events(window):
                _line(file, event)
    notes = [f"the table {name} has no place in the format" for name in trace.tables if name == "reads"]
    extra = [f"{info.name}.{name}" for info in trace.tables.values() for name in info.extra]
    return (*notes, *([f"columns of other recorders left out: {', '.join(extra)}"] if extra else []))


def _line(file: IO[str], value: dict[str, Any]) -> None:
    file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n")


def _header(trace: Trace) -> dict[str, Any]:
    raw = trace.meta.raw
    sizes, classes = trace.sizes, trace.classes
    header = {"format": FORMAT, "version": VERSION, "model": raw["model"]}
    if trace.has("experts"):
        header |= {"expert_bytes": sizes.tolist(), "size_class": classes.tolist()}
    else:
        header["expert_bytes"] = raw["expert_bytes"]
    if any(_is_half(trace, name) for name in ("candidates", "router_scores")):
        header["score_type"] = "float16"
    return header | {name: raw.get(name) for name in ("router", "policy", "io", "engine", "source")}


def _is_half(trace: Trace, name: str) -> bool:
    if not trace.has(name):
        return False
    kind = pq.ParquetSchema.to_arrow_schema(trace.tables[name].metadata.schema).field("scores").type
    return str(kind.value_type) == "halffloat"


class _Chunk:
    """Looks rows of a chunk up by window and layer."""

    def __init__(self, trace: Trace, chunk: Chunk):
        self._trace = trace
        self._chunk = chunk
        self._layers = trace.meta.layers
        self._places = {
            name: _places(table.window, table.layer, self._layers, chunk.w0)
            for name, table in (("candidates", chunk.candidates), ("router_scores", chunk.router_scores))
            if table is not None
        }
        if chunk.residents is not None:
            own = chunk.residents
            self._places["residents"] = _places(own.window, own.layer, self._layers, chunk.w0)
        for name in ("counters", "timing"):
            if name in chunk.tables:
                table = chunk.tables[name]
                self._places[name] = _places(table["window"], table["layer"], self._layers, chunk.w0)

    def window(self, number: int) -> dict[str, Any]:
        """Make the line of a window."""
        windows = self._trace.windows
        phase = ("prefill" if windows.prefill[number] else "decode") if windows.recorded[number] else None
        value: dict[str, Any] = {"window": number, "session": int(windows.session[number]), "phase": phase}
        value["rows"] = int(windows.rows[number])
        if windows.domain is not None and windows.domain[number] is not None:
            value["domain"] = windows.domain[number]
        if windows.output_hash is not None and windows.hashed is not None and windows.hashed[number]:
            value["output_hash"] = int(windows.output_hash[number])
        drafts = self._chunk.tables.get("drafts")
        if drafts is not None:
            own = drafts["window"] == number
            if own.any():
                pairs = zip(
                    drafts["p"][own].tolist(), drafts["matched"][own].astype(bool).tolist(), strict=True
                )
                value["drafts"] = [[p, matched] for p, matched in pairs]
        return value

    def events(self, number: int) -> Iterator[dict[str, Any]]:
        """Make the lines of its layers."""
        chunk = self._chunk
        first = int(chunk.row_start[number - chunk.w0])
        stop = int(chunk.row_start[number - chunk.w0 + 1])
        assert chunk.selections is not None
        for layer in range(self._layers):
            lists = np.arange(first, stop) * self._layers + layer
            event: dict[str, Any] = {"layer": layer, "experts": _taken(chunk.selections, lists)}
            if chunk.weights is not None:
                weights = _taken(Lists(chunk.weights, chunk.selections.offsets), lists)
                event["weights"] = [None if any(w != w for w in each) else each for each in weights]
            if chunk.outcome is not None:
                event["outcome"] = _taken(Lists(chunk.outcome, chunk.selections.offsets), lists)
            at = (number - chunk.w0) * self._layers + layer
            for name, key in (("router_scores", "router_experts"), ("candidates", "candidate_experts")):
                own = self._places.get(name, {}).get(at)
                if own is not None:
                    event |= _scores(getattr(chunk, name), own, name, key)
            self._tables(event, at)
            yield event

    def _tables(self, event: dict[str, Any], at: int) -> None:
        own = self._places.get("residents", {}).get(at)
        if own is not None and self._chunk.residents is not None:
            event["residents"] = _taken(self._chunk.residents.experts, own)[0]
        own = self._places.get("counters", {}).get(at)
        if own is not None:
            table = self._chunk.tables["counters"]
            values = {name: table[name][own[0]].item() for name in COUNTERS if name in table}
            event["counters"] = {name: value for name, value in values.items() if value == value}
        own = self._places.get("timing", {}).get(at)
        if own is not None:
            table = self._chunk.tables["timing"]
            event |= {name: table[name][own[0]].item() for name in ("pre_us", "post_us")}


def _places(window: np.ndarray, layer: np.ndarray, layers: int, w0: int) -> dict[int, np.ndarray]:
    """Rows of a table by window and layer."""
    key = (window - w0) * layers + layer
    order = np.argsort(key, kind="stable")
    keys, starts = np.unique(key[order], return_index=True)
    return dict(zip(keys.tolist(), np.split(order, starts[1:]), strict=True))


def _taken(lists: Lists, which: np.ndarray) -> list[list[Any]]:
    return [lists.values[lists.offsets[at] : lists.offsets[at + 1]].tolist() for at in which.tolist()]


def _scores(table: Scores, own: np.ndarray, name: str, key: str) -> dict[str, Any]:
    """Scores of an event, a row each; -inf as null."""
    found = []
    for row in _taken(Lists(table.scores, table.offsets), own):
        found.append([None if score == -np.inf else score for score in row])
    event: dict[str, Any] = {name: found}
    if table.experts is not None:
        event[key] = _taken(Lists(table.experts, table.offsets), own)
    if table.issued_after is not None:
        after = table.issued_after[own].tolist()
        event["issued_after"] = after[0] if len(set(after)) == 1 else after
    return event
