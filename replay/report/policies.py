"""The policy table and its relatives: what each policy costs per token, against the baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from replay.report.figure import Figure, Grid, Head, grid
from replay.report.pairing import Differences
from replay.report.subject import Subject
from replay.report.wording import change, count, decimals, milliseconds, percent, unsigned_zero

Row = dict[str, Any]


def _two(value: float) -> str:
    return decimals(value, 2)


def _key(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.get(name)


def _share(part: str, *whole: str) -> Callable[[Row], float | None]:
    """A share of a sum of the summary's totals."""

    def of(row: Row) -> float | None:
        parts = [row.get(each) for each in whole]
        total = None if any(each is None for each in parts) else sum(parts)  # type: ignore[arg-type]
        return row[part] / total if total and row.get(part) is not None else None

    return of


def _against(
    subject: Subject, name: str, show: Callable[[float], str], paired: Differences
) -> Callable[[Row], str]:
    """The relative change of a figure against the baseline under the same routes, and its paired interval."""

    def of(row: Row) -> str:
        base = subject.base_of(row)
        if base is None or row is base or row.get(name) is None or not base.get(name):
            return ""
        text = change(row[name] / base[name] - 1)
        interval = paired.get((subject.name(row["policy"], row["routes"]), name))
        if interval is None:
            return text
        noise = "" if interval.low > 0 or interval.high < 0 else " noise"
        return f"{text} [{unsigned_zero(show(interval.low))}, {unsigned_zero(show(interval.high))}]{noise}"

    return of


def policy_figures(subject: Subject, paired: Differences) -> list[Figure]:
    """The columns of the policy table, in its order; beside a change its interval, where ``paired`` has one.

    The first three answer "who misses least, who reads least, who waits least"; the rest says why. Where the
    experts' sizes are not known, experts are counted, and there are no times.
    """
    versus = f"beside it the change against {subject.baseline}"
    unit, sized = subject.amount, subject.sized
    read = (
        "bytes that the disk moved"
        if subject.timed
        else f"{'bytes' if sized else 'experts'} asked for: at most what the disk would move"
    )

    def first(name: str, text: str, unit: str, doc: str, show: Callable[[float], str]) -> Figure:
        aside = _against(subject, name, show, paired)
        return Figure(Head(text, unit, f"{doc}; {versus}"), _key(name), show, "low", aside)

    def ratio(name: str, text: str, unit: str, doc: str, better: str = "") -> Figure:
        return Figure(Head(text, unit, doc), _key(name), percent, better)

    each = "read-ahead reads"
    late = Head("late", "of used", f"{each} not done when asked for, of those claimed")
    covered = (
        "experts wanted and not resident that were read ahead; useful says how many of the reads these are"
    )
    polluted = "misses on experts that a guess had evicted and nothing had read since"
    adjusted = "1 - (misses + issued reads) / lookups: every read counts against it"
    hit = "(arena hits + prefetch hits) / lookups; a higher one is not a faster engine"
    absent = "experts wanted and absent: each is a read that the token waits for"
    waited = "time that events waited for reads on the modelled disk"
    costs = [
        first("read_bytes_per_token", f"{unit.unit} read", "per token", read, unit.text),
        first("wait_us_per_token", "wait", "ms per token", waited, milliseconds),
    ]
    fates = [
        ratio(
            "timely_usefulness", "timely", "of read ahead", f"{each} there when asked for, of those issued"
        ),
        Figure(late, _share("late", "timely", "late"), percent),
    ]
    return [
        first("misses_per_token", "misses", "per token", absent, _two),
        *(costs if sized else costs[:1]),
        ratio("adjusted_hit_ratio", "adjusted hit", "ratio", adjusted, "high"),
        ratio("hit_ratio", "hit", "ratio", hit),
        Figure(Head("read ahead", "per token", f"{each} issued"), _key("issued_per_token"), _two),
        ratio("usefulness", "useful", "of read ahead", f"{each} that were claimed, of those issued"),
        Figure(Head("covered", "of absent", covered), _coverage, percent),
        *(fates if sized else []),
        Figure(Head("pollution", "of misses", polluted), _pollution(subject), percent),
        *_gate_figures(subject),
    ]


def _coverage(row: Row) -> float | None:
    """Prefetch hits, of the experts that were wanted and not resident; None where nothing was read ahead."""
    hits, misses = row.get("prefetch_hits_per_token"), row.get("misses_per_token")
    return (
        hits / (hits + misses)
        if row.get("issued_per_token") and hits is not None and misses is not None
        else None
    )


def _pollution(subject: Subject) -> Callable[[Row], float | None]:
    """The share of decode misses on experts that a guess had evicted; None where nothing was read ahead."""
    table = subject.phase(subject.run.layers)
    if "pollution" not in table.columns:
        return lambda row: None
    sums = table.group_by("series").agg(
        pl.col("pollution", "misses").sum(), pl.col("pollution").null_count().alias("untold")
    )
    found = {row["series"]: row for row in sums.iter_rows(named=True)}

    def of(row: Row) -> float | None:
        mine = found.get(subject.name(row["policy"], row["routes"]))
        if mine is None or mine["untold"] or not row.get("issued_per_token"):
            return None
        return mine["pollution"] / mine["misses"] if mine["misses"] else None

    return of


def policy_grid(subject: Subject, paired: Differences) -> Grid:
    """The policy table; below a policy's name those that it stands for."""
    return grid(
        "Policies, decode windows", "policy", policy_figures(subject, paired), subject.rows.items(),
        look=subject.look, eligible=subject.runs_on_engine, note=subject.note, group=subject.kind,
        also=lambda name: " ".join(f"= {each}" for each in subject.stands.get(name, ())),
    )  # fmt: skip


def _of_series(
    subject: Subject, caption: str, figures: list[Figure], rows: dict[str, Row] | None = None
) -> Grid:
    return grid(
        caption, "policy", figures, (subject.rows if rows is None else rows).items(),
        look=subject.look, eligible=subject.runs_on_engine, note=subject.note, group=subject.kind,
    )  # fmt: skip


FATE_HEADS = (
    ("demand_bytes", "demand", "misses: read when asked for"),
    ("timely_bytes", "timely", "read ahead and there when asked for"),
    ("late_bytes", "late", "read ahead, claimed, not done when asked for"),
    ("late_exposed_bytes", "late, exposed", "pieces of late reads that were not done when asked for"),
    ("claimed_bytes", "used", "read ahead and claimed"),
    ("unused_bytes", "unused", "read and never claimed, the read part of partial reads included"),
    ("partial_read_bytes", "of it partial", "the read part of reads that were cancelled half-way"),
    ("pending_read_bytes", "pending", "read, and neither claimed nor retired"),
    ("retired_bytes", "unwanted", "read ahead and never claimed"),
    ("cancelled_bytes", "cancelled", "never read: their queued pieces were dropped"),
    ("read", "read", "all that the disk moved"),
)

RARE = ("partial_read_bytes", "pending_read_bytes")
"""Columns that are left out where they hold nothing."""


def bytes_by_series(subject: Subject) -> pl.DataFrame:
    """Bytes by fate, per token, of each series: what the stacked bars show."""
    table = subject.phase(subject.run.layers)
    sums = table.group_by("series", maintain_order=True).agg(pl.col(r"^.*_bytes$").sum())
    if not subject.timed:
        sums = sums.select("series", "demand_bytes", "claimed_bytes", "retired_bytes")
        sums = sums.with_columns(pl.sum_horizontal(pl.selectors.ends_with("_bytes")).alias("read"))
    else:
        sums = sums.drop("claimed_bytes", "retired_bytes").with_columns(
            (pl.col("unused_bytes") - pl.col("partial_read_bytes")).alias("whole_unused_bytes"),
            pl.col("disk_bytes").alias("read"),
        )
    return subject.per_token(sums, *sums.columns[1:])


def fate_grid(subject: Subject, sums: pl.DataFrame) -> Grid:
    """Bytes by fate as figures."""
    unit = subject.amount
    figures = [
        Figure(Head(text, unit.unit, doc), _key(column), unit.text, "low" if column == "read" else "")
        for column, text, doc in FATE_HEADS
        if column in sums.columns and (column not in RARE or bool((sums[column].fill_null(0) != 0).any()))
    ]
    return _of_series(
        subject,
        f"{unit.unit} per token by fate",
        figures,
        {row["series"]: row for row in sums.iter_rows(named=True)},
    )


def prefill_grid(subject: Subject) -> Grid | None:
    """What the prefill windows cost in all; None where the trace has none."""
    counts = ("lookups", "hits", "prefetch_hits", "misses", "demand_bytes", "issued_bytes", "disk_bytes")
    times = ("wait_us", "limbo_wait_us")
    windows = subject.phase(subject.windows(*counts, *times), "prefill")
    if not len(windows):
        return None
    sums = windows.group_by("series", maintain_order=True).agg(
        pl.len().alias("windows"), pl.col(*counts, *times).sum()
    )

    def each(*names: str) -> Callable[[Row], float | None]:
        return lambda row: sum(row[name] for name in names) / row["windows"]

    def hit(row: Row) -> float | None:
        return (row["hits"] + row["prefetch_hits"]) / row["lookups"] if row["lookups"] else None

    read = ("disk_bytes",) if subject.timed else ("demand_bytes", "issued_bytes")
    unit, what = subject.amount, "bytes" if subject.sized else "experts"
    figures = [
        Figure(Head("windows", doc="prefill windows"), _key("windows"), count),
        Figure(Head("misses", "per window", "experts wanted and absent"), each("misses"), _two, "low"),
        Figure(Head("hit", "ratio", "(arena hits + prefetch hits) / lookups"), hit, percent),
        Figure(
            Head(f"{unit.unit} read", "per window", f"{what} read, or asked for without a clock"),
            each(*read),
            unit.text,
            "low",
        ),
    ]
    if subject.timed:
        waited = Head("wait", "ms per window", "time waited for reads")
        figures.append(Figure(waited, each(*times), milliseconds, "low"))
    return _of_series(
        subject, "Prefill windows", figures, {row["series"]: row for row in sums.iter_rows(named=True)}
    )


def _gate_figures(subject: Subject) -> list[Figure]:
    """What gates let through, where a policy has any."""
    if not any(row.get("asked") is not None for row in subject.rows.values()):
        return []
    asked = "candidates that were not resident when the gates were asked"
    unit, what = subject.amount, "bytes" if subject.sized else "experts"
    spared = f"{what} read ahead for each miss fewer than the same eviction policy has without read-ahead"
    return [
        Figure(Head("admitted", "of asked", f"{asked}: share admitted"), _share("admitted", "asked"), percent),
        Figure(
            Head("gate precision", "of admitted", "share of what the gates admitted that its event wanted"),
            _key("gate_precision_ratio"), percent,
        ),
        Figure(
            Head("gate coverage", "of absent", "share of what was wanted and not resident that the gates admitted"),
            _key("gate_coverage_ratio"), percent,
        ),
        Figure(
            Head(f"{unit.unit} issued", "per miss avoided", spared), _key("issued_bytes_per_miss_avoided"), unit.text
        ),
    ]  # fmt: skip


def routes_grid(subject: Subject) -> Grid | None:
    """How far other routes leave the recorded picks; None under recorded routes only."""
    rows = {name: row for name, row in subject.rows.items() if row.get("picks_kept_ratio") is not None}
    if not rows:
        return None

    def changed(name: str) -> Callable[[Row], float | None]:
        return lambda row: None if row.get(name) is None else 1 - row[name]

    picks, mass = "picks that differ from the recorded ones", "softmax mass of the raw best picks given up"
    figures = [
        Figure(Head("picks changed", "of all", picks), changed("picks_kept_ratio"), percent),
        Figure(
            Head("first tenth", "of the trace", f"{picks}, early"), changed("picks_kept_first_ratio"), percent
        ),
        Figure(
            Head("last tenth", "of the trace", f"{picks}, late"), changed("picks_kept_last_ratio"), percent
        ),
        Figure(Head("mass given up", "mean of rows", mass), _key("given_up_mean_ratio"), percent),
        Figure(Head("mass given up", "99th percentile", mass), _key("given_up_p99_ratio"), percent),
    ]
    return _of_series(subject, "What other routes change about the picks", figures, rows)
