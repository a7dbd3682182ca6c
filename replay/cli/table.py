"""Plain text tables for the terminal: aligned columns, two blanks between them."""

from collections.abc import Iterable, Sequence


def shown(text: str) -> str:
    r"""Write a text so that a terminal shows it and obeys nothing in it: control characters escaped.

    Examples
    --------
    >>> shown("plain"), shown("a" + chr(27) + "[31m")
    ('plain', 'a\\x1b[31m')
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def cell(value: object) -> str:
    r"""Write one value: six significant digits for a float, ``-`` for None, control characters escaped.

    Examples
    --------
    >>> cell(0.1234567), cell(None), cell(12), cell("a" + chr(10) + "b")
    ('0.123457', '-', '12', 'a\\nb')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return shown(str(value))


def aligned(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a table: numbers to the right, everything else to the left.

    Parameters
    ----------
    headers : sequence of str
        One a column.
    rows : iterable of sequence
        Values, as many as headers; None shows as ``-``.

    Returns
    -------
    str
        Header, rule and rows, without trailing blanks or a final newline.

    Examples
    --------
    >>> print(aligned(["policy", "misses"], [["lru", 12], ["decode2q", 7]]))
    policy    misses
    --------  ------
    lru           12
    decode2q       7
    """
    values = [list(row) for row in rows]
    texts = [[cell(each) for each in row] for row in values]
    right = [
        any(row[i] is not None for row in values)
        and all(row[i] is None or isinstance(row[i], int | float) for row in values)
        for i in range(len(headers))
    ]
    widths = [max(len(header), *(len(row[i]) for row in texts), 0) for i, header in enumerate(headers)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(list(headers)), line(["-" * width for width in widths]), *map(line, texts)])
