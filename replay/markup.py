"""Small HTML tables for notebooks: everything that is shown is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(
    caption: str, headers: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """Write a table as HTML, without style or script of its own.

    Parameters
    ----------
    caption : str
        What the table shows.
    headers : sequence of str
        Words above the columns.
    rows : iterable of sequence
        One a line; None is shown as a dash, numbers stand right.
    notes : iterable of str
        Sentences below it.

    Returns
    -------
    str

    Examples
    --------
    >>> html_table("<b>", ["a"], [[None]])
    '<table><caption>&lt;b&gt;</caption><thead><tr><th>a</th></tr></thead><tbody><tr><td>-</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(each)}</th>" for each in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = "".join(f"<p>{escape(each)}</p>" for each in notes)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}"
    )


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        return f'<td style="text-align:right">{text}</td>'
    return f"<td>{'-' if value is None else escape(str(value))}</td>"
