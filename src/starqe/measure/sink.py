"""Every single rank, streamed to a Parquet file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from starqe.folders import new_file
from starqe.measure.ranks import Ranks
from starqe.ragged import IntArray, Ragged

SCHEMA = pa.schema(
    [
        ("shape", pa.string()),
        ("query", pa.int64()),  # the row of the query in its table
        ("answer", pa.int32()),  # the entity that is ranked
        ("rank", pa.float64()),  # realistic
        ("better", pa.int32()),
        ("equal", pa.int32()),
        ("candidates", pa.int32()),  # after filtering
    ]
)


class RankSink:
    """Writes one line for each ranked answer; made by `rank_sink`."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, shape: str, rows: IntArray, ranked: Ragged, ranks: Ranks) -> None:
        """Writes the ranks of some rows of a table."""
        columns = [[shape] * len(ranks.better), rows[ranked.owner], ranked.items]
        columns += [ranks.realistic, ranks.better, ranks.equal, ranks.candidates]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))


@contextlib.contextmanager
def rank_sink(path: Path, overwrite: bool = False) -> Iterator[RankSink]:
    """Opens a file for ranks; it is complete when the block ends, and does not exist if the block fails.

    Raises:
        StorageError: The file exists and may not be replaced, or the disk refuses.
    """
    with new_file(path, overwrite) as beside, pq.ParquetWriter(beside, SCHEMA, compression="zstd") as writer:
        yield RankSink(writer)
