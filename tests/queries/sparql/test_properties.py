"""Properties of the language: what is written is read back, a SPARQL store agrees, and no text breaks the reader."""

import re
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyoxigraph import Quad, RdfFormat, Store, parse

from starqe.errors import SparqlError, UnsupportedError
from starqe.kg import SPLITS, Graph, Statement, graph_of
from starqe.kg.iris import Names
from starqe.kg.rdf.write import SPLIT_GRAPH, write_nquads
from starqe.queries.exact.answering import answer
from starqe.queries.formula import Variable
from starqe.queries.query import Query
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.sparql.write import write_sparql
from tests.few_and_many import check_examples, few_and_many
from tests.queries.renaming import equal_but_for_names, renamed
from tests.queries.sparql.test_read import GRAPH, MEANINGS, PROLOGUE
from tests.queries.sparql.test_syntax import REFUSED
from tests.queries.strategies import graphs, queries

LENIENT = settings(max_examples=30, suppress_health_check=list(HealthCheck))


def store_of(graph: Graph) -> Store:
    """Returns a store with the graph as it is exported, all splits as one."""
    store = Store()
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write_nquads(graph, Path(folder) / "graph.nq", graph.names)
        for quad in parse(path=str(path), format=RdfFormat.N_QUADS):
            if str(quad.graph_name).startswith(f"<{SPLIT_GRAPH}"):
                store.add(Quad(quad.subject, quad.predicate, quad.object))
    return store


STORE = store_of(GRAPH)


def answers_of_store(store: Store, text: str, graph: Graph, target: str) -> set[str]:
    rows = store.query(text, prefixes=predefined_prefixes(graph))
    return {graph.names.entities.identifier(row[target].value) for row in rows}


def answers(graph: Graph, query: Query) -> set[str]:
    return {graph.entities.identifier(id_) for id_ in answer(graph.known(SPLITS), query)}


@st.composite
def spellings(draw: st.DrawFn, query: Query, names: Names) -> str:
    """Writes a query in any of the ways that the language has."""
    triples = {(atom.head, atom.relation, atom.tail) for atom in query.plain_form().all_atoms if not atom.qualifiers}
    given: dict[str, str] = {}
    blank = {variable for variable in query.variables if variable != query.target and draw(st.booleans())}

    def entity(term):
        if isinstance(term, Variable):
            return f"_:{term.name}" if term in blank else draw(st.sampled_from(["?", "$"])) + term.name
        if draw(st.integers(0, 5)) == 0:
            return "?" + given.setdefault(term, f"v{len(given)}")
        return draw(st.sampled_from([f"e:{term}", str(names.entities.term(term))]))

    def relation(term):
        return draw(st.sampled_from([f"r:{term}", str(names.relations.term(term))]))

    def properties(atom):
        return " ; ".join(f"{relation(key)} {entity(value)}" for key, value in atom.qualifiers) + draw(st.sampled_from(["", " ;"]))

    def lines(number, atom):
        triple = f"{entity(atom.head)} {relation(atom.relation)} {entity(atom.tail)}"
        if not atom.qualifiers:
            return [triple]
        reifier = draw(st.sampled_from([f"?r{number}", f"_:r{number}"]))
        # Beside a plain triple of its own, a quoted one would be read as the same statement.
        plain = (atom.head, atom.relation, atom.tail) in triples
        ways = {
            "annotated": lambda: [f"{triple} {{| {properties(atom)} |}}"],
            "annotated, named": lambda: [f"{triple} ~ {reifier} {{| {properties(atom)} |}}"],
            "apart": lambda: [f"{triple} ~{reifier}", f"{reifier} {properties(atom)}"],
            "quoted": lambda: [f"<< {triple} >> {properties(atom)}"],
            "asserted and quoted": lambda: [triple, f"<<{triple} ~ {reifier}>> {properties(atom)}"],
            "reifies": lambda: [f"{reifier} rdf:reifies <<( {triple} )>> ; {properties(atom)}"],
            "in brackets": lambda: [f"[ rdf:reifies <<( {triple} )>> ; {properties(atom)} ]"],
        }
        return ways[draw(st.sampled_from(list(ways)[: 3 if plain else None]))]()

    body = [line for number, atom in enumerate(query.plain_form().all_atoms) for line in lines(number, atom)]
    body = draw(st.permutations(body))
    values = f"VALUES ({' '.join('?' + v for v in given.values())}) {{ ({' '.join(f'e:{e}' for e in given)}) }}" if given else ""
    before = draw(st.booleans())
    space = draw(st.sampled_from([" ", "\n", "\t# a comment\n"]))
    group = f"{{{space}{values if before else ''} {f' .{space}'.join(body)} }}"
    return f"{draw(st.sampled_from(['SELECT', 'select distinct', 'SELECT REDUCED']))} ?t {group} {'' if before else values}"


def check_spelling(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    text = data.draw(spellings(query, graph.names))
    read = read_sparql(text, graph).query
    named = {variable.name: f"z{variable.name}" for variable in query.variables if variable != query.target}
    assert len(read.all_atoms) == len(query.plain_form().all_atoms)
    assert equal_but_for_names(read, renamed(query.plain_form(), named))
    assert answers_of_store(store_of(graph), text, graph, "t") == answers(graph, read) == answers(graph, query)


@given(st.data())
def test_a_query_is_read_as_it_is_written(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph)).plain_form()
    assert read_sparql(write_sparql(query, graph.names), graph).query == query
    other = renamed(query, {"t": "x0", "x": "t", "y": "answer"})
    assert read_sparql(write_sparql(other, graph.names), graph).query == other


@pytest.mark.parametrize("examples", few_and_many(30, 300))
def test_every_way_to_write_a_query_means_the_same_to_starqe_and_to_a_store(examples):
    check_examples(check_spelling, examples, LENIENT)


@pytest.mark.parametrize("body", [body for body, _ in MEANINGS if "~ :r" not in body])
def test_a_store_reads_and_answers_what_starqe_reads(body):
    text = PROLOGUE + f"SELECT ?x {{ {body} }}"
    assert answers_of_store(STORE, text, GRAPH, "x") == answers(GRAPH, read_sparql(text, GRAPH).query)


def test_two_patterns_may_speak_of_two_statements_and_one_pattern_of_one():
    graph = graph_of(
        [
            Statement("a", "r", "two", (("q", "v"),)),
            Statement("a", "r", "two", (("p", "u"),)),
            Statement("a", "r", "one", (("q", "v"), ("p", "u"))),
        ]
    )
    two = "SELECT ?x { << e:a r:r ?x >> r:q e:v . << e:a r:r ?x >> r:p e:u }"
    one = "SELECT ?x { << e:a r:r ?x >> r:q e:v ; r:p e:u }"
    store = store_of(graph)
    for text, expected in ((two, {"one", "two"}), (one, {"one"})):
        assert answers(graph, read_sparql(text, graph).query) == expected
        assert answers_of_store(store, text, graph, "x") == expected


def read_or_refuse(text: str) -> SparqlRequest | None:
    """Reads a text; whatever else than an error in its place comes out is a bug."""
    try:
        return read_sparql(text, GRAPH)
    except SparqlError as caught:
        error = caught
    assert 0 <= error.offset <= error.offset + error.length <= len(text)
    assert error.line == text.count("\n", 0, error.offset) + 1
    assert error.column == error.offset - (text.rfind("\n", 0, error.offset) + 1) + 1
    assert f"(line {error.line}, column {error.column}). " in str(error)
    return None


TEXTS = [PROLOGUE + f"SELECT ?x {{ {body} }}" for body, _ in MEANINGS] + [PROLOGUE + text for text, _, _ in REFUSED]
TOKENS = sorted({token for text in TEXTS for token in re.findall(r"[\w:?$]+|<[^ <>]*>|\S+?", text)})
PIECES = st.sampled_from(TOKENS) | st.sampled_from(list(" \n\t\"'\\<>{}[]()|~.;,?$@#:_-/*+%0aüλ🦉\u00b7\u2028\x00")) | st.text(max_size=3)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        place, length = draw(st.integers(0, len(text))), draw(st.integers(0, 6))
        piece = draw(PIECES)
        text = text[:place] + draw(st.sampled_from([piece, f" {piece} ", "", text[place : place + length] * 2])) + text[place + length :]
    return text


def check_mutation(text: str) -> None:
    request = read_or_refuse(text)
    if request is None or '"' in text or "'" in text:  # a string may stand as a relation in this language only
        return
    target = request.query.target.name
    found = answers_of_store(STORE, text, GRAPH, target)  # a SyntaxError here would be a text that only we accept
    if request.limit is None and not request.offset and not re.search(r"~\s*[^?$_\s{]", text):
        with suppress(UnsupportedError):  # a variable in a qualifier or as a relation, which tests/conformance compare
            assert found == answers(GRAPH, request.query)


@settings(LENIENT, max_examples=100)
@given(mutated())
@example("")
@example("SELECT ?x { :a r:r ?x } LIMIT " + "9" * 5000)
def test_no_mutation_of_a_text_breaks_the_reader(text):
    check_mutation(text)


@settings(LENIENT, max_examples=40)
@given(st.text(st.characters()))
def test_no_text_at_all_breaks_the_reader(text):
    assert read_or_refuse(text) is None
    read_or_refuse(f"SELECT ?x {{ {text} }}")
    read_or_refuse(f'SELECT ?x {{ ?x <http://example.org/r/r> "{text}" }}')


@pytest.mark.slow
@settings(LENIENT, max_examples=3_000)
@given(mutated())
def test_no_mutation_breaks_the_reader_many_times(text):
    check_mutation(text)
