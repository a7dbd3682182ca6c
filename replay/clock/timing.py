"""How fast a clock's disk and compute are: its parameters, their file, and recorded compute times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.document import read_toml
from replay.errors import InputError, nearest

_WHOLE = {"workers": (1, 65536), "reserved": (0, 65535), "pieces": (1, 65536)}
_REAL = {
    "latency_us": (0.0, 1e9, "microseconds"),
    "stream_gbps": (1e-4, 1e9, "GB/s"),
    "device_gbps": (1e-4, 1e9, "GB/s"),
    "pre_us": (0.0, 1e9, "microseconds"),
    "post_us": (0.0, 1e9, "microseconds"),
}


@dataclass(frozen=True)
class ClockParams:
    """The disk and the compute time of a clock; the defaults are semantics 6's.

    Attributes
    ----------
    workers : int
        Pieces that run at once.
    reserved : int
        Workers that read-ahead leaves free, below ``workers``.
    pieces : int
        Pieces of one read.
    latency_us : float
        From a piece's start until it is ready to move.
    stream_gbps, device_gbps : float
        Decimal GB/s of one piece, and of all together.
    pre_us, post_us : float
        Compute before an event asks (attention, router), and after its reads are there (experts).
    origin : mapping of str to str
        Where a parameter came from: ``"clock"`` (the file), ``"trace"`` (its ``io``); the default otherwise.

    Raises
    ------
    InputError
        A figure out of range; one line names all of them.

    Examples
    --------
    >>> ClockParams(workers=4).reserved
    2
    >>> ClockParams(latency_us=0.0005).latency_ns
    0
    """

    workers: int = 8
    reserved: int = 2
    pieces: int = 3
    latency_us: float = 80.0
    stream_gbps: float = 3.0
    device_gbps: float = 6.0
    pre_us: float = 200.0
    post_us: float = 600.0
    origin: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        wrong = [_whole(name, getattr(self, name)) for name in _WHOLE]
        wrong += [_real(name, getattr(self, name)) for name in _REAL]
        if not any(wrong) and self.reserved >= self.workers:
            wrong.append(
                f"reserved = {self.reserved}: expected less than workers = {self.workers}, "
                "as read-ahead needs a worker"
            )
        if any(wrong):
            raise InputError("; ".join(each for each in wrong if each))

    @property
    def latency_ns(self) -> int:
        """Latency in nanoseconds, rounded half to even."""
        return nanoseconds(self.latency_us)

    def as_dict(self) -> dict[str, int | float]:
        """List the parameters by name, as a clock file writes them.

        Returns
        -------
        dict of str to int or float
            Without their origin.
        """
        return {name: getattr(self, name) for name in PARAMETERS}


PARAMETERS = tuple(each.name for each in fields(ClockParams) if each.name != "origin")
"""The keys of a clock file; all but ``pre_us`` and ``post_us`` may also stand in a trace's ``io``."""


VERIFY = "verify"
"""The table of a clock file that holds what verifying drafts costs; a clock has no use for it."""


def load_verify(path: str | Path) -> tuple[tuple[float, ...], float]:
    """Read what verifying drafts costs from a clock file: ``[verify]`` with ``cost`` and ``fixed``.

    Parameters
    ----------
    path : path
        A TOML file that ``replay fit-clock`` wrote.

    Returns
    -------
    tuple of float
        V by drafts kept.
    float
        What a round costs besides; 0 where the file does not say.

    Raises
    ------
    InputError
        The file cannot be read, or has no such table.
    """
    table = _read_toml(Path(path)).get(VERIFY)
    cost = table.get("cost") if isinstance(table, dict) else None
    fixed = table.get("fixed", 0.0) if isinstance(table, dict) else None

    def number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max

    if not isinstance(cost, list) or not cost or not all(map(number, [*cost, fixed])):
        raise InputError(
            f"{path}: expected a table [verify] with lines such as cost = [1.0, 1.02] and fixed = 0.0"
        )
    return tuple(map(float, cost)), float(fixed)  # type: ignore[arg-type]


def _whole(name: str, value: Any) -> str:
    low, high = _WHOLE[name]
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return ""
    return f"{name} = {value!r}: expected a whole number from {low} to {high}"


def _real(name: str, value: Any) -> str:
    low, high, unit = _REAL[name]
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return ""
    return f"{name} = {value!r}: expected {unit} from {low:g} to {high:g}"


def nanoseconds(us: float) -> int:
    """Turn microseconds into whole nanoseconds, rounded half to even.

    Parameters
    ----------
    us : float
        Microseconds.

    Returns
    -------
    int
        Nanoseconds.

    Examples
    --------
    >>> nanoseconds(0.0005), nanoseconds(0.0015), nanoseconds(80)
    (0, 2, 80000)
    """
    return round(us * 1000.0)


def load_clock(
    path: str | os.PathLike[str] | Mapping[str, Any] | None = None, io: Mapping[str, Any] | None = None
) -> ClockParams:
    """Resolve a clock: each parameter from the file (or mapping), else from the trace's ``io``, else the default.

    A ``reserved`` that does not come from where ``workers`` comes from gives way: it is lowered to
    ``workers - 1`` where a nearer source names fewer workers and says nothing of it.

    Parameters
    ----------
    path : path, mapping or None
        A TOML file of ``PARAMETERS``, or themselves by name; None: no file.
    io : mapping or None
        ``io`` of trace.json; keys that are no parameter are ignored, as null values are.

    Returns
    -------
    ClockParams
        The clock, with the origin of each parameter that is no default.

    Raises
    ------
    InputError
        The file cannot be read, names an unknown key or an impossible figure; or the trace's ``io`` does.
    """
    given, unknown = _given(path)
    recorded = {name: io[name] for name in PARAMETERS[:6] if io and io.get(name) is not None}
    origin = dict.fromkeys(recorded, "trace") | dict.fromkeys(given, "clock")
    values = recorded | given
    workers, reserved = values.get("workers"), values.get("reserved", ClockParams.reserved)
    rank = {"clock": 2, "trace": 1}
    if rank.get(origin.get("workers", ""), 0) > rank.get(origin.get("reserved", ""), 0) and not (
        _whole("workers", workers) or _whole("reserved", reserved)
    ):
        values["reserved"] = min(reserved, values["workers"] - 1)
    where = "clock" if isinstance(path, Mapping) else f"{path}"
    sources = ["as given" if isinstance(path, Mapping) else f"{path}"] * bool(given) + [
        "trace.json: io"
    ] * bool(recorded)
    try:
        params = ClockParams(**values, origin=origin)
    except InputError as error:
        if not unknown:
            raise InputError(f"clock ({', '.join(sources)}): {error}") from None
        unknown.append(str(error))
    if unknown:
        raise InputError(f"{where}: {'; '.join(unknown)}")
    return params


def _given(
    source: str | os.PathLike[str] | Mapping[str, Any] | None,
) -> tuple[dict[str, Any], list[str]]:
    """Parameters by name, and a remark on each key that is none."""
    if source is None:
        return {}, []
    given = dict(source) if isinstance(source, Mapping) else _read_toml(Path(source))
    given.pop(VERIFY, None)
    unknown = [
        f"unknown key {name!r}; {nearest(name, PARAMETERS)}" for name in given if name not in PARAMETERS
    ]
    return {name: value for name, value in given.items() if name in PARAMETERS}, unknown


def _read_toml(path: Path) -> dict[str, Any]:
    return read_toml(path, "a clock file: TOML with lines like workers = 8")


def recorded_times(params: ClockParams | None, timing: bool) -> list[str]:
    """List the compute times that are the trace's own, event by event.

    Parameters
    ----------
    params : ClockParams or None
        None: no clock.
    timing : bool
        Whether the trace has the table ``timing``.

    Returns
    -------
    list of str
        Of ``pre_us`` and ``post_us``, those that no clock file overrides.

    Examples
    --------
    >>> recorded_times(ClockParams(), True), recorded_times(ClockParams(), False)
    (['pre_us', 'post_us'], [])
    """
    if params is None or not timing:
        return []
    return [name for name in ("pre_us", "post_us") if params.origin.get(name) != "clock"]


def event_times(
    params: ClockParams, timing: Mapping[str, NDArray[Any]] | None, w0: int, w1: int, layers: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compute times of a chunk's events: the file's, else the trace's table ``timing``, else the default.

    Parameters
    ----------
    params : ClockParams
        A ``pre_us`` or ``post_us`` that came from the clock's file holds everywhere.
    timing : mapping of str to ndarray, or None
        Columns ``window``, ``layer``, ``pre_us``, ``post_us`` of the rows in range; a null is NaN. An event
        without a row, or a null, has the clock's constant.
    w0, w1 : int
        The windows ``[w0, w1)``.
    layers : int
        Layers of the model.

    Returns
    -------
    pre_ns, post_ns : ndarray of int64, shape (w1 - w0, layers)
        Nanoseconds.

    Raises
    ------
    InputError
        A recorded time that is negative, infinite or beyond 1000 seconds.
    """
    shape = (w1 - w0, layers)
    pre = np.full(shape, nanoseconds(params.pre_us), np.int64)
    post = np.full(shape, nanoseconds(params.post_us), np.int64)
    if timing is None:
        return pre, post
    window = np.asarray(timing["window"]).astype(np.int64) - w0
    layer = np.asarray(timing["layer"]).astype(np.int64)
    for name, into in (("pre_us", pre), ("post_us", post)):
        if params.origin.get(name) == "clock":
            continue
        us = np.asarray(timing[name]).astype(np.float64)
        low, high, _ = _REAL[name]
        wrong = np.flatnonzero((us < low) | (us > high))
        if wrong.size:
            row = wrong[0]
            raise InputError(
                f"timing: window {window[row] + w0}, layer {layer[row]}: {name} = {us[row]:g}: "
                f"expected microseconds from {low:g} to {high:g}; {wrong.size} rows like it in this chunk"
            )
        there = ~np.isnan(us)
        into[window[there], layer[there]] = np.rint(us[there] * 1000.0).astype(np.int64)
    return pre, post
