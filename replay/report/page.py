"""A report as one self-contained HTML page: charts, style and script inside, nothing loaded, all text escaped."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files
from typing import Any

from replay.plot.style import BOUND, COLOURS, FATES, GRID, INK, MUTED, PAPER, TINTS
from replay.report.gather import Report
from replay.report.inline import inlined, variable

DARK = {
    PAPER: "#14171a",
    INK: "#e6e9ec",
    MUTED: "#a3abb3",
    GRID: "#2f353b",
    BOUND: "#ffffff",
    **dict(
        zip(
            COLOURS,
            (
                "#5bb4ef",
                "#ff9a5c",
                "#46cfa3",
                "#d994dd",
                "#eebc45",
                "#a3a3ff",
                "#ff8fb1",
                "#a9bccb",
                "#bccf4d",
                "#4fd2dc",
                "#d3a076",
                "#e58aa8",
            ),
            strict=True,
        )
    ),
    FATES["demand"]: "#66727f",
    FATES["timely"]: "#1f8a69",
    FATES["late"]: "#e3a62f",
    FATES["unused"]: "#c8553a",
    FATES["partial"]: "#e3a08b",
    FATES["pending"]: "#b9c2cb",
    **dict(zip(TINTS, ("#c9d0d7", "#b0b9c2", "#96a1ac", "#7d8995", "#d8cfba", "#bcb197"), strict=True)),
}
"""What each ink of the charts becomes on a dark page."""

GLYPHS = {
    "o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖", "<": "◀", ">": "▶", "p": "⬟", "h": "⬢",
    "d": "♦", "*": "★", "x": "✕", "+": "+", "1": "Y",
}  # fmt: skip
"""Characters that look like the charts' markers."""

TOGGLED = ("miss_curve", "hit_curves", "trace_line")
"""Charts with a line a policy, which can be hidden."""


def write_page(report: Report) -> str:
    """Write a report's HTML."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    environment = Environment(loader=PackageLoader("replay.report", "templates"), autoescape=True)
    environment.filters["breakable"] = lambda text: escape(text).replace("+", Markup("+<wbr>"))
    environment.filters["stacked"] = lambda text: escape(text).replace(" [", Markup("<br>["))
    here = files("replay.report") / "templates"
    script = (here / "script.js").read_text(encoding="utf-8")
    inks = " ".join(f"{variable(ink)}: {dark};" for ink, dark in DARK.items())
    style = (here / "style.css").read_text(encoding="utf-8").replace("{{ dark_inks }}", inks)
    charts = {  # drawn by matplotlib, which escapes every text
        name: Markup(inlined(each.svg, name.replace("_", "")))  # noqa: S704
        for name, each in report.pictures.items()
    }
    names = dict.fromkeys(report.pictures, report.subject.names)
    if report.drafts is not None:
        names["drafts"] = [row.name for row in report.drafts.rows]
    return environment.get_template("report.html.j2").render(
        report=report,
        svg=charts,
        names=names,
        toggled=TOGGLED,
        sorts=len(report.policies.rows) > 1,
        swatches=_swatches(report),
        style=Markup(style),  # noqa: S704 (ours)
        script=Markup(script),  # noqa: S704 (ours)
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _swatches(report: Report) -> dict[int, dict[str, Any]]:
    """How a policy's line looks beside its name: ink, dashes, marker."""
    found = {}
    for look in report.subject.looks.values():
        dashes = {"-": (), "--": (4, 2)}.get(look.line) if isinstance(look.line, str) else look.line[1]
        found[look.index] = {
            "ink": f"var({variable(look.colour)}, {look.colour})",
            "dash": " ".join(f"{each:g}" for each in dashes or ()),
            "glyph": GLYPHS[look.marker],
        }
    return found
