"""Damaged recordings of other engines: what the tests of each importer refuse, and what is no such file at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import test_counts
import test_import_bigmoeonedge as bigmoeonedge
import test_import_hf_logits as hf_logits
import test_import_imp as imp
import test_import_jsonl as jsonl
import test_import_llamacpp as llamacpp
import test_import_strata as strata
import test_import_table as table
import test_import_vllm as vllm
import test_import_waste as waste

from reliability.bad import OUT, Bad, run
from replay.importers import IMPORTERS

Writes = Callable[[Path], Any]


def _case(format: str, name: str, write: Writes, words: tuple[str, ...] = (), *more: object) -> Bad:
    def make(folder: Path) -> list[object]:
        source = folder / "source"
        write(source)
        found = next((path for path in folder.iterdir() if path.name.startswith("source")), source)
        return ["import", format, found, folder / OUT, *more]

    return Bad(name, f"import {format}", make, words)


def _bytes(content: bytes | str) -> Writes:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def _parameters(test: Any) -> list[tuple[Any, ...]]:
    """The rows that a parametrized test was given."""
    return [each for mark in test.pytestmark if mark.name == "parametrize" for each in mark.args[1]]


def _known() -> list[Bad]:
    """What the tests of the importers refuse, through the command line."""
    found = []
    for name, damage, words in bigmoeonedge.REFUSALS:
        found.append(_case("bigmoeonedge", name, lambda p, d=damage: bigmoeonedge.write(p, **d), (words,)))
    for name, lines, header, words in jsonl.REFUSALS:
        found.append(_case("jsonl", name, lambda p, a=lines, h=header: jsonl.write(p, a, **h), (words,)))
    for name, content, words in llamacpp.REFUSALS:
        found.append(_case("llamacpp", name, _bytes(content), (words,)))
    for name, make, columns, words in table.REFUSALS:
        maps = [part for what, column in columns.items() for part in ("--map", f"{what}={column}")]
        found.append(_case("table", name, make, (words,), *maps))
    for name, text, words in waste.REFUSALS:
        found.append(_case("waste", name, _bytes(text), (words,)))
    for number, (content, words) in enumerate(_parameters(imp.test_refusals)):
        found.append(_case("imp", f"refusal {number}", _bytes(content), (words,)))
    for number, (content, words) in enumerate(_parameters(strata.test_refusals)):
        found.append(_case("strata", f"refusal {number}", _bytes(content), (words,)))
    for number, (what, words) in enumerate(_parameters(vllm.test_arrays_refused)):
        found.append(_case("vllm", f"array {number}", lambda p, w=what: vllm.saved(p, w), (words,)))
    for number, (value, words) in enumerate(_parameters(vllm.test_logs_refused)):
        lines = [vllm.META, value]
        found.append(_case("vllm", f"log {number}", lambda p, a=lines: vllm.write(p, a), (words,)))
    for number, (layers, request, words) in enumerate(_parameters(hf_logits.test_refusals)):
        top = () if request.top_k is None else ("--top-k", request.top_k)
        write = lambda p, a=layers: hf_logits.write(p.with_suffix(".npz"), a)  # noqa: E731
        found.append(_case("hf-logits", f"refusal {number}", write, (words,), *top))
    return found


_NOTHING: dict[str, tuple[Writes, str]] = {
    "nothing there": (lambda path: None, "source"),
    "a folder": (lambda path: path.mkdir(), "source"),
    "a pipe": (os.mkfifo, "source"),
    "zero bytes": (_bytes(b""), "source"),
    "one zero byte": (_bytes(b"\0"), "source"),
    "only line ends": (_bytes(b"\n" * 5000), "source"),
    "only blanks": (_bytes(b" " * 5000), "source"),
    "a picture": (_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8), "source"),
    "noise": (_bytes(np.random.default_rng(5).bytes(4096)), "source"),
    "a Parquet head": (_bytes(b"PAR1" + b"\0" * 64), "source"),
    "PAR1 around nothing": (_bytes(b"PAR1" + b"\0" * 64 + b"PAR1"), "source"),
    "a zip head": (_bytes(b"PK\3\4" + b"\0" * 60), "source"),
    "an npy head": (_bytes(b"\x93NUMPY\1\0v\0"), "source"),
    "a pickle": (_bytes(b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s."), "source"),
    "an old imatrix": (_bytes(b"GGUF\3\0\0\0" + b"\xff" * 40), "source"),
    "brackets without an end": (_bytes(b"[" * 100_000), "source"),
    "braces without an end": (_bytes(b'{"a":' * 50_000), "source"),
    "a line without an end": (_bytes(b"9," * 600_000), "source"),
    "UTF-16": (_bytes("pos,layer,e0\n1,2,3\n".encode("utf-16")), "source"),
    "a link to itself": (lambda path: path.symlink_to(path), "source"),
}


def _none() -> list[Bad]:
    """What is no recording, given to every importer."""
    return [
        _case(format, name, write, (word,), *(("--top-k", 2) if format == "hf-logits" else ()))
        for format in IMPORTERS
        for name, (write, word) in _NOTHING.items()
    ]


def _destinations() -> list[Bad]:
    """A good recording, and a destination that cannot be."""

    def taken(folder: Path) -> list[object]:
        source = waste.write(folder / "source")
        (folder / OUT).mkdir()
        (folder / OUT / "mine").write_text("x")
        return ["import", "waste", source, folder / OUT]

    def forced(folder: Path) -> list[object]:
        return [*taken(folder), "--force"]

    def under_file(folder: Path) -> list[object]:
        source = waste.write(folder / "source")
        return ["import", "waste", source, source / OUT]

    def itself(folder: Path) -> list[object]:
        source = waste.write(folder / "source")
        return ["import", "waste", source, source]

    def unknown(folder: Path) -> list[object]:
        return ["import", "wast", waste.write(folder / "source"), folder / OUT]

    def unread(folder: Path) -> list[object]:
        return ["import", "waste", waste.write(folder / "source"), folder / OUT, "--map", "token=tok"]

    cases = {
        "exists": (taken, "exists already"), "no trace to replace": (forced, "trace.json"),
        "under a file": (under_file, "source"), "onto the source": (itself, "exists already"),
        "unknown format": (unknown, "did you mean waste"), "an option it does not read": (unread, "--map"),
    }  # fmt: skip
    return [Bad(name, "import", make, (word,)) for name, (make, word) in cases.items()]


def _counts() -> list[Bad]:
    """Damaged files of counts, that a policy is to learn from."""

    def case(number: int, write: Callable[[Path], Path], words: str) -> Bad:
        def make(folder: Path) -> list[object]:
            trace, counts = waste.write(folder / "source"), write(folder / "c")
            run(["import", "waste", trace, folder / "trace"])
            bound = ("--no-clock", "--no-curves", "--out", folder / OUT)
            return ["compare", folder / "trace", "-p", f"none+static:train={counts}", *bound]

        return Bad(f"refusal {number}", "counts", make, (words,))

    rows = _parameters(test_counts.test_what_is_no_file_of_counts)
    return [case(number, write, words) for number, (write, words) in enumerate(rows)]


def cases() -> list[Bad]:
    """Every damaged recording."""
    return [*_known(), *_none(), *_destinations(), *_counts()]
