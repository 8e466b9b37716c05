"""Spark and DuckDB find the same queries, to the last row. One session serves all tests of this file."""

import importlib
import logging
import os
import shutil
import signal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from starqe.errors import ConfigError, InputError, StorageError, UnsupportedError
from starqe.kg import SPLITS, Statement, graph_of, import_graph, transductive_split
from starqe.queries import QuerySettings, Shape, generate, in_degree
from starqe.queries.generate import spark as spark_module
from starqe.queries.generate.edges import fill_graph
from starqe.queries.generate.generate import ENGINES
from starqe.queries.generate.hubs import degrees_sql
from starqe.queries.generate.spark import SparkEngine, SparkTables, open_session, spark_sql
from starqe.queries.generate.sql_tables import DuckTables
from starqe.queries.shape import SHAPES
from tests.places import WD50K

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'starqe[spark]'")
needs_java = pytest.mark.skipif(
    not (os.environ.get("JAVA_HOME") or shutil.which("java")), reason="Spark needs Java 17, and there is no java here"
)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
CUSTOM = Shape.parse("either-but-not", "(A>x x>? | B>?{y}) !C>?")


def town(count: int = 90, seed: int = 0):
    """Makes a graph of few entities: many statements meet, some have two pairs, some main triples occur several times."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 9, (count, 7)).tolist()
    pairs = [(("r1", f"e{a}"), ("r2", f"e{b}"))[: n % 3] for *_, a, b, n in rows]
    made = [Statement(f"e{h}", f"r{r % 3}", f"e{t}", pair) for (h, r, t, *_), pair in zip(rows, pairs, strict=True)]
    return transductive_split(graph_of(made), (0.6, 0.2, 0.2), seed)


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    values = {**spark_module.SETTINGS, **spark_module.LOCAL, "spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
    values["spark.sql.adaptive.enabled"] = "false"
    found = SparkSession.builder.master("local[1]").config(map=values).getOrCreate()
    yield found
    found.stop()


def check_equal(graph, folder, shapes, settings=None, engine="spark", splits=SPLITS) -> int:
    """Generates the tables of both engines, compares all rows, and returns the number of queries."""
    generate(graph, folder / "sql", shapes, settings, splits, threads=1)
    generate(graph, folder / "spark", shapes, settings, splits, engine)
    files = sorted(path.relative_to(folder / "sql") for path in (folder / "sql").rglob("*.parquet"))
    assert len(files) == len(shapes) * len(splits)
    count = 0
    for file in files:
        one, other = pq.read_table(folder / "sql" / file), pq.read_table(folder / "spark" / file)
        assert one.equals(other), file
        assert one.schema.metadata == other.schema.metadata, file
        count += len(one)
    return count


@needs_java
@pytest.mark.full
def test_both_engines_write_the_same_tables(session, tmp_path):
    settings = QuerySettings(qualifiers="0-1", hub_threshold=20, solutions_below={"3p": 4})
    assert check_equal(town(), tmp_path / "a", [SHAPES["3p"]], settings, splits=["valid"]) > 1_000
    assert check_equal(town(40), tmp_path / "b", [CUSTOM], QuerySettings(qualifiers="0-1", hub_threshold=None), splits=["test"]) > 100


@needs_java
@pytest.mark.full
def test_keys_of_several_integers_and_slices_are_equal_too(session, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("starqe.queries.generate.keys"), "WORD", 2**12)
    monkeypatch.setattr(importlib.import_module("starqe.queries.generate.database"), "SLICE", 100)
    monkeypatch.setattr(spark_module, "ROWS", 7)
    assert check_equal(town(30), tmp_path, [SHAPES["2p"]], QuerySettings(seed=3), splits=["train"]) == 72


@needs_java
@pytest.mark.full
def test_degrees_are_those_that_numpy_counts(session):
    graph = town()
    for tables in (DuckTables(), SparkTables(session)):
        fill_graph(tables, graph)
        found = tables.read(f"SELECT node, degree FROM ({degrees_sql(len(graph.entities))}) AS found ORDER BY node")
        assert dict(zip(*found.to_pydict().values(), strict=True)) == {n: d for n, d in enumerate(in_degree(graph).tolist()) if d}
        tables.drop("statement", "no_such_table")
        tables.close()


@needs_java
@pytest.mark.full
def test_a_running_session_is_used_and_goes_on(session):
    assert open_session("spark://nowhere:1") is session
    tables = SparkTables(session)
    tables.fill("numbers", {"n": pa.array([], pa.int64())})
    tables.close()
    assert session.sql("SELECT 1").collect() == [(1,)]


def test_ctrl_c_waits_until_java_has_started(monkeypatch):
    from pyspark import SparkContext

    started = []

    def start(conf):
        signal.raise_signal(signal.SIGINT)
        started.append(conf.get("spark.log.level"))

    monkeypatch.setattr(SparkContext, "_ensure_initialized", start)
    with pytest.raises(KeyboardInterrupt):
        spark_module._start_java({"spark.log.level": "ERROR"})
    assert started == ["ERROR"]


class DeadSession:
    """A session whose Java process has died."""

    def __getattr__(self, name):
        from py4j.protocol import Py4JNetworkError

        raise Py4JNetworkError("Error while sending or receiving")


def test_a_java_process_that_has_died_is_a_failure_of_the_cluster(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_module, "open_session", lambda *_: DeadSession())
    monkeypatch.setattr(spark_module, "QueryDatabase", lambda _, tables: tables)
    monkeypatch.setattr(spark_module, "solved_queries", lambda tables, *_: iter([tables.read("SELECT 1")]))
    engine = SparkEngine(town())
    with pytest.raises(StorageError, match="Spark failed at the test queries of shape '1p': Error while sending or receiving"):
        next(engine.solve(SHAPES["1p"], "test", QuerySettings()))


def test_tables_that_cannot_be_freed_hide_no_interruption():
    tables = SparkTables(DeadSession())
    tables._made["statement"] = DeadSession()
    with pytest.raises(Exception, match="Error while sending or receiving"):
        tables.drop("statement")
    tables.close()  # raises nothing that would replace the interruption


def test_what_py4j_logs_beside_its_errors_is_dropped():
    logged = {name: logging.LogRecord("root", logging.ERROR, f"/lib/{name}/gateway.py", 1, "", None, None) for name in ("py4j", "own")}
    assert [name for name, record in logged.items() if spark_module._not_of_py4j(record)] == ["own"]


def test_sql_is_translated_and_not_written_twice():
    assert spark_sql("SELECT a // 2::BIGINT AS b, list_sort(list(c)) AS d, xor(e, f) AS g FROM t GROUP BY a, e, f") == (
        "SELECT a DIV CAST(2 AS BIGINT) AS b, ARRAY_SORT(COLLECT_LIST(c)) AS d, e ^ f AS g FROM t GROUP BY a, e, f"
    )
    with pytest.raises(UnsupportedError, match=r"(?s)no translation to Spark .* Use the engine 'sql'"):
        spark_sql("SELECT FROM WHERE")


def test_memory_is_a_size():
    assert spark_module._megabytes("4GB") == 4_000
    assert spark_module._megabytes("1 MB") == 512, "Spark does not start with less"
    with pytest.raises(ConfigError, match="memory is a size such as 4GB, found 'much'"):
        spark_module._megabytes("much")


def test_the_engine_is_in_the_table_and_an_unknown_one_is_refused(tmp_path):
    assert ENGINES["spark"] is SparkEngine
    with pytest.raises(InputError, match="engines are sql, sparql, spark; found 'hadoop'"):
        generate(town(), tmp_path, engine="hadoop")


@needs_java
@pytest.mark.slow
@pytest.mark.skipif(not WD50K.exists(), reason="WD50K is not here: set STARQE_DATA")
def test_a_cluster_of_several_processes_writes_the_tables_of_wd50k(tmp_path):
    from pyspark.sql import SparkSession

    if running := SparkSession.getActiveSession():
        running.stop()
    graph = import_graph(WD50K)[0]
    engine = partial(SparkEngine, master="local-cluster[2,1,3072]")
    try:
        assert check_equal(graph, tmp_path / "paper", list(SHAPES.values()), engine=engine) > 20_000_000
        assert check_equal(graph, tmp_path / "custom", [Shape.parse("custom", "A>x x>? !B>?")], engine=engine) > 1_000
    finally:
        if running := SparkSession.getActiveSession():
            running.stop()
