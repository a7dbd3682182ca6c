"""``replay gallery``: the reports of the bundled samples, made again (for those who work on this program)."""

from pathlib import Path
from typing import Annotated

import typer


def gallery(
    traces: Annotated[Path, typer.Option("--traces", metavar="DIR", help="The samples.")] = Path("traces"),
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where their reports go.")] = Path(
        "reports"
    ),
) -> None:
    """Replay every bundled sample as the README does and write its report into the gallery.

    Examples
    --------
    replay gallery
    """
    from replay.report.gallery import write_gallery

    for path in write_gallery(traces, out):
        typer.echo(path)
