"""Sweeps of floors and schedules, and the best of each family on sessions that it was not chosen on."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from replay.errors import InputError
from replay.retain.cost import Cost
from replay.retain.decide import keep
from replay.retain.grid import DEFAULT_COST
from replay.retain.policy import Retention
from replay.retain.rounds import Ints
from replay.retain.traffic import Recorded

if TYPE_CHECKING:
    import polars as pl

    from replay.trace import Trace

FINE = tuple(round(0.05 * i, 2) for i in range(20))
COARSE = tuple(round(0.1 * i, 1) for i in range(10))


@dataclass(frozen=True)
class Point:
    """One policy of a sweep.

    Attributes
    ----------
    family : str
        ``flat``, ``cumulative``, ``schedule`` or ``flat and cumulative``.
    policy : str
    first, second : float
        The family's one or two thresholds: floor; product; step 0 and later steps; floor and product.
    rounds, kept, committed : int
    cost : float
    tokens_per_cost : float
    expert_bytes : int
        Of the kept rows.
    """

    family: str
    policy: str
    first: float
    second: float | None
    rounds: int
    kept: int
    committed: int
    cost: float
    tokens_per_cost: float
    expert_bytes: int


@dataclass(frozen=True)
class Choice:
    """The best of a family on training sessions, scored on held-out ones.

    Attributes
    ----------
    family, policy : str
    training, held_out : float
        Its tokens over cost there.
    best_held_out : float
        What the family's best would have had there, had it been chosen on them.
    recorded_held_out : float
        What was recorded has there.
    """

    family: str
    policy: str
    training: float
    held_out: float
    best_held_out: float
    recorded_held_out: float


@dataclass(frozen=True)
class Sweep:
    """A sweep over all rounds, and the choices by held-out sessions (empty where there is one session)."""

    points: list[Point]
    choices: list[Choice]
    training: int
    held_out: int

    def as_dict(self) -> dict[str, Any]:
        """Give the sweep as plain data."""
        return asdict(self)

    def frame(self) -> "pl.DataFrame":
        """The table ``draft_sweep``."""
        import polars as pl

        return pl.DataFrame([asdict(each) for each in self.points], infer_schema_length=None).with_columns(
            pl.col("second").cast(pl.Float64)
        )


def families() -> Iterator[tuple[str, float, float | None, Retention]]:
    """Every policy of the sweep: family, thresholds, policy."""
    for floor in FINE:
        yield "flat", floor, None, Retention(min_p=floor)
    for product in FINE:
        yield "cumulative", product, None, Retention(min_cum_p=product)
    for first in COARSE:
        for later in COARSE:
            yield "schedule", first, later, Retention(schedule=(first, later))
    for floor in COARSE:
        for product in COARSE:
            yield "flat and cumulative", floor, product, Retention(min_p=floor, min_cum_p=product)


def sweep(trace: "Trace", data: Recorded, cost: Cost = DEFAULT_COST) -> Sweep:
    """Account for every policy of the families on a trace's rounds; those looser than the record are left out.

    Parameters
    ----------
    trace : Trace
    data : Recorded
        Its rounds, as ``read_recorded`` gives them.
    cost : Cost, optional

    Returns
    -------
    Sweep
        Training sessions are every other one, in the order in which they come.
    """
    rounds = data.rounds
    session = trace.windows.session[rounds.window]
    ids, first, place = np.unique(session, return_index=True, return_inverse=True)
    rank = np.empty(len(ids), np.int64)
    rank[np.argsort(first)] = np.arange(len(ids))
    training = rank[place] % 2 == 0
    whole = np.ones(len(training), bool)
    points, scores = [], []
    for family, low, high, policy in families():
        try:
            kept, ran = keep(rounds, policy)
        except InputError:
            continue
        tokens, price = _tokens(data, kept, ran, cost, whole)
        wanted = int(data.prefix_bytes[np.arange(len(kept)), kept].sum())
        points.append(
            Point(
                family,
                policy.name,
                low,
                high,
                len(kept),
                int(kept.sum()),
                tokens,
                price,
                tokens / price,
                wanted,
            )
        )
        scores.append([_ratio(data, kept, ran, cost, mask) for mask in (training, ~training)])
    if training.all():
        return Sweep(points, [], len(ids), 0)
    kept, ran = keep(rounds, Retention())
    recorded = _ratio(data, kept, ran, cost, ~training)
    choices = _choices(points, np.array(scores), recorded)
    return Sweep(points, choices, -(-len(ids) // 2), len(ids) // 2)


def _choices(points: list[Point], scores: npt.NDArray[np.float64], recorded: float) -> list[Choice]:
    found = []
    for family in dict.fromkeys(each.family for each in points):
        mine = np.array([i for i, each in enumerate(points) if each.family == family])
        chosen = int(mine[scores[mine, 0].argmax()])
        best = float(scores[mine, 1].max())
        found.append(
            Choice(
                family,
                points[chosen].policy,
                float(scores[chosen, 0]),
                float(scores[chosen, 1]),
                best,
                recorded,
            )
        )
    return found


def _tokens(
    data: Recorded, kept: Ints, ran: Ints, cost: Cost, mask: npt.NDArray[np.bool_]
) -> tuple[int, float]:
    """Committed tokens and cost of some rounds."""
    tokens = int(mask.sum()) + int(np.minimum(kept, data.rounds.matched)[mask].sum())
    price = float(cost.by_kept(data.rounds.p.shape[1])[kept[mask]].sum() + cost.draft_step * ran[mask].sum())
    return tokens, price


def _ratio(data: Recorded, kept: Ints, ran: Ints, cost: Cost, mask: npt.NDArray[np.bool_]) -> float:
    tokens, price = _tokens(data, kept, ran, cost, mask)
    return tokens / price if price else 0.0
