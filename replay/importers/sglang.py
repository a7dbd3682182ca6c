"""SGLang's expert distribution recorder, mode ``per_token``: a ``.pt`` file of one rank.

- A record is one forward pass: ``topk_ids_of_layer`` [layers, tokens, 8], padded with -1. It is one window.
- The ids are of *physical* experts. The file keeps the last map to logical ones: it is applied, and where a row then
  picks an expert twice, experts were moved while it recorded, and the file is refused.
- There are no request ids and no scores. Eight picks a row are the most that the recorder keeps.
- The modes ``per_pass`` and ``stat`` only count.
- The file is loaded with torch's ``weights_only``: plain data and tensors, nothing that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.counted import counts_only, refuse_counts
from replay.importers.routed.cells import DECODE, PREFILL, UNKNOWN, Cells, table_cells
from replay.importers.routed.log import Log, convert_log
from replay.importers.routed.survey import IDS

OPTIONS = ("model", "experts", "top_k", "expert_bytes")

OTHER = "of another gatherer or rank"
_MODES = {1: PREFILL, 2: DECODE, 5: DECODE}  # extend, decode, verification of drafts
_KEPT = 8  # picks a row that the recorder keeps
_NEEDED = "topk_ids_of_layer"


def load_dump(path: Path) -> Any:
    """Load a ``.pt`` file: plain data and tensors only.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    object
        What is in it.

    Raises
    ------
    InputError
        torch is not installed, or the file holds anything else.
    """
    try:
        torch = import_module("torch")
    except ImportError:
        raise InputError(f"{path}: a .pt file needs torch to be read; pip install torch") from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises many kinds
        text = " ".join(str(problem).split())[:80]
        raise InputError(
            f"{path}: not a file of plain data and tensors ({type(problem).__name__}: {text}); nothing else is loaded"
        ) from None


class RecorderLog(Log):
    """A dump of the recorder."""

    format = "sglang"
    engine = "SGLang"
    place = "record"
    zero_filled = True
    phased = True

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        refuse_counts(path)
        dump = load_dump(path)
        self._records = self._checked(dump)
        self._map = self._mapped(dump)
        keys = Counter((str(each.get("gatherer_key")), str(each.get("rank"))) for each in self._records)
        self._own = min(keys, key=lambda key: (-keys[key], key), default=("", ""))
        self._modes: Counter[str] = Counter()
        if request.top_k is not None and request.top_k > _KEPT:
            raise InputError(
                f"{path}: the recorder keeps {_KEPT} picks of a row; of {request.top_k} the rest is lost, so events "
                "would want too few experts"
            )

    def _checked(self, dump: Any) -> list[dict[str, Any]]:
        """Find the records; refuse what only counts."""
        if isinstance(dump, dict) and "logical_count" in dump:
            raise counts_only(self.path, "mode stat holds counts of picks")
        records = dump.get("records") if isinstance(dump, dict) else None
        if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
            raise InputError(f"{self.path}: expected a dict with a list of records, as the recorder dumps it")
        if records and not any(_NEEDED in each for each in records):
            raise counts_only(self.path, "mode per_pass holds counts of picks a pass (record with per_token)")
        return records

    def _mapped(self, dump: dict[str, Any]) -> np.ndarray | None:
        """The last map of physical to logical experts, [layers, physical]; None where it changes nothing."""
        given = dump.get("last_physical_to_logical_map")
        if given is None:
            return None
        table = np.asarray(given)
        if table.ndim != 2 or table.dtype.kind not in "iu" or (table < 0).any() or (table >= IDS).any():
            raise InputError(
                f"{self.path}: expected last_physical_to_logical_map as whole numbers [layers, physical]"
            )
        self.experts = int(table.max()) + 1
        plain = (table == np.arange(table.shape[1])).all()
        return None if plain else table.astype(np.int64)

    def cells(self) -> Iterator[Cells]:
        """Read the records."""
        self._modes = Counter()
        step = 0
        for number, record in enumerate(self._records, 1):
            ids = self._ids(number, record)
            if (str(record.get("gatherer_key")), str(record.get("rank"))) != self._own:
                self.removed[OTHER] += ids.shape[0] * ids.shape[1]
                self.read += ids.shape[0] * ids.shape[1]
                continue
            if not len(ids):
                continue
            mode = record.get("forward_mode")
            phase = _MODES.get(mode, UNKNOWN) if isinstance(mode, int) else UNKNOWN
            if phase == UNKNOWN:
                self._modes[str(mode)] += 1
            rows = np.arange(len(ids))
            cells = table_cells(
                ids,
                line=number,
                step=np.full(len(ids), step),
                session=0,
                phase=np.full(len(ids), phase),
                token=rows,
            )
            cells.line = np.full(len(cells), number)
            self.read += len(cells)
            step += 1
            yield cells

    def _ids(self, number: int, record: dict[str, Any]) -> np.ndarray:
        """Logical ids of a record, [tokens, layers, picks]."""
        ids = np.asarray(record.get(_NEEDED, 0))
        if (
            ids.ndim != 3
            or ids.dtype.kind not in "iu"
            or not (1 <= ids.shape[0] <= IDS and 1 <= ids.shape[2] <= IDS)
        ):
            raise self.wrong(
                number, f"expected {_NEEDED} as whole numbers [layers, tokens, picks], found {ids.shape}"
            )
        ids = ids.astype(np.int64)
        if self._map is not None:
            ids = self._logical(number, ids)
        return ids.transpose(1, 0, 2)

    def _logical(self, number: int, ids: np.ndarray) -> np.ndarray:
        """Apply the map, layer by layer."""
        assert self._map is not None
        layers, physical = self._map.shape
        if len(ids) != layers:
            raise self.wrong(number, f"expected {layers} layers as the map has, found {len(ids)}")
        # rows that nobody wrote stay zeros or -1
        blank = (ids == 0).all(axis=2, keepdims=True) | (ids < 0)
        outside = ~blank & (ids >= physical)
        if outside.any():
            raise self.wrong(
                number, f"expected physical experts from 0 to {physical - 1}, found {ids[outside][0]}"
            )
        mapped = self._map[np.arange(layers)[:, None, None], np.where(blank, 0, ids)]
        distinct = np.sort(np.where(blank, -1 - np.arange(ids.shape[2]), mapped), axis=2)
        if (distinct[..., 1:] == distinct[..., :-1]).any():
            raise self.wrong(
                number,
                "two physical experts of one row are the same expert by the last map: experts were moved while it "
                "recorded, and the earlier maps are not kept; record without rebalancing",
            )
        return np.where(blank, ids, mapped)

    def remarks(self) -> list[str]:
        """Say what the recorder does not keep."""
        notes = [
            "no request ids: all windows are of one session, and a window's rows may be of several requests"
        ]
        if self._map is not None:
            notes.append(
                "ids are of physical experts, translated by the last map; had experts been moved before, those ids are "
                "wrong"
            )
        if self._modes:
            modes = ", ".join(f"{mode} ({count})" for mode, count in sorted(self._modes.items()))
            notes.append(f"forward modes that are neither extend nor decode have no phase: {modes}")
        if self.request.top_k is None:
            notes.append(f"the recorder keeps {_KEPT} picks of a row: a model with more lost the rest")
        return notes


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a per-token dump of SGLang's recorder.

    Parameters
    ----------
    source : Path
        The ``.pt`` file of one rank.
    destination : Path
        The trace's folder.
    request : Request
        Model, experts, top-k, size of an expert, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        torch is not installed, something in the file cannot be kept as it is, or the destination is taken; nothing
        is written then.
    """
    return convert_log(RecorderLog(source, request), destination, request)
