"""Queries and query tables: a row of a table as a formula, and a conjunctive query laid out by a shape as a table of one row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg.graph import Graph
from starqe.queries.formula import And, Atom, Formula, Not, Or, Term, Variable
from starqe.queries.query import Query
from starqe.queries.shape import SHAPES, TARGET, Shape, distances, node_kind
from starqe.queries.table import QueryTable
from starqe.queries.tree import Tree
from starqe.ragged import Ragged

TARGET_NAME = "target"
"""The name of the target of a query that comes from a table."""

Edges = list[tuple[str, str]]


@dataclass(frozen=True)
class _Layout:
    """Atoms in the order of a shape's edges, and constants in the order of its anchors."""

    shape: Shape
    atoms: tuple[Atom, ...]
    anchors: tuple[str, ...]


def shape_of_query(query: Query) -> Shape:
    """Returns the shape of a query as it is written: one of the seven of the paper, or a shape named "query".

    Raises:
        UnsupportedError: The query has no shape: it is not conjunctive over head and tail variables, has several
            answer variables, an edge from a node to itself, or no anchor.
    """
    return _lay_out(query.conjuncts("a shape"), query.target, SHAPES).shape


def table_of_query(query: Query, graph: Graph, answers: Iterable[int] = (), shapes: Mapping[str, Shape] = SHAPES) -> QueryTable:
    """Returns a query as a table of one row, in the direction of the statements (without inverse relations).

    Raises:
        InputError: An identifier does not occur in the graph.
        UnsupportedError: The query has no shape.
    """
    layout = _lay_out(query.plain_form().conjuncts("a query table"), query.target, shapes)
    pairs = [sorted((graph.relations.id(str(r)), graph.entities.id(str(v))) for r, v in atom.qualifiers) for atom in layout.atoms]
    found = np.unique(np.fromiter(answers, np.int32))
    return QueryTable(
        layout.shape,
        graph.entities.ids(layout.anchors)[None],  # (1, A)
        graph.relations.ids(str(atom.relation) for atom in layout.atoms)[None],  # (1, E)
        Ragged.of_lists(pairs, 2),
        Ragged.of_counts([len(found)], found),
    )


def _lay_out(atoms: Sequence[Atom], target: Variable, shapes: Mapping[str, Shape]) -> _Layout:
    """Finds the shape of atoms: one of those given, up to renaming, or else a shape named "query".

    Raises:
        UnsupportedError: No shape fits: an edge goes from a node to itself, or no head or tail is given.
    """
    for atom in atoms:
        if atom.head == atom.tail:
            raise UnsupportedError(f"a shape has no edge from a node to itself, found one at {atom.head}")
    if not any(isinstance(term, str) for atom in atoms for term in (atom.head, atom.tail)):
        raise UnsupportedError("a shape has an anchor, and this query gives no head and no tail")
    edges, constants = _named(atoms, target)
    for shape in shapes.values():
        if (order := _match(edges, shape)) is not None:
            node_of = {
                node: own for edge, place in zip(shape.edges, order, strict=True) for node, own in zip(edge, edges[place], strict=True)
            }
            return _Layout(shape, tuple(atoms[place] for place in order), tuple(constants[node_of[anchor]] for anchor in shape.anchors))
    shape = Shape("query", tuple(edges))
    return _Layout(shape, tuple(atoms), tuple(constants[anchor] for anchor in shape.anchors))


def _named(atoms: Sequence[Atom], target: Variable) -> tuple[Edges, dict[str, str]]:
    """Names the nodes as a shape does; also returns the constant of each anchor.

    Every occurrence of a constant is an anchor of its own, as in the tables of generated queries, where two anchors may
    be the same entity. Only where that would cut the query into parts, one constant is one anchor.
    """
    for apart in (True, False):
        anchor_names, variable_names = _names("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), _names("xyzuvw")
        nodes: dict[tuple[Term, int | None], str] = {(target, None): TARGET}
        constants: dict[str, str] = {}
        edges: Edges = []
        for place, atom in enumerate(atoms):
            ends = []
            for term in (atom.head, atom.tail):
                key = (term, place if apart and isinstance(term, str) else None)
                if key not in nodes:
                    nodes[key] = next(anchor_names if isinstance(term, str) else variable_names)
                if isinstance(term, str):
                    constants[nodes[key]] = term
                ends.append(nodes[key])
            edges.append((ends[0], ends[1]))
        if len(distances(edges, edges[0][0])) == len({node for edge in edges for node in edge}):
            break
    return edges, constants


def _names(letters: str) -> Iterator[str]:
    yield from letters
    yield from (f"{letter}{number}" for number in count(1) for letter in letters)


def _match(edges: Edges, shape: Shape) -> list[int] | None:
    """Finds for every edge of the shape one of the edges, so that nodes map one to one and keep their kinds."""

    def extend(chosen: list[int], own: dict[str, str]) -> list[int] | None:
        if len(chosen) == len(edges):
            return chosen
        for place, edge in enumerate(edges):
            if place in chosen:
                continue
            more = dict(own)
            fits = all(
                more.setdefault(n, m) == m and node_kind(n) == node_kind(m) for n, m in zip(shape.edges[len(chosen)], edge, strict=True)
            )
            if fits and len(set(more.values())) == len(more) and (found := extend([*chosen, place], more)) is not None:
                return found
        return None

    return extend([], {}) if shape.plain and len(edges) == len(shape.edges) else None


def query_of_row(table: QueryTable, row: int, graph: Graph) -> Query:
    """Returns one query of a table, with the target named `TARGET_NAME`.

    Raises:
        UnsupportedError: The table is reified.
    """
    shape = table.shape
    if shape.of_kind("blank"):
        raise UnsupportedError(f"a query of a reified table (shape '{shape.name}') has no identifiers. Undo the reification first")
    entity, relation = graph.entities.identifier, graph.relations.identifier
    terms: dict[str, Term] = {anchor: entity(id_) for anchor, id_ in zip(shape.anchors, table.anchors[row], strict=True)}
    terms |= {node: Variable(f"{node}_" if node == TARGET_NAME else node) for node in shape.of_kind("variable")}
    terms[TARGET] = Variable(TARGET_NAME)

    def atom(edge: int) -> Atom:
        head, tail = (terms[node] for node in shape.edges[edge])
        given: list[tuple[Term, Term]] = [(relation(r), entity(v)) for r, v in table.pairs_of(row, edge)]
        to_find: list[tuple[Term, Term]] = [(relation(r), terms[node]) for r, node in table.open_pairs_of(row, edge)]
        return Atom(head, relation(table.relations[row, edge]), tail, (*given, *to_find))

    def formula(tree: Tree) -> Formula:
        match tree:
            case int():
                return atom(tree)
            case Not():
                return Not(formula(tree.part))
            case And():
                return And(tuple(map(formula, tree.parts)))
            case Or():
                return Or(tuple(map(formula, tree.parts)))

    return Query(formula(shape.formula), (Variable(TARGET_NAME),))
