"""trace.json as a document: read it, and take its fields one by one, each with what the format says of it."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from replay.document import LONGEST, parse_json
from replay.trace.failure import Failure, Sink

FORMAT = "moe-decode-trace"
VERSION = 1
FILE = "trace.json"
LARGEST = 2**63 - 1
MOST_NAMED = 8
"""Traces of a folder that are named where the folder itself was taken for one."""


class Fields:
    """Takes fields out of the document and tells the sink about each that is not what the format says.

    Parameters
    ----------
    file : str
        The document's file.
    sink : Sink
        Told what is wrong.

    Attributes
    ----------
    failures : int
        Fields that were wrong so far.

    Notes
    -----
    A field is taken by its dotted name (``router.bonus``) from the object that holds it. A field that is absent
    or null is None, and so is one that is wrong.
    """

    def __init__(self, file: str, sink: Sink):
        self.file = file
        self.sink = sink
        self.failures = 0

    def wrong(self, reason: str, key: str, expected: str, found: str, fix: str = "correct it") -> None:
        """Tell that a field is wrong."""
        self.failures += 1
        self.sink(Failure(reason, self.file, "", f"field {key}", expected, found, fix))

    def take(
        self,
        holder: dict[str, Any],
        key: str,
        expected: str,
        fits: Callable[[Any], bool],
        need: bool = False,
        reason: str = "field",
    ) -> Any:
        """Take a field that ``fits``; ``expected`` says in words what does."""
        value = holder.get(key.rsplit(".", 1)[-1])
        if value is None:
            if need:
                self.wrong(reason, key, expected, "nothing", "write it")
        elif not fits(value):
            self.wrong(reason, key, expected, _short(value))
            return None
        return value

    def integer(
        self, holder: dict[str, Any], key: str, low: int, high: int = LARGEST, need: bool = False
    ) -> Any:
        """Take an integer from ``low`` to ``high``."""
        span = f"an integer of at least {low}" if high == LARGEST else f"an integer from {low} to {high}"
        return self.take(holder, key, span, lambda value: is_int(value) and low <= value <= high, need)

    def number(self, holder: dict[str, Any], key: str, low: float = -math.inf) -> Any:
        """Take a finite number of at least ``low``, as a float."""
        span = "a number" if low == -math.inf else f"a number of at least {low:g}"
        value = self.take(holder, key, span, lambda value: _is_number(value) and value >= low)
        return None if value is None else float(value)

    def section(self, holder: dict[str, Any], key: str, need: bool = False) -> Any:
        """Take an object."""
        return self.take(holder, key, "an object", lambda value: isinstance(value, dict), need)

    def text(self, holder: dict[str, Any], key: str, known: Iterable[str] = (), need: bool = False) -> Any:
        """Take a text, one of ``known`` where these are given."""
        names = tuple(known)
        span = f"one of {', '.join(names)}" if names else "a text"
        return self.take(
            holder, key, span, lambda value: isinstance(value, str) and (not names or value in names), need
        )

    def flag(self, holder: dict[str, Any], key: str) -> Any:
        """Take true or false."""
        return self.take(holder, key, "true or false", lambda value: isinstance(value, bool))


def is_int(value: Any) -> bool:
    """Say whether a JSON value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (is_int(value) and abs(value) <= LARGEST) or (isinstance(value, float) and math.isfinite(value))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def read_document(path: Path, sink: Sink) -> dict[str, Any] | None:
    """Read the JSON of trace.json, whatever it says.

    Parameters
    ----------
    path : Path
        The trace's folder.
    sink : Sink
        Told what is wrong.

    Returns
    -------
    dict or None
        The document, None where it cannot be read.
    """
    file = path / FILE
    expected = f"a JSON object that says format {FORMAT!r}"

    def wrong(reason: str, found: str, fix: str) -> None:
        where = str(file) if path.name else f"{path}/{FILE}"  # of an empty path: ./trace.json
        sink(Failure(reason, where, "", "", expected, found, fix))

    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        sink(Failure("trace-missing", str(path), "", "", "a trace folder", found, "check the path"))
        return None
    if not file.is_file():
        inside = sorted(str(each.parent) for each in path.glob(f"*/{FILE}"))[:MOST_NAMED]
        fix = "is this a trace folder? `replay import` makes one"
        if inside:
            fix = f"name one of the traces in it: {', '.join(inside)}"
        wrong("trace-json-missing", "no such file", fix)
        return None
    try:
        with file.open("rb") as handle:
            data = handle.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise ValueError(f"more than {LONGEST} bytes")
        document = parse_json(data.decode("utf-8"))
    except OSError as problem:
        wrong("trace-json-unreadable", problem.strerror or "an unreadable file", "check the permissions")
        return None
    except (ValueError, RecursionError) as problem:
        wrong("trace-json-unreadable", " ".join(str(problem).split()), "write valid UTF-8 JSON")
        return None
    if not isinstance(document, dict):
        wrong("trace-json-unreadable", _short(document), "write an object")
        return None
    return document
