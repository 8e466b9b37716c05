"""Texts that are not SPARQL: questions in words, and other query languages. The error shows an example query for this graph."""

import difflib
import re
from collections.abc import Mapping

import numpy as np

from starqe.errors import SparqlError
from starqe.kg.graph import Graph
from starqe.queries.sparql.syntax import in_text
from starqe.queries.sparql.write import quoted

LANGUAGES: Mapping[str, str] = {
    "Cypher": r"(OPTIONAL\s+)?MATCH\b|MERGE\s*\(|CREATE\s*\(|UNWIND\b|RETURN\b|CALL\s+\w",
    "SQL": r"(WITH\b.*\bAS\s*\(\s*)?SELECT\b[^{?$]*\bFROM\s+[\w.\"`\[]+(?![^{]*\{)|(INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b",
    "GraphQL": r"(query|mutation|subscription)\b[^{]*\{|\{\s*\w+\s*(\([^)]*\)\s*)?[{\w]",
    "Gremlin": r"g\.\w+\(",
}
"""Query languages, by how a text in them begins."""

_STARTS = ("SELECT", "PREFIX", "BASE", "VERSION", "ASK", "CONSTRUCT", "DESCRIBE", "INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE")
_BODY = re.compile(r"(?:\s|#[^\n]*(?:\n|$))*(.*)", re.DOTALL)
_PATTERN = re.compile(r"\{[^{}]*[?$]\w")
_WORD = re.compile(r"\w+")
_MOST_WORDS = 6  # maximum number of words of a name in a question
_LONGEST = 1_000


def foreign_error(text: str, graph: Graph) -> SparqlError | None:
    """Returns the error for a text that is not meant as SPARQL, with an example; None for any other invalid text."""
    begin = begun.start(1) if (begun := _BODY.match(text)) else 0
    body = text[begin : begin + _LONGEST]
    language = next((name for name, start in LANGUAGES.items() if re.match(start, body, re.IGNORECASE | re.DOTALL)), None)
    first = _WORD.match(body)
    if language is None and (not first or difflib.get_close_matches(first[0].upper(), _STARTS, 1) or _PATTERN.search(body)):
        return None
    found = f"what looks like {language}" if language else "plain text"
    length = len(first[0]) if first else 1
    return in_text(text, begin, length, f"questions are written in SPARQL, found {found}", f"For example: {example(graph, body)}")


def example(graph: Graph, about: str = "") -> str:
    """Writes a query that this graph answers: about the entity that a text mentions, else about the head of the first statement."""
    mentioned = (row for id_ in _mentioned(graph, about) for row in np.flatnonzero(graph.head == id_)[:1].tolist())
    row = next(mentioned, 0)
    head, relation = graph.entities.name(graph.head[row]), graph.relations.name(graph.relation[row])
    return f"SELECT ?x {{ {quoted(head)} {quoted(relation)} ?x }}"


def _mentioned(graph: Graph, text: str) -> list[int]:
    """Returns the entities whose names occur in a text, the longest name first."""
    words = _WORD.findall(text)[:40]
    found = []
    for length in range(min(_MOST_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            ids = graph.entities.named(" ".join(words[start : start + length]))
            if len(ids) == 1:
                found += ids
    return found
