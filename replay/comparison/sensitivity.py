"""Which fates move with the clock: one residency pass under many disks (semantics 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Any

from replay.clock.clock import Clock
from replay.clock.timing import PARAMETERS, ClockParams
from replay.errors import InputError, nearest
from replay.ledger.ledger import Tally

if TYPE_CHECKING:
    import polars as pl

    from replay.comparison.candidate import Candidate

AUTO = "rate=0.25/0.5/1/2/4,latency=0.25/1/4"
"""What ``auto`` stands for."""

FACTORS = {"rate": ("stream_gbps", "device_gbps"), "latency": ("latency_us",)}
"""Keys of a grid whose values are factors, and the parameters that they scale."""

MOST = 100
FATES = ("timely", "late", "cancelled", "partial", "unused")
_BYTES = ("late_exposed_bytes", "cancelled_bytes", "unused_bytes", "disk_bytes")
_SHARE = 0.05
DECODE = 0


@dataclass
class Under:
    """A lane under one more clock: the clock, and what it makes of the reads."""

    clock: Clock
    tally: Tally


def parse_grid(text: str, base: ClockParams) -> list[ClockParams]:
    """Read ``--clock-grid``: every combination of the values given.

    Parameters
    ----------
    text : str
        ``auto``, or parameters with values such as ``rate=0.5/1/2,latency_us=80/800``. ``rate`` and
        ``latency`` are factors of the clock's own; every other name is a clock parameter.
    base : ClockParams
        What the grid does not vary.

    Returns
    -------
    list of ClockParams

    Raises
    ------
    InputError
        An unknown name, a value that is none, or too many clocks.

    Examples
    --------
    >>> [(each.device_gbps, each.latency_us) for each in parse_grid("rate=0.5/1,latency_us=90", ClockParams())]
    [(3.0, 90.0), (6.0, 90.0)]
    """
    axes: dict[str, list[float]] = {}
    for item in (AUTO if text.strip() == "auto" else text).split(","):
        name, equals, values = (each.strip() for each in item.partition("="))
        if name not in FACTORS and name not in PARAMETERS:
            raise InputError(
                f"--clock-grid {text}: no parameter {name!r}; {nearest(name, (*FACTORS, *PARAMETERS))}"
            )
        if not equals or name in axes:
            raise InputError(
                f"--clock-grid {text}: expected each name once with values, such as rate=0.5/1/2"
            )
        axes[name] = [_number(each, name, text) for each in values.split("/")]
    count = prod(map(len, axes.values()))
    if count > MOST:
        raise InputError(f"--clock-grid {text}: {count} clocks; at most {MOST}")
    found = [_apply(base, dict(zip(axes, values, strict=True))) for values in product(*axes.values())]
    return list(dict.fromkeys(found))


def _number(text: str, name: str, grid: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value):
        raise InputError(f"--clock-grid {grid}: {text!r} of {name} is no number")
    return value


def _apply(base: ClockParams, values: dict[str, float]) -> ClockParams:
    """The base with some values: factors first, then parameters as given."""
    changed: dict[str, Any] = {}
    for name, parameters in FACTORS.items():
        if name in values:
            changed |= {each: getattr(base, each) * values[name] for each in parameters}
    for name, value in values.items():
        if name in PARAMETERS:
            whole = isinstance(getattr(base, name), int) and value == int(value)
            changed[name] = int(value) if whole else value
    origin = {**base.origin, **{name: "clock" for name in changed if name in ("pre_us", "post_us")}}
    return replace(base, **changed, origin=origin)


def sensitivity_frame(found: Sequence[Candidate], warm: int) -> pl.DataFrame:
    """Rows of ``sensitivity.parquet``: one a policy and clock, decode windows only."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for each in found:
        tokens = int(each.tokens[warm:].sum())
        for under in each.entry.others:
            tally = under.tally
            row: dict[str, Any] = {"policy": each.text, "routes": each.routes, **under.clock.params.as_dict()}
            row |= {"tokens": tokens, "issued": tally.total("issued", DECODE)}
            row |= {name: tally.total(name, DECODE) for name in (*FATES, *_BYTES)}
            row |= {f"{name}_us": tally.total(f"{name}_ns", DECODE) / 1000 for name in ("wait", "limbo_wait")}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col(
            "latency_us", "stream_gbps", "device_gbps", "pre_us", "post_us", "wait_us", "limbo_wait_us"
        ).cast(pl.Float64)
    )


@dataclass(frozen=True)
class Move:
    """How far one policy's reads move over a grid.

    Attributes
    ----------
    policy, routes : str
    shares : dict of str to (float, float) or None
        Least and largest share of the issued reads by fate; None without reads.
    wait_us_per_token : tuple of float, or None
        Least and largest.
    moving : list of str
        Fates whose share moves by more than 5 points.
    least : int
        Clocks under which no other policy waits less per token.
    """

    policy: str
    routes: str
    shares: dict[str, tuple[float, float] | None]
    wait_us_per_token: tuple[float, float] | None
    moving: list[str]
    least: int


def moves(table: pl.DataFrame) -> list[Move]:
    """Say for each policy which fates move over the grid's clocks.

    Parameters
    ----------
    table : polars.DataFrame
        As :func:`sensitivity_frame` gives it.
    """
    import polars as pl

    waits = table.with_columns(wait=(pl.col("wait_us") + pl.col("limbo_wait_us")) / pl.col("tokens"))
    best = waits.with_columns(least=pl.col("wait") <= pl.col("wait").min().over(list(PARAMETERS)))
    found = []
    for (policy, routes), rows in best.group_by("policy", "routes", maintain_order=True):
        shares = {
            name: _range(rows[name] / rows["issued"]) if rows["issued"].min() else None for name in FATES
        }
        moving = [name for name, ends in shares.items() if ends is not None and ends[1] - ends[0] > _SHARE]
        wait = _range(rows["wait"]) if rows["tokens"].min() else None
        found.append(Move(str(policy), str(routes), shares, wait, moving, int(rows["least"].sum())))
    return found


def _range(values: pl.Series) -> tuple[float, float]:
    return float(values.min()), float(values.max())  # type: ignore[arg-type]
