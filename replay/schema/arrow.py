"""Declarations as Arrow's types and schemas; pyarrow is imported only when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.schema.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(type: str, score: str = "float32") -> pa.DataType:
    """Arrow's type of a declared type.

    Parameters
    ----------
    type : str
        A declared type, a list included.
    score : str
        What to store where ``score`` is declared: ``float16`` or ``float32``.

    Returns
    -------
    pyarrow.DataType
        The type to write.

    Examples
    --------
    >>> str(arrow_type("uint16"))
    'uint16'
    """
    import pyarrow as pa

    if type.startswith("list<"):
        return pa.list_(arrow_type(type[5:-1], score))
    names = {"bool": "bool_", "score": score}
    return getattr(pa, names.get(type, type))()


def arrow_schema(table: Table, score: str = "float32") -> pa.Schema:
    """Arrow's schema of a whole table, optional columns included.

    Parameters
    ----------
    table : Table
        One of ``TRACE`` or ``RESULT``.
    score : str
        What to store where ``score`` is declared.

    Returns
    -------
    pyarrow.Schema
        The fields in the declared order.
    """
    import pyarrow as pa

    return pa.schema(
        [pa.field(each.name, arrow_type(each.type, score), each.nullable) for each in table.columns]
    )
