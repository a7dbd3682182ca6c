"""``replay report``: a run's report again, from its tables."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that `replay compare --out` wrote.")
    ],
) -> None:
    """Make a run's report.md, report.html and charts again, from its tables and run.json alone.

    Prints the page's path. The other files of the folder stay as they are.

    Examples
    --------
    replay report run
    """
    from replay.report import write_report

    written = write_report(folder)
    typer.echo(next(path for path in written if path.name == "report.html"))
