"""What a declaration is made of: a table and its columns.

Types are Arrow's names; ``score`` is float16 or float32.
"""

from __future__ import annotations

from dataclasses import dataclass

# largest value of each integer type (the smallest is 0, or -max-1 for the signed ones)
INTEGERS = {
    "uint8": 2**8 - 1,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "uint64": 2**64 - 1,
    "int16": 2**15 - 1,
    "int64": 2**63 - 1,
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        The column's name; units are part of it (``_us``, ``_bytes``, ``_ratio``).
    type : str
        ``uint8`` .. ``uint64``, ``int16``, ``int64``, ``float32``, ``float64``, ``score``, ``bool``,
        ``string``, or ``list<...>`` of one of them.
    doc : str
        What it says, in one line.
    required : bool
        False where the column may be missing.
    nullable : bool
        True where a row may be null (a column that is null in every row counts as missing).
    """

    name: str
    type: str
    doc: str
    required: bool = True
    nullable: bool = False

    @property
    def item(self) -> str | None:
        """Type of the list's items, None where the column is no list."""
        return self.type[5:-1] if self.type.startswith("list<") else None


@dataclass(frozen=True)
class Table:
    """One table: its key, its columns in the order they are written, and what it is.

    Attributes
    ----------
    name : str
        The table's name, also that of its file.
    doc : str
        What a row is.
    key : tuple of str
        The columns that name a row; sorted by them and unique.
    columns : tuple of Column
        All declared columns; others may be there and are ignored.
    required : bool
        True for the tables that every trace (or run) has.
    """

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    required: bool = False

    def column(self, name: str) -> Column:
        """Find a column by its name.

        Parameters
        ----------
        name : str
            A declared column.

        Returns
        -------
        Column
            Its declaration.

        Raises
        ------
        KeyError
            The table declares no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
