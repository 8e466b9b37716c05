"""Formulas of shapes: both dialects find the same queries."""

from pathlib import Path

import pytest
from pyoxigraph import QuerySolutions, RdfFormat, Store, parse

from starqe.kg import Statement, graph_of
from starqe.kg.rdf.write import write_nquads
from starqe.queries import SHAPES
from starqe.queries.generate.formulas import Dialect, shape_sparql, solution_variables

GRAPH = graph_of(
    train=[
        Statement("a", "r", "b", (("q", "v"),)),
        Statement("b", "s", "c", (("q", "w"), ("k", "v"))),
        Statement("d", "r", "b"),
    ],
    valid=[Statement("b", "s", "e", (("k", "w"),))],
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    (path,) = write_nquads(GRAPH, Path(tmp_path_factory.mktemp("store")) / "graph.nq", GRAPH.names)
    store = Store()
    store.bulk_extend(parse(path=str(path), format=RdfFormat.N_QUADS))
    return store


def solutions(store: Store, shape: str, counts: list[int], split: str, dialect: Dialect) -> set[tuple[str, ...]]:
    text = shape_sparql(SHAPES[shape], counts, split, None if split == "train" else 0, dialect=dialect)
    found = store.query(text)
    assert isinstance(found, QuerySolutions)
    names = solution_variables(SHAPES[shape], counts)
    return {tuple(str(solution[name.removeprefix("?")]) for name in names) for solution in found}


@pytest.mark.parametrize(("shape", "split", "number"), [("1p", "train", 3), ("2p", "train", 2), ("1p", "valid", 1)])
def test_both_dialects_find_the_same_queries_with_one_pair_on_each_edge(store: Store, shape: str, split: str, number: int) -> None:
    counts = [1] * len(SHAPES[shape].edges)
    found = solutions(store, shape, counts, split, "star")
    assert found == solutions(store, shape, counts, split, "1.2")
    assert len(found) == number


def test_the_older_dialect_has_a_quoted_triple_as_subject_and_no_reifier() -> None:
    text = shape_sparql(SHAPES["1p"], [2], "train", dialect="star")
    assert "<< ?A ?relation_0 ?the_answer >> ?key_0_0 ?value_0_0 ; ?key_0_1 ?value_0_1 ." in text
    assert "?reifier" not in text
    assert "<<" not in shape_sparql(SHAPES["1p"], [0], "train", dialect="star")
