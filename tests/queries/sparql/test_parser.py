"""Tokens and trees are those of lark's own lexer and parser, at the same places; so are the tokens that an error expects."""

from functools import cache
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from starqe.kg import embedded_graph
from starqe.queries.sparql.parser import SparqlParser, SyntaxTree, UnexpectedTokenError, UnknownCharacterError
from starqe.queries.sparql.syntax import parse_sparql, parts_of
from tests.conformance.random_sparql import SparqlTexts
from tests.queries.sparql.test_read import MEANINGS
from tests.queries.sparql.test_syntax import REFUSED

GRAMMAR = resources.files("starqe.queries.sparql").joinpath("sparql.lark").read_text(encoding="utf-8")
PLACES = ("type", "start_pos", "end_pos", "line", "column", "end_line", "end_column")
RANDOM = SparqlTexts(embedded_graph(), 7)
TEXTS = [
    *(f"SELECT ?x {{ {body} }}" for body, _ in MEANINGS),
    *(text for text, _, _ in REFUSED),
    *(RANDOM.draw().sparql for _ in range(100)),
    'select ?a { # SELECT\n ?a a """two\nlines""" ; p: \'x\' . \r\n ?a <a> <<( ?b p:c "d"@en--ltr )>> }',
    "ASK{?x<a>?y.FILTER(?x<?y&&?x>-1.5e3||!BOUND(?y))}",
    "SELECT SELECTED distinct Distinct A a a:b _:a ?a @a",
    "",
    " \n",
]


Found = list[tuple[object, ...]]


@cache
def lark_parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True)


@cache
def own_parser() -> SparqlParser:
    return SparqlParser(GRAMMAR)


def tokens_of_lark(text: str) -> Found | int:
    """All tokens with their places, or the place of a character that begins none."""
    try:
        return [places(token) for token in lark_parser().lex(text, dont_ignore=False)]
    except UnexpectedCharacters as error:
        return int(error.pos_in_stream or 0)


def own_tokens(text: str) -> Found | int:
    try:
        return [places(token) for token in own_parser().lexer.lex(text)[:-1]]
    except UnknownCharacterError as error:
        return error.place


def places(token: Token) -> tuple[object, ...]:
    return (str(token), *(getattr(token, name) for name in PLACES))


def tree_of_lark(text: str) -> object:
    """The tree with its places; or the token that is not expected, and what is."""
    try:
        return flat(lark_parser().parse(text))
    except UnexpectedToken as error:
        return error.token.type, error.token.start_pos, frozenset(error.accepts or ())


def own_tree(text: str) -> object:
    try:
        return flat(own_parser().parse(own_parser().lexer.lex(text)))
    except UnexpectedTokenError as error:
        return error.token.type, error.token.start_pos, error.accepted


def flat(node: Tree[Token] | Token | None) -> object:
    if not isinstance(node, Tree):
        return node if node is None else places(node)
    place, first = (node, node.first) if isinstance(node, SyntaxTree) else (node.meta, node.meta)
    return node.data, first.line, first.column, place.start_pos, place.end_pos, [flat(child) for child in node.children]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_larks_own_lexer(text: str) -> None:
    assert own_tokens(text) == tokens_of_lark(text)


@given(st.text(st.sampled_from("?ax:<>{}()[]\"'\\/|^*+-.;,=!&@_~#1e \n\tSELECTselect\u00e9")))
def test_tokens_of_any_text_are_those_of_larks_own_lexer(text: str) -> None:
    assert own_tokens(text) == tokens_of_lark(text)


@pytest.mark.parametrize("text", TEXTS)
def test_trees_and_what_is_expected_are_those_of_larks_own_parser(text: str) -> None:
    if isinstance(own_tokens(text), list):
        assert own_tree(text) == tree_of_lark(text)


@given(st.sampled_from([text for text in TEXTS if isinstance(own_tokens(text), list) and own_tokens(text)]), st.data())
def test_trees_of_spoiled_texts_are_those_of_larks_own_parser(text: str, data: st.DataObject) -> None:
    words = [str(token) for token in own_parser().lexer.lex(text)[:-1]]
    place = data.draw(st.integers(0, len(words) - 1))
    words[place : place + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(sorted({*words, "~", "!"})), max_size=2))
    spoiled = " ".join(words)
    if isinstance(own_tokens(spoiled), list):
        assert own_tree(spoiled) == tree_of_lark(spoiled)


def test_parts_are_found_in_the_order_of_the_text() -> None:
    tree = parse_sparql("SELECT ?a { ?a <p> ?b . { ?b <q> ?c } UNION { ?c <r> ?a } }")
    assert [str(token) for token in parts_of(tree, "VAR")] == ["?a", "?a", "?b", "?b", "?c", "?c", "?a"]
    assert [len(part.children) for part in parts_of(tree, "group")] == [2, 1, 1]
    assert parts_of(tree, "start") == [tree]
    assert parts_of(tree, "optional") == ()
