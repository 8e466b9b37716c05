"""Parses SPARQL text into a syntax tree, with readable errors.

The grammar is `sparql.lark`. It is compiled when the first text is read, not on import.
"""

import difflib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

from starqe.errors import KnownOnlyError, SparqlError
from starqe.queries.sparql.refused import KNOWN_ONLY, REFUSED, UPDATES

if TYPE_CHECKING:
    from lark import Token

    from starqe.queries.sparql.parser import SparqlParser, UnexpectedTokenError

Node: TypeAlias = Any
"""A token or a tree of lark: the grammar decides which one, not their types."""

MAX_BYTES = 1 << 20
"""The largest size of a text, in bytes of UTF-8."""

MAX_TOKENS = 20_000
"""The largest number of names, words and signs in a text: the time to read it depends on them."""

MAX_DEPTH = 32
"""The deepest nesting of brackets: code that walks the tree is recursive."""

KEYWORDS = (
    *("SELECT", "DISTINCT", "REDUCED", "WHERE", "PREFIX", "BASE", "VERSION", "VALUES", "LIMIT", "OFFSET", "ASK", "CONSTRUCT"),
    *("DESCRIBE", "OPTIONAL", "UNION", "MINUS", "FILTER", "EXISTS", "ORDER", "GROUP", "HAVING", "SERVICE", "BIND"),
)
"""The keywords that a misspelled word may have meant."""

EXPECTED = {
    "_PREFIX": "PREFIX",
    "SELECT": "SELECT",
    "_ASK": "ASK",
    "CONSTRUCT": "CONSTRUCT",
    "DISTINCT": "DISTINCT",
    "STAR": "'*'",
    "VAR": "a variable",
    "IRI": "a name such as <http://example.org/a> or ex:a",
    "A": "'a'",
    "STRING": "a string",
    "BLANK": "a blank node",
    "INTEGER": "a whole number",
    "_WHERE": "WHERE",
    "LBRACE": "'{'",
    "LPAR": "'('",
    "_QUOTE": "'<<'",
    "_ANNOTATION": "'{|'",
    "TILDE": "'~'",
    "DOT": "'.'",
    "SEMICOLON": "';'",
    "COMMA": "','",
    "_VALUES": "VALUES",
    "_QUOTE_END": "'>>'",
    "_TERM_END": "')>>'",
    "_ANNOTATION_END": "'|}'",
    "RSQB": "']'",
    "RPAR": "')'",
    "RBRACE": "'}'",
    "_LIMIT": "LIMIT",
    "_OFFSET": "OFFSET",
    "$END": "the end of the text",
}
"""Names of the grammar -> the words for them in errors; tokens that only follow others, or are refused later, are left out."""

_DEPTH = {
    **dict.fromkeys(("LSQB", "_QUOTE", "_TERM", "_ANNOTATION", "LBRACE", "LPAR"), 1),
    **dict.fromkeys(("RSQB", "_QUOTE_END", "_TERM_END", "_ANNOTATION_END", "RBRACE", "RPAR"), -1),
}


def error_at(node: Node, rule: str, way_out: str, suggestions: Sequence[str] = (), kind: type[SparqlError] = SparqlError) -> SparqlError:
    """Returns the error for a token or a tree; a suggestion is a text that may replace it."""
    first = first_token(node)
    return kind(rule, way_out, first.line, first.column, node.start_pos, node.end_pos - node.start_pos, suggestions)


def first_token(node: Node) -> Node:
    """Returns the first token of a tree, or a token itself."""
    return getattr(node, "first", node)


def known_only(node: Node, construct: str) -> KnownOnlyError:
    """Returns the error for a construct that is not predicted, so that known facts alone answer it."""
    name, way_out = KNOWN_ONLY[construct]
    error = error_at(node, f"{name} is not predicted", way_out, kind=KnownOnlyError)
    assert isinstance(error, KnownOnlyError)
    return error


def refused(node: Node, construct: str) -> SparqlError:
    """Returns the error for a construct that is refused."""
    name, way_out = REFUSED[construct]
    return error_at(node, f"{name} is refused", way_out)


def shortened(text: str) -> str:
    """Returns a text for an error message: its first characters, if it is long."""
    return str(text) if len(text) <= 80 else text[:79] + "…"


def parse_sparql(text: str) -> Node:
    """Parses a text by the grammar, and returns its tree.

    Raises:
        SparqlError: The text is too long, is not in the grammar, or has a construct that is refused.
    """
    from starqe.queries.sparql.parser import UnexpectedTokenError, UnknownCharacterError

    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise in_text(text, error.start, 1, "a text is Unicode, found half a surrogate pair", "Write the character itself") from None
    if size > MAX_BYTES:
        raise in_text(text, 0, len(text), f"a query has at most {MAX_BYTES:,} bytes, found {size:,}", "Ask several queries")
    parser = _parser()
    try:
        tokens = parser.lexer.lex(text, MAX_TOKENS)
        _check(tokens)
        return parser.parse(tokens)
    except UnknownCharacterError as error:
        raise _unknown_character(text, error.place) from None
    except UnexpectedTokenError as error:
        raise _unexpected(text, error) from None


def parts_of(tree: Node, kind: str) -> Sequence[Node]:
    """Returns all trees of a rule, or all tokens of a type, that a tree holds (itself included), in the order of the text."""
    found: Sequence[Node] = tree.parts.get(kind, ())
    return [tree, *found] if tree.data == kind else found


@cache
def _parser() -> "SparqlParser":
    from starqe.queries.sparql.parser import SparqlParser

    return SparqlParser(resources.files(__package__).joinpath("sparql.lark").read_text(encoding="utf-8"))


def _check(tokens: "Sequence[Token]") -> None:
    """Checks all tokens before they are parsed: the limits, and updates, which get an error of their own.

    Raises:
        SparqlError: There are too many tokens, brackets are too deep, or the text is an update.
    """
    depth = signs = 0
    for token in tokens[:MAX_TOKENS]:
        kind = token.type
        signs = signs + 1 if kind == "BANG" else 0
        if kind in _DEPTH:
            depth += _DEPTH[kind]
        elif kind == "WORD" and not depth and token.upper() in UPDATES:
            raise error_at(token, f"the update {token.upper()} is refused", REFUSED["update"][1])
        if depth + signs > MAX_DEPTH:
            raise error_at(token, f"brackets are nested at most {MAX_DEPTH} deep", "Use variables for the inner nodes")
    if len(tokens) > MAX_TOKENS + 1:  # the last one is that of the end
        rule = f"a query has at most {MAX_TOKENS:,} names, words and signs, found more"
        raise error_at(tokens[MAX_TOKENS], rule, "Ask several queries")


def _unexpected(text: str, error: "UnexpectedTokenError") -> SparqlError:
    """Returns the error for a token that is not expected."""
    token, accepts = error.token, set(error.accepted)
    if "IRI" in accepts:
        accepts -= {"INTEGER"}  # a number is also parsed in the place of an entity, for the sake of a better error
    words = [EXPECTED[name] for name in EXPECTED if name in accepts]
    expected = f"expected {' or '.join(filter(None, [', '.join(words[:-1]), *words[-1:]]))}"
    if token.type == "$END":
        return in_text(text, len(text), 0, f"the text ends too early: {expected}", "Continue there")
    if token.type == "LESSTHAN":
        return error_at(token, "an IRI ends in '>' and has no space, quote or brace in it", "Close it, or encode the sign (%20)")
    if token.type == "WORD":
        near = difflib.get_close_matches(token.upper(), KEYWORDS, n=1)
        way_out = f"Did you mean {near[0]}?" if near else "Write entities and relations as a label in quotes, as prefix:name, or as <IRI>"
        return error_at(token, f"{expected}, found the word {shortened(token)!r}", way_out, near)
    return error_at(token, f"{expected}, found {shortened(token)!r}", "Is something missing before it?")


def _unknown_character(text: str, offset: int) -> SparqlError:
    if text[offset] in "\"'":
        return in_text(text, offset, 1, "a string ends with the same quotes as it begins", "Close it; three quotes allow line breaks")
    rule = f"the character {text[offset]!r} (U+{ord(text[offset]):04X}) has no meaning here"
    return in_text(text, offset, 1, rule, "Names are written in quotes, IRIs in < >, and variables begin with '?'")


def in_text(text: str, offset: int, length: int, rule: str, way_out: str) -> SparqlError:
    """Returns the error for a part of the text that is not a token."""
    line_start = text.rfind("\n", 0, offset) + 1
    return SparqlError(rule, way_out, text.count("\n", 0, offset) + 1, offset - line_start + 1, offset, length)
