"""Reports: a run's folder with its tables, charts, ``report.md`` and ``report.html``.

A report is a function of the run's tables and ``run.json`` alone: ``replay report DIR`` makes it again.
"""

from __future__ import annotations

from pathlib import Path

from replay.run import RUN_FILE, Run
from replay.trace.staging import staged_file, staged_folder


def rendered(run: Run) -> dict[str, bytes]:
    """Make a run's report.

    Parameters
    ----------
    run : Run
        As compared, or as loaded from its folder.

    Returns
    -------
    dict of str to bytes
        Files by name: ``report.md``, ``report.html``, and one ``.svg`` a chart; the same bytes for the same run.
    """
    from replay.report.gather import gather
    from replay.report.markdown import write_markdown
    from replay.report.page import write_page

    report = gather(run)
    found = {each.file: each.svg for each in report.pictures.values()}
    found["report.md"] = write_markdown(report).encode()
    found["report.html"] = write_page(report).encode()
    return found


def write_run(run: Run, path: Path, force: bool) -> None:
    """Write a run's tables, charts and report into a folder, whole or not at all.

    Parameters
    ----------
    run : Run
    path : Path
        The folder to make.
    force : bool
        Replace a run that is there.

    Raises
    ------
    InputError
        The folder is taken.
    """
    with staged_folder(path, RUN_FILE, force) as staged:
        run.write(staged)
        for name, content in rendered(run).items():
            (staged / name).write_bytes(content)


def write_report(folder: Path) -> list[Path]:
    """Make the report in a run's folder again, from its tables.

    Parameters
    ----------
    folder : Path
        A folder that ``replay compare --out`` wrote.

    Returns
    -------
    list of Path
        The files that were written, each whole or not at all.

    Raises
    ------
    InputError
        The folder holds no run.
    """
    from replay.run import load

    return [_replaced(folder / name, content) for name, content in rendered(load(folder)).items()]


def _replaced(path: Path, content: bytes) -> Path:
    with staged_file(path, force=True) as staged:
        staged.write_bytes(content)
    return path
