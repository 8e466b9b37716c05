"""Query generation on Spark: the SQL of DuckDB, transpiled by sqlglot. Needs ``starqe[spark]`` and Java 17.

Only SQL runs on the cluster, in the Java processes of Spark: its machines need neither Python nor starqe.
"""

import contextlib
import functools
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from starqe.errors import ConfigError, StorageError, UnsupportedError
from starqe.kg import Graph
from starqe.queries.generate.database import QueryDatabase
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.sql import solved_queries
from starqe.queries.shape import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
"""The number of rows that are sent to the cluster at a time."""
SETTINGS = {
    "spark.driver.maxResultSize": "0",  # results come in slices
    "spark.log.level": "ERROR",
    "spark.sql.ansi.enabled": "true",  # a number that does not fit is an error
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""The configuration of a session that starqe starts."""
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "8"}
"""The additional configuration if the cluster is this machine."""


@functools.cache
def spark_sql(sql: str) -> str:
    """Translates SQL of DuckDB to SQL of Spark.

    Raises:
        UnsupportedError: sqlglot is missing, or the SQL has no translation.
    """
    try:
        import sqlglot
    except ImportError:
        raise UnsupportedError(MISSING) from None
    try:
        (written,) = sqlglot.transpile(
            sql.replace(" AS MATERIALIZED ", " AS "), read="duckdb", write="spark", unsupported_level=sqlglot.ErrorLevel.RAISE
        )
    except sqlglot.errors.SqlglotError as error:
        raise UnsupportedError(f"this SQL has no translation to Spark ({error}). Use the engine 'sql'") from None
    return written


MISSING = "the engine 'spark' needs pyspark and sqlglot. Install them with: pip install 'starqe[spark]'"


def open_session(master: str | None = None, threads: int | None = None, memory: str = "4GB") -> "SparkSession":
    """Returns the running Spark session, or starts one.

    Args:
        master: The cluster, such as ``local[2]``, ``spark://host:7077`` or ``yarn``; left out, that of Spark's configuration, or else
            this machine.
        threads: Without a master, the number of threads on this machine.
        memory: The memory of all workers together, if the cluster is this machine.

    Raises:
        ConfigError: Spark does not start: no Java, or a master that cannot be reached; or the memory is not a size.
        UnsupportedError: pyspark is missing.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnsupportedError(MISSING) from None
    if running := SparkSession.getActiveSession():
        return running
    os.environ.setdefault("SPARK_HOME", pyspark.__path__[0])  # where workers of a local cluster find their programs
    values, master = dict(SETTINGS), master or (f"local[{threads}]" if threads else None)
    if master:
        values["spark.master"] = master
        if master.startswith("local"):
            values |= {**LOCAL, "spark.driver.memory": f"{_megabytes(memory)}m"}
    handler = signal.getsignal(signal.SIGINT)
    try:
        _start_java(values)
        session = SparkSession.builder.config(map=values).appName("starqe").getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark needs Java 17 and a cluster that answers, found {str(error)[:300]!r} for {master or 'its default'}"
        ) from None
    # pyspark's own handler talks to Java in the middle of another message: that fails, and the interruption is lost.
    if _hears_signals():
        signal.signal(signal.SIGINT, handler)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)  # some of it has no logger of its own
    return session


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Drops what the connection to Java logs with a traceback before it raises the same."""
    return Path(record.pathname).parent.name != "py4j"


def _start_java(values: Mapping[str, str]) -> None:
    """Starts the Java process of a session. Ctrl-C waits for it: before, pyspark would leave a process behind that never ends."""
    from pyspark import SparkConf, SparkContext

    heard: list[int] = []
    # The command line postpones a Ctrl-C that comes in the middle of an import by an alarm.
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGALRM") if hasattr(signal, name) and _hears_signals()]
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in numbers}
    try:
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(values.items())))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in heard:
        signal.raise_signal(number)


def _megabytes(memory: str) -> int:
    """Reads a size such as 4GB.

    Raises:
        ConfigError: It is not a size.
    """
    units = {"MB": 1, "GB": 1_000, "TB": 1_000_000, "MIB": 1.05, "GIB": 1_074}
    number = memory.strip().rstrip("TGMKIBtgmkib ")
    unit = memory.strip()[len(number) :].strip().upper()
    try:
        return max(512, int(float(number) * units[unit]))
    except (ValueError, KeyError):
        raise ConfigError(f"memory is a size such as 4GB, found '{memory}'") from None


class SparkTables:
    """Tables of a Spark session: kept by its workers, in memory or on disk, and recomputed if a worker is lost."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        self._made: dict[str, DataFrame] = {}

    def fill(self, name: str, columns: Mapping[str, Any]) -> None:
        """Makes a table from arrays, which go to the cluster in parts."""
        table = pa.table(dict(columns))
        parts = [self._session.createDataFrame(table.slice(start, ROWS)) for start in range(0, max(len(table), 1), ROWS)]
        self._keep(name, functools.reduce(lambda one, other: one.unionAll(other), parts))

    def make(self, name: str, sql: str) -> None:
        """Makes a table from a query."""
        self._keep(name, self._session.sql(spark_sql(sql)))

    def _keep(self, name: str, frame: "DataFrame") -> None:
        self._made[name] = frame.persist()
        self._made[name].count()  # computes it now, so that its sources can be dropped
        self._made[name].createOrReplaceTempView(name)

    def read(self, sql: str) -> pa.Table:
        """Returns the rows of a query."""
        return self._session.sql(spark_sql(sql)).toArrow()

    def drop(self, *names: str) -> None:
        """Frees tables; those that do not exist are ignored."""
        for name in names:
            if name in self._made:
                self._session.catalog.dropTempView(name)
                self._made.pop(name).unpersist()

    def close(self) -> None:
        """Frees all tables; the session goes on. After Ctrl-C, or if its Java process has died, nothing can be freed."""
        with contextlib.suppress(Exception):
            self.drop(*list(self._made))


class SparkEngine:
    """Finds queries by the joins of `SqlEngine`, on a Spark cluster; the arguments are those of `open_session`."""

    def __init__(
        self, graph: Graph, spill: Path | None = None, threads: int | None = None, memory: str = "4GB", *, master: str | None = None
    ) -> None:
        del spill  # Spark has its own folders
        self._database = QueryDatabase(graph, SparkTables(open_session(master, threads, memory)))

    def solve(self, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
        """Yields the queries of a shape, with their answers, in the seeded order.

        Raises:
            StorageError: The cluster fails.
            UnsupportedError: The shape has too many equal edges to compare their orders.
        """
        try:
            yield from solved_queries(self._database, shape, split, settings)
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):  # py4j is the connection to Java
                raise
            raise StorageError(f"Spark failed at the {split} queries of shape '{shape.name}': {str(error)[:500]}") from error

    def close(self) -> None:
        """Frees the tables."""
        self._database.close()
