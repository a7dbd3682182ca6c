"""What a report is about: a run seen by series (policy, and routes where there are several), per token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from replay.amount import Amount, amount, asked
from replay.plot.style import Looks, is_bound, looks_for, series
from replay.report.fold import folded
from replay.run import Run

KEY = ("policy", "routes")


@dataclass(frozen=True)
class Subject:
    """A run, and what its charts and tables share.

    Attributes
    ----------
    run : Run
    everyone : tuple of str
        All series of the run in its order, also those that another stands for (:mod:`replay.report.fold`): their
        places give the looks. Empty: the run's own.
    stands : mapping of str to list of str
        By series: the policies that it stands for besides its own.
    """

    run: Run
    everyone: tuple[str, ...] = ()
    stands: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def folded(cls, run: Run) -> Subject:
        """A run whose policies that are the same by construction are one series."""
        whole, (less, stands) = cls(run), folded(run)
        named = {whole.name(*key): names for key, names in stands.items()}
        return cls(less, tuple(whole.rows), named)

    @cached_property
    def timed(self) -> bool:
        """Whether a clock ran (or reads were recorded with their times), over experts whose sizes are known."""
        return self.sized and self.run.layers["timely"].null_count() < len(self.run.layers)

    @cached_property
    def sized(self) -> bool:
        """Whether the experts' sizes are known: without them bytes and waits mean nothing."""
        return bool((self.run.info.get("trace") or {}).get("sized", True))

    @property
    def amount(self) -> Amount:
        """In what reads are shown."""
        return amount(self.sized)

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """The run's summary; of experts without sizes all reads that were asked for, whatever a clock said."""
        return self.run.summary if self.sized else [asked(row) for row in self.run.summary]

    @cached_property
    def decoded(self) -> bool:
        """Whether any decode window is counted: without one there is no figure per token."""
        return any(row["tokens"] for row in self.run.summary)

    @cached_property
    def several_routes(self) -> bool:
        """Whether the run has more than one kind of routes."""
        return len(self.kinds) > 1

    def name(self, policy: str, routes: str) -> str:
        """A series' name."""
        return f"{policy} ({routes})" if self.several_routes else policy

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows of the summary by series, in the run's order."""
        return {self.name(row["policy"], row["routes"]): row for row in self.summary}

    @cached_property
    def looks(self) -> Looks:
        """What each series looks like."""
        return {name: look for name, look in looks_for(self.names).items() if name in self.rows}

    @cached_property
    def names(self) -> list[str]:
        """Every series by its look's index, those too that another stands for."""
        return list(self.everyone or self.rows)

    def look(self, name: str) -> int | None:
        """The place of a series among the run's."""
        return self.looks[name].index if name in self.looks else None

    def runs_on_engine(self, name: str) -> bool:
        """Whether a series is no bound: it may be the best."""
        return not is_bound(name)

    def kind(self, name: str) -> str:
        """The routes of a series."""
        return str(self.rows[name]["routes"]) if name in self.rows else ""

    @cached_property
    def kinds(self) -> list[str]:
        """The run's kinds of routes, in its order."""
        return list(dict.fromkeys(row["routes"] for row in self.run.summary))

    def of_kind(self, kind: str) -> dict[str, dict[str, Any]]:
        """Rows of one kind of routes by policy, those only that an engine can run."""
        return {
            row["policy"]: row
            for row in self.summary
            if row["routes"] == kind and self.runs_on_engine(row["policy"])
        }

    def note(self, name: str) -> str:
        """What to say behind a series' name."""
        row = self.rows.get(name, {})
        if is_bound(name):  # under a byte budget the farthest next use is no optimum
            by_bytes = "belady" in name and not (self.run.info.get("bound") or {}).get("slots", True)
            return "heuristic" if by_bytes else "bound"
        return "baseline" if row.get("policy") == self.baseline else ""

    @property
    def baseline(self) -> str:
        """The policy that changes are against."""
        return str(self.run.info.get("baseline") or self.run.summary[0]["policy"])

    def base_of(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """The baseline's row under the same routes."""
        for each in self.summary:
            if each["policy"] == self.baseline and each["routes"] == row["routes"]:
                return each
        return None

    @cached_property
    def base_name(self) -> str:
        """The baseline's series: under the run's first routes."""
        return next(
            (name for name, row in self.rows.items() if row["policy"] == self.baseline), next(iter(self.rows))
        )

    @cached_property
    def at(self) -> float | None:
        """The run's bound, as the axis of its curves counts: slots of all classes, or bytes."""
        bound = self.run.info.get("bound") or {}
        return float(sum(bound["slots"])) if bound.get("slots") else bound.get("bytes")

    @cached_property
    def arena(self) -> str:
        """The run's bound, in words."""
        from replay.units import format_bytes

        bound = self.run.info.get("bound") or {}
        if not bound.get("slots"):
            return format_bytes(bound.get("bytes") or 0)
        slots = bound["slots"]
        return (
            f"{slots[0]:,} slots"
            if len(slots) == 1
            else f"{' + '.join(f'{n:,}' for n in slots)} slots (by size class)"
        )

    def phase(self, table: pl.DataFrame, phase: str = "decode") -> pl.DataFrame:
        """A table's rows of one phase, with their series."""
        return self.of(table.filter(pl.col("phase") == phase))

    def windows(self, *columns: str) -> pl.DataFrame:
        """Some columns of the table ``windows``, with the phase and the series of each row: no more than is needed."""
        return self.of(self.run.by_window.select(*dict.fromkeys((*KEY, "phase", *columns))))

    def of(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table with the series of each row, named as everywhere in the report."""
        name = pl.format("{} ({})", *map(pl.col, KEY)) if self.several_routes else pl.col("policy")
        return series(table.with_columns(name.alias("series")))

    def per_token(self, table: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Columns of a table with a series, over the committed tokens of each series."""
        tokens = {name: row["tokens"] or None for name, row in self.rows.items()}
        over = pl.col("series").replace_strict(tokens, return_dtype=pl.Float64, default=None)
        return table.with_columns(pl.col(*columns) / over)
