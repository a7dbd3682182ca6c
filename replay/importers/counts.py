"""How often each expert was picked, from files that only count: what ``static:train=FILE`` learns from.

The layers of such a file are the model's, or count the MoE layers; they are matched with a trace's by ``layer_ids``
where it has them, else one by one where both have as many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from replay.errors import InputError
from replay.importers.array_file import arrays
from replay.importers.counted import IKU1, kind_of
from replay.importers.gguf import read_floats, read_tensors
from replay.importers.routed.survey import IDS

_COUNTS = re.compile(r"blk\.(\d{1,5})\.ffn_(gate_up|gate|up|down)_exps\.weight\.counts")
_ORGANS = ("gate_up", "gate", "up", "down")
_MOST = 2**62  # largest sum
_CELLS = 2**26  # most experts of a file


@dataclass(frozen=True)
class Counts:
    """Counts of each layer.

    Attributes
    ----------
    path : Path
        Where they are from.
    experts : int
        Experts of a layer.
    layers : dict of numpy.ndarray of int64, [experts]
        By the layer's number in the file.
    """

    path: Path
    experts: int
    layers: dict[int, np.ndarray]

    def matched(self, layers: int, experts: int, layer_ids: tuple[int, ...] | None) -> np.ndarray:
        """Arrange the counts as a trace numbers its experts.

        Parameters
        ----------
        layers, experts : int
            Shape of the trace.
        layer_ids : tuple of int or None
            Number of each of its layers in the model.

        Returns
        -------
        numpy.ndarray of int64, [layers * experts]

        Raises
        ------
        InputError
            The shapes do not match.
        """
        if self.experts != experts:
            raise InputError(
                f"{self.path}: counts {self.experts} experts a layer; expected {experts}, as the trace has"
            )
        numbers = sorted(self.layers)
        if layer_ids is not None and set(layer_ids) <= self.layers.keys():
            chosen = list(layer_ids)
        elif len(numbers) == layers:
            chosen = numbers
        else:
            raise InputError(
                f"{self.path}: counts layers {numbers[0]} to {numbers[-1]}, {len(numbers)} of them; expected the "
                f"{layers} layers of the trace"
            )
        return np.concatenate([self.layers[number] for number in chosen])


def read_counts(path: Path) -> Counts:
    """Read a file of counts.

    Parameters
    ----------
    path : Path
        MoE-Infinity npy, llama.cpp imatrix (GGUF), or colibri usage history.

    Returns
    -------
    Counts

    Raises
    ------
    InputError
        None of these, cut, or with a number that is no count.
    """
    kind = kind_of(path)
    if kind == "npy":
        return _of_npy(path)
    if kind == "imatrix":
        return _of_imatrix(path)
    if kind == "coli_usage":
        return _of_usage(path)
    raise InputError(
        f"{path}: neither a trace's folder nor a file of counts (npy [n, layers, experts], imatrix in GGUF, or "
        ".coli_usage)"
    )


def _checked(path: Path, values: np.ndarray) -> np.ndarray:
    """Make whole numbers of counts that some engines keep as floats."""
    with np.errstate(invalid="ignore"):
        wrong = ~((values >= 0) & (values < _MOST))
    if wrong.any():
        raise InputError(f"{path}: expected counts from 0, found {values[wrong][0]}")
    return np.rint(values).astype(np.int64)


def _of_npy(path: Path) -> Counts:
    array = arrays(path)[""]
    if array.dtype.kind not in "iuf" or len(array.shape) not in (2, 3):
        raise InputError(
            f"{path}: expected counts of shape [n, layers, experts], found {array.dtype} of shape {list(array.shape)}"
        )
    layers, experts = array.shape[-2:]
    if not (1 <= layers <= IDS and 1 <= experts <= IDS and layers * experts <= _CELLS):
        raise InputError(f"{path}: expected 1 to {IDS} layers and experts, found shape {list(array.shape)}")
    total = np.zeros((layers, experts), np.float64)
    if len(array.shape) == 2:
        total += array.read()
    else:
        for block in array.blocks():
            total += block.sum(axis=0, dtype=np.float64)
    return Counts(path, experts, dict(enumerate(_checked(path, total))))


def _of_imatrix(path: Path) -> Counts:
    found: dict[int, tuple[int, np.ndarray]] = {}
    for tensor in read_tensors(path):
        match = _COUNTS.fullmatch(tensor.name)
        if match and tensor.size > 1:
            layer, rank = int(match[1]), _ORGANS.index(match[2])
            if layer not in found or rank < found[layer][0]:
                found[layer] = rank, _checked(path, read_floats(path, tensor))
    experts = {len(values) for _, values in found.values()}
    if len(experts) != 1 or max(experts) > IDS:
        raise InputError(
            f"{path}: expected counts of each expert (blk.N.ffn_*_exps.weight.counts), found none alike"
        )
    return Counts(path, experts.pop(), {layer: values for layer, (_, values) in found.items()})


def _of_usage(path: Path) -> Counts:
    with path.open("rb") as file:
        if file.read(4) == IKU1:
            layers, experts = np.frombuffer(file.read(8).ljust(8, b"\0"), "<u4").tolist()
            if not (1 <= layers <= IDS and 1 <= experts <= IDS and layers * experts <= _CELLS):
                raise InputError(
                    f"{path}: expected 1 to {IDS} layers and experts, found {layers} and {experts}"
                )
            data = file.read(min(4 * layers * experts, path.stat().st_size))
            if len(data) < 4 * layers * experts:
                raise InputError(f"{path}: the file is cut short; copy it again")
            table = np.frombuffer(data, "<u4").reshape(layers, experts).astype(np.int64)
            return Counts(path, experts, dict(enumerate(table)))
    return _of_triples(path)


def _of_triples(path: Path) -> Counts:
    """Read lines ``layer expert count``; a layer below 0 is a header: -1 has the shape, -2 the version."""
    found: dict[tuple[int, int], int] = {}
    stated: tuple[int, int] | None = None
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(256), b""), 1):
            words = raw.split()
            try:
                layer, expert, count = (int(word) for word in words)
            except ValueError:
                if not words:
                    continue
                raise InputError(
                    f"{path}: line {number}: expected layer, expert and count, found {raw[:40]!r}"
                ) from None
            if layer == -1:
                stated = expert, count
            elif layer >= 0:
                if layer >= IDS or not 0 <= expert < IDS or not 0 <= count < 2**40 or len(found) > _CELLS:
                    raise InputError(f"{path}: line {number}: no layer, expert and count: {raw[:40]!r}")
                found[layer, expert] = found.get((layer, expert), 0) + count
    experts = stated[1] if stated else 1 + max((expert for _, expert in found), default=0)
    if not 1 <= experts <= IDS or any(expert >= experts for _, expert in found):
        raise InputError(f"{path}: counts an expert that its header's {experts} experts do not have")
    # a row of its own, one beyond the model's layers, counts the draft head's experts
    kept = {layer for layer, _ in found if stated is None or layer < stated[0]}
    if not kept:
        raise InputError(f"{path}: no counts in it")
    layers = {layer: np.zeros(experts, np.int64) for layer in sorted(kept)}
    for (layer, expert), count in found.items():
        if layer in layers:
            layers[layer][expert] = count
    return Counts(path, experts, layers)
