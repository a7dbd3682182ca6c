"""A locked connection, and the answers that it gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH = 10_000
"""Rows that are fetched at once."""


@dataclass(frozen=True)
class Desk:
    """A locked connection, and the tables that it can read.

    Attributes
    ----------
    connection : duckdb.DuckDBPyConnection
        In memory; no way out to files, extensions or settings.
    tables : dict of str to str
        Tables as a query names them, such as ``layers`` and ``trace.windows``, and that name in quotes.
    """

    connection: duckdb.DuckDBPyConnection
    tables: dict[str, str]

    def columns(self) -> list[tuple[str, str, str]]:
        """List every table's columns: table, column, type."""
        rows = []
        for name, quoted in self.tables.items():
            described = self.connection.execute(f"DESCRIBE {quoted}").fetchall()
            rows += [(name, each[0], each[1]) for each in described]
        return rows

    def ask(self, sql: str) -> Answer:
        """Run one SELECT.

        Parameters
        ----------
        sql : str
            One statement that only reads.

        Returns
        -------
        Answer

        Raises
        ------
        InputError
            Not one SELECT, or DuckDB refuses it; the first line of its reason is given.
        """
        import duckdb

        try:
            statements = self.connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InputError("query: expected one SELECT; the tables are read-only")
            return Answer(self, sql, self.connection.sql(sql))
        except duckdb.Error as problem:
            raise self.refusal(problem, sql) from None

    def refusal(self, problem: Exception, sql: str) -> InputError:
        """One line on what DuckDB refused."""
        import duckdb

        reason = str(problem).strip().splitlines()[0]
        bare = isinstance(problem, duckdb.ParserException) and re.search(r'(?<!")\bwindow\b(?!")', sql, re.I)
        hint = '; the column is written "window", in quotes' if bare else ""
        if isinstance(problem, duckdb.OutOfMemoryException):
            hint = "; ask for fewer rows or columns, or give more with --memory"
        return InputError(f"query: {reason}{hint}; tables: {', '.join(self.tables)}")


@dataclass(frozen=True)
class Answer:
    """A query that was understood; it runs when its rows are asked for, once.

    Attributes
    ----------
    desk : Desk
    sql : str
    relation : duckdb.DuckDBPyRelation
    """

    desk: Desk
    sql: str
    relation: duckdb.DuckDBPyRelation

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.relation.columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Fetch the rows, a batch at a time."""
        import duckdb

        try:
            result = self.desk.connection.execute(self.sql)
            while batch := result.fetchmany(BATCH):
                yield from batch
        except duckdb.Error as problem:
            raise self.desk.refusal(problem, self.sql) from None

    def write_parquet(self, path: Path) -> int:
        """Write the rows into a Parquet file, a batch at a time, and return how many.

        Raises
        ------
        InputError
            Two columns of one name, a whole number beyond 64 bits, or DuckDB refuses the query.
        """
        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.refuse_twins("--parquet")
        rows = 0
        try:
            named = "to_arrow_reader" if hasattr(self.relation, "to_arrow_reader") else "fetch_arrow_reader"
            reader: Any = getattr(self.relation, named)  # its name before DuckDB 1.4 and since
            batches = reader(BATCH)
            schema = _plain(batches.schema)
            with path.open("wb") as handle, pq.ParquetWriter(handle, schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
                    rows += batch.num_rows
        except duckdb.Error as problem:
            raise self.desk.refusal(problem, self.sql) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise InputError(
                f"query: {str(problem).splitlines()[0]}; CAST the column to DOUBLE or VARCHAR"
            ) from None
        return rows

    def refuse_twins(self, what: str) -> None:
        """Refuse two columns of one name, which some formats cannot tell apart."""
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"query: two columns have one name; name each with AS for {what}")


def _plain(schema: pa.Schema) -> pa.Schema:
    """Sums of whole numbers, which DuckDB makes 128 bits wide, as 64."""
    import pyarrow as pa

    def narrow(kind: pa.DataType) -> pa.DataType:
        return pa.int64() if pa.types.is_decimal(kind) and kind.scale == 0 else kind

    return pa.schema([field.with_type(narrow(field.type)) for field in schema])
