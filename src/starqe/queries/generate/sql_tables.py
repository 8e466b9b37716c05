"""Tables in which SQL runs: DuckDB's here, Spark's in `starqe.queries.generate.spark`.

SQL is written once, in DuckDB's dialect, with features that other engines have too: no HUGEINT, QUALIFY, GROUP BY ALL or unsigned numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from starqe.errors import ConfigError


class Tables(Protocol):
    """Named tables of one engine."""

    def fill(self, name: str, columns: Mapping[str, Any]) -> None:
        """Makes a table from arrays."""

    def make(self, name: str, sql: str) -> None:
        """Makes a table from a query."""

    def read(self, sql: str) -> pa.Table:
        """Returns the rows of a query."""

    def drop(self, *names: str) -> None:
        """Deletes tables; those that do not exist are ignored."""

    def close(self) -> None:
        """Deletes all tables."""


class DuckTables:
    """Tables of a DuckDB database in memory, which spills to disk.

    Args:
        spill: A folder for what does not fit in memory; none if left out.
        threads: All cores if left out.
        memory: Beyond this it spills.

    Raises:
        ConfigError: Threads or memory are not valid.
    """

    def __init__(self, spill: Path | None = None, threads: int | None = None, memory: str = "4GB") -> None:
        place = {"temp_directory": str(spill)} if spill else {}
        self.connection = duckdb.connect(config={**place, "preserve_insertion_order": False})
        try:
            if threads:
                self.connection.execute(f"SET threads = {int(threads)}")
            self.connection.execute("SET memory_limit = ?", [memory])
        except duckdb.Error as error:
            self.connection.close()
            raise ConfigError(
                f"threads are at least 1 and memory is a size such as 4GB, found {threads or 'all'} and '{memory}': {error}"
            ) from None

    def fill(self, name: str, columns: Mapping[str, Any]) -> None:
        """Makes a table from arrays."""
        self.connection.register("incoming", pa.table(dict(columns)))
        self.connection.execute(f"CREATE TABLE {name} AS FROM incoming")
        self.connection.unregister("incoming")

    def make(self, name: str, sql: str) -> None:
        """Makes a table from a query."""
        self.connection.execute(f"CREATE TABLE {name} AS {sql}")

    def read(self, sql: str) -> pa.Table:
        """Returns the rows of a query."""
        return self.connection.sql(sql).to_arrow_table()

    def drop(self, *names: str) -> None:
        """Deletes tables; those that do not exist are ignored."""
        self.connection.execute("".join(f"DROP TABLE IF EXISTS {name};" for name in names))

    def close(self) -> None:
        """Closes the database, which deletes it."""
        self.connection.close()
