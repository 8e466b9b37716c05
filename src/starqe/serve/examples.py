"""Example queries for a graph: sampled from it, always the same ones."""

from collections.abc import Mapping
from itertools import islice

from starqe.errors import InputError
from starqe.kg import Graph
from starqe.queries import SHAPES, Atom, Query, Variable, sample
from starqe.queries.layout import query_of_row, table_of_query
from starqe.queries.sparql.write import readable_sparql
from starqe.serve.bodies import Example
from starqe.serve.drawing import named

DRAWN: Mapping[str, tuple[str, int]] = {
    "A fact": ("1p", 0),
    "Two steps": ("2p", 0),
    "Two conditions": ("2i", 0),
    "With qualifiers": ("1p", 1),
    "Two steps with qualifiers": ("2p", 1),
}
"""Title -> the shape, and the number of qualifier pairs per edge."""
_DRAWN, _FEW = 40, 8  # the first of this many sampled queries that has several answers, but few

PAPER = Query.conjunction(
    [
        Atom("LawOfThePhotoelectricEffect", "discovererOrInventor", Variable("who")),
        Atom(Variable("who"), "educatedAt", Variable("university"), (("academicDegree", "BachelorOfScience"),)),
    ],
    "university",
)
"""The example of the paper, for the embedded graph."""
PAPER_TITLE = "Where did the discoverer of the law of the photoelectric effect get a BSc?"


def examples(graph: Graph) -> list[Example]:
    """Returns some queries with answers; the example of the paper first where the graph has its entities."""
    found = [(PAPER_TITLE, PAPER)] if _has(graph, PAPER) else []
    for title, (shape, pairs) in DRAWN.items():
        table = sample(graph, SHAPES[shape], _DRAWN, "train", [(pairs, pairs)] * len(SHAPES[shape].edges))
        rows = sorted(range(len(table)), key=lambda row: not 1 < len(table.answers[row]) <= _FEW)
        queries = (query_of_row(table, row, graph) for row in rows)
        found += [(f"{title}: {_words(query, graph)}", query) for query in islice(filter(_writable, queries), 1)]
    return [Example(title=title, query=readable_sparql(query, graph)) for title, query in found]


def _has(graph: Graph, query: Query) -> bool:
    """Returns whether a graph has all entities and relations of a query."""
    try:
        table_of_query(query, graph)
    except InputError:
        return False
    return True


def _writable(query: Query) -> bool:
    """Returns whether SPARQL can write a query: it cannot name blank nodes."""
    return not any(isinstance(term, str) and term.startswith("_:") for atom in query.all_atoms for term in atom.entities)


def _words(query: Query, graph: Graph) -> str:
    """Returns the labels of what a query names, atom by atom: ``Denmark · shares border with, emergency phone number``."""
    atoms = []
    for atom in query.all_atoms:
        parts = ((graph.entities, atom.head), (graph.relations, atom.relation), (graph.entities, atom.tail))
        atoms.append(" · ".join(named(vocabulary, term).label for vocabulary, term in parts if isinstance(term, str)))
    return ", ".join(atoms)
