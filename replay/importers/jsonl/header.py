"""The header line and the lines of windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from replay.errors import InputError
from replay.importers import Request

FORMAT, VERSION = "moe-decode-jsonl", 1
_IDS = 2**16
_CELLS = 2**26
_SECTIONS = ("router", "policy", "io", "engine")
_HEADER = {"format", "version", "model", "expert_bytes", "size_class", "score_type", "source", *_SECTIONS}
_WINDOW = {"window", "session", "phase", "rows", "domain", "output_hash", "drafts"}


@dataclass
class Header:
    """What the first line says.

    Attributes
    ----------
    path : Path
        The file.
    layers, experts, top_k : int
    meta : dict
        trace.json, but for ``source`` and the tables.
    source : dict
        What the header says of where it is from.
    half : bool
        Whether scores are stored as float16.
    tables : pyarrow.Table or None
        The table ``experts``, where sizes or classes differ.
    notes : list of str
    """

    path: Path
    layers: int
    experts: int
    top_k: int
    meta: dict[str, Any]
    source: dict[str, Any]
    half: bool
    tables: pa.Table | None
    notes: list[str] = field(default_factory=list)

    def wrong(self, line: int, text: str) -> InputError:
        """Make the error of a line."""
        return InputError(f"{self.path}: line {line}: {text}")


def is_whole(value: Any, low: int, high: int) -> bool:
    """Say whether a JSON value is a whole number in a range."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def read_header(path: Path, first: tuple[int, dict[str, Any]] | None, request: Request) -> Header:
    """Read the header.

    Parameters
    ----------
    path : Path
        The file.
    first : tuple of int and dict, or None
        Its first line.
    request : Request
        Model and size of an expert, where the header says none.

    Returns
    -------
    Header

    Raises
    ------
    InputError
        It is not as the format says.
    """
    line, value = first or (1, {})

    def wrong(text: str) -> InputError:
        return InputError(f"{path}: line {line}: {text}")

    if value.get("format") != FORMAT or value.get("version") != VERSION:
        raise wrong(
            f'expected a header with "format": "{FORMAT}", "version": {VERSION}; see schemas/README.md'
        )
    model = value.get("model")
    if not isinstance(model, dict):
        raise wrong("expected model with name, layers, experts and top_k")
    shape: list[Any] = [model.get(name) for name in ("layers", "experts", "top_k")]
    if (
        not all(is_whole(each, 1, _IDS) for each in shape)
        or shape[2] > shape[1]
        or shape[0] * shape[1] > _CELLS
    ):
        raise wrong(f"expected layers, experts and top_k from 1 to {_IDS}, found {shape}")
    layers, experts, top_k = shape
    score_type = value.get("score_type", "float32")
    if score_type not in ("float16", "float32"):
        raise wrong(f"expected score_type float16 or float32, found {str(score_type)[:40]!r}")
    for name in (*_SECTIONS, "source"):
        if value.get(name) is not None and not isinstance(value[name], dict):
            raise wrong(f"expected {name} as an object or null, found {str(value[name])[:40]}")
    ignored = sorted(value.keys() - _HEADER)
    notes = [f"keys of the header ignored: {', '.join(ignored)}"] if ignored else []
    table, size = _sizes(value, layers, experts, request, wrong, notes)
    meta: dict[str, Any] = {"model": {"name": request.model or model.get("name") or path.stem}}
    meta["model"] |= {"layers": layers, "experts": experts, "top_k": top_k}
    if model.get("layer_ids") is not None:
        meta["model"]["layer_ids"] = model["layer_ids"]
    if size is not None:
        meta["expert_bytes"] = size
    meta |= {name: value.get(name) for name in _SECTIONS}
    meta["engine"] = meta["engine"] or {"name": "unknown", "version": "unknown", "config": {}}
    half = score_type == "float16"
    return Header(path, layers, experts, top_k, meta, value.get("source") or {}, half, table, notes)


def _sizes(
    value: dict[str, Any], layers: int, experts: int, request: Request, wrong: Any, notes: list[str]
) -> tuple[pa.Table | None, int | None]:
    """Sizes and classes: a table where they differ, else one size."""
    sizes = _each(value.get("expert_bytes"), "expert_bytes", layers, experts, (1, 2**63 - 1), wrong)
    classes = _each(value.get("size_class"), "size_class", layers, experts, (0, 255), wrong)
    if sizes is None:
        sizes = np.array(request.expert_bytes or 1)
        if request.expert_bytes is None:
            notes.append(
                "the size of an expert is not known: 1 byte stands for it, so bytes count experts; give --expert-bytes"
            )
    if sizes.ndim or classes is not None:
        return _experts(sizes, np.array(0) if classes is None else classes, layers, experts), None
    return None, int(sizes)


def _each(
    value: Any, name: str, layers: int, experts: int, span: tuple[int, int], wrong: Any
) -> np.ndarray | None:
    """Read one number for all, one a layer, or one an expert."""
    if value is None:
        return None
    low, high = span
    numbers = value if isinstance(value, list) else [value]
    flat = [each for part in numbers for each in (part if isinstance(part, list) else [part])]
    if not all(is_whole(each, low, high) for each in flat):
        raise wrong(f"expected {name} as whole numbers from {low}, found others")
    try:
        array = np.array(value, np.int64)
    except ValueError:
        array = np.empty(0, np.int64)
    if array.shape not in ((), (layers,), (layers, experts)):
        raise wrong(f"expected {name} as one number, {layers} (one a layer), or {layers} lists of {experts}")
    return array


def _experts(sizes: np.ndarray, classes: np.ndarray, layers: int, experts: int) -> pa.Table:
    columns: dict[str, np.ndarray] = {
        "layer": np.repeat(np.arange(layers), experts),
        "expert": np.tile(np.arange(experts), layers),
    }
    for name, values in (("bytes", sizes), ("size_class", classes)):
        values = values[:, None] if values.ndim == 1 else values
        columns[name] = np.broadcast_to(values, (layers, experts)).reshape(-1)
    return pa.table(columns)


def check_window(
    header: Header, line: int, value: dict[str, Any], number: int, ignored: set[str]
) -> dict[str, Any]:
    """Check the line of a window.

    Parameters
    ----------
    header : Header
    line : int
        Where it stands.
    value : dict
        The line.
    number : int
        The window's number.
    ignored : set of str
        Told of keys that are not read.

    Returns
    -------
    dict
        Session, phase, rows, and domain, output_hash and drafts where there.

    Raises
    ------
    InputError
        It is not as the format says.
    """
    ignored |= value.keys() - _WINDOW
    if not is_whole(value["window"], number, number):
        raise header.wrong(line, f"expected window {number}, found {str(value['window'])[:40]}")
    for name, low, high in (("session", 0, 2**32 - 1), ("rows", 1, 2**16 - 1), ("output_hash", 0, 2**64 - 1)):
        given = value.get(name)
        missing = given is None and name != "rows"
        if not missing and not is_whole(given, low, high):
            raise header.wrong(line, f"expected {name} from {low} to {high}, found {str(given)[:40]}")
    if value.get("phase") not in ("decode", "prefill", None):
        raise header.wrong(
            line, f"expected phase decode, prefill or null, found {str(value['phase'])[:40]!r}"
        )
    if not isinstance(value.get("domain"), str | None):
        raise header.wrong(line, f"expected domain as text, found {str(value['domain'])[:40]}")
    drafts = value.get("drafts")
    if drafts is not None:
        pairs = isinstance(drafts, list) and all(isinstance(each, list) and len(each) == 2 for each in drafts)
        if not pairs or not all(
            isinstance(p, int | float) and isinstance(matched, bool) for p, matched in drafts
        ):
            raise header.wrong(line, "expected drafts as a list of [probability, matched]")
    return {"session": 0} | {name: value[name] for name in _WINDOW if value.get(name) is not None}
