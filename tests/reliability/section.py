"""One section of the figures: what was measured, in rows, and what did not hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Section:
    """What one module of this package measured.

    Attributes
    ----------
    title : str
        What the figures are.
    about : str
        How they were made, in a sentence or two.
    header : tuple of str
        Names of the columns.
    rows : list of tuple
        The figures.
    wrong : list of str
        What did not hold; empty where all is well.
    """

    title: str
    about: str
    header: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    wrong: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The section as it stands in the report."""
        lines = [f"## {self.title}", "", self.about, ""]
        lines += [
            f"| {' | '.join(map(str, row))} |"
            for row in (self.header, ["---"] * len(self.header), *self.rows)
        ]
        lines += ["", *(f"- did not hold: {each}" for each in self.wrong)] if self.wrong else []
        return "\n".join(lines) + "\n"
