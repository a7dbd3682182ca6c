"""A run's folder: its tables, and the charts drawn from them."""

from __future__ import annotations

from pathlib import Path

from replay.run import RUN_FILE, Run
from replay.trace.staging import staged_folder


def write_run(run: Run, path: Path, force: bool) -> None:
    """Write a run's tables and charts into a folder, whole or not at all.

    Raises
    ------
    InputError
        The folder is taken.
    """
    with staged_folder(path, RUN_FILE, force) as staged:
        run.write(staged)
        write_charts(run, staged)


def write_charts(run: Run, folder: Path) -> None:
    """Draw the run's charts."""
    if run.curves is not None:
        from replay.plot import save
        from replay.plot.hit_curves import plot_hit_curves

        save(plot_hit_curves(run.curves), folder / "hit_curves.svg")
