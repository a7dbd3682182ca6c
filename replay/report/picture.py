"""The report's charts: each drawn once, with its words for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from replay.plot import drawn, frames
from replay.report.draft import draft_frame, draft_looks
from replay.report.prepared import Prepared
from replay.report.subject import Subject
from replay.report.wording import NOTHING, decimals, listing, percent


@dataclass(frozen=True)
class Picture:
    """One chart.

    Attributes
    ----------
    name : str
        Of its file, without the ending.
    alt : str
        What it shows, in words and its main figures.
    caption : str
        How to read it.
    svg : bytes
    frames : list of dict
        Where its panels are and what their axes count, for a page that shows values under the pointer.
    """

    name: str
    alt: str
    caption: str
    svg: bytes
    frames: list[dict[str, Any]] = field(default_factory=list)

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.name}.svg"


def draw(subject: Subject, prepared: Prepared) -> dict[str, Picture]:
    """Draw every chart that the run has data for, by name; none without a decode window."""
    if not subject.decoded:
        return {}
    made = [_fates(subject, prepared), _heat(subject, prepared), _along(subject, prepared)]
    if len(subject.rows) > 1:
        made.append(_frontier(subject))
    if prepared.curves is not None and len(prepared.curves):
        made += [_misses(subject, prepared.curves), _hits(subject, prepared.curves)]
    if prepared.drafts is not None:
        made.append(_drafts(prepared.drafts))
    if prepared.sweep is not None and len(prepared.sweep):
        made.append(_sweep(prepared.sweep))
    return {each.name: each for each in made if each is not None}


def _picture(name: str, axes: Any, alt: str, caption: str) -> Picture:
    return Picture(name, alt, caption, drawn(axes), frames(axes))


def _each(values: Iterable[tuple[str, float | None]], show: Callable[[float], str]) -> str:
    return "; ".join(f"{name} {_known(value, show)}" for name, value in values)


def _known(value: float | None, show: Callable[[float], str]) -> str:
    return NOTHING if value is None else show(value)


def _of(rows: Mapping[str, dict[str, Any]], key: str) -> list[tuple[str, float | None]]:
    return [(name, row[key]) for name, row in rows.items()]


def _same(subject: Subject) -> str:
    """Sentences on lines that stand for several policies."""
    return "".join(f" {name} is also {listing(each)}." for name, each in subject.stands.items())


def _ahead(subject: Subject) -> str:
    """A sentence on dashed black lines."""
    found = [name for name, look in subject.looks.items() if look.bound]
    return f" Dashed black: {listing(found)} look into the future, no engine runs them." if found else ""


def _fates(subject: Subject, prepared: Prepared) -> Picture:
    from replay.plot.bytes_by_fate import plot_bytes_by_fate

    read = zip(prepared.fates["series"], prepared.fates["read"], strict=True)
    unit, text = subject.amount.unit, subject.amount.text
    alt = f"Stacked bars of {unit} per token by fate, one a policy. Read in all: {_each(read, text)}."
    caption = (
        "From left to right: reads that a token waited for, reads ahead that were used, reads for nothing, and "
        "(hatched) reads that were cancelled before they began and cost the disk nothing."
        if subject.timed
        else "Without a clock it is not known which unwanted reads were cancelled in time: every issued byte counts."
        if subject.sized
        else "The sizes of the experts are not known, so experts are counted: every read that was issued, as it is not "
        "known which would have been cancelled in time."
    )
    axes = plot_bytes_by_fate(prepared.fates, looks=subject.looks, sized=subject.sized)
    return _picture("bytes_by_fate", axes, alt, caption)


def _frontier(subject: Subject) -> Picture:
    from replay.plot.frontier import plot_frontier

    table = subject.of(
        pl.DataFrame(
            [
                {name: row[name] for name in ("policy", "routes", "read_bytes_per_token", "misses_per_token")}
                for row in subject.summary
            ]
        )
    )
    unit, text = subject.amount.unit, subject.amount.text
    points = [
        f"{name} {_known(row['read_bytes_per_token'], text)} {unit} and {decimals(row['misses_per_token'], 2)} misses"
        for name, row in subject.rows.items()
    ]
    alt = f"Misses per token over {unit} read per token, a marker a policy: {'; '.join(points)}."
    caption = (
        "Further down misses less, further left reads less: up and right of another marker is worse on both. "
        "replay frontier TRACE draws whole families of guesses this way, from few reads to many."
    )
    what = "Bytes" if subject.sized else "Experts"
    caption += "" if subject.timed else f" {what} are those asked for."
    return _picture("frontier", plot_frontier(table, looks=subject.looks, sized=subject.sized), alt, caption)


def _misses(subject: Subject, curves: pl.DataFrame) -> Picture:
    from replay.plot.miss_curve import plot_miss_curve

    base = subject.rows[subject.base_name]["misses_per_token"]
    axes = plot_miss_curve(
        curves, looks=subject.looks, at=subject.at, half=None if base is None else base / 2
    )
    alt = "Misses per token over the size of the arena, a line a policy; the table below holds the values."
    caption = f"The vertical line is this run's arena ({subject.arena}).{_ahead(subject)}{_same(subject)}"
    return _picture("miss_curve", axes, alt, caption)


def _hits(subject: Subject, curves: pl.DataFrame) -> Picture:
    from replay.plot.hit_curves import plot_hit_curves

    axes = plot_hit_curves(curves, looks=subject.looks, at=subject.at)
    alt = (
        "Hit ratio over the size of the arena, one panel for all layers and one for each layer, a line a policy. "
        f"All layers, in this run's arena: {_each(_of(subject.rows, 'hit_ratio'), percent)}."
    )
    caption = (
        "Arena hits and prefetch hits over lookups, decode windows. The vertical line is this run's arena; a capacity "
        f"that cannot hold the widest event has no point.{_ahead(subject)}"
    )
    return _picture("hit_curves", axes, alt, caption)


def _heat(subject: Subject, prepared: Prepared) -> Picture:
    from replay.plot.layer_heatmap import plot_layer_heatmap

    axes = plot_layer_heatmap(prepared.layers, looks=subject.looks)
    alt = "Misses per token by layer (columns) and policy (rows). The table below names the layers."
    made = _picture(
        "layer_heatmap",
        axes,
        alt,
        "Misses per token at each layer, decode windows: the stronger the colour, the more.",
    )
    found = prepared.layers.pivot(on="layer", index="series", values="misses_per_token", maintain_order=True)
    columns = sorted(found.columns[1:], key=int)
    values = [[None if v is None else round(v, 4) for v in row] for row in found.select(columns).rows()]
    made.frames[0]["cells"] = {"rows": found["series"].to_list(), "columns": columns, "values": values}
    return made


def _along(subject: Subject, prepared: Prepared) -> Picture | None:
    from replay.plot.trace_line import plot_trace_line

    if not len(prepared.lines):
        return None
    axes = plot_trace_line(prepared.lines, looks=subject.looks, marks=prepared.marks, sized=subject.sized)
    asked = f"misses and {'bytes' if subject.sized else 'experts'} asked for"
    what = "misses, bytes read and waits" if subject.timed else asked
    alt = f"Lines of {what} per window along the trace, one a policy, with the trace's sessions and domains."
    span = f"Means over {prepared.span} decode windows. " if prepared.span > 1 else "Decode windows. "
    sessions = "Thin vertical marks: a session begins. " if prepared.marks["session"].n_unique() > 1 else ""
    domains = "The strip above names the kind of text." if prepared.marks["domain"].n_unique() > 1 else ""
    return _picture("trace_line", axes, alt, (span + sessions + domains).strip())


def _drafts(survey: dict[str, Any]) -> Picture:
    from replay.plot.drafts import plot_drafts

    axes = plot_drafts(draft_frame(survey), looks=draft_looks(survey))
    worth = _each(
        ((each["policy"], each["tokens_per_cost"]) for each in survey["policies"]), lambda v: decimals(v, 3)
    )
    alt = f"Left: share of kept drafts that were accepted, by draft step. Right: tokens over cost: {worth}."
    caption = (
        "Left: of the drafts that a policy keeps at a step, those in the matched prefix. Right: the further right, "
        "the more tokens for the cost."
    )
    return _picture("drafts", axes, alt, caption)


def _sweep(table: pl.DataFrame) -> Picture:
    from replay.plot.draft_sweep import plot_draft_sweep

    best = table.sort("tokens_per_cost", descending=True, maintain_order=True).row(0, named=True)
    alt = (
        "Two heat maps of tokens over cost: step schedules (threshold of the first draft up, of later ones across), "
        f"and a floor of each draft with a floor of the product. Most: {best['policy']}, {best['tokens_per_cost']:.3f}."
    )
    caption = (
        "The stronger the colour, the more tokens for the cost; the best of each map is framed. Chosen on the "
        "rounds that they are scored on: the table of held-out sessions says how much of it lasts."
    )
    made = _picture("draft_sweep", plot_draft_sweep(table), alt, caption)
    return replace(made, frames=[])
