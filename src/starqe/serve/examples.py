"""Queries that a graph can be asked: drawn from it, always the same ones."""

import re
from collections.abc import Mapping
from itertools import islice

from starqe.errors import InputError
from starqe.kg import Graph, Names
from starqe.queries import SHAPES, Atom, Query, Variable, sample
from starqe.serve.bodies import Example
from starqe.serve.drawing import named

DRAWN: Mapping[str, tuple[str, int]] = {
    "A fact": ("1p", 0),
    "Two steps": ("2p", 0),
    "Two conditions": ("2i", 0),
    "With qualifiers": ("1p", 1),
    "Two steps with qualifiers": ("2p", 1),
}
"""Title -> the shape, and how many qualifier pairs each edge has."""
_DRAWN, _FEW = 40, 8  # of so many queries the first one is shown that has several answers, but few

PAPER = Query.conjunction(
    [
        Atom("LawOfThePhotoelectricEffect", "discovererOrInventor", Variable("who")),
        Atom(Variable("who"), "educatedAt", Variable("university"), (("academicDegree", "BachelorOfScience"),)),
    ],
    "university",
)
"""The example of the paper, as the embedded graph has it."""
PAPER_TITLE = "Where did the discoverer of the law of the photoelectric effect get a BSc?"


def examples(graph: Graph) -> list[Example]:
    """Gives some queries with answers; the example of the paper first where the graph has its entities."""
    found = [(PAPER_TITLE, PAPER)] if _has(graph, PAPER) else []
    for title, (shape, pairs) in DRAWN.items():
        table = sample(graph, SHAPES[shape], _DRAWN, "train", [(pairs, pairs)] * len(SHAPES[shape].edges))
        rows = sorted(range(len(table)), key=lambda row: not 1 < len(table.answers_of(row)) <= _FEW)
        queries = (Query.from_row(table, row, graph) for row in rows)
        found += [(f"{title}: {_words(query, graph)}", query) for query in islice(filter(_writable, queries), 1)]
    return [Example(title=title, query=short_sparql(query, graph.names)) for title, query in found]


def short_sparql(query: Query, names: Names) -> str:
    """Writes a query with prefixes for the names of the graph, where these have simple letters.

    Raises:
        UnsupportedError: An entity is a blank node.
    """
    text = query.sparql(names).replace("SELECT DISTINCT", "SELECT").rstrip()
    prefixes = []
    for prefix, base in {"": names.entity_base, "p": names.relation_base}.items():
        text, count = re.subn(rf"<{re.escape(base)}([A-Za-z_][A-Za-z0-9_]*)>", rf"{prefix}:\1", text)
        prefixes += [f"PREFIX {prefix}: <{base}>\n"] * (count > 0)
    return "".join(prefixes) + text


def _has(graph: Graph, query: Query) -> bool:
    """Says whether a graph has all entities and relations of a query."""
    try:
        query.to_table(graph)
    except InputError:
        return False
    return True


def _writable(query: Query) -> bool:
    """Says whether SPARQL can write a query: it cannot name blank nodes."""
    return not any(isinstance(term, str) and term.startswith("_:") for atom in query.all_atoms for term in atom.entities)


def _words(query: Query, graph: Graph) -> str:
    """Gives the labels of what a query names, atom by atom: ``Denmark · shares border with, emergency phone number``."""
    atoms = []
    for atom in query.all_atoms:
        parts = ((graph.entities, atom.head), (graph.relations, atom.relation), (graph.entities, atom.tail))
        atoms.append(" · ".join(named(vocabulary, term).label for vocabulary, term in parts if isinstance(term, str)))
    return ", ".join(atoms)
