from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest

from starqe.errors import StorageError
from starqe.kg import SPLITS, Graph, Statement, embedded_graph, graph_of
from starqe.queries import ALL_SHAPES, TYPES, QueryTable, easy_and_hard, load_queries, sample_benchmark, sample_type, tables_of
from tests.queries.oxigraph import answers, store_of


def graph_of_random_triples(seed: int) -> Graph:
    """A dense small graph of plain triples."""
    random = np.random.default_rng(seed)
    triples = sorted({tuple(random.integers(0, (10, 3, 10))) for _ in range(75)})
    triples = [triples[place] for place in random.permutation(len(triples))]
    statements = [Statement(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in triples]
    return graph_of(train=statements[:45], valid=statements[45:55], test=statements[55:])


def rows(tables: list[QueryTable]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [
        (table.shape.name, tuple(table.anchors[row].tolist()), tuple(table.relations[row].tolist()))
        for table in tables
        for row in range(len(table))
    ]


def test_queries_of_one_edge_are_all_that_a_new_statement_answers() -> None:
    graph = graph_of(
        train=[Statement("a", "r", "b"), Statement("c", "r", "b"), Statement("a", "s", "c")],
        valid=[Statement("c", "s", "b")],
        test=[Statement("a", "r", "c"), Statement("b", "s", "c"), Statement("a", "r", "new")],
    )
    tables = sample_type(graph, ALL_SHAPES["1p"], None, "test")
    named = {
        (table.shape.name, graph.entities.identifier(anchors[0]), graph.relations.identifier(relations[0]))
        for table in tables
        for _, anchors, relations in rows([table])
    }
    # The statement about "new", an entity that train lacks, is left aside.
    assert named == {("1p", "a", "r"), ("1p.1", "c", "r"), ("1p", "b", "s"), ("1p.1", "c", "s")}


def test_paths_are_those_that_sql_finds() -> None:
    """Every 2p query of a small graph, found by joins in DuckDB: no step back, and 1 to 100 hard answers."""
    graph = graph_of_random_triples(0)
    steps = [
        (int(a), 2 * int(graph.relation[row]) + back, int(b), SPLITS[graph.split[row]])
        for row in range(len(graph))
        for back, (a, b) in enumerate([(graph.head[row], graph.tail[row]), (graph.tail[row], graph.head[row])])
    ]
    database = duckdb.connect()
    database.execute("CREATE TABLE step (a INT, r INT, b INT, split VARCHAR)")
    database.executemany("INSERT INTO step VALUES (?, ?, ?, ?)", steps)
    found = database.execute(
        """
        WITH path AS (
            SELECT one.a, one.r, two.r AS s, two.b, max(greatest(one.split = 'test', two.split = 'test')::INT = 0) AS easy
            FROM step one JOIN step two ON one.b = two.a
            GROUP BY ALL
        ), wanted AS (
            SELECT a, r, s FROM path GROUP BY ALL HAVING count(*) FILTER (WHERE NOT easy) BETWEEN 1 AND 100
        )
        SELECT DISTINCT a, r, s FROM wanted WHERE xor(r, 1) <> s
        """
    ).fetchall()
    tables = sample_type(graph, ALL_SHAPES["2p"], 10_000, "test")
    sampled = set()
    for table in tables:
        turns = [head != start for (head, _), start in zip(table.shape.edges, "Ax", strict=True)]
        steps = 2 * table.relations + turns
        sampled |= {(int(anchor), *of_row) for (anchor,), of_row in zip(table.anchors, steps.tolist(), strict=True)}
    assert sampled == set(found)
    assert sum(map(len, tables)) == len(found)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("split", ["valid", "test"])
def test_every_query_has_hard_answers_and_a_negation_loses_one(name: str, split: str) -> None:
    """Answers by Oxigraph, on the splits up to the query's own and on those before."""
    graph = graph_of_random_triples(1)
    now, before = (store_of(graph, splits) for splits in (SPLITS[: SPLITS.index(split) + 1], SPLITS[: SPLITS.index(split)]))
    shape = ALL_SHAPES[TYPES[name]]
    tables = sample_type(graph, shape, 40, split)
    assert 0 < sum(map(len, tables)) <= 40 or len(shape.edges) == 1
    assert len(set(rows(tables))) == sum(map(len, tables))
    for table in tables:
        assert table.header["split"] == split
        assert len(table.pairs.items) == 0
        for row in range(len(table)):
            new, old = set(answers(now, table, row)), set(answers(before, table, row))
            assert table.answers[row].tolist() == sorted(new)
            assert new - old
            assert old - new or not shape.negated


def test_training_queries_need_only_an_answer() -> None:
    graph = graph_of_random_triples(2)
    tables = sample_type(graph, ALL_SHAPES["2in"], 30, "train")
    store = store_of(graph, ["train"])
    assert sum(map(len, tables)) == 30
    assert all(table.answers[row].tolist() == answers(store, table, row) != [] for table in tables for row in range(len(table)))


def test_queries_with_more_than_100_hard_answers_are_left_out_but_for_those_of_one_edge() -> None:
    few = [Statement("few", "r", f"t{i}") for i in range(100)]
    many = [Statement("many", "r", f"t{i}") for i in range(101)]
    known = [Statement("a", "s", "few"), Statement("a", "t", "many"), *(Statement(f"t{i}", "u", "a") for i in range(101))]
    graph = graph_of(train=known, test=[*few, *many])
    forward = {name: [row for row in rows(sample_type(graph, ALL_SHAPES[name], 500, "test")) if row[0] == name] for name in ("1p", "2p")}
    few_, many_, a = (graph.entities.id(name) for name in ("few", "many", "a"))
    r, s, t = (graph.relations.id(name) for name in "rst")
    assert {(row[1], row[2]) for row in forward["1p"]} == {((few_,), (r,)), ((many_,), (r,))}
    paths = {(row[1], row[2]) for row in forward["2p"]}
    assert ((a,), (s, r)) in paths
    assert ((a,), (t, r)) not in paths


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    graph = embedded_graph()
    few, many = ({table.shape.name: table for table in sample_type(graph, ALL_SHAPES["2i"], count, "test", seed=3)} for count in (20, 60))
    for name, table in few.items():
        assert rows([many[name].take(range(len(table)))]) == rows([table])
    other = sample_type(graph, ALL_SHAPES["2i"], 20, "test", seed=4)
    assert set(rows(other)) != set(rows([*few.values()]))


def test_directions_occur_as_often_as_relations_do() -> None:
    graph = embedded_graph()
    names = {table.shape.name for name in ("2p", "3i") for table in sample_type(graph, ALL_SHAPES[name], 300, "test")}
    assert {"2p" + ("." + "".join(turns) if "1" in turns else "") for turns in product("01", repeat=2)} <= names
    assert {name for name in names if name.startswith("3i")} == {"3i", "3i.001", "3i.011", "3i.111"}  # the others are equivalent


def test_a_set_holds_the_splits_with_their_own_counts_and_can_be_continued(tmp_path: Path) -> None:
    graph = embedded_graph()
    shapes = [ALL_SHAPES["2p"], ALL_SHAPES["2in"]]
    sample_benchmark(graph, tmp_path / "set", shapes[:1], "train", 30)
    counts: dict[str, int] = {}
    for _ in range(2):
        sample_benchmark(graph, tmp_path / "set", shapes, "test", 20, progress=counts.__setitem__)
    assert counts == {"2p": 20, "2in": 20}
    found = tables_of(tmp_path / "set")
    assert {split: sum(of.values()) for split, of in found.items()} == {"train": 30, "test": 40}
    for table in load_queries(tmp_path / "set", "test", graph=graph.entity_part).values():
        assert (easy_and_hard(graph.entity_part, table, None, "test")[1].counts > 0).all()
    with pytest.raises(StorageError, match=r"Choose another folder$"):
        sample_benchmark(graph, tmp_path / "set", shapes, "test", 30)
    with pytest.raises(StorageError, match=r"other settings \(seed\)"):
        sample_benchmark(graph, tmp_path / "set", shapes, "test", 20, seed=1)
