"""What a text means: every construct as the atoms that it asks for."""

from dataclasses import replace

import pytest

from starqe.errors import QueryError, SparqlError
from starqe.kg import Draft, Statement, graph_of
from starqe.kg.iris import Names
from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from starqe.queries.sparql.read import known_text, read_sparql, unknown_names
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.write import write_sparql
from tests.queries.sparql.texts import StoreHere, labelled_graph

X, Y, Z = Variable("x"), Variable("y"), Variable("z")
B1, B2 = Variable("blank1"), Variable("blank2")
QV, QW, PU = ("q", "v"), ("q", "w"), ("p", "u")
NAMES = Names("http://example.org/", "http://example.org/r/")
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PROLOGUE = "PREFIX : <http://example.org/> PREFIX r: <http://example.org/r/>\n"


def small_graph():
    both = ["a", "r", "c", "q", "v", "q", "w", "p", "u"]
    draft = Draft()
    draft.add(
        [["a", "r", "b", "q", "v"], ["a", "r", "b", "q", "w", "p", "u"], both, ["a", "s", "c", "q", "w"], ["b", TYPE, "c", "q", "v"]],
        "train",
    )
    draft.add([["b", "s", "c"], ["c", "s", "c"], ["b", "r", "a"], ["b", "r", "b"], ["a", "r", "b", "q", "v"]], "test")
    return draft.finish(NAMES)


GRAPH = small_graph()


def read(text: str, **options: int) -> SparqlRequest:
    return read_sparql(PROLOGUE + text, GRAPH, **options)


def atoms(body: str) -> set[Atom]:
    return set(read(f"SELECT ?x {{ {body} }}").query.all_atoms)


MEANINGS = [
    (":a r:r ?x", [Atom("a", "r", X)]),
    (":a r:r ?x .", [Atom("a", "r", X)]),
    ("?x r:r :b . :a r:s ?x .", [Atom(X, "r", "b"), Atom("a", "s", X)]),
    ("?x r:r :b ; r:s :c , :b ;; .", [Atom(X, "r", "b"), Atom(X, "s", "c"), Atom(X, "s", "b")]),
    ("?x a :c", [Atom(X, TYPE, "c")]),
    ("$x r:r :b", [Atom(X, "r", "b")]),
    ("<http://example.org/a> <http://example.org/r/r> ?x", [Atom("a", "r", X)]),
    (":a r:r ?y . ?y r:s ?x", [Atom("a", "r", Y), Atom(Y, "s", X)]),
    # Blank nodes are inner variables.
    (":a r:r _:b . _:b r:s ?x", [Atom("a", "r", B1), Atom(B1, "s", X)]),
    (":a r:r ?x . ?x r:s [] , [ ]", [Atom("a", "r", X), Atom(X, "s", B1), Atom(X, "s", B2)]),
    (":a r:r ?x . ?x r:s [] . ?x r:s ?blank1", [Atom("a", "r", X), Atom(X, "s", B2), Atom(X, "s", B1)]),
    ("[ r:r :a ; r:s ?x ] r:r :b", [Atom(B1, "r", "a"), Atom(B1, "s", X), Atom(B1, "r", "b")]),
    ("[ r:r ?x , :a ]", [Atom(B1, "r", X), Atom(B1, "r", "a")]),
    (":a r:r [ r:s [ r:r ?x ] ]", [Atom("a", "r", B2), Atom(B2, "s", B1), Atom(B1, "r", X)]),
    # Quoted triples.
    ("<< :a r:r ?x >> r:q :v", [Atom("a", "r", X, (QV,))]),
    ("<< :a r:r ?x >> r:q :v , :w ; r:p :u .", [Atom("a", "r", X, (QV, QW, PU))]),
    ("<< :a r:r ?x >> r:q :v . << :a r:r ?x >> r:q :w", [Atom("a", "r", X, (QV,)), Atom("a", "r", X, (QW,))]),
    (":a r:r ?x . << :a r:r ?x >> r:q :v", [Atom("a", "r", X, (QV,))]),
    ("<< :a r:r ?x >> r:q :v . :a r:r ?x , ?y", [Atom("a", "r", X, (QV,)), Atom("a", "r", Y)]),
    ("<< [] r:r ?x >> r:q :v", [Atom(B1, "r", X, (QV,))]),
    ("<< _:b r:r ?x >> r:q :v . _:b r:s :c", [Atom(B1, "r", X, (QV,)), Atom(B1, "s", "c")]),
    ("<< ?x a :c >> r:q :v", [Atom(X, TYPE, "c", (QV,))]),
    # Annotation blocks.
    (":a r:r ?x {| r:q :v ; r:p :u |}", [Atom("a", "r", X, (QV, PU))]),
    (":a r:r ?x {| r:q :v |} {| r:p :u |}", [Atom("a", "r", X, (QV,)), Atom("a", "r", X, (PU,))]),
    (":a r:r ?x {| r:q :v |} , ?y {| r:q :w |} ; r:s :c", [Atom("a", "r", X, (QV,)), Atom("a", "r", Y, (QW,)), Atom("a", "s", "c")]),
    (":a r:r ?x . :a r:r ?x {| r:q :v |}", [Atom("a", "r", X), Atom("a", "r", X, (QV,))]),
    ("[ r:r ?x {| r:q :v |} ]", [Atom(B1, "r", X, (QV,))]),
    # Reifiers.
    (":a r:r ?x ~ ?r {| r:q :v |}", [Atom("a", "r", X, (QV,))]),
    (":a r:r ?x ~ ?r . ?r r:q :v ; r:p :u", [Atom("a", "r", X, (QV, PU))]),
    (":a r:r ?x ~ _:r {| r:q :v |} . _:r r:p :u", [Atom("a", "r", X, (QV, PU))]),
    (":a r:r ?x ~ {| r:q :v |}", [Atom("a", "r", X, (QV,))]),
    (":a r:r ?x ~ [] {| r:q :v |}", [Atom("a", "r", X, (QV,))]),
    (":a r:r ?x ~ ?r {| r:q :v |} {| r:p :u |}", [Atom("a", "r", X, (QV,)), Atom("a", "r", X, (PU,))]),
    (":a r:r ?x ~ ?r {| r:q :v |} ~ ?s {| r:p :u |}", [Atom("a", "r", X, (QV,)), Atom("a", "r", X, (PU,))]),
    ("<< :a r:r ?x ~ ?r >> r:q :v . << :a r:r ?x ~ ?r >> r:p :u", [Atom("a", "r", X, (QV, PU))]),
    ("<< :a r:r ?x ~ >> r:q :v", [Atom("a", "r", X, (QV,))]),
    ("?r rdf:reifies <<( :a r:r ?x )>> ; r:q :v . :a r:r ?x", [Atom("a", "r", X, (QV,))]),
    ("_:r r:q :v ; rdf:reifies <<( :a r:r ?x )>>", [Atom("a", "r", X, (QV,))]),
    ("[] rdf:reifies <<( :a r:r ?x )>> ; r:q :v", [Atom("a", "r", X, (QV,))]),
    ("[ rdf:reifies <<( :a r:r ?x )>> ; r:q :v ]", [Atom("a", "r", X, (QV,))]),
    # VALUES gives entities.
    ("VALUES ?y { :a } ?y r:r ?x", [Atom("a", "r", X)]),
    ("?y r:r ?x . VALUES (?y ?z) { (:a :v) } << ?y r:r ?x >> r:q ?z", [Atom("a", "r", X, (QV,))]),
    ("?y r:r ?x VALUES (?y) { (<http://example.org/a>) } . ?x r:s :c", [Atom("a", "r", X), Atom(X, "s", "c")]),
]


@pytest.mark.parametrize(("body", "expected"), MEANINGS, ids=[body for body, _ in MEANINGS])
def test_a_pattern_means_these_atoms(body, expected):
    assert atoms(body) == set(expected)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x WHERE { :a r:r ?x }",
        "select distinct ?x where{:a r:r ?x}",
        "SELECT REDUCED ?x { :a r:r ?x } # the end",
        'VERSION "1.2" SELECT ?x # }\n{ :a # :b\n r:r ?x }',
        "base <http://example.org/r/> SELECT ?x { :a <r> ?x }",
        "BASE <http://example.org/r/x?y> BASE <../> PREFIX k: <r/> SELECT ?x { <a> k:r ?x }",
        "PREFIX k: <http://example.org/no/> PREFIX k: <http://example.org/> SELECT ?x { k:a r:r ?x }",
        "PREFIX ü.-1: <http://example.org/> SELECT ?x { ü.-1:a r:r ?x }",
        "SELECT ?x { <http://example.org/\\u0061> r:r ?x }",
        "SELECT ?x { e:a r:r ?x }",
        "SELECT ?x { ?y r:r ?x } VALUES ?y { :a }",
    ],
)
def test_a_text_may_be_written_in_these_ways(text):
    assert read(text).query == Query.conjunction([Atom("a", "r", X)], "x")


def test_all_variables_of_select_are_answers_in_their_order():
    request = read("SELECT ?known ?x ?score ?z ?y { VALUES ?z { :a } ?z r:r ?y . ?y r:s ?x . ?x r:r ?inner } LIMIT 7 OFFSET 3")
    assert request.columns == ("known", "x", "score", "z", "y")
    assert request.query.answers == (X, Y)
    assert request.alternatives[0].given == ((Z, "a"),)
    assert request.shown == ("x", "z", "y")
    assert not request.distinct
    assert (request.limit, request.offset, request.score, request.known) == (7, 3, True, True)


def test_nothing_is_asked_for_that_is_not_written():
    request = read("SELECT ?x { :a r:r ?x }")
    assert (request.columns, request.alternatives[0].given) == (("x",), ())
    assert (request.limit, request.offset, request.score, request.known) == (None, 0, False, False)


@pytest.mark.parametrize(
    ("modifiers", "limit", "offset"), [("OFFSET 2", None, 2), ("OFFSET 2 LIMIT 1", 1, 2), ("LIMIT 0", 0, 0), ("limit 05 offset 1", 5, 1)]
)
def test_limit_and_offset_come_in_either_order(modifiers, limit, offset):
    request = read(f"SELECT ?x {{ :a r:r ?x }} {modifiers}")
    assert (request.limit, request.offset) == (limit, offset)


def test_a_request_validates_itself():
    request = read("SELECT ?x ?y { :a r:r ?x . ?x r:s ?y }")
    with pytest.raises(QueryError, match="a column is a variable of the query or one of score, known, found 'z'"):
        replace(request, columns=("x", "z"))
    with pytest.raises(QueryError, match="a request has a query, found none"):
        replace(request, alternatives=())
    with pytest.raises(QueryError, match="limit and offset are counts, found -1 and 0"):
        replace(request, limit=-1)


WRONG = [
    ("SELECT ?x { :a r:r ?y }", "?x", "?x is in none"),
    ("SELECT ?x ?x { :a r:r ?x }", "?x {", "found ?x twice"),
    ("SELECT ?score ?known { :a r:r ?x }", "?score", "found score, known only"),
    ("SELECT ?x { ?score r:r ?x . :a r:r ?x }", "?score", "found the reserved ?score"),
    ("SELECT ?x { :a r:r ?x ~ ?known {| r:q :v |} }", "?known", "found the reserved ?known"),
    ("SELECT ?x { :a r:r ?x VALUES ?score { :a } }", "?score", "found the reserved ?score"),
    ("SELECT ?x { ?y r:r ?x . VALUES (?y ?z) { (:a) } }", "(:a)", "a value for each variable, found 2 and 1"),
    ("SELECT ?x { :a r:r _:b OPTIONAL { _:b r:s ?x } }", "_:b r:s", "a blank node belongs to one group"),
    ("SELECT ?x { :a r:r ?x } LIMIT 9999999999999999999", "9999999999999999999", "at most 18 digits, found 19"),
]


@pytest.mark.parametrize(("text", "place", "message"), WRONG, ids=[text for text, _, _ in WRONG])
def test_a_broken_rule_is_named_in_its_place(text, place, message):
    with pytest.raises(SparqlError) as caught:
        read(text)
    assert message in str(caught.value)
    whole = PROLOGUE + text
    assert whole[caught.value.offset :].startswith(place) or whole[caught.value.offset :].startswith("{ " + place)
    assert (caught.value.line, caught.value.column) == (2, caught.value.offset - len(PROLOGUE) + 1)
    assert f"(line 2, column {caught.value.column})" in str(caught.value)


def test_the_number_of_atoms_is_bounded_where_asked():
    text = "SELECT ?x { :a r:r ?x . ?x r:s ?y , ?z }"
    assert len(read(text, max_atoms=3).query.all_atoms) == 3
    with pytest.raises(SparqlError, match="a query has at most 2 patterns here, found 3"):
        read(text, max_atoms=2)
    assert read("SELECT ?x { :a r:r ?x . << :a r:r ?x >> r:q :v }", max_atoms=1)


def test_identifiers_of_the_reification_vocabulary_are_read_as_they_are_written():
    reifies = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
    graph = graph_of([Statement("a", reifies, "b"), Statement("a", "r", "b")])
    query = Query.conjunction([Atom("a", reifies, X)], "x")
    assert read_sparql(write_sparql(query, graph.names), graph).query == query
    with pytest.raises(SparqlError, match="rdf:reifies without a triple term is not predicted"):
        read_sparql("SELECT ?x { e:a rdf:reifies ?x }", graph)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('SELECT ?x { ?x "r" ?y FILTER (?y = "Bob") } ORDER BY ?x', ["a"]),
        ('SELECT ?x { ?x "s" ?y FILTER ("Carl" != ?y) } ORDER BY ?x', ["c"]),
        ('SELECT ?y { ?x "s" ?y FILTER (?y IN ("Carl", "Bob"@en)) } ORDER BY ?x', ["c"]),
        ('SELECT ?y { ?x "s" ?y FILTER (?x NOT IN ("Carl")) } ORDER BY ?x', ["c"]),
        ('SELECT ?x { ?x "s" ?y VALUES (?y ?x) { ("Carl" UNDEF) (UNDEF "Anna") } } ORDER BY ?x', ["b"]),
        ('SELECT ?y { "Carl" ?how ?y FILTER (?how = "s") } ORDER BY ?y', ["d"]),
        ('SELECT ?x { ?x rdfs:label ?name FILTER (?name = "Carl") } ORDER BY ?x', ["c"]),  # a label is a string
        ('SELECT ?x { ?x ?how ?y FILTER (?y = "Carl") } ORDER BY ?x', ["c"]),  # and this may be one
        ('SELECT ?y { "Bob" !("r"|^"r") ?y FILTER isIRI(?y) } ORDER BY ?y', ["c"]),
    ],
)
def test_strings_name_entities_and_relations_for_known_facts_too(text: str, expected: list[str]) -> None:
    graph = labelled_graph([])
    rows = StoreHere(graph).rows(known_text(text, graph)).rows
    assert [term["value"].removeprefix("urn:starqe:entity:") for row in rows for term in row.values()] == expected


def test_what_is_described_may_be_named_by_its_label() -> None:
    graph = labelled_graph([])
    assert known_text('DESCRIBE "Anna" ?x { ?x "r" "Bob" }', graph).split()[1] == "<urn:starqe:entity:a>"
    with pytest.raises(SparqlError, match=r"is called 'Anja' .* Did you mean .*Anna"):
        known_text('DESCRIBE "Anja"', graph)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('SELECT (COUNT(*) AS ?n) { ?x "r" "Anja" }', ["no entity of this graph is called 'Anja' (line 1, column 34). Did you mean"]),
        ('SELECT (COUNT(*) AS ?n) { "Bop" "r" ?x . ?x "s" "Karl" }', ["called 'Bop'", "called 'Karl'"]),
        ('SELECT (COUNT(*) AS ?n) { ?x "r" "Anna" }', []),
        ('SELECT (COUNT(*) AS ?n) { ?x ?how "Anja" ; rdfs:label "Anja" }', []),  # these may be texts
        ('SELECT (COUNT(*) AS ?n) { ?x "no relation" "Anja" }', []),  # refused elsewhere
    ],
)
def test_a_misspelled_name_is_pointed_out_where_known_facts_answer(text: str, said: list[str]) -> None:
    found = unknown_names(text, labelled_graph([]))
    assert len(found) == len(said)
    for note, part in zip(found, said, strict=True):
        assert part in note
        assert note.endswith("(it is read as a text)")


def test_a_string_that_names_several_entities_is_refused_for_known_facts_too() -> None:
    graph = graph_of([Statement("http://a.org/v", "http://r.org/r", "http://b.org/v")])
    with pytest.raises(SparqlError, match="'v' names 2 entities"):
        known_text('SELECT (COUNT(?x) AS ?n) { ?x <http://r.org/r> "v" }', graph)
