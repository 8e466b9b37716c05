"""What is not in the language is refused by name, in its place; what is no SPARQL is told in words."""

import re
import subprocess
import sys

import pytest

from starqe.errors import KnownOnlyError, SparqlError
from starqe.queries.sparql import syntax
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.refused import CONSTRUCTS, SIGNS, WORDS
from starqe.queries.sparql.refused import REFUSED as REFUSED_WORDS
from starqe.queries.sparql.syntax import KEYWORDS, MAX_BYTES, MAX_DEPTH, MAX_TOKENS, parse_sparql
from tests.places import ROOT
from tests.queries.sparql.test_read import GRAPH

PROLOGUE = "PREFIX : <http://example.org/>\nPREFIX r: <http://example.org/r/>\n"

REFUSED = [
    ("SELECT ?x { :a r:r ?x OPTIONAL { ?x r:s ?y } }", "OPTIONAL", "OPTIONAL"),
    ("SELECT ?x { { :a r:r ?x } UNION { :a r:s ?x } }", "UNION", "UNION"),
    ("SELECT ?x { :a r:r ?x MINUS { :a r:s ?x } }", "MINUS", "MINUS"),
    ("SELECT ?x { :a r:r ?x filter(?x = :b) }", "filter", "FILTER"),
    ("SELECT ?x { :a r:r ?x FILTER NOT EXISTS { :a r:s ?x } }", "FILTER", "FILTER"),
    ("SELECT ?x { :a r:r ?x BIND(:b AS ?y) }", "BIND", "BIND"),
    ("SELECT ?x { GRAPH :g { :a r:r ?x } }", "GRAPH", "GRAPH"),
    ("SELECT ?x { SERVICE :g { :a r:r ?x } }", "SERVICE", "SERVICE"),
    ("SELECT ?x FROM :g { :a r:r ?x }", "FROM", "FROM"),
    ("SELECT ?x FROM NAMED :g { :a r:r ?x }", "FROM", "FROM"),
    ("SELECT ?x { :a r:r ?x } GROUP BY ?x", "GROUP", "GROUP BY"),
    ("SELECT ?x { :a r:r ?x } HAVING (?x > 1)", "HAVING", "HAVING"),
    ("SELECT ?x { :a r:r ?x } ORDER BY ?x", "ORDER", "ORDER BY"),
    ("SELECT (COUNT(?x) AS ?n) { :a r:r ?x }", "COUNT", "the aggregate COUNT"),
    ("SELECT (?x AS ?y) { :a r:r ?x }", "AS", "an expression in SELECT (AS)"),
    ("SELECT ?x (?x) { :a r:r ?x }", "(?x)", "an expression in SELECT"),
    ("SELECT * { :a r:r ?x }", "*", "SELECT *"),
    ("SELECT ?x { { SELECT ?x { :a r:r ?x } } }", "SELECT ?x { :a", "a sub-select"),
    ("SELECT ?x { { :a r:r ?x } }", "{ :a", "a group within a group"),
    ("SELECT ?x { :a r:r ?x { :a r:r ?x } }", "{ :a r:r ?x } }", "a group within a group"),
    ("SELECT ?x { :a r:r/r:s ?x }", "/", "a property path ('/')"),
    ("SELECT ?x { :a ^r:r ?x }", "^", "a property path ('^')"),
    ("SELECT ?x { :a r:r|r:s ?x }", "|", "a property path ('|')"),
    ("SELECT ?x { :a r:r* ?x }", "*", "a property path ('*')"),
    ("SELECT ?x { :a r:r+ ?x }", "+", "a property path ('+')"),
    ("SELECT ?x { :a r:r? ?x }", "? ?x", "a property path ('?')"),
    ("SELECT ?x { :a !r:r ?x }", "!", "a property path ('!')"),
    ("SELECT ?x { :a (r:r) ?x }", "(", "a property path in parentheses"),
    ("SELECT ?x { :a r:r (?x) }", "(", "a collection '( … )'"),
    ("SELECT ?x { () r:r ?x }", "(", "a collection '( … )'"),
    ("SELECT ?x { :a ?p ?x }", "?p", "a variable as a relation"),
    ("SELECT ?x { << :a ?p ?x >> r:q :v }", "?p", "a variable as a relation"),
    ("SELECT ?x { << :a r:r ?x >> ?q :v }", "?q", "a variable as a relation"),
    ("SELECT ?x { VALUES ?p { :a } :a ?p ?x }", "?p ?x", "a variable as a relation"),
    ("SELECT ?x { :a r:r ?x {| r:q ?v |} }", "?v", "a variable as a qualifier value"),
    ("SELECT ?x { :a r:r ?x {| r:q [] |} }", "[]", "a variable as a qualifier value"),
    ("SELECT ?x { :a r:r ?x {| r:q _:v |} }", "_:v", "a variable as a qualifier value"),
    ("SELECT ?x { ?x r:r :a , 12 }", "12", "a number"),
    ("SELECT ?x { ?x r:r :a , -1.5e3 }", "-1.5e3", "a number"),
    ("SELECT ?x { ?x r:r true }", "true", "the boolean 'true'"),
    ('SELECT ?x { ?x r:r "1"^^<http://www.w3.org/2001/XMLSchema#integer> }', '"1"', "a literal with a datatype"),
    ('SELECT ?x { ?x r:r "a"@en--ltr }', '"a"', "a language tag with a direction"),
    ("SELECT ?x { ?x r:r << :a r:r :b >> }", "<<", "a statement as an entity"),
    ("SELECT ?x { << << :a r:r ?x >> r:q :v >> r:p :u }", "<< :a", "a statement as an entity"),
    ("SELECT ?x { :a r:r ?x {| r:q << :a r:r :b >> |} }", "<< :a", "a statement as an entity"),
    ("SELECT ?x { << <<( :a r:r ?x )>> r:q :v >> r:p :u }", "<<( :a", "a statement as an entity"),
    ("SELECT ?x { :a r:r ?x ~ ?r {| r:q :v |} . :b r:s ?r }", "?r }", "a statement as an entity"),
    ("SELECT ?x { :a r:r ?x ~ _:r {| r:q :v |} . :b r:s _:r }", "_:r }", "a statement as an entity"),
    ("SELECT ?x { :a r:r ?x {| r:q :v {| r:p :u |} |} }", "{| r:q", "a qualifier of a qualifier"),
    ("SELECT ?x { :a r:r ?x ~ ?r . ?r r:q :v {| r:p :u |} }", "?r r:q", "a qualifier of a qualifier"),
    ("SELECT ?x { ?r rdf:reifies <<( :a r:r ?x )>> {| r:q :v |} }", "{|", "a qualifier of a qualifier"),
    ("SELECT ?x { ?r r:q <<( :a r:r ?x )>> }", "<<(", "a triple term other than after rdf:reifies"),
    ("SELECT ?x { <<( :a r:r ?x )>> r:q :v }", "<<(", "a triple term other than after rdf:reifies"),
    ("SELECT ?x { ?y r:r ?x VALUES ?y { <<( :a r:r :b )>> } }", "<<(", "a triple term other than after rdf:reifies"),
    ("SELECT ?x { ?x rdf:reifies ?y }", "rdf:reifies", "rdf:reifies without a triple term"),
    ("SELECT ?x { ?y r:r ?x VALUES ?y { :a :b } }", ":b", "VALUES with several rows"),
    ("SELECT ?x { ?y r:r ?x } VALUES (?y) { (:a) (:b) }", "(:b)", "VALUES with several rows"),
    ("SELECT ?x { ?y r:r ?x VALUES ?y { } }", "VALUES", "VALUES without a row"),
    ("SELECT ?x { ?y r:r ?x VALUES () { () } }", "VALUES", "VALUES without a row"),
    ("SELECT ?x { ?y r:r ?x VALUES ?y { UNDEF } }", "UNDEF", "UNDEF"),
    ("ASK { :a r:r :b }", "ASK", "ASK"),
    ("CONSTRUCT { :a r:r ?x } WHERE { :a r:r ?x }", "CONSTRUCT", "CONSTRUCT"),
    ("DESCRIBE :a", "DESCRIBE", "DESCRIBE"),
    *((f"{word} DATA {{ :a r:r :b }}", word, f"the update {word}") for word in ("INSERT", "DELETE", "Load", "CLEAR", "DROP", "CREATE")),
    *((f"{word} :a TO :b", word, f"the update {word}") for word in ("ADD", "MOVE", "COPY")),
]


def error_of(text: str) -> SparqlError:
    with pytest.raises(SparqlError) as caught:
        read_sparql(text, GRAPH)
    return caught.value


@pytest.mark.parametrize(("text", "place", "name"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_what_is_not_in_the_language_is_refused_by_name_and_place(text, place, name):
    error = error_of(PROLOGUE + text)
    verb = "is not predicted" if isinstance(error, KnownOnlyError) else "is refused"
    refused = f"{name} {verb} (line 3, column {error.column}). "
    assert str(error).lower().startswith(refused.lower())
    assert len(str(error)) > len(refused) + 10  # the way out
    assert (PROLOGUE + text)[error.offset :].startswith(place)
    assert error.column == error.offset - len(PROLOGUE) + 1
    assert error.length > 0


def test_every_construct_that_is_refused_has_a_case_above():
    names = {name for _, _, name in REFUSED}
    assert {name for name, _ in CONSTRUCTS.values()} <= names


@pytest.mark.parametrize("word", WORDS)
def test_every_refused_keyword_is_refused_wherever_it_stands(word):
    for text in (f"SELECT ?x {word} {{", f"SELECT ?x {{ :a :b {word}", f"SELECT ?x {{ }} {word.lower()} 5"):
        error = error_of(text)
        assert isinstance(error, KnownOnlyError) == (word not in REFUSED_WORDS)
        assert ("is not predicted" if word not in REFUSED_WORDS else "is refused") in str(error)
    assert word not in KEYWORDS


@pytest.mark.parametrize("sign", SIGNS)
def test_every_refused_sign_is_refused_in_a_pattern(sign):
    assert f"('{sign}') is not predicted" in str(error_of(f"SELECT ?x {{ :a {sign} :b }}"))


def test_everything_that_is_refused_is_documented():
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [word for word in WORDS if not re.search(rf"\b{word}\b", page)] == []
    assert [name for name, _ in CONSTRUCTS.values() if name not in page] == []


def test_names_strings_and_comments_may_hold_refused_words():
    text = "SELECT ?union { ?union <http://example.org/r/r> 'a' } # FILTER ( UNION *"
    assert read_sparql(text, GRAPH).columns == ("union",)


WRONG = [
    ("", 1, 1, "the text ends too early: expected PREFIX or SELECT"),
    (
        "SELECT ?x {\n ?x",
        2,
        4,
        "the text ends too early: expected a variable, a name such as <http://example.org/a> or ex:a, 'a' or a string",
    ),
    ("SELECT ?x { :a :b ?x ", 1, 22, "the text ends too early: expected '{|', '~', '.', ';', ',', VALUES or '}'"),
    ("SELCT ?x { }", 1, 1, "expected PREFIX or SELECT, found the word 'SELCT'"),
    ("SELECT x { }", 1, 8, "expected DISTINCT or a variable, found the word 'x'"),
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


@pytest.mark.parametrize("opening", ["<< ", "[ :p ", "<<( ", ":a :b :c {| ", "[[", "{ ", "( ", ":a :b <<( "])
def test_deep_nesting_is_refused_and_breaks_nothing(opening):
    assert isinstance(error_of("SELECT ?x { " + opening * 6_000), SparqlError)


def test_brackets_may_stand_as_deep_as_is_said():
    text = "SELECT ?x {{ ?x :p {} :o {} }}"
    assert parse_sparql(text.format("[ :p" * MAX_DEPTH, "]" * MAX_DEPTH))
    with pytest.raises(SparqlError, match=f"brackets are nested at most {MAX_DEPTH} deep"):
        parse_sparql(text.format("[ :p" * (MAX_DEPTH + 1), "]" * (MAX_DEPTH + 1)))


def test_importing_the_queries_does_not_load_the_parser():
    program = "import sys, starqe.queries; print('lark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_every_word_of_the_expectations_is_one_of_the_grammar():
    terminals = {terminal.name for terminal in syntax._parser().terminals} | {"$END"}
    assert set(syntax.EXPECTED) <= terminals
