"""Reads and writes the project's Parquet files: with page checksums, and checked against schema and size before reading.

A small file can claim, or expand to, columns that fill the memory. So schema, number of rows and expanded size are checked first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starqe.errors import StorageError
from starqe.texts import TextArray, combined

SMALL, MOST_RATIO = 2**28, 200
"""The limit of a file in memory: this number of bytes, or this multiple of its size on disk."""

WRITTEN: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""The options for writing Parquet files."""


def open_parquet(
    source: Path | pa.NativeFile, path: Path, schema: pa.Schema, rows: int | None, renew: str, metadata: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Opens a Parquet file of this schema, and of this number of rows if it is known, without reading its content.

    Args:
        source: The file, or its content.
        path: Its name, for errors.
        schema: The expected columns; strings are read as dictionaries, see `strings`.
        rows: The expected number of rows.
        renew: How to make the file again, as a sentence without its full stop.
        metadata: Its metadata, if already read.

    Raises:
        StorageError: It has other columns or another number of rows, or would take too much memory.
    """
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    file = pq.ParquetFile(source, metadata=metadata, read_dictionary=names, page_checksum_verification=True)
    found = {field.name: _plain(field.type) for field in file.schema_arrow}
    for field in schema:
        if found.get(field.name) != field.type:
            met = f"a column of {found[field.name]}" if field.name in found else "none"
            raise StorageError(f"{path}: damaged (it has a column '{field.name}' of {field.type}, found {met}). {renew}")
    if rows is not None and file.metadata.num_rows != rows:
        raise StorageError(f"{path}: damaged (it has {rows:,} rows by its header, found {file.metadata.num_rows:,}). {renew}")
    _check_size(path, _size_in_memory(file), renew)
    return file


def check_resources(error: Exception) -> None:
    """Returns normally where an error of reading is about the file.

    Raises:
        MemoryError: The error says that the system has no memory for the threads of Arrow: the file is not to blame.
    """
    if isinstance(error, pa.ArrowException) and "Failed to launch worker thread" in str(error):
        raise MemoryError(str(error)) from error


def _check_size(path: Path, needed: int, renew: str) -> None:
    size = path.stat().st_size
    if needed > (most := max(SMALL, MOST_RATIO * size)):
        raise StorageError(f"{path}: {size:,} bytes of a file take at most {most:,} bytes in memory, found {needed:,}. {renew}")


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return type_.value_type
    return pa.list_(type_.value_type) if pa.types.is_list(type_) else type_


def _size_in_memory(file: pq.ParquetFile) -> int:
    """Estimates the size of all columns: 8 bytes per number, and strings as they are in the file."""
    size = 0
    for group in range(file.metadata.num_row_groups):
        columns = file.metadata.row_group(group)
        for place in range(columns.num_columns):
            column = columns.column(place)
            size += max(8 * column.num_values, column.total_uncompressed_size)
    return size


def strings(column: pa.ChunkedArray, path: Path, renew: str) -> TextArray:
    """Returns a column of strings that was read as dictionaries, unless the strings would be too large.

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
    return combined(column.cast(pa.string()))
