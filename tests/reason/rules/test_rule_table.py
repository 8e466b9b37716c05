from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from starqe.errors import StorageError
from starqe.kg import Graph, Statement, embedded_graph, graph_of
from starqe.reason.rules.mining import mine
from starqe.reason.rules.rule_table import ABOUT, CHECKSUM, NODES, STEPS, WEIGHT, Rules


@pytest.fixture(scope="module")
def rules() -> Rules:
    return mine(embedded_graph().entity_part.known(["train"]))


def test_saved_rules_are_read_again(rules: Rules, tmp_path: Path) -> None:
    path = tmp_path / "rules.parquet"
    rules.save(path)
    again = Rules.load(path, rules.graph)
    for name in (*STEPS, *NODES, "support", "body", "confidence"):
        assert np.array_equal(getattr(again, name), getattr(rules, name)), name


def test_the_file_is_a_table_that_anyone_can_query(tmp_path: Path) -> None:
    people = [Statement(f"p{i}", "bornIn", f"t{i}") for i in range(3)] + [Statement(f"p{i}", "diedIn", f"t{i}") for i in range(3)]
    path = tmp_path / "rules.parquet"
    mine(graph_of(train=people).known(["train"])).save(path)
    found = duckdb.sql(
        f"SELECT first_relation, first_from, first_to, support, body FROM '{path}' WHERE head_relation = 'diedIn' AND head_from = 'head' "
        "AND second_relation = '' AND answer = ''"
    ).fetchall()
    assert found == [("bornIn", "head", "tail", 3, 3)]


@pytest.mark.parametrize("other", [graph_of(train=[Statement("a", "r", "b")])])
def test_rules_of_another_graph_are_refused(rules: Rules, other: Graph, tmp_path: Path) -> None:
    rules.save(tmp_path / "rules.parquet")
    with pytest.raises(StorageError, match="damaged, or the rules of another graph"):
        Rules.load(tmp_path / "rules.parquet", other)


def test_a_file_without_a_weight_or_a_column_is_refused(rules: Rules, tmp_path: Path) -> None:
    duckdb.sql("SELECT 1 AS support").write_parquet(str(tmp_path / "rules.parquet"))
    with pytest.raises(StorageError, match="head_relation"):
        Rules.load(tmp_path / "rules.parquet", rules.graph)


def rewritten(path: Path, table: pa.Table, **metadata: bytes) -> None:
    """Writes a table in the place of a file, with some of its metadata changed."""
    pq.write_table(
        table.replace_schema_metadata({**table.schema.metadata, **{key.encode(): value for key, value in metadata.items()}}), path
    )


def test_another_weight_or_another_version_is_noticed(rules: Rules, tmp_path: Path) -> None:
    path = tmp_path / "rules.parquet"
    rules.save(path)
    table = pq.read_table(path)
    rewritten(path, table, **{WEIGHT.decode(): b"0.75"})
    with pytest.raises(StorageError, match=r"rules\.parquet: damaged or changed \(checksum \w{8}, recorded \w{8}\)\. Train again"):
        Rules.load(path, rules.graph)
    rewritten(path, table, **{ABOUT.decode(): b'{"format": "starqe rules", "version": 2}'})
    with pytest.raises(StorageError, match=r"written by a newer starqe \(rules format 2, this one reads up to 1\)"):
        Rules.load(path, rules.graph)


@pytest.mark.parametrize("column", ["head_relation", "answer", "value"])
def test_a_rule_that_is_of_no_kind_is_refused(rules: Rules, tmp_path: Path, column: str) -> None:
    path = tmp_path / "rules.parquet"
    rules.save(path)
    table = pq.read_table(path)
    place, nothing = table.column_names.index(column), pa.array([""] * len(table))
    rewritten(path, table.set_column(place, column, nothing), **{CHECKSUM.decode(): b""})
    with pytest.raises(StorageError, match=r"damaged"):
        Rules.load(path, rules.graph)


def test_every_kind_of_rule_is_one_of_four(rules: Rules) -> None:
    kinds = np.concatenate([rules.path, rules.shared, rules.given, rules.usual])
    assert np.array_equal(np.sort(kinds), np.arange(len(rules)))
    assert all(len(kind) for kind in (rules.path, rules.shared, rules.given, rules.usual))


def test_the_best_rules_of_a_relation_conclude_it(rules: Rules) -> None:
    relation = rules.graph.relations.resolve("award received")
    label = rules.graph.relations.identifier(relation)
    assert [label in rules.words(rule).rpartition("then")[2] for rule in rules.best(5, relation)] == [True] * 5
