"""Files that only count how often each expert was picked: no replay can come of them, but ``static`` learns from them.

| source | what it holds |
|---|---|
| MoE-Infinity ``.npy`` | [n, layers, experts]: for each of n sequences how often each expert was picked |
| llama.cpp imatrix (GGUF) | ``blk.<layer>.ffn_*_exps.weight.counts``: rows that each expert saw |
| colibri ``.coli_usage`` | lines ``layer expert count`` after ``-1 layers experts``; or ``IKU1`` and a block |
"""

from __future__ import annotations

import re
from pathlib import Path

from replay.errors import InputError
from replay.importers.source import expect_file

GGUF, IKU1, NPY = b"GGUF", b"IKU1", b"\x93NUMPY"
_TRIPLE = re.compile(rb"-?\d{1,9}[ \t]+-?\d{1,9}[ \t]+\d{1,10}\s*")


def kind_of(path: Path) -> str | None:
    """Tell by its first bytes what a file of counts is.

    Parameters
    ----------
    path : Path
        A file.

    Returns
    -------
    str or None
        ``imatrix``, ``coli_usage``, ``npy`` (which may hold routed experts as well), or None.

    Raises
    ------
    InputError
        No such file.
    """
    expect_file(path)
    with path.open("rb") as file:
        head = file.read(256)
    if head.startswith(GGUF):
        return "imatrix"
    if head.startswith(NPY):
        return "npy"
    if head.startswith(IKU1) or (head and _TRIPLE.fullmatch(head.splitlines()[0] + b"\n")):
        return "coli_usage"
    return None


def counts_only(path: Path, what: str) -> InputError:
    """Make the error of importing counts.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What it holds.

    Returns
    -------
    InputError
    """
    return InputError(
        f"{path}: {what}: counts say how often, not when, so nothing can be replayed; pin by them instead: "
        f"-p none+static:train={path}"
    )


def refuse_counts(path: Path) -> None:
    """Refuse to import a file that only counts.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    InputError
        It is an imatrix or a usage history.
    """
    kind = kind_of(path)
    if kind == "imatrix":
        raise counts_only(path, "an imatrix holds counts of rows an expert")
    if kind == "coli_usage":
        raise counts_only(path, "a usage history holds counts of picks")
