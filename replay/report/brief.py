"""The answers that a reader comes for, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.amount import Amount
from replay.report.capacity import NEVER, halves, halving_text
from replay.report.draft import verdict
from replay.report.layers import in_words
from replay.report.prepared import Prepared
from replay.report.subject import Subject
from replay.report.wording import change, decimals, listing, milliseconds, percent

Rows = dict[str, dict[str, Any]]


def brief(subject: Subject, prepared: Prepared) -> list[str]:
    """Who misses, reads and waits least; what halves the misses; which layers; which drafts."""
    found = []
    for kind in subject.kinds:
        where = f"Routes {kind}: " if subject.several_routes else ""
        found += [f"{where}{text}" for text in _of_kind(subject, subject.of_kind(kind))]
    found += [*_bounds(subject), *_parting(subject)]
    if prepared.curves is not None and len(prepared.curves):
        half = halves(subject, prepared.curves).get(subject.base_name)
        found += [_halving(subject, half)] if half is not None else []
    found.append(in_words(subject, prepared.layers))
    best = verdict(prepared.drafts) if prepared.drafts is not None else None
    return [*found, best] if best else found


def _of_kind(subject: Subject, rows: Rows) -> list[str]:
    """Sentences on the policies under one kind of routes; without times where the experts' sizes are not known."""
    unit, text = subject.amount.unit, subject.amount.text
    what = f"Fewest {'bytes' if subject.sized else 'experts'} {'read' if subject.timed else 'asked for'}"
    sentences = [
        _least(subject, rows, "Fewest misses", "misses_per_token", lambda v: f"{decimals(v, 2)} per token"),
        _least(subject, rows, what, "read_bytes_per_token", lambda v: f"{text(v)} {unit} per token"),
    ]
    if subject.sized:
        sentences += [
            _least(
                subject,
                rows,
                "Shortest wait",
                "wait_us_per_token",
                lambda v: f"{milliseconds(v)} ms per token",
            ),
            _late(rows),
        ]
    best = _unbeaten(rows, subject.amount)
    if len(best) > 1:
        sentences.append(
            f"Trade-off, fewest misses first, each next one reads less: {listing(best)}; no other beats these."
        )
    return [each for each in sentences if each is not None]


def _late(rows: Rows) -> str | None:
    """What share of the read-ahead that was used came late, least to most; None without a clock or reads."""
    used = {name: (row.get("timely") or 0) + (row.get("late") or 0) for name, row in rows.items()}
    shares = sorted((rows[name]["late"] / count, name) for name, count in used.items() if count)
    if not shares:
        return None
    (low, first), (high, last) = shares[0], shares[-1]
    if percent(low) == percent(high):
        under = first if len(shares) == 1 else "every policy"
        return f"Late: {percent(low)} of the read-ahead that was used, under {under}."
    return f"Late: {percent(low)} ({first}) to {percent(high)} ({last}) of the read-ahead that was used."


def _bounds(subject: Subject) -> list[str]:
    """What the policies miss that look into the future."""
    known = [
        f"{name} {decimals(row['misses_per_token'], 2)}"
        for name, row in subject.rows.items()
        if not subject.runs_on_engine(name) and row["misses_per_token"] is not None
    ]
    return [f"Bounds, which look into the future: {listing(known)} misses per token."] if known else []


def _least(subject: Subject, rows: Rows, what: str, key: str, show: Callable[[float], str]) -> str | None:
    known = {name: row[key] for name, row in rows.items() if row.get(key) is not None}
    if len(known) < 2:
        return None
    least = min(known.values())
    names = [name for name, value in known.items() if value == least]
    text, base = f"{what}: {' = '.join(names)}, {show(least)}", known.get(subject.baseline)
    if subject.baseline not in names and base:
        text += f" ({change(least / base - 1)} against {subject.baseline})"
    return text + "."


def _unbeaten(rows: Rows, unit: Amount) -> list[str]:
    """Policies that no other beats in misses or reads without losing in the other, fewest misses first, figures beside.

    Those that tie are one text.
    """
    points: dict[tuple[float, float], list[str]] = {}
    for name, row in rows.items():
        if row["misses_per_token"] is not None:
            points.setdefault((row["misses_per_token"], row["read_bytes_per_token"]), []).append(name)
    return [
        f"{' = '.join(names)} ({decimals(at[0], 2)} misses, {unit.text(at[1])} {unit.unit})"
        for at, names in sorted(points.items())
        if not any(m <= at[0] and r <= at[1] and (m, r) != at for m, r in points)
    ]


def _parting(subject: Subject) -> list[str]:
    """How far the kinds of routes part in misses: the further, the less the first is to be believed."""
    first, *others = subject.kinds
    base, found = subject.of_kind(first), []
    for kind in others:
        parted = [
            (abs(row["misses_per_token"] / base[name]["misses_per_token"] - 1), name)
            for name, row in subject.of_kind(kind).items()
            if name in base and base[name]["misses_per_token"] and row["misses_per_token"] is not None
        ]
        if parted:
            most, name = max(parted)
            found.append(f"Routes {first} and {kind} part by at most {percent(most)} in misses ({name}).")
    return found


def _halving(subject: Subject, half: tuple[str, float]) -> str:
    """How large an arena halves the baseline's misses."""
    size, name = halving_text(subject, half), subject.base_name
    unit = " slots" if subject.arena.endswith("slots") else ""
    if half[0] == NEVER:
        return (
            f"No arena halves the misses of {name}, not even one of all experts (this run: {subject.arena})."
        )
    if half[0] == ">":
        return f"Half the misses of {name} take an arena of more than {size[2:]}{unit} (this run: {subject.arena})."
    return f"Half the misses of {name} take an arena of {size}{unit} (this run: {subject.arena})."
