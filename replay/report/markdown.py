"""A report as Markdown: everything that comes from a trace is escaped as it is written."""

from __future__ import annotations

import re
from typing import Any

from replay.report.gather import Report

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_LINK = re.compile(r"(://|\bwww\.|@)", re.IGNORECASE)


class Raw(str):
    """Text that is Markdown already."""


def escape(value: object) -> str:
    r"""Write a value so that Markdown (GitHub's too) shows it as it is, on one line.

    Examples
    --------
    >>> escape("a|b <script> *c*")
    'a\\|b \\<script\\> \\*c\\*'
    >>> escape("see http://x.y" + chr(10) + "# no heading")
    'see http:\\//x.y \\# no heading'
    """
    if isinstance(value, Raw):
        return str(value)
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    text = _SPECIAL.sub(r"\\\1", text)
    return _LINK.sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    """Keep a renderer from making a link of it."""
    text = found[0]
    return ":\\//" if text == "://" else "&#64;" if text == "@" else text[:-1] + "\\."


def fenced(text: str) -> Raw:
    """A code block that no text can end."""
    runs = [len(each) for each in re.findall(r"`+", text)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return Raw(f"{fence}\n{text}\n{fence}")


def write_markdown(report: Report) -> str:
    """Write a report's Markdown, its pictures linked by file name."""
    from jinja2 import Environment, PackageLoader

    environment: Any = Environment(
        loader=PackageLoader("replay.report", "templates"),
        autoescape=False,  # noqa: S701 (Markdown, not HTML: ``finalize`` escapes every value)
        finalize=escape,
        keep_trailing_newline=True,
    )
    template = environment.get_template("report.md.j2")
    text: str = template.render(report=report, raw=Raw, fenced=fenced)
    return re.sub(r"\n{3,}", "\n\n", text)
