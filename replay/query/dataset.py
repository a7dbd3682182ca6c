"""A Parquet file as DuckDB can read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def dataset(file: Path) -> Any:
    """A Parquet file as a dataset; half-precision columns, which DuckDB lacks, single precision: no value changes."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    def single(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_list(kind):
            return pa.list_(single(kind.value_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(single(kind.value_type), kind.list_size)
        return pa.float32() if pa.types.is_float16(kind) else kind

    try:
        with file.open("rb") as handle:
            schema = pq.read_schema(handle)
        widened = pa.schema([field.with_type(single(field.type)) for field in schema])
        return ds.dataset(
            [_plain_name(file)], schema=widened, format="parquet"
        )  # a list: no pattern in a name
    except (OSError, pa.ArrowInvalid):
        raise InputError(f"{file}: not a Parquet file that can be read; write it again") from None


def _plain_name(file: Path) -> str:
    """A file's name; for one that is no text, which Arrow cannot take, that of a descriptor held open on it."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return f"/dev/fd/{os.open(file, os.O_RDONLY)}"
    return str(file)
