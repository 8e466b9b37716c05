"""Names in a text: IRIs, prefixes and labels become identifiers of the graph, or an error with a way out."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from starqe.errors import SparqlError
from starqe.kg import Draft, Graph
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.sparql.write import write_sparql
from tests.kg.strategies import identifiers

X = Variable("x")


def labelled_graph() -> Graph:
    draft = Draft()
    draft.add(
        [["Q1", "P1", "Q2", "P2", "Q3"], ["Q4", "P1", "Paris"], ["_:b", "P1", 'say "hi"'], *([f"T{i}", "P1", "Q1"] for i in range(12))],
        "train",
    )
    for identifier, text, language in [
        ("Q1", "Albert Einstein", "en"),
        ("Q2", "Paris", "en"),
        ("Q3", "Paris", "fr"),
        ("Q3", "Wien", "de"),
        ("Q4", "WIEN", "en"),
        ("P1", "educated at", "en"),
        ("P2", "Grad\n\t\\", "de"),
        *((f"T{i}", "twin", "en") for i in range(12)),
    ]:
        draft.label(identifier, text, language)
    return draft.finish(Names("http://example.org/e/", "http://example.org/r/"))


GRAPH = labelled_graph()


def read(body: str, prologue: str = "") -> tuple[Atom, ...]:
    return read_sparql(f"{prologue} SELECT ?x {{ {body} }}", GRAPH).query.all_atoms


def error(body: str, prologue: str = "") -> str:
    with pytest.raises(SparqlError) as caught:
        read(body, prologue)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "entity"),
    [
        ("e:Q1", "Q1"),
        ("<http://example.org/e/Q1>", "Q1"),
        ("e:say%20%22hi%22", 'say "hi"'),
        ('"Albert Einstein"', "Q1"),
        ("'albert EINSTEIN'", "Q1"),
        ('"""Albert Einstein"""@en', "Q1"),
        ("'''Albert\\u0020Einstein'''@EN", "Q1"),
        ('"Albert Einstein"^^<http://www.w3.org/2001/XMLSchema#string>', "Q1"),
        ('"Paris"', "Paris"),  # an identifier wins over labels
        ('"Paris"@en', "Q2"),
        ('"paris"@fr', "Q3"),
        ('"Wien"', "Q3"),  # as it is written before any other case
        ('"WIEN"', "Q4"),
        ('"wien"@de', "Q3"),
        ('"Q4"', "Q4"),
        ('"_:b"', "_:b"),
        ('"say \\"hi\\""', 'say "hi"'),
    ],
)
def test_an_entity_is_named_by_iri_identifier_or_label(written, entity):
    assert read(f"?x r:P1 {written}") == (Atom(X, "P1", entity),)
    assert read(f"?x r:P1 ?y . {written} r:P1 ?x {{| r:P2 {written} |}}")[0] == Atom(entity, "P1", X, (("P2", entity),))
    assert read(f"?x r:P1 ?y VALUES ?y {{ {written} }}") == (Atom(X, "P1", entity),)


@pytest.mark.parametrize(
    ("written", "relation"), [("r:P1", "P1"), ('"educated at"', "P1"), ('"Educated At"@en', "P1"), ('"Grad\\n\\t\\\\"', "P2")]
)
def test_a_relation_is_named_by_iri_identifier_or_label(written, relation):
    assert read(f"?x {written} e:Q1") == (Atom(X, relation, "Q1"),)
    assert read(f"?x r:P1 e:Q1 {{| {written} e:Q3 |}}") == (Atom(X, "P1", "Q1", ((relation, "Q3"),)),)


UNKNOWN = [
    ("?x r:P1 e:Q11", "there is no entity 'Q11' in this graph (line 1, column 22). Did you mean \"Albert Einstein\""),
    ("?x r:P1 e:Einstein", "there is no entity 'Einstein' in this graph (line 1, column 22). Did you mean \"Albert Einstein\"?"),
    ("?x r:P1 <http://example.com/zzz>", "no entity 'http://example.com/zzz' in this graph (line 1, column 22). No similar name found"),
    ("?x r:P11 e:Q1", "there is no relation 'P11' in this graph (line 1, column 17). Did you mean \"educated at\""),
    ("?x e:P1 e:Q1", "there is no relation 'http://example.org/e/P1' in this graph"),
    ("?x a e:Q1", "there is no relation 'http://www.w3.org/1999/02/22-rdf-syntax-ns#type' in this graph (line 1, column 17)"),
    (
        '?x r:P1 "Albert Einstien"',
        "no entity of this graph is called 'Albert Einstien' (line 1, column 22). Did you mean \"Albert Einstein\"?",
    ),
    ('?x r:P1 "Parsi"', 'Did you mean "Paris", "Q2" (Paris), '),  # the label would name something else
    ('?x r:P1 ""', "no entity of this graph is called '' (line 1, column 22). No similar name found"),
    ('?x r:P1 "Albert Einstein"@de', "is called 'Albert Einstein' in the language 'de'"),
    ('?x r:P1 "Q1"@en', "no entity of this graph is called 'Q1' in the language 'en'"),
    ('?x "educate at" e:Q1', "no relation of this graph is called 'educate at' (line 1, column 17). Did you mean \"educated at\"?"),
    ('?x r:P1 "wIEN"', "'wIEN' names 2 entities (line 1, column 22). Write the identifier of one: "),
    ('?x r:P1 "wIEN"', '"Q3" (Wien), "Q4" (WIEN)'),
    ('?x r:P1 "Twin"', "names 12 entities"),
    ('?x r:P1 "Twin"', '"T0" (twin), "T1" (twin), "T10" (twin)'),
    ('?x r:P1 "Twin"', '"T7" (twin) and 2 more'),
]


@pytest.mark.parametrize(("body", "message"), UNKNOWN)
def test_an_unknown_or_ambiguous_name_is_an_error_with_candidates(body, message):
    assert message in error(body)


@pytest.mark.parametrize(
    ("body", "prologue", "message"),
    [
        ("?x no:P1 e:Q1", "", "the prefix 'no:' is not declared (line 1, column 17). Declare it: PREFIX no: <…>. Without"),
        ("?x <P1> e:Q1", "", "an IRI begins with a scheme such as http: unless there is a BASE, found <P1> (line 1, column 17)"),
        ("?x r:P1 e:Q1", "BASE <b>", "an IRI begins with a scheme such as http: unless there is a BASE, found <b> (line 1, column 6)"),
        ("?x r:P1 <%zz>", "BASE <http://example.org/>", "an IRI follows RFC 3987, found <%zz>"),
        ("?x r:P1 <http://a/\\u003E>", "", "an IRI has no space, quote or bracket in it, found <http://a/\\u003E>"),
        ("?x r:P1 e:Q1", "PREFIX k:l <http://a/>", "a prefix ends in its colon, found 'k:l' (line 1, column 8)"),
        ("?x r:P1 e:Q1", 'VERSION "9"', 'a version is one of 1.0, 1.1, 1.2, 1.2-basic, found "9" (line 1, column 9)'),
        ('?x r:P1 "\\q"', "", "an escape is one of"),
        ('?x r:P1 "\\ud800"', "", "a character has a code below 110000 outside of D800…DFFF, found '\\\\ud800'"),
        ('?x r:P1 "\\U00110000"', "", "a character has a code below 110000"),
    ],
)
def test_a_name_that_breaks_a_rule_is_an_error_in_its_place(body, prologue, message):
    assert message in error(body, prologue)


def test_the_prefixes_of_an_export_need_no_declaration_and_may_be_declared_again():
    assert predefined_prefixes(GRAPH)["e"] == "http://example.org/e/"
    assert read("?x e:P1 r:Q1", "PREFIX r: <http://example.org/e/> PREFIX e: <http://example.org/r/>") == (Atom(X, "P1", "Q1"),)


def test_a_local_name_may_hold_escapes_dots_and_colons():
    draft = Draft()
    draft.add([["http://a/b.c:d", "r", "http://a/x,(y)%41"], ["e", "r", "-"]], "train")
    graph = draft.finish()
    text = "PREFIX k: <http://a/> SELECT ?x { ?x r:r k:b.c:d. ?x r:r k:x\\,\\(y\\)%41 , e:\\- }"
    tails = {atom.tail for atom in read_sparql(text, graph).query.all_atoms}
    assert tails == {"http://a/b.c:d", "http://a/x,(y)%41", "-"}


def test_the_last_part_of_an_iri_names_what_nothing_else_is_called():
    draft = Draft()
    draft.add([["http://a/ETHZurich", "http://r/in", "http://a/Cambridge"], ["http://b/Cambridge", "http://r/in", "Ulm"]], "train")
    graph = draft.finish()

    def read_string(text: str) -> Atom:
        return read_sparql(f'SELECT ?x {{ ?x "in" "{text}" }}', graph).query.all_atoms[0]

    assert read_string("ETHZurich") == read_string("ethzurich") == Atom(X, "http://r/in", "http://a/ETHZurich")
    with pytest.raises(SparqlError, match=r"'Cambridge' names 2 entities .* \"http://a/Cambridge\", \"http://b/Cambridge\"") as caught:
        read_string("Cambridge")
    assert caught.value.suggestions == ('"http://a/Cambridge"', '"http://b/Cambridge"')


@given(
    st.lists(identifiers(), min_size=4, max_size=4), st.sampled_from([DEFAULT_NAMES, Names("http://example.org/", "http://example.org/")])
)
def test_every_identifier_is_read_as_it_is_written(words, names):
    head, relation, key, value = words
    assume(not any(str(names.entities.term(word)).startswith("_:") for word in (head, value)))
    draft = Draft()
    draft.add([[head, relation, head, key, value]], "train")
    graph = draft.finish(names)
    query = Query.conjunction([Atom(head, relation, X, ((key, value),)), Atom(X, relation, value)], "x")
    assert read_sparql(write_sparql(query, graph.names), graph).query == query
