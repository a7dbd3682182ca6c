"""Routed experts that vLLM returned: arrays of one request a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from replay.errors import InputError
from replay.importers import Request
from replay.importers.array_file import Array, arrays
from replay.importers.counted import counts_only, refuse_counts
from replay.importers.routed.cells import DECODE, PREFILL, UNKNOWN, Cells, table_cells
from replay.importers.routed.log import Log
from replay.importers.routed.provenance import file_hash
from replay.importers.routed.survey import IDS

PADDING = "of a last token, which has no forward pass"
_FILES = 2**20  # most files of a folder
_SHIFT = 40  # bits of a row's number in a place
_PROMPT = ("prompt_token_ids", "prompt_ids")
_OUTPUT = ("output_token_ids", "completion_token_ids", "token_ids")
_ROUTED = ("routed_experts", "completion_routed_experts")
_READ = {
    "",
    "request_id",
    "prompt_routed_experts",
    "slot_mapping",
    "block_table",
    *_PROMPT,
    *_OUTPUT,
    *_ROUTED,
}


@dataclass
class _Part:
    """Rows of one phase, in time: blocks of [n, layers, k], and how many rows at the front are a prompt's."""

    blocks: Iterator[np.ndarray]
    prompt: int | None


class ReturnedLog(Log):
    """Arrays of routed experts, one request a file; a batch [requests, rows, layers, k] is several."""

    format = "vllm"
    engine = "vLLM"
    place = "row"
    zero_filled = True
    ordinals = True

    def __init__(self, path: Path, request: Request):
        super().__init__(path, request)
        self._files = self._listed()
        self._missing = self._short = 0
        self._ignored: set[str] = set()
        self._keyed = False

    def _listed(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        files = sorted(each for each in self.path.iterdir() if each.suffix in (".npy", ".npz"))
        if not files or len(files) > _FILES:
            raise InputError(f"{self.path}: expected 1 to {_FILES} npy or npz files, found {len(files)}")
        return files

    def sha256(self) -> str:
        """Hash the file; of a folder, the hashes of its files."""
        if not self.path.is_dir():
            return file_hash(self.path)
        return hashlib.sha256("\n".join(map(file_hash, self._files)).encode()).hexdigest()

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a row of a file."""
        return InputError(f"{self._files[line >> _SHIFT]}: row {line & 2**_SHIFT - 1}: {text}")

    def cells(self) -> Iterator[Cells]:
        """Read the requests."""
        self._missing = self._short = 0
        self.phased = True
        session = step = 0
        for number, path in enumerate(self._files):
            refuse_counts(path)
            found = arrays(path)
            self._ignored |= found.keys() - _READ
            row = 1 + (number << _SHIFT)
            for part in self._requests(path, found):
                self.phased &= part.prompt is not None
                at = 0
                for block in part.blocks:
                    ids = self._ids(path, block)
                    yield self._cells(ids, row, step, session, at, part.prompt)
                    row, at, step = row + len(ids), at + len(ids), step + len(ids)
                session += 1
                step += 1

    def _cells(
        self, ids: np.ndarray, line: int, step: int, session: int, at: int, prompt: int | None
    ) -> Cells:
        """Make the lists of some rows; those of the prompt are one step."""
        rows = at + np.arange(len(ids))
        early = rows < (prompt or 0)
        phase = np.where(early, PREFILL, DECODE if prompt is not None else UNKNOWN)
        self.read += ids.shape[0] * ids.shape[1]
        return table_cells(
            ids,
            line=line,
            step=np.where(early, step - at, step - at + rows),
            session=session,
            phase=phase,
            token=rows,
        )

    def _requests(self, path: Path, found: dict[str, Array]) -> Iterator[_Part]:
        """Find the requests of a file."""
        routed = next((found[name] for name in (*_ROUTED, "") if name in found), None)
        prompt = found.get("prompt_routed_experts")
        if routed is None and prompt is None:
            raise InputError(f"{path}: expected an array routed_experts, found {', '.join(sorted(found))}")
        for each in (routed, prompt):
            if each is not None:
                self._check(each)
        if prompt is not None:
            yield self._two(prompt, routed)
        elif routed is not None:
            yield from self._one(routed, found)

    def _check(self, array: Array) -> None:
        if array.dtype.kind == "f" and len(array.shape) == 3:
            raise counts_only(array.path, f"{array.dtype} of shape {list(array.shape)} are counts, not ids")
        if array.dtype.kind not in "iu" or len(array.shape) not in (3, 4):
            raise InputError(
                f"{array.where}: expected whole numbers of shape [rows, layers, k], found {array.dtype} of shape "
                f"{list(array.shape)}"
            )
        if not (1 <= array.shape[-1] <= IDS and 1 <= array.shape[-2] <= IDS):
            raise InputError(
                f"{array.where}: expected 1 to {IDS} layers and picks, found shape {list(array.shape)}"
            )

    def _two(self, prompt: Array, routed: Array | None) -> _Part:
        """Second generation: prompt and generated tokens apart."""
        if len(prompt.shape) != 3 or (routed is not None and routed.shape[1:] != prompt.shape[1:]):
            other = "none" if routed is None else list(routed.shape)
            raise InputError(
                f"{prompt.where}: expected shapes [rows, layers, k] that agree, found {list(prompt.shape)} and {other}"
            )

        def both() -> Iterator[np.ndarray]:
            yield from prompt.blocks()
            if routed is not None:
                yield from routed.blocks()

        return _Part(both(), prompt.shape[0])

    def _one(self, routed: Array, found: dict[str, Array]) -> Iterator[_Part]:
        """One array: by token, by KV slot or block, or a batch of requests."""
        keys = [name for name in ("slot_mapping", "block_table") if name in found]
        if keys:
            self._keyed = True
            table = self._by_slot(routed, found[keys[0]].read())
            yield self._tokens(iter([table]), len(table), found)
        elif len(routed.shape) == 4:
            for request in routed.blocks():
                for table in request:
                    yield self._tokens(iter([table]), len(table), {})
        else:
            yield self._tokens(routed.blocks(), routed.shape[0], found)

    def _by_slot(self, routed: Array, slots: np.ndarray) -> np.ndarray:
        """Third generation: put the tokens in the order of their slots, or the blocks in that of the table."""
        table = routed.read()
        if slots.dtype.kind not in "iu" or slots.ndim != 1:
            raise InputError(
                f"{routed.where}: expected one list of slots or blocks, found {slots.dtype} {slots.shape}"
            )
        outside = (slots < 0) | (slots >= len(table))
        if outside.any():
            raise InputError(
                f"{routed.where}: expected slots from 0 to {len(table) - 1}, found {slots[np.argmax(outside)]}"
            )
        table = table[slots]
        return table.reshape(-1, *table.shape[-2:])

    def _tokens(self, blocks: Iterator[np.ndarray], rows: int, found: dict[str, Array]) -> _Part:
        """Tell the prompt's rows: the last generated token has no forward pass, a cached prefix no rows."""
        counts = [
            next((found[name].shape[0] for name in names if name in found and found[name].shape), None)
            for names in (_PROMPT, _OUTPUT)
        ]
        prompt = counts[0] if counts[0] is not None else self.request.prompt
        if prompt is None:
            return _Part(blocks, None)
        if counts[0] is not None and counts[1] is not None:
            wanted = counts[0] + counts[1] - 1
            if rows < wanted:
                self._missing += 1
                self._short += wanted - rows
                prompt = max(0, prompt - (wanted - rows))
            elif rows > wanted:
                blocks = self._cut(blocks, wanted)
        return _Part(blocks, min(prompt, rows))

    def _cut(self, blocks: Iterator[np.ndarray], rows: int) -> Iterator[np.ndarray]:
        """Leave out rows beyond those that had a forward pass."""
        at = 0
        for block in blocks:
            kept = block[: max(0, rows - at)]
            at += len(block)
            lost = (len(block) - len(kept)) * block.shape[1]
            if lost:
                self.read += lost
                self.removed[PADDING] += lost
            if len(kept):
                yield kept

    def _ids(self, path: Path, block: np.ndarray) -> np.ndarray:
        """Widen the ids; the largest unsigned number is -1."""
        if block.dtype == np.uint8 and (block == 255).any():
            if self.request.experts is None:
                raise InputError(f"{path}: 255 in uint8 may be expert 255 or none (-1); give --experts")
            if self.request.experts > 255:
                return block.astype(np.int64)
        if block.dtype.kind == "u":
            null = block == np.iinfo(block.dtype).max
            ids = np.where(null, 0, block).astype(np.int64)
            ids[null] = -1
        else:
            ids = block.astype(np.int64)
        if ids.shape[-1] > 2:
            self._refuse_counts(path, ids)
        return ids

    def _refuse_counts(self, path: Path, ids: np.ndarray) -> None:
        """Refuse numbers that repeat in most lists: counts an expert, not ids."""
        lists = ids.reshape(-1, ids.shape[-1])
        lists = lists[(lists > 0).any(axis=1)]
        ordered = np.sort(lists, axis=1)
        again = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
        if len(lists) and 2 * int(again.sum()) > len(lists):
            raise counts_only(
                path, f"{again.sum()} of {len(lists)} lists repeat a number: counts an expert, not ids"
            )

    def remarks(self) -> list[str]:
        """Say what was missing."""
        notes = []
        if self._missing:
            notes.append(
                f"{self._missing} requests have {self._short} rows fewer than tokens: a cached prefix, taken from the "
                "front of the prompt"
            )
        if self._keyed:
            notes.append(
                "rows were kept by KV slot: put in the order of the tokens; a slot reused meanwhile is wrong"
            )
        if self._ignored:
            notes.append(f"arrays ignored: {', '.join(sorted(self._ignored))}")
        if len(self._files) > 1:
            notes.append(f"{len(self._files)} files, each a session, in the order of their names")
        return notes
