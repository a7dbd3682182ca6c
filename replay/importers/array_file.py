"""Arrays of numpy files (npy, npz), streamed: the header is checked before anything is read, objects are refused."""

from __future__ import annotations

import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from replay.errors import InputError
from replay.importers.source import expect_file

NPY, ZIP = b"\x93NUMPY", b"PK"
_BLOCK = 2**22  # bytes read at once
_ROW = 2**28  # most bytes of one index of the first axis
_WHOLE = 2**30  # most bytes of an array that has to be read whole
_MEMBERS = 2**16  # most arrays of a file
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True)
class Array:
    """One array of a file, not read yet.

    Attributes
    ----------
    path : Path
        The file.
    member : str or None
        Its name inside an npz; None: the file is an npy.
    shape : tuple of int
    dtype : numpy.dtype
    fortran : bool
        Whether its last axis is the slowest.
    """

    path: Path
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @property
    def where(self) -> str:
        """The file and the array in it, for errors."""
        return f"{self.path}" + (f": {self.member.removesuffix('.npy')}" if self.member else "")

    def blocks(self, rows: int | None = None) -> Iterator[np.ndarray]:
        """Read along the first axis, some of it at a time, in the machine's byte order.

        Parameters
        ----------
        rows : int, optional
            How many at a time; as many as fit a block by default.

        Yields
        ------
        numpy.ndarray
            Some rows.

        Raises
        ------
        InputError
            The file is cut or damaged, or a row is too large.
        """
        if self.fortran and len(self.shape) > 1 or not self.shape:
            whole = self.read()
            for start in range(0, len(whole), rows) if rows and self.shape else (0,):
                yield whole[start : start + rows] if rows and self.shape else whole
            return
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        if row > _ROW:
            raise InputError(f"{self.where}: {row} bytes a row, more than {_ROW}; is this the right array?")
        step = rows or max(1, _BLOCK // max(row, 1))
        with _opened(self.path, self.member) as file:
            _header(file, self.where)
            for start in range(0, self.shape[0], step):
                count = min(step, self.shape[0] - start)
                data = self._take(file, count * row)
                yield self._native(data).reshape(count, *self.shape[1:])

    def read(self) -> np.ndarray:
        """Read it whole.

        Raises
        ------
        InputError
            It is cut, damaged, or too large to be held.
        """
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > _WHOLE:
            raise InputError(
                f"{self.where}: {size} bytes that have to be held whole, more than {_WHOLE}; write it in C order"
            )
        with _opened(self.path, self.member) as file:
            _header(file, self.where)
            data = self._take(file, size)
        return self._native(data).reshape(self.shape, order="F" if self.fortran else "C")

    def _take(self, file: IO[bytes], size: int) -> bytes:
        """Read bytes; of a plain file no more than there are, so that a header cannot ask for memory."""
        there = size if self.member is not None else self.path.stat().st_size - file.tell()
        try:
            data = file.read(min(size, there))
        except _BROKEN as problem:
            raise InputError(f"{self.where}: damaged ({problem}); copy it again") from None
        if len(data) < size:
            raise InputError(f"{self.where}: the file is cut short; copy it again")
        return data

    def _native(self, data: bytes) -> np.ndarray:
        values = np.frombuffer(data, self.dtype)
        return values.astype(self.dtype.newbyteorder("="), copy=False)


def arrays(path: Path, objects: bool = False) -> dict[str, Array]:
    """List the arrays of a file.

    Parameters
    ----------
    path : Path
        An npy or npz file.
    objects : bool
        Whether to list arrays of Python objects as well, which are never read.

    Returns
    -------
    dict of Array
        By name; an npy's has none.

    Raises
    ------
    InputError
        No such file, neither npy nor npz, damaged, or an array of Python objects.
    """
    expect_file(path)
    with path.open("rb") as file:
        head = file.read(len(NPY))
    if head == NPY:
        return {"": _array(path, None, objects)}
    if not head.startswith(ZIP):
        raise InputError(f"{path}: expected an npy or npz file, found {head!r} at its start")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
    except _BROKEN as problem:
        raise InputError(f"{path}: damaged ({problem}); copy it again") from None
    if not names or len(names) > _MEMBERS:
        raise InputError(f"{path}: expected 1 to {_MEMBERS} arrays, found {len(names)}")
    return {name.removesuffix(".npy"): _array(path, name, objects) for name in names}


def _array(path: Path, member: str | None, objects: bool) -> Array:
    where = f"{path}" + (f": {member}" if member else "")
    with _opened(path, member) as file:
        shape, fortran, dtype = _header(file, where)
    if not (objects and dtype.hasobject) and (dtype.names is not None or dtype.kind not in "iufbUS"):
        raise InputError(
            f"{where}: holds {dtype}, such as Python objects; only plain numbers and text are read"
        )
    return Array(path, member, shape, dtype, fortran)


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    if member is None:
        with path.open("rb") as plain:
            yield plain
        return
    try:
        archive = zipfile.ZipFile(path)
        file = archive.open(member)
    except (*_BROKEN, KeyError) as problem:
        raise InputError(f"{path}: {member}: damaged ({problem}); copy it again") from None
    with archive, file:
        yield file


def _header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran, dtype = read[version](file)
    except Exception as problem:  # numpy reads the header as Python: many kinds
        raise InputError(f"{where}: expected an npy header: {' '.join(str(problem).split())[:100]}") from None
    return tuple(int(length) for length in shape), bool(fortran), dtype
