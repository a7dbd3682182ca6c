"""The gallery: the report of every bundled sample, small enough to keep, with the integers that tests compare."""

from __future__ import annotations

from pathlib import Path

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.report import rendered
from replay.run import Run
from replay.trace import open_trace
from replay.trace.fields import FILE
from replay.trace.staging import staged_folder

PAGE = "report.html"
KEPT = ("summary.csv",)
"""Files of a run that the gallery keeps beside the report; its other tables it keeps as ``LAYERS``."""

LAYERS = "layers.csv"


def samples(traces: Path) -> list[Path]:
    """The sample traces of a folder, by name.

    Raises
    ------
    InputError
        The folder holds none.
    """
    found = sorted(each.parent for each in traces.glob(f"*/{FILE}"))
    if not found:
        raise InputError(f"{traces}: no trace there; run it in the project's folder, or give --traces DIR")
    return found


def sample_run(trace: Path) -> Run:
    """Replay a sample as the README's first command does, its paths relative to the project's folder."""
    opened = open_trace(trace)
    run = compare(opened, clock=load_clock(None, opened.meta.io), check=True)
    run.info["command"] = ["replay", "compare", f"{trace.parent.name}/{trace.name}", "--out", "run"]
    return run


def write_sample(trace: Path, out: Path) -> Path:
    """Write one sample's report into the gallery.

    Parameters
    ----------
    trace : Path
        The sample.
    out : Path
        The gallery; the report's folder in it has the sample's name and is replaced.

    Returns
    -------
    Path
        The report's folder.
    """
    run = sample_run(trace)
    folder = out / trace.name
    with staged_folder(folder, PAGE, force=True) as staged:
        run.write(staged)
        for path in staged.iterdir():
            if path.name not in KEPT:
                path.unlink()
        run.layers.write_csv(staged / LAYERS)
        for name, content in rendered(run).items():
            (staged / name).write_bytes(content)
    return folder


def write_gallery(traces: Path, out: Path) -> list[Path]:
    """Write every sample's report; returns their folders."""
    return [write_sample(each, out) for each in samples(traces)]
