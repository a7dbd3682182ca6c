"""Fuzzing by choices: bytes that say which values a trace gets and which words a spec is made of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from raw_trace import Raw, healthy

NAN, INF = float("nan"), float("inf")
VALUES: tuple[Any, ...] = (
    None,
    0,
    1,
    2,
    3,
    7,
    8,
    255,
    256,
    65535,
    65536,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -1,
    -2,
    0.5,
    -0.0,
    NAN,
    INF,
    -INF,
    1e300,
    6e4,
    True,
    "",
    "decode",
    "prefill",
    "demand",
    "prefetch",
    "\x00",
    "<script>",
    "=1+1",
    [],
    [0],
    [1, 0],
    [0, 0],
    [1, None],
    [8, 1],
    [-1, 1],
    [0, 1, 2],
    [0.0] * 8,
    [NAN] * 8,
    [-INF] * 8,
    [INF] * 8,
    [0.5, 0.5],
    [1.0],
    [1e38] * 8,
    list(range(8)),
    list(range(7, -1, -1)),
    [255, 2],
    [0.25] * 2,
)
TYPES = (
    pa.int8(),
    pa.uint8(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.null(),
    pa.binary(),
    pa.list_(pa.uint8()),
    pa.list_(pa.int64()),
    pa.large_list(pa.uint16()),
    pa.list_(pa.float16()),
    pa.list_(pa.float32()),
    pa.list_(pa.uint16(), 2),
    pa.timestamp("us"),
    pa.dictionary(pa.int8(), pa.string()),
)


class Choices:
    """Reads choices off bytes; past their end every choice is the first."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def number(self, below: int) -> int:
        """A number from 0."""
        self.at += 1
        return self.data[self.at - 1] % below if self.at <= len(self.data) else 0

    def one(self, items: Any) -> Any:
        """One of several."""
        return items[self.number(len(items))]


def seeds(count: int = 60, length: int = 40) -> list[bytes]:
    """Bytes to start from."""
    return [np.random.default_rng(number).bytes(length) for number in range(count)]


# --- traces ----------------------------------------------------------------------------------------

META = (
    "model.layers",
    "model.experts",
    "model.top_k",
    "expert_bytes",
    "router",
    "policy",
    "io",
    "policy.slots",
    "policy.scope",
    "policy.evict",
    "policy.prefetch",
    "router.bonus",
    "router.protect",
    "router.draft_moce",
    "io.workers",
    "policy.bytes",
    "policy.split",
    "model.name",
    "source",
    "engine",
)
SETTINGS: tuple[Any, ...] = (
    None,
    0,
    1,
    2,
    3,
    8,
    100,
    -1,
    0.5,
    1e300,
    2**63 - 1,
    2**70,
    "",
    "lru",
    "belady",
    "layer",
    "<b>",
    True,
    [],
    [1],
    [4],
    [0],
    [2**40],
    {},
    {"name": "unpert1", "k": 2**62},
    {"name": "route", "protect": 0, "bonus": -1e300},
)


def _edit(raw: Raw, pick: Choices) -> None:
    table = pick.one(tuple(raw.tables))
    rows, types = raw.tables[table], raw.types[table]
    kind, column = pick.number(8), pick.one(tuple(types))
    place = pick.number(max(len(rows), 1)) % max(len(rows), 1)
    if kind <= 2 and rows:
        rows[place][column] = pick.one(VALUES)
    elif kind == 3 and rows:
        del rows[place]
    elif kind == 4 and rows:
        rows.insert(place, dict(rows[place]))
    elif kind == 5:
        types[column] = pick.one(TYPES)
    elif kind == 6:
        value = pick.one(VALUES)
        for row in rows:
            row[column] = value
    else:
        _set(raw.meta, pick.one(META), pick.one(SETTINGS))


def _set(document: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = name.split(".")
    for parent in parents:
        inner = document.get(parent)
        if not isinstance(inner, dict):
            return
        document = inner
    document[last] = value


def write_trace(folder: Path, data: bytes) -> Path | None:
    """Write a trace whose values the bytes choose; None where Arrow cannot write such a table."""
    raw, pick = healthy(), Choices(data)
    for _ in range(1 + pick.number(3)):
        _edit(raw, pick)
    for name in ("timing", "reads", "counters", "residents", "drafts", "router_scores", "candidates"):
        if pick.number(4) == 0:
            del raw.tables[name], raw.types[name]
    try:
        return raw.write(folder)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def replay_trace(folder: Path, data: bytes) -> None:
    """Read a trace of chosen values, and replay it where it is read."""
    from reliability.targets import _all_of
    from replay.comparison.comparison import compare
    from replay.trace import open_trace
    from replay.trace.look import look

    path = write_trace(folder / "source", data)
    if path is None:
        return
    _all_of(path)
    trace = open_trace(path)
    look(trace)
    pick = Choices(data[::-1])
    ways = [
        ["none"],
        ["unpert1+decode2q"],
        ["none+belady"],
        ["route:k=9999+lfuda", "none+flat:0.35"],
        ["oracle+sieve"],
    ]
    compare(trace, pick.one(ways), slots=pick.one(("9", "90%", None)), skip=bool(pick.number(2)))


# --- specs -----------------------------------------------------------------------------------------

TEXTS = (
    "0",
    "1",
    "2",
    "3",
    "6",
    "-1",
    "0.5",
    "1e308",
    "1e-308",
    "nan",
    "inf",
    "50%",
    "0%",
    "1.77MB",
    "8kB",
    "999999999999999999",
    "0.1/0.35",
    "x",
    "",
    "head",
    "tail",
    "1.25/4",
    "sessions/0-0",
    "sessions/1",
    "nowhere",
    "١",
    " 1",
    "1,1",
    "+",
    "/",
)


def spec_of(pick: Choices) -> str:
    """A spec of known names, their options, and now and then something else."""
    from replay.spec.grammar import declaration, names

    parts = []
    for _ in range(1 + pick.number(3)):
        name = pick.one(names())
        options = []
        for _ in range(pick.number(4)):
            known = tuple(declaration(name).options) or ("k",)
            option = pick.one(known) if pick.number(8) else pick.one(("k", "quota", "x", ""))
            options.append((f"{option}=" if pick.number(4) else "") + pick.one(TEXTS))
        parts.append(f"{name}:{','.join(options)}" if options else name)
    return "+".join(parts)


def replay_specs(folder: Path, data: bytes) -> None:
    """Parse specs, and replay the tiny trace with them."""
    from reliability.targets import _trace
    from replay.comparison.comparison import compare
    from replay.declare.semantics import routes_of, semantics_of
    from replay.spec.grammar import parse
    from replay.trace import open_trace

    pick = Choices(data)
    specs = list(dict.fromkeys(spec_of(pick) for _ in range(1 + pick.number(2))))
    for spec in specs:
        parse(spec)
    ways = semantics_of(
        scope=pick.one(("global", "layer")),
        split=bool(pick.number(2)),
        order=pick.one(("id", "rows")),
        cell=pick.one(("atomic", "sequential")),
        start=pick.one(("cold", "recorded", "warm:1")),
        prefill=pick.one(("demand", "stream", "stream:2")),
        prompt_hot=pick.one((None, 0, 3)),
    )
    bound = pick.one(({"slots": "9"}, {"slots": "20"}, {"bytes": "9kB"}, {"bytes": "1"}, {"slots": "100%"}))
    routes = routes_of([pick.one(("recorded", "recorded", "rerouted", "predicted", "cacheprior:0.2,2"))])
    compare(open_trace(_trace()), specs, semantics=ways, routes=routes, **bound)


def read_options(folder: Path, data: bytes) -> None:
    """Texts of the command line, one after another."""
    from replay.arena.bound import parse_slots
    from replay.clock.timing import ClockParams
    from replay.comparison.sensitivity import parse_grid as clocks
    from replay.declare.semantics import parse_prefill, parse_routes, parse_start
    from replay.retain import parse as retention
    from replay.spec.switches import spec_from_switches
    from replay.survey.grid import parse_grid
    from replay.units import parse_bytes, parse_share, parse_time_us

    text = data.decode("utf-8", "replace")
    classes = np.zeros((2, 8), np.uint8)
    readers = (
        lambda: parse_slots(text, classes),
        lambda: parse_grid(text, classes),
        lambda: parse_prefill(text),
        lambda: parse_routes(text),
        lambda: parse_start(text),
        lambda: clocks(text, ClockParams()),
        lambda: spec_from_switches(text),
        lambda: parse_bytes(text),
        lambda: parse_share(text),
        lambda: parse_time_us(text),
        lambda: retention.parse_schedule(text, "--schedule"),
        lambda: retention.parse_retention(text),
    )
    from replay.errors import InputError

    refused = None
    for reader in readers:
        try:
            reader()
        except InputError as problem:
            refused = problem
    if refused is not None:
        raise refused


OPTION_TEXTS = (
    b"4326",
    b"100,20",
    b"17.6%",
    b"1%..60%:24",
    b"250MiB,500MiB",
    b"all",
    b"stream:64",
    b"warm:16",
    b"recorded",
    b"cacheprior:0.2,2",
    b"rate=0.5/1/2,latency_us=80/800",
    b"auto",
    b"80us",
    b"1.5ms",
    b"1.77MB",
    b"STRATA_METAL_PREFETCH_UNPERT=0 STRATA_METAL_DECODE_2Q=1",
    b"0.10,0.35,0.55",
)
