"""How far a sweep is: one line on a terminal, with the cells that were there before told apart."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer

BAR = 20
"""Columns of the bar."""

SETTLED_S = 2.0
"""Seconds of playing before a remaining time is told."""


@dataclass
class Meter:
    """Counts of a sweep that runs, and how long the rest may take.

    Attributes
    ----------
    total : int
        Cells of the sweep.
    there : int
        Of them there before.
    work : float
        What is to be played, in any unit.
    settled : float
        Work after which a remaining time is told: what is played at once, of which the first part comes too late to
        judge by.
    now : callable
        A clock, in seconds.
    done, failed : int
        Cells played so far, and those of them that have no figures.
    played : float
        Work done so far, begun passes included.
    kept : float
        Work of the cells that are finished.
    """

    total: int
    there: int
    work: float
    settled: float = 0.0
    now: Callable[[], float] = time.monotonic
    done: int = 0
    failed: int = 0
    played: float = 0.0
    kept: float = 0.0
    _began: float = field(init=False)
    _moved: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._moved = self.now()

    def finish(self, work: float, failed: bool) -> None:
        """Take note of a finished cell.

        Parameters
        ----------
        work : float
            Its share of ``work``.
        failed : bool
            Whether it has no figures.
        """
        self.done += 1
        self.failed += failed
        self.kept += work
        self.move(self.kept)

    def move(self, played: float) -> None:
        """Take note of how much work is done.

        Parameters
        ----------
        played : float
            In the unit of ``work``, since the beginning.
        """
        if played > self.played:
            self.played, self._moved = min(played, self.work), self.now()

    def left_s(self) -> float | None:
        """Seconds that the rest takes at the pace so far; None where that is not known yet."""
        took = self._moved - self._began
        if self.played <= 0 or self.played < self.settled or self.now() - self._began < SETTLED_S:
            return None
        return max((self.work - self.played) * took / self.played - (self.now() - self._moved), 0.0)

    def line(self) -> str:
        """The counts as a person reads them."""
        left = self.left_s()
        pace = "estimating" if left is None else f"about {_span(left)} left"
        more = [f"{self.there:,} were there"] if self.there else []
        more += [f"{self.failed:,} failed"] if self.failed else []
        text = f"{self.there + self.done:,} of {self.total:,} cells, {pace}"
        return f"{text}; {', '.join(more)}" if more else text

    @property
    def share(self) -> float:
        """Share of the sweep that is done, what was there and the begun passes included."""
        fresh = self.total - self.there
        return (self.there + fresh * (self.played / self.work if self.work else 0.0)) / max(self.total, 1)


def _span(seconds: float) -> str:
    """A time as a person estimates it.

    Examples
    --------
    >>> _span(0.2), _span(75), _span(600), _span(20_000)
    ('1 s', '75 s', '10 min', '5.6 h')
    """
    if seconds < 100:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def say(text: str) -> None:
    """A remark on stderr."""
    typer.echo(f"note       {text}", err=True)


@contextmanager
def shown(meter: Meter, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a meter while a block runs: on a terminal, and not with ``quiet``.

    Parameters
    ----------
    meter : Meter
    quiet : bool

    Yields
    ------
    callable
        Says something beside it.
    """
    if quiet or not sys.stderr.isatty():
        yield (lambda _: None) if quiet else say
        return
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def line() -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=BAR)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(ProgressBar(1.0, meter.share, width=BAR), Text(meter.line()))
        return grid

    console = Console(stderr=True)
    with Live(get_renderable=line, console=console, refresh_per_second=2, transient=True):
        yield lambda text: console.print(f"note       {text}", markup=False, highlight=False, soft_wrap=True)
