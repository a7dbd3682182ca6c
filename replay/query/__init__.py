"""SQL over the tables of a run, and of its trace: DuckDB that reads these and nothing else.

DuckDB itself has no access to files, extensions or settings: it is handed Arrow datasets, which stream the tables from
their Parquet files, the columns and rows that a query needs.
"""
