"""The ledger: what a lane's events add up to, by layer and by window, and the identities that must hold.

Everything is an int64 until a table is written; times are nanoseconds until then. The conservation identities
of semantics 7 are checked for every event of every run; one that breaks stops the run (exit 3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from replay.engine.frame import COUNTERS
from replay.errors import IdentityError
from replay.fate import EVENT_COLUMNS, NEVER, Account, Reads
from replay.fate import FATES as FATE_NAMES
from replay.ledger.packed import Packed
from replay.ledger.totals import add_cells
from replay.schema.result import RESULT

if TYPE_CHECKING:
    import polars as pl

COUNTED = COUNTERS[: COUNTERS.index("picks_kept")]
"""Counters of the residency pass that a result shows."""

PENDING = ("pending", "pending_bytes")
"""Zero in a replay, whose windows are whole; a recording may have them."""

TIMES = ("wait_ns", "limbo_wait_ns")
FATES = tuple(each for each in EVENT_COLUMNS if each not in TIMES)

IDENTITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lookups", ("hits", "prefetch_hits", "misses")),
    ("issued", ("prefetch_hits", "retired", "pending")),
    ("issued_bytes", ("claimed_bytes", "retired_bytes", "pending_bytes")),
)
"""A column, and the columns that it is the sum of."""

TIMED_IDENTITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("prefetch_hits", ("timely", "late")),
    ("retired", ("cancelled", "partial", "unused")),
    ("claimed_bytes", ("timely_bytes", "late_bytes")),
    ("retired_bytes", ("cancelled_bytes", "unused_bytes")),
    ("disk_bytes", ("demand_bytes", "timely_bytes", "late_bytes", "unused_bytes", "pending_read_bytes")),
)
"""Those that need the clock."""

Columns = dict[str, NDArray[np.int64]]


def check(columns: Columns, where: str, timed: bool, unknown: Collection[str] = ()) -> None:
    """Check every identity on arrays of any shape, but for those with a column that is not known.

    Raises
    ------
    IdentityError
        The first that breaks, with its place and both sides.
    """
    for name, parts in IDENTITIES + (TIMED_IDENTITIES if timed else ()):
        if not set(unknown).isdisjoint((name, *parts)):
            continue
        total = sum((columns[each] for each in parts), np.zeros_like(columns[name]))
        wrong = np.argwhere(columns[name] != total)
        if len(wrong):
            at = tuple(wrong[0].tolist())
            raise IdentityError(
                f"{where}, {at}: {name} is {columns[name][at]} but {' + '.join(parts)} is {total[at]}; "
                "nothing was written; report it as a defect of this program"
            )


@lru_cache(64)
def _identities(
    values: tuple[str, ...], timed: bool, unknown: frozenset[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The identities that are checked as :func:`replay.ledger.totals.add_cells` takes them."""
    place = {each: i for i, each in enumerate(values)}
    known = [
        (name, parts)
        for name, parts in IDENTITIES + (TIMED_IDENTITIES if timed else ())
        if unknown.isdisjoint((name, *parts))
    ]
    sums = [place[name] for name, _ in known]
    parts = [place[each] for _, parts in known for each in parts]
    ends = np.cumsum([len(parts) for _, parts in known])
    return np.array(sums, np.int64), ends.astype(np.int64), np.array(parts, np.int64)


class Tally:
    """Sums of one lane under one clock.

    Parameters
    ----------
    name : str
        What an error calls it.
    layers : int
    warm : int
        First windows that are not counted.
    timed : bool
        A clock accounts the reads too.
    keep_windows : bool
        Keep every window's sums, not only the layers'.

    Attributes
    ----------
    by_layer : dict of str to int64[2, L]
        Sums by phase (0 decode, 1 prefill) and layer.
    windows : int64[2]
        Counted windows by phase.
    misses_in_all : int
        Misses of every window, uncounted ones included.
    unknown : set of str
        Columns that a recording does not tell; null in every table. Empty for a replay.
    """

    def __init__(
        self, name: str, layers: int, warm: int = 0, timed: bool = False, keep_windows: bool = True
    ) -> None:
        self.name, self.layers, self.warm, self.timed, self.keep_windows = (
            name,
            layers,
            warm,
            timed,
            keep_windows,
        )
        self.columns = (*COUNTED, *PENDING, "picks_kept", "picks_made", *(EVENT_COLUMNS if timed else ()))
        self._values = (*COUNTERS, *PENDING, *(EVENT_COLUMNS if timed else ()))
        self._sums = np.zeros((2, layers, len(self._values)), np.int64)
        place = {each: i for i, each in enumerate(self._values)}
        self.by_layer: Columns = {each: self._sums[:, :, place[each]] for each in self.columns}
        self.windows = np.zeros(2, np.int64)
        self.misses_in_all = 0
        self.unknown: set[str] = set()
        self._cell = np.zeros(len(self._values), np.int64)
        self._by_window = Packed((*self._values, "peak_speculative", "peak_limbo", "window", "total_ns"))

    def add(
        self,
        first: int,
        prefill: NDArray[np.uint8],
        counts: NDArray[np.int64],
        peaks: NDArray[np.int64],
        account: Account | None = None,
        pending: Columns | None = None,
    ) -> None:
        """Add a chunk.

        Parameters
        ----------
        first : int
            Its first window.
        prefill : uint8[W]
        counts : int64[W * L, len(COUNTERS)]
        peaks : int64[W, 2]
        account : Account, optional
            What the clock made of the reads.
        pending : dict of str to int64[W * L], optional
            ``PENDING`` of a recording.
        """
        self.misses_in_all += int(counts[:, COUNTERS.index("misses")].sum())
        skip = min(max(self.warm - first, 0), len(prefill))
        counted = len(prefill) - skip
        none = np.zeros((0, len(PENDING)), np.int64)
        waiting = none if pending is None else np.stack([pending[each] for each in PENDING], axis=1)
        timed = len(EVENT_COLUMNS) if self.timed else 0
        made = np.zeros((0, timed), np.int64) if account is None or not timed else account.cells
        by_window = np.zeros((counted if self.keep_windows else 0, len(self._by_window)), np.int64)
        if not add_cells(
            counts, waiting, made, skip, prefill, *_identities(self._values, self.timed, frozenset(self.unknown)),
            self._cell, self._sums, by_window,
        ):  # fmt: skip
            self._refuse(first, skip, counts, waiting, made)
        prompts = int(np.count_nonzero(prefill[skip:]))
        self.windows += (counted - prompts, prompts)
        if self.keep_windows and counted:
            by_window[:, -4:-2] = peaks[skip:]
            by_window[:, -2] = np.arange(first + skip, first + len(prefill))
            by_window[:, -1] = NEVER if account is None else account.total_ns[skip:]
            self._by_window.add(by_window)

    def _refuse(self, first: int, skip: int, *tables: NDArray[np.int64]) -> None:
        """Say which identity broke, and where; a table without rows is 0."""
        rows = len(tables[0])
        whole = np.hstack(
            [each if len(each) else np.zeros((rows, each.shape[1]), np.int64) for each in tables]
        )
        grid = whole.reshape(-1, self.layers, len(self._values))[skip:]
        cells = {each: grid[:, :, i] for i, each in enumerate(self._values)}
        check(cells, f"{self.name}: (window - {first + skip}, layer)", self.timed, self.unknown)

    def by_window(self) -> Packed:
        """Sums of every counted window, with its number, peaks and (with a clock) total time."""
        return self._by_window

    def total(self, column: str, phase: int | None = None) -> int:
        """Sum over layers, of one phase or of both; a Python integer, exact at any size."""
        rows = self.by_layer[column] if phase is None else self.by_layer[column][phase]
        return sum(rows.ravel().tolist())


def told(name: str, sums: Mapping[str, NDArray[np.int64]], tally: Tally) -> NDArray[Any] | None:
    """A published column of counts or times, from sums; None where no clock ran or a recording does not tell."""
    source = name.replace("_us", "_ns")
    if source in tally.unknown or (source in EVENT_COLUMNS and not tally.timed):
        return None
    return sums[source] / 1000.0 if source in TIMES else sums[source]


def microseconds(ns: NDArray[np.int64]) -> pl.Series:
    """Times as a table shows them, each the nearest double; null for ``NEVER``."""
    import polars as pl

    return pl.Series(ns / 1000.0).set(pl.Series(ns == NEVER), None)  # polars' own division misses by a bit


def framed(table: str, rows: int, values: Mapping[str, Any]) -> pl.DataFrame:
    """Some columns of a result table; a text or None is the value of every row."""
    import polars as pl

    types = {"string": pl.String, "int64": pl.Int64, "float64": pl.Float64}

    def column(name: str, value: Any) -> pl.Series:
        kind = types[RESULT[table].column(name).type]
        if value is None or isinstance(value, str):
            return pl.Series(name, [value], dtype=kind).new_from_index(0, rows)
        return pl.Series(name, value, dtype=kind)

    return pl.DataFrame([column(name, value) for name, value in values.items()])


def layers_frame(policy: str, routes: str, tally: Tally) -> pl.DataFrame:
    """Rows of ``layers.parquet`` of one policy: one a phase that the trace has, and layer."""
    phases = [i for i in (0, 1) if tally.windows[i]]
    rows = len(phases) * tally.layers
    sums = {each: tally.by_layer[each][phases].ravel() for each in tally.columns}
    check(sums, f"{tally.name}: (phase and layer)", tally.timed, tally.unknown)
    keys = {
        "policy": policy,
        "routes": routes,
        "phase": np.repeat([("decode", "prefill")[i] for i in phases], tally.layers).tolist(),
        "layer": np.tile(np.arange(tally.layers), len(phases)),
    }
    names = [each.name for each in RESULT["layers"].columns if each.name not in keys]
    return framed("layers", rows, keys | {each: told(each, sums, tally) for each in names})


def reads_frame(policy: str, routes: str, parts: Sequence[Reads], warm: int = 0) -> pl.DataFrame:
    """Rows of ``reads.parquet`` of one policy, in the trace's own ``reads`` layout; fate null for demand."""
    import polars as pl

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(each, name) for each in parts]) if parts else np.empty(0, np.int64)

    frame = pl.DataFrame(
        {
            "policy": pl.Series([policy], dtype=pl.String).new_from_index(0, len(joined("window"))),
            "routes": pl.Series([routes], dtype=pl.String).new_from_index(0, len(joined("window"))),
            "window": joined("window"),
            "layer": joined("layer"),
            "expert": joined("expert"),
            "kind": np.where(joined("demand").astype(bool), "demand", "prefetch").astype(object),
            "bytes": joined("bytes"),
            **{
                f"{each}_us": microseconds(joined(f"{each}_ns"))
                for each in ("issued", "started", "done", "needed")
            },
            "fate": joined("fate"),
        },
        schema_overrides={"kind": pl.String},
    ).filter(pl.col("window") >= warm)
    names = pl.Series([*FATE_NAMES, None], dtype=pl.String)
    return frame.with_columns(
        pl.col("window").cast(pl.UInt32),
        pl.col("layer", "expert").cast(pl.UInt16),
        pl.col("bytes").cast(pl.UInt64),
        fate=names.gather(frame["fate"].cast(pl.UInt32)),
    ).select(
        *("policy", "routes", "window", "layer", "expert", "kind", "bytes"),
        *("issued_us", "started_us", "done_us", "needed_us", "fate"),
    )
