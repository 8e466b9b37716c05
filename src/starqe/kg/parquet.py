"""Parquet files of ours: written with checksums of their pages, and read only if they are what they should be.

A file of a few megabytes can claim, or compress, columns that fill the memory. So the number of rows, the columns and what they take when
they are read are looked at before anything is read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starqe.errors import StorageError

SMALL, MOST_RATIO = 2**28, 200
"""What a file may take in memory: so many bytes, or so many times its size on disk."""

WRITTEN: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How our Parquet files are written."""


def open_parquet(source: Path | pa.NativeFile, path: Path, schema: pa.Schema, rows: int | None, renew: str) -> pq.ParquetFile:
    """Opens a Parquet file of this schema, and of this number of rows if it is known; nothing of its content is read yet.

    Args:
        source: The file, or its content.
        path: Its name, for errors.
        schema: The columns that it has; strings come as dictionaries, see `strings`.
        rows: The number of its rows.
        renew: How the file is made again, as a sentence without its full stop.

    Raises:
        StorageError: It has other columns or another number of rows, or would take too much memory.
    """
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    file = pq.ParquetFile(source, read_dictionary=names, page_checksum_verification=True)
    found = {field.name: _plain(field.type) for field in file.schema_arrow}
    for field in schema:
        if found.get(field.name) != field.type:
            met = f"a column of {found[field.name]}" if field.name in found else "none"
            raise StorageError(f"{path}: damaged (it has a column '{field.name}' of {field.type}, found {met}). {renew}")
    if rows is not None and file.metadata.num_rows != rows:
        raise StorageError(f"{path}: damaged (it has {rows:,} rows by its header, found {file.metadata.num_rows:,}). {renew}")
    _check_size(path, _size_in_memory(file), renew)
    return file


def _check_size(path: Path, needed: int, renew: str) -> None:
    size = path.stat().st_size
    if needed > (most := max(SMALL, MOST_RATIO * size)):
        raise StorageError(f"{path}: {size:,} bytes of a file take at most {most:,} bytes in memory, found {needed:,}. {renew}")


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return type_.value_type
    return pa.list_(type_.value_type) if pa.types.is_list(type_) else type_


def _size_in_memory(file: pq.ParquetFile) -> int:
    """Estimates what all columns take: 8 bytes a number, and strings as they stand in the file."""
    size = 0
    for group in range(file.metadata.num_row_groups):
        columns = file.metadata.row_group(group)
        for place in range(columns.num_columns):
            column = columns.column(place)
            size += max(8 * column.num_values, column.total_uncompressed_size)
    return size


def strings(column: pa.ChunkedArray, path: Path, renew: str) -> pa.StringArray:
    """Returns a column of strings that was read as dictionaries; a dictionary may stand for far more than it is.

    Raises:
        StorageError: A string is missing, or they would take too much memory.
    """
    needed = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        needed += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    _check_size(path, needed, renew)
    if column.null_count:
        raise StorageError(f"{path}: damaged (a string is missing). {renew}")
    return column.cast(pa.string()).combine_chunks()
