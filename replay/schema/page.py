"""A declaration as the page of ``schemas/`` that publishes it."""

from __future__ import annotations

import json
from typing import Any

from replay.schema.table import Table


def to_json(table: Table, kind: str) -> str:
    """Write a declaration as the JSON text of ``schemas/``.

    Parameters
    ----------
    table : Table
        The declaration.
    kind : str
        ``trace`` or ``result``.

    Returns
    -------
    str
        The text, with a newline at its end.
    """
    columns: list[dict[str, Any]] = [
        {
            "name": each.name,
            "type": each.type.replace("score", "float16|float32"),
            "required": each.required,
            "nullable": each.nullable,
            "doc": each.doc,
        }
        for each in table.columns
    ]
    body = {
        "table": table.name,
        "kind": kind,
        "version": 1,
        "required": table.required,
        "doc": table.doc,
        "sorted_by": list(table.key),
        "columns": columns,
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"
