"""What is not in the language is refused by name, in its place; what is no SPARQL is explained in words."""

import subprocess
import sys

import pytest

from starqe.errors import KnownOnlyError, SparqlError
from starqe.queries.sparql import syntax
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.refused import KNOWN_ONLY, UPDATES
from starqe.queries.sparql.syntax import MAX_BYTES, MAX_DEPTH, MAX_TOKENS, parse_sparql
from tests.places import ROOT
from tests.queries.sparql.test_read import GRAPH

PROLOGUE = "PREFIX : <http://example.org/>\nPREFIX r: <http://example.org/r/>\n"

NOT_PREDICTED = [
    ("SELECT (COUNT(?x) AS ?n) { :a r:r ?x }", "(COUNT", "expression"),
    ("SELECT (?x AS ?y) { :a r:r ?x }", "(?x", "expression"),
    ("SELECT ?x { :a r:r ?x } GROUP BY ?x", "GROUP", "aggregation"),
    ("SELECT ?x { :a r:r ?x } HAVING (?x > 1)", "HAVING", "aggregation"),
    ("SELECT ?x { :a r:r ?x } ORDER BY ?x", "ORDER", "order"),
    ("SELECT ?x { :a r:r ?x BIND(:b AS ?y) }", "BIND", "bind"),
    ("SELECT ?x { { SELECT ?x { :a r:r ?x } } }", "SELECT ?x { :a", "sub-select"),
    ("SELECT ?x { :a r:r* ?x }", "r:r*", "recursion"),
    ("SELECT ?x { :a (r:r/r:s)+ ?x }", "(r:r", "recursion"),
    ("SELECT ?x { :a !r:r ?x }", "!", "negated path"),
    ("SELECT ?x { :a r:r/r:s ?x {| r:q :v |} }", "{|", "qualified path"),
    ("SELECT ?x { :a r:r ?x {| r:q/r:s :v |} }", "r:q/", "qualified path"),
    ("SELECT ?x { :a r:r (?x) }", "(", "collection"),
    ("SELECT ?x { ?x r:r :a , 12 }", "12", "literal"),
    ("SELECT ?x { ?x r:r :a , -1.5e3 }", "-1.5e3", "literal"),
    ("SELECT ?x { ?x r:r true }", "true", "literal"),
    ('SELECT ?x { ?x r:r "1"^^<http://www.w3.org/2001/XMLSchema#integer> }', '"1"', "literal"),
    ('SELECT ?x { ?x r:r "a"@en--ltr }', '"a"', "literal"),
    ("SELECT ?x { :a r:r ?x FILTER (?x < :b) }", "?x <", "function"),
    ("SELECT ?x { :a r:r ?x FILTER (STRLEN(STR(?x)) = 1) }", "STRLEN", "function"),
    ("SELECT ?x { :a r:r ?x FILTER regex(?x, 'a') }", "regex", "function"),
    ("SELECT ?x { ?x r:r << :a r:r :b >> }", "<<", "statement as node"),
    ("SELECT ?x { << << :a r:r ?x >> r:q :v >> r:p :u }", "<< :a", "statement as node"),
    ("SELECT ?x { :a r:r ?x {| r:q << :a r:r :b >> |} }", "<< :a", "statement as node"),
    ("SELECT ?x { :a r:r ?x ~ ?r {| r:q :v |} . :b r:s ?r }", "?r }", "statement as node"),
    ("SELECT ?x { :a r:r ?x {| r:q :v {| r:p :u |} |} }", "{| r:q", "qualified qualifier"),
    ("SELECT ?x { ?r rdf:reifies <<( :a r:r ?x )>> {| r:q :v |} }", "{|", "qualified qualifier"),
    ("SELECT ?x { ?r r:q <<( :a r:r ?x )>> }", "<<(", "triple term"),
    ("SELECT ?x { <<( :a r:r ?x )>> r:q :v }", "<<(", "triple term"),
    ("SELECT ?x { ?x rdf:reifies ?y }", "rdf:reifies", "reifies"),
    ("SELECT ?x { << :a r:r ?x >> }", "<< :a", "no qualifier"),
    ("SELECT ?x { :a r:r ?x ~ ?r }", "?r", "no qualifier"),
    ("SELECT ?x { :a r:r ?x ~ :r {| r:q :v |} }", ":r {|", "named statement"),
    ('SELECT ?x { "a" rdf:reifies <<( :a r:r ?x )>> }', '"a" rdf', "named statement"),
    ("SELECT ?x { << :a r:r ?x ~ ?r >> r:q :v . << :a r:s ?x ~ ?r >> r:q :v }", "?r >> r:q :v }", "two statements"),
    ("SELECT ?x ?r { :a r:r ?x ~ ?r {| r:q :v |} }", "?r {", "statement in a row"),
    ("SELECT * { :a r:r ?x ~ ?r {| r:q :v |} }", "*", "statement in a row"),
    ("SELECT ?x { :a ?x ?y . ?x r:r :b }", "?x r:r", "two kinds"),
    ("SELECT ?x { :a ?x ?y FILTER (?x = ?y) }", "?y) }", "two kinds"),
    ("SELECT ?x { ?x r:r :b ; rdfs:label ?l . ?y rdfs:label ?l }", "?x r:r", "label"),
    ("SELECT ?x { ?x r:r ?y OPTIONAL { ?x rdfs:label ?l } OPTIONAL { ?y rdfs:label ?l } }", "?x r:r", "label"),
    ("SELECT ?x { ?x r:r ?y OPTIONAL { ?x rdfs:label ?l } { ?y rdfs:label ?l } }", "?x r:r", "label"),
    ("SELECT ?x { ?x r:r :b ; rdfs:label ?l FILTER (STRLEN(?l) = 3) }", "STRLEN", "label"),
    ("SELECT ?x { :a r:r ?x FILTER NOT EXISTS { ?x ?p ?y } }", "{ ?x ?p", "open negation"),
    ("SELECT ?x { :a r:r ?x FILTER NOT EXISTS { ?y r:q ?x } }", "{ ?y r:q", "open negation"),
    ("SELECT ?x { :a r:r ?x " + "OPTIONAL { ?x r:s ?y%s } " * 5 % (1, 2, 3, 4, 5) + "}", "{ ?x r:s ?y5", "many alternatives"),
    ("SELECT ?x { VALUES ?x { :a } }", "{ VALUES", "no pattern"),
    ("SELECT ?x { }", "{ }", "no pattern"),
    ("SELECT ?x { ?x r:r :b FILTER (?x IN ()) }", "{ ?x", "never"),
    ("DESCRIBE :a", "DESCRIBE", "describe"),
]
REFUSED = [
    *(
        (f"SELECT ?x {{ {word} {name} {{ :a r:r ?x }} }}", word, word)
        for word, name in (("GRAPH", ":g"), ("SERVICE", ":g"), ("SERVICE", "?g"))
    ),
    *((f"SELECT ?x {words} :g {{ :a r:r ?x }}", "FROM", "FROM") for words in ("FROM", "FROM NAMED")),
    *((f"{word} DATA {{ :a r:r :b }}", word, f"the update {word}") for word in ("INSERT", "DELETE", "Load", "CLEAR", "DROP", "CREATE")),
    *((f"{word} :a TO :b", word, f"the update {word}") for word in ("ADD", "MOVE", "COPY", "WITH")),
]


def error_of(text: str) -> SparqlError:
    with pytest.raises(SparqlError) as caught:
        read_sparql(text, GRAPH)
    return caught.value


CASES = [(text, place, KNOWN_ONLY[construct][0]) for text, place, construct in NOT_PREDICTED] + REFUSED


@pytest.mark.parametrize(("text", "place", "name"), CASES, ids=[text for text, _, _ in CASES])
def test_what_is_not_predicted_or_refused_is_named_in_its_place(text, place, name):
    error = error_of(PROLOGUE + text)
    verb = "is not predicted" if (text, place, name) not in REFUSED else "is refused"
    assert isinstance(error, KnownOnlyError) == (verb == "is not predicted")
    named = f"{name} {verb} (line 3, column {error.column}). "
    assert str(error).lower().startswith(named.lower())
    assert len(str(error)) > len(named) + 10  # the reason, or the way out
    assert (PROLOGUE + text)[error.offset :].startswith(place)
    assert error.column == error.offset - len(PROLOGUE) + 1
    assert error.length > 0


def test_every_construct_that_is_not_predicted_has_a_case_above():
    assert set(KNOWN_ONLY) == {construct for _, _, construct in NOT_PREDICTED}


def test_everything_that_is_not_predicted_or_refused_is_documented():
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [word for word in (*UPDATES, "GRAPH", "FROM", "SERVICE") if word not in page] == []
    assert [name for name, _ in KNOWN_ONLY.values() if name not in page] == []


def test_names_strings_and_comments_may_hold_refused_words():
    text = "SELECT ?union { ?union <http://example.org/r/r> 'a' } # FILTER ( UNION *"
    assert read_sparql(text, GRAPH).columns == ("union",)


WRONG = [
    ("", 1, 1, "the text ends too early: expected PREFIX, SELECT, ASK or CONSTRUCT"),
    (
        "SELECT ?x {\n ?x",
        2,
        4,
        "the text ends too early: expected a variable, a name such as <http://example.org/a> or ex:a, 'a', a string or '('",
    ),
    ("SELECT ?x { :a :b ?x ", 1, 22, "the text ends too early: expected '{', '{|', '~', '.', ';', ',', VALUES or '}'"),
    ("SELCT ?x { }", 1, 1, "expected PREFIX, SELECT, ASK or CONSTRUCT, found the word 'SELCT'"),
    ("SELECT x { }", 1, 8, "expected DISTINCT, '*', a variable or '(', found the word 'x'"),
    ("SELECT ?x { :a A ?x }", 1, 16, "found the word 'A'"),
    ("SELECT ?x { :a :b ?x } LIMIT ten", 1, 30, "expected a whole number, found the word 'ten'"),
    ("SELECT ?x { :a :b ?x } LIMIT 1 LIMIT 2", 1, 32, "expected VALUES, OFFSET or the end of the text, found 'LIMIT'"),
    ("SELECT ?x { :a :b ?x . . }", 1, 24, "found '.'"),
    ("SELECT ?x { :a :b ?x :c }", 1, 22, "found ':c'"),
    ("SELECT ?x { [] }", 1, 16, "found '}'"),
    ("SELECT ?x { << :a :b :c :d >> }", 1, 25, "expected '~' or '>>', found ':d'"),
    ("SELECT ?x { << :a :b [ :c :d ] >> :q :v }", 1, 22, "found '['"),
    ("SELECT ?x { :a :b ?x {| |} }", 1, 25, "found '|}'"),
    ("SELECT ?x { :a :b ?x } }", 1, 24, "found '}'"),
    ("CONSTRUCT WHERE { :a :b ?x FILTER (?x = :c) }", 1, 28, "found 'FILTER'"),  # the short form has triples alone
    ("@prefix : <http://example.org/> . ", 1, 1, "found '@prefix'"),
    ('SELECT ?x {\n :a :b "c }', 2, 8, "a string ends with the same quotes as it begins"),
    ("SELECT ?x { :a :b '''c'' }", 1, 19, "a string ends with the same quotes as it begins"),
    ("SELECT ?x { <http://a b> :b ?x }", 1, 13, "an IRI ends in '>' and has no space"),
    ("SELECT ?x { :a :b ?x \\ }", 1, 22, "the character '\\\\' (U+005C) has no meaning here"),
    ("SELECT ?x { \u00a0 }", 1, 13, "the character '\\xa0' (U+00A0) has no meaning here"),
    ("SELECT ?x { '\ud800' }", 1, 14, "half a surrogate pair"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), WRONG, ids=[repr(text) for text, *_ in WRONG])
def test_a_syntax_error_says_where_and_what_was_expected(text, line, column, message):
    with pytest.raises(SparqlError) as caught:
        parse_sparql(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"(line {line}, column {column})." in str(caught.value)


def test_a_misspelled_keyword_is_suggested():
    assert "Did you mean OFFSET?" in str(error_of("SELECT ?x { :a :b ?x } OFSET 3"))


def test_a_long_text_is_refused():
    fits = "SELECT ?x { ?x <http://example.org/r/r> <http://example.org/b> } #"
    assert parse_sparql(fits.ljust(MAX_BYTES, "ü")[: MAX_BYTES - (MAX_BYTES - len(fits)) // 2])
    with pytest.raises(SparqlError, match=r"at most 1,048,576 bytes, found 1,048,577 \(line 1, column 1\)"):
        parse_sparql(fits.ljust(MAX_BYTES + 1, "x"))


def test_a_text_of_many_tokens_is_refused():
    with pytest.raises(SparqlError, match=f"at most {MAX_TOKENS:,} names, words and signs"):
        parse_sparql("SELECT ?x { ?x :r :b " + "; :r :b " * (MAX_TOKENS // 3) + "}")


@pytest.mark.parametrize("opening", ["<< ", "[ :p ", "<<( ", ":a :b :c {| ", "[[", "{ ", "( ", ":a :b <<( ", "FILTER (!", "FILTER !"])
def test_deep_nesting_is_refused_and_breaks_nothing(opening):
    assert isinstance(error_of("SELECT ?x { " + opening * 6_000), SparqlError)


def test_brackets_may_be_nested_up_to_the_limit():
    text = "SELECT ?x {{ ?x :p {} :o {} }}"
    most = MAX_DEPTH - 1  # the group is one
    assert parse_sparql(text.format("[ :p" * most, "]" * most))
    with pytest.raises(SparqlError, match=f"brackets are nested at most {MAX_DEPTH} deep"):
        parse_sparql(text.format("[ :p" * MAX_DEPTH, "]" * MAX_DEPTH))


def test_importing_the_queries_does_not_load_the_parser():
    program = "import sys, starqe.queries; print('lark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_every_word_of_the_expectations_is_one_of_the_grammar():
    terminals = {terminal.name for terminal in syntax._parser().lark.terminals} | {"$END"}
    assert set(syntax.EXPECTED) <= terminals
