"""Router logits that transformers returned (``output_router_logits``), saved as npz: ``layer_<n>`` [rows, experts].

- The picks are recomputed: the ``--top-k`` largest, ties to the lowest id. The logits are kept as router scores.
- Some model families return probabilities: rows from 0 to 1 that sum to 1. Their logarithm is kept, which ranks alike
  and weighs alike. Rows from 0 to 1 that do not are sigmoids, whose models add a bias before they pick: refused, as
  the picks cannot be told.
- ``None`` stands for a dense layer; the others' numbers are places in the returned tuple.
- An array as wide as the picks holds the selected scores only: refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.array_file import Array, arrays
from replay.importers.hf_logits.picks import Picks
from replay.importers.routed.provenance import file_hash, provenance
from replay.importers.routed.remarks import share
from replay.importers.routed.survey import IDS
from replay.importers.routed.window import MOST_ROWS
from replay.trace import TraceWriter

OPTIONS = ("model", "top_k", "expert_bytes", "prompt")

_NAME = re.compile(r"(?:layer|router_logits|arr)_(\d{1,5})")
_SCORES = 2**22  # scores of a block
_SUM = 0.02  # how far from 1 probabilities may sum
_CELLS = 2**26


@dataclass
class _Seen:
    """What the first pass found: lists that are probabilities, or sigmoids, of all."""

    lists: int = 0
    probable: int = 0
    sigmoid: int = 0


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert router logits.

    Parameters
    ----------
    source : Path
        The npz file.
    destination : Path
        The trace's folder.
    request : Request
        Top-k, which is needed; model, size of an expert, prompt, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        Something in the file cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    logits = Logits(source, request)
    with TraceWriter(destination, {}, request.force) as writer:
        logits.survey()
        picks = logits.write(writer)
        windows, rows = logits.windows.num_rows, logits.sequences * logits.rows
        notes = (*logits.notes(), *picks.notes(logits.top_k))
        result = Imported(
            str(destination), windows, rows, picks.lookups, rows * len(logits.layers), {}, notes, unit="lists"
        )
        writer.meta.update(
            logits.meta()
            | {
                "source": provenance("hf-logits", source, file_hash(source), result, request),
            }
        )
    return result


class Logits:
    """The arrays of a file, their shape checked.

    Parameters
    ----------
    source : Path
        The npz file.
    request : Request
        What it does not say.
    """

    def __init__(self, source: Path, request: Request):
        self.source = source
        self.request = request
        self.layers: dict[int, Array] = {}
        self.dense: list[int] = []
        self._others: list[str] = []
        for name, array in arrays(source, objects=True).items():
            match = _NAME.fullmatch(name)
            if match is None:
                self._others.append(name)
            elif array.dtype.hasobject and not array.shape:
                self.dense.append(int(match[1]))
            else:
                self.layers[int(match[1])] = array
        self.layers = dict(sorted(self.layers.items()))
        self.sequences, self.rows, self.experts = self._shape()
        self.top_k = self._top_k()
        self.windows = _windows(self.sequences, self.rows, request.prompt)
        self._seen = _Seen()

    def _shape(self) -> tuple[int, int, int]:
        """Sequences, rows of each, and experts: the same in every layer."""
        if not self.layers:
            raise InputError(
                f"{self.source}: expected arrays layer_<n> [rows, experts], found {', '.join(self._others) or 'none'}"
            )
        shapes = {array.shape for array in self.layers.values()}
        for number, array in self.layers.items():
            if array.dtype.kind != "f" or len(array.shape) not in (2, 3):
                raise InputError(
                    f"{array.where}: expected logits [rows, experts], found {array.dtype} of shape {list(array.shape)}"
                    + ("; these are ids, not logits" if array.dtype.kind in "iu" else "")
                )
            if len(shapes) > 1 and array.shape != next(iter(self.layers.values())).shape:
                raise InputError(
                    f"{array.where}: layer {number} has another shape than the first: {sorted(shapes)}"
                )
        shape = shapes.pop()
        sequences, rows, experts = shape if len(shape) == 3 else (1, *shape)
        if not (sequences and rows and 2 <= experts <= IDS and len(self.layers) * experts <= _CELLS):
            raise InputError(f"{self.source}: expected rows of 2 to {IDS} experts, found shape {list(shape)}")
        return sequences, rows, experts

    def _top_k(self) -> int:
        if self.request.top_k is None:
            raise InputError(f"{self.source}: logits do not say how many experts a token picks; give --top-k")
        if self.request.top_k >= self.experts:
            raise InputError(
                f"{self.source}: expected more than {self.request.top_k} scores a row, found {self.experts}: are these "
                "the scores of the selected experts only?"
            )
        return self.request.top_k

    def _blocks(self) -> Iterator[np.ndarray]:
        """Some rows of all layers at a time: [rows, layers, experts]."""
        few = max(1, _SCORES // (len(self.layers) * self.experts))
        flat = len(next(iter(self.layers.values())).shape) == 2
        for parts in zip(*(array.blocks(few if flat else 1) for array in self.layers.values()), strict=True):
            own = [part.reshape(-1, self.experts) for part in parts]
            for start in range(0, len(own[0]), few):
                yield np.stack([part[start : start + few] for part in own], axis=1)

    def survey(self) -> None:
        """Look at all scores: numbers, and logits or probabilities.

        Raises
        ------
        InputError
            NaN or +inf, sigmoids, or some of each.
        """
        at = 0
        for block in self._blocks():
            wrong = np.isnan(block) | (block == np.inf)
            if wrong.any():
                row, place, _ = np.argwhere(wrong)[0].tolist()
                raise InputError(
                    f"{list(self.layers.values())[place].where}: row {at + row + 1}: expected finite logits, or -inf "
                    "for a masked expert"
                )
            inside = ((block >= 0) & (block <= 1)).all(axis=2)
            whole = inside & (abs(block.sum(axis=2, dtype=np.float64) - 1) <= _SUM)
            self._seen.lists += inside.size
            self._seen.probable += int(whole.sum())
            self._seen.sigmoid += int((inside & ~whole).sum())
            at += len(block)
        self._judge()

    def _judge(self) -> None:
        seen = self._seen
        if seen.sigmoid == seen.lists or (seen.sigmoid and seen.sigmoid + seen.probable == seen.lists):
            raise InputError(
                f"{self.source}: {share(seen.sigmoid, seen.lists)} rows are from 0 to 1 and do not sum to 1: sigmoids, "
                "whose models add a bias before they pick; the picks cannot be told, save them beside the logits"
            )
        if 0 < seen.probable < seen.lists:
            raise InputError(
                f"{self.source}: {share(seen.probable, seen.lists)} rows are probabilities, the others are not; save "
                "one kind"
            )

    def write(self, writer: TraceWriter) -> Picks:
        """Write windows, picks and scores.

        Parameters
        ----------
        writer : TraceWriter

        Returns
        -------
        Picks
            What was counted.
        """
        writer.append("windows", self.windows)
        per_window = self.windows.column("rows").to_numpy()
        window = np.repeat(np.arange(len(per_window)), per_window)
        row = np.arange(len(window)) - np.repeat(np.cumsum(per_window) - per_window, per_window)
        picks = Picks(self.top_k)
        at = 0
        for block in self._blocks():
            scores = block if block.dtype == np.float16 else block.astype(np.float32)
            if self._seen.probable:
                with np.errstate(divide="ignore"):
                    scores = np.log(block.astype(np.float32))
            picks.append(writer, scores, window[at : at + len(block)], row[at : at + len(block)])
            at += len(block)
        return picks

    def meta(self) -> dict[str, Any]:
        """Make trace.json, but for its source and tables."""
        model: dict[str, Any] = {"name": self.request.model or self.source.stem, "layers": len(self.layers)}
        model |= {"experts": self.experts, "top_k": self.top_k}
        if self.dense:
            model["layer_ids"] = list(self.layers)
        return {
            "model": model,
            "expert_bytes": self.request.expert_bytes or 1,
            "router": {"protect": 0, "bonus": 0.0, "r1_bonus": 0.0, "draft_moce": False},
            "policy": None,
            "io": None,
            "engine": {"name": "transformers", "version": "unknown", "config": {}},
        }

    def notes(self) -> list[str]:
        """Say what to know of the trace."""
        notes = [
            "the picks were recomputed from the scores: a model that adds a bias, or limits groups, picks others"
        ]
        if self._seen.probable:
            notes.append(
                "the scores are probabilities (rows sum to 1): their logarithm is kept, which ranks alike"
            )
        if self.request.expert_bytes is None:
            notes.append(
                "the size of an expert is not known: 1 byte stands for it, so bytes count experts; give --expert-bytes"
            )
        if self.dense:
            notes.append(f"None for {len(self.dense)} layers: dense ones, left out")
        else:
            notes.append(
                "layers are places in the returned tuple; which layers of the model they are is not told"
            )
        if self.sequences == 1:
            notes.append(
                "sequences of a batch are not told apart in [rows, experts]: all rows are of one session"
            )
        if self.request.prompt is None:
            notes.append("prompt and generated tokens are not told apart: a row is a window, without a phase")
        if self._others:
            notes.append(f"arrays ignored: {', '.join(sorted(self._others))}")
        return notes


def _windows(sequences: int, rows: int, prompt: int | None) -> pa.Table:
    """Windows of all sequences: the prompt's rows are one, then each row; without a prompt no phase is known."""
    early = min(prompt or 0, rows)
    cuts = [min(MOST_ROWS, early - start) for start in range(0, early, MOST_ROWS)]
    own = np.array([*cuts, *[1] * (rows - early)], np.int64)
    phases = ["prefill"] * len(cuts) + [None if prompt is None else "decode"] * (rows - early)
    return pa.table(
        {
            "window": np.arange(sequences * len(own)),
            "session": np.repeat(np.arange(sequences), len(own)),
            "phase": pa.array(phases * sequences, pa.string()),
            "rows": np.tile(own, sequences),
        }
    )
