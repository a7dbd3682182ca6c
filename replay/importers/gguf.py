"""Tensors of a GGUF file: names, shapes and where each lies; everything is bounded by the file before it is read."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from replay.errors import InputError
from replay.importers.source import expect_file

F32 = 0
_TEXT = 2**24  # longest text
_ITEMS = 2**24  # most keys, tensors, or items of an array
_SCALARS = {
    0: 1,
    1: 1,
    2: 2,
    3: 2,
    4: 4,
    5: 4,
    6: 4,
    7: 1,
    10: 8,
    11: 8,
    12: 8,
}  # bytes of each type of value
_STRING, _ARRAY, _UINT32 = 8, 9, 4


@dataclass(frozen=True)
class Tensor:
    """A tensor: its name, dimensions, type, and the byte where it begins."""

    name: str
    dims: tuple[int, ...]
    type: int
    start: int

    @property
    def size(self) -> int:
        """Its numbers."""
        return math.prod(self.dims)


def read_tensors(path: Path) -> list[Tensor]:
    """List the tensors.

    Parameters
    ----------
    path : Path
        A GGUF file.

    Returns
    -------
    list of Tensor

    Raises
    ------
    InputError
        No GGUF file of version 2 or 3, cut, or damaged.
    """
    expect_file(path)
    with path.open("rb") as file:
        try:
            return _Reader(file, path.stat().st_size).tensors()
        except (ValueError, struct.error, UnicodeDecodeError) as problem:
            raise InputError(f"{path}: not a GGUF file that can be read: {problem}; copy it again") from None


def read_floats(path: Path, tensor: Tensor) -> np.ndarray:
    """Read a tensor of 32-bit floats.

    Parameters
    ----------
    path : Path
        The file.
    tensor : Tensor
        One of its tensors.

    Returns
    -------
    numpy.ndarray of float32, [size]

    Raises
    ------
    InputError
        It has another type, or the file is cut.
    """
    if tensor.type != F32:
        raise InputError(f"{path}: {tensor.name}: expected 32-bit floats, found type {tensor.type}")
    with path.open("rb") as file:
        file.seek(tensor.start)
        data = file.read(4 * tensor.size) if 4 * tensor.size <= path.stat().st_size else b""
    if len(data) < 4 * tensor.size:
        raise InputError(f"{path}: {tensor.name}: the file is cut short; copy it again")
    return np.frombuffer(data, "<f4")


class _Reader:
    """Reads the head of a file of a known size."""

    def __init__(self, file: IO[bytes], size: int):
        self._file = file
        self._size = size

    def tensors(self) -> list[Tensor]:
        magic, version, tensors, keys = self._unpack("<4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"expected GGUF version 2 or 3, found {magic!r} {version}")
        alignment = 32
        for _ in range(self._count(keys)):
            name, value = self._text(), self._value(self._unpack("<I")[0])
            if name == "general.alignment" and value:
                alignment = value
        found = []
        for _ in range(self._count(tensors)):
            name = self._text()
            dims = tuple(self._count(n) for n in self._unpack(f"<{min(self._unpack('<I')[0], 8)}Q"))
            found.append((name, dims, *self._unpack("<IQ")))
        start = -(-self._file.tell() // alignment) * alignment
        return [Tensor(name, dims, type, start + offset) for name, dims, type, offset in found]

    def _unpack(self, form: str) -> tuple:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _take(self, size: int) -> bytes:
        if size > self._size - self._file.tell():
            raise ValueError("it is cut short")
        return self._file.read(size)

    def _count(self, number: int) -> int:
        if number > _ITEMS:
            raise ValueError(f"{number} items are more than {_ITEMS}")
        return number

    def _text(self) -> str:
        (length,) = self._unpack("<Q")
        if length > _TEXT:
            raise ValueError(f"a text of {length} bytes")
        return self._take(length).decode("utf-8")

    def _value(self, type: int) -> int | None:
        """Read a value; only an unsigned 32-bit one is given, the others are passed over."""
        if type == _UINT32:
            return int(self._unpack("<I")[0])
        if type == _STRING:
            self._text()
        elif type == _ARRAY:
            item, length = self._unpack("<IQ")
            if item in _SCALARS:
                self._take(_SCALARS[item] * self._count(length))
            else:
                for _ in range(self._count(length)):
                    self._value(item)
        elif type in _SCALARS:
            self._take(_SCALARS[type])
        else:
            raise ValueError(f"a value of type {type}")
        return None
