"""The tables of results by name."""

from __future__ import annotations

from replay.schema.run import RUN
from replay.schema.study import STUDY
from replay.schema.table import Table

RESULT: dict[str, Table] = {table.name: table for table in (*RUN, *STUDY)}
