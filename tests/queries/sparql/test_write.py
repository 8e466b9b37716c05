import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, NamedNode, Quad, Store, Triple

from starqe.errors import UnsupportedError
from starqe.kg import Draft, Graph, Statement, graph_of
from starqe.kg.iris import REIFIES, Names
from starqe.queries.exact.answering import answer, assignments
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.query import Query
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.write import readable_sparql, write_sparql
from tests.queries.strategies import graphs, queries

T, X = Variable("t"), Variable("x")
NAMES = Names("http://example.org/", "http://example.org/r/")


def store_of(graph: Graph, *splits: str) -> Store:
    store = Store()
    entity, relation = NAMES.entities.term, NAMES.relations.term
    for statement in graph.statements(*splits):
        triple = Triple(entity(statement.head), relation(statement.relation), entity(statement.tail))
        store.add(Quad(triple.subject, triple.predicate, triple.object))
        reifier = BlankNode()
        store.add(Quad(reifier, NamedNode(REIFIES), triple))
        for key, value in statement.qualifiers:
            store.add(Quad(reifier, relation(key), entity(value)))
    return store


def ask_store(store: Store, query: Query) -> list[tuple[str, ...]]:
    rows = store.query(write_sparql(query, NAMES))
    return sorted(tuple(NAMES.entities.identifier(row[variable.name].value) for variable in query.answers) for row in rows)


def test_an_atom_is_one_annotated_pattern():
    query = Query.conjunction([Atom("a", "r", X, (("q", "v w"), ("p", "u"))), Atom(T, "s", X, inverted=True)], "t")
    assert write_sparql(query, NAMES) == (
        "SELECT DISTINCT ?t WHERE {\n"
        "  <http://example.org/a> <http://example.org/r/r> ?x "
        "{| <http://example.org/r/p> <http://example.org/u> ; <http://example.org/r/q> <http://example.org/v%20w> |} .\n"
        "  ?x <http://example.org/r/s> ?t .\n"
        "}\n"
    )
    assert write_sparql(query, NAMES, form="ASK").startswith("ASK WHERE {")


def test_one_statement_has_all_the_pairs_in_a_store_too():
    both, one, other = (("p", "u"), ("q", "v")), (("p", "u"),), (("q", "v"),)
    graph = graph_of([Statement("a", "r", "yes", both), Statement("a", "r", "no", one), Statement("a", "r", "no", other)])
    assert ask_store(store_of(graph, "train"), Query.conjunction([Atom("a", "r", T, both)], "t")) == [("yes",)]


def test_disjunctions_and_negations_are_written_too():
    graph = graph_of([Statement("a", "r", "b"), Statement("a", "r", "c"), Statement("a", "s", "d"), Statement("c", "s", "e")])
    either = Or((Atom("a", "r", T), Atom("a", "s", T)))
    assert ask_store(store_of(graph, "train"), Query(either, (T,))) == [("b",), ("c",), ("d",)]
    query = Query(And((either, Not(Atom(T, "s", X)))), (T,))
    assert ask_store(store_of(graph, "train"), query) == [("b",), ("d",)]


def test_what_sparql_cannot_say_is_refused():
    with pytest.raises(UnsupportedError, match=r"constants as relations, found the variable \?x"):
        write_sparql(Query.conjunction([Atom("a", X, T)], "t"), NAMES)
    with pytest.raises(UnsupportedError, match="cannot name a blank node, found the entity '_:b'"):
        write_sparql(Query.conjunction([Atom("_:b", "r", T)], "t"), NAMES)


@pytest.mark.full
@given(st.data())
def test_a_store_gives_the_same_answers_as_the_exact_engine(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    found = answer(graph.known(["train", "test"]), query)
    store = store_of(graph, "train", "test")
    assert ask_store(store, query) == [(graph.entities.identifier(id_),) for id_ in found]
    everything = Query(query.formula, query.variables)
    columns = assignments(graph.known(["train", "test"]), everything).values()
    assert ask_store(store, everything) == list(
        zip(*([graph.entities.identifier(id_) for id_ in column] for column in columns), strict=True)
    )


def test_a_negation_inside_a_disjunction_has_no_text():
    target = Variable("t")
    formula = And((Atom("a", "r", target), Or((Atom("b", "s", target), Not(Atom("c", "t", target))))))
    with pytest.raises(UnsupportedError, match="no negation inside a disjunction"):
        write_sparql(Query(formula, (target,)))


def test_readable_text_names_everything_by_its_label_and_reads_back_to_the_same_query():
    draft = Draft()
    draft.add([["Q1", "P1", "Q2", "P2", "Q3"], ["Q4", "P1", "http://a/Ulm"]], "train")
    for identifier, label in [("Q1", 'the "first"'), ("Q2", "twin"), ("Q3", "twin"), ("P1", "knows"), ("P2", "since")]:
        draft.label(identifier, label, "en")
    graph = draft.finish()
    x, y = Variable("x"), Variable("y")
    query = Query.conjunction([Atom("Q1", "P1", y, (("P2", "Q3"),)), Atom(y, "P1", x), Atom(x, "P1", "http://a/Ulm")], "x")
    text = readable_sparql(query, graph)
    assert text == ('SELECT ?x {\n  "the \\"first\\"" "knows" ?y {| "since" "Q3" |} .\n  ?x "knows" "Ulm" .\n  ?y "knows" ?x .\n}')
    assert read_sparql(text, graph).query == query
