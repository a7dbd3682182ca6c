"""A lesson: candidates of some traces labelled, sessions split, q (and coverage) fitted, and the files of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.calibration.coverage import fit_coverage, score_coverage
from replay.calibration.file import COVERAGE_FORMAT, FEATURES, Q_FORMAT, VERSION, shape, write_file
from replay.calibration.fit import one_thread
from replay.calibration.whole import Calibration, calibrate
from replay.errors import InputError
from replay.learning.label import examples
from replay.predict.ranking import Ranking
from replay.spec.grammar import Part, PolicySpec, parse
from replay.spec.resolve import resolve
from replay.trace import Trace
from replay.trace.view import of_sessions
from replay.units import spans

RANKED = ("route", "unpert0", "unpert1")


@dataclass
class Lesson:
    """What was learned.

    Attributes
    ----------
    traces : sequence of Trace
    numbers : int64[S, 2]
        For each session of the examples the trace (an index) and its number there.
    spec : PolicySpec
    ranking : Ranking
    seed : int
    calibration : Calibration
    coverage : dict or None
        ``theta``, ``w`` and their figures.
    notes : list of str
    """

    traces: Sequence[Trace]
    numbers: NDArray[np.int64]
    spec: PolicySpec
    ranking: Ranking
    seed: int
    calibration: Calibration
    coverage: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def about(self) -> dict[str, Any]:
        """What both files say of where they come from."""
        meta, rank = self.traces[0].meta, self.ranking
        named = {"policy": self.spec.read_ahead.name, "k": rank.k, "p": rank.p, "b": rank.b, "r1": rank.r1}
        return {
            "version": VERSION,
            "model": {**shape(meta.layers, meta.experts, meta.top_k), "name": meta.name},
            "ranking": named,
            "seed": self.seed,
            "trained_on": self._source(self.calibration.train),
            "held_out": self._source(self.calibration.held_out),
        }

    def _source(self, sessions: NDArray[np.int64]) -> list[dict[str, Any]]:
        found = []
        for i, trace in enumerate(self.traces):
            mine = self.numbers[sessions][self.numbers[sessions, 0] == i, 1]
            sha256 = trace.tables["selections"].sha256
            found.append(
                {"trace": trace.path.resolve().name, "sha256": sha256, "sessions": np.sort(mine).tolist()}
            )
        return found

    def sessions(self, part: str) -> list[str]:
        """The sessions of a part (``train``, ``held_out``), a line a trace."""
        source = self._source(getattr(self.calibration, part))
        return [
            f"{each['trace']}: sessions {spans(each['sessions'], ',')}" for each in source if each["sessions"]
        ]

    def held_out_of(self, trace: int) -> str:
        """Held-out sessions of a trace as ``--sessions`` takes them; empty where it has none."""
        sessions = self._source(self.calibration.held_out)[trace]["sessions"]
        return spans(sessions, ",")

    def write(self, q: Path | None, coverage: Path | None, force: bool = False) -> None:
        """Write the files that are asked for.

        Parameters
        ----------
        q, coverage : Path or None
        force : bool
            Whether old files are replaced.
        """
        about = self.about()
        if q is not None:
            table = self.calibration.table
            tables: dict[str, Any] = {"margin_edges": table.edges.tolist(), "ranks": self.ranking.k}
            for name in ("q", "counts", "q_absent", "counts_absent"):
                tables[name] = getattr(table, name).tolist()
            content = {"format": Q_FORMAT, **about, **tables, "metrics": self.calibration.metrics()}
            write_file(q, content, force)
        if coverage is not None and self.coverage is not None:
            write_file(
                coverage,
                {"format": COVERAGE_FORMAT, **about, "features": list(FEATURES), **self.coverage},
                force,
            )


def spec_of(text: str) -> PolicySpec:
    """Read the ranking's spec.

    Raises
    ------
    InputError
        It is not a ranked read-ahead policy alone.
    """
    spec = parse(text)
    others = [*spec.gates, *spec.retention, *([spec.router] if spec.router else [])]
    if spec.read_ahead.name not in RANKED or others or spec.evict != Part("lru"):
        raise InputError(
            f"--policy {text}: expected a ranking alone, {', '.join(RANKED)}, with options such as route:k=16"
        )
    return spec


def lesson(
    traces: Sequence[Trace],
    spec: PolicySpec,
    seed: int = 0,
    train: str | None = None,
    coverage: bool = False,
    *,
    slots: str | None = None,
    bytes: str | None = None,
) -> Lesson:
    """Learn from traces of one model.

    Parameters
    ----------
    traces : sequence of Trace
    spec : PolicySpec
        The ranking (:func:`spec_of`).
    seed : int
    train : str, optional
        Sessions of every trace to learn from, such as ``0-9``; dealt by the seed where None.
    coverage : bool
        Fit APEX's coverage too, on the same sessions.
    slots, bytes : str, optional
        The arena whose residents count where a trace has no snapshots of them (:func:`replay.arena.bound.resolve`).

    Returns
    -------
    Lesson

    Raises
    ------
    InputError
        A trace cannot be learned from, or scikit-learn is not there.
    """
    rankings = [resolve(spec, trace.meta).ranking for trace in traces]
    ranking = rankings[0]
    if ranking is None or ranking.k < 1:
        raise InputError(f"--policy {spec.text}: ranks nothing; give k of at least 1")
    if any(each != ranking for each in rankings):
        raise InputError(
            f"--policy {spec.text}: the traces record different options of it; give k, p, b and r1 themselves"
        )
    with one_thread():
        pass  # scikit-learn is there, before anything long begins
    numbers = _numbers(traces)
    labelled = examples(traces, ranking, slots, bytes)
    chosen = None if train is None else _chosen(traces, numbers, train)
    meta = traces[0].meta
    found = calibrate(labelled, meta.layers, ranking.k, seed, chosen)
    whole = Lesson(traces, numbers, spec, ranking, seed, found)
    if coverage:
        learn, test = (
            labelled.where(np.isin(labelled.session, each)) for each in (found.train, found.held_out)
        )
        with one_thread():
            theta, w = fit_coverage(learn, meta.top_k, ranking.k)
        scores = score_coverage(theta, w, test, meta.top_k, ranking.k)
        whole.coverage = {"theta": theta.tolist(), "w": w.tolist(), "metrics": scores}
    if ranking.b == 0 and ranking.r1 == 0:
        whole.notes.append("the ranking has no resident bonus: adjusted ranks are raw ranks")
    if (slots is not None or bytes is not None) and any(trace.has("residents") for trace in traces):
        whole.notes.append("a trace with snapshots of residents is read by those: its arena is not played")
    return whole


def _numbers(traces: Sequence[Trace]) -> NDArray[np.int64]:
    """Trace and number of every session, in the order in which the examples number them."""
    return np.array(
        [
            (i, number)
            for i, trace in enumerate(traces)
            for number in np.unique(trace.windows.session).tolist()
        ],
        np.int64,
    ).reshape(-1, 2)


def _chosen(traces: Sequence[Trace], numbers: NDArray[np.int64], text: str) -> NDArray[np.int64]:
    """Sessions that ``--train`` names, as the examples number them."""
    found = []
    for i, trace in enumerate(traces):
        try:
            mine = np.unique(trace.windows.session[of_sessions(trace, text)])
        except InputError as problem:
            raise InputError(f"--train: {problem}") from None
        found.append(np.flatnonzero((numbers[:, 0] == i) & np.isin(numbers[:, 1], mine)))
    return np.concatenate(found)
