"""Patterns: questions without their constants, so that one plan serves all questions of a pattern.

A pattern is a tree of And, Or and Not over edges and equations between nodes. A node is a constant (an entity that each question
gives), a variable over entities, or a variable over relations. The rest of an edge (its relation and its given
qualifier pairs) is its label, which each question gives, too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias, cast

import numpy as np

from starqe.errors import QueryError, UnsupportedError
from starqe.kg.graph import Graph
from starqe.kg.vocabulary import Vocabulary
from starqe.queries.formula import And, Atom, Formula, Not, Or, Same, Term, Variable, relation_variables
from starqe.queries.query import Query
from starqe.queries.shape import TARGET, Shape
from starqe.queries.table import QueryTable
from starqe.ragged import IntArray

ANY = -1
"""The relation in a label if it is a variable."""

Label: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
"""A relation, or `ANY`, and the qualifier pairs that are given, ascending."""


@dataclass(frozen=True)
class Edge:
    """A statement that is asked for."""

    head: str
    tail: str
    relation: str | None = None
    """The variable in the place of the relation; None if the label has the relation."""
    values: tuple[tuple[str | None, str], ...] = ()
    """Qualifier pairs with a variable: that of its relation (None where it is given), and the node of its value."""
    fact: bool = False
    """Whether it has to be a known statement: nothing is predicted for it."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node at the edge."""
        of_pairs = (node for pair in self.values for node in pair)
        return tuple(dict.fromkeys(node for node in (self.head, self.tail, self.relation, *of_pairs) if node is not None))


Tree: TypeAlias = "int | Equal | And[int | Equal] | Or[int | Equal] | Not[int | Equal]"
"""An edge by its number, an equation, or a composition of these."""


@dataclass(frozen=True)
class Equal:
    """Holds where two nodes are the same."""

    left: str
    right: str


@dataclass(frozen=True)
class Pattern:
    """A tree over edges, and the nodes whose values are wanted."""

    edges: tuple[Edge, ...]
    tree: Tree
    answers: tuple[str, ...]
    constants: tuple[str, ...]
    relations: frozenset[str] = frozenset()
    """The variables that range over relations."""

    def nodes_of(self, leaf: "int | Equal") -> tuple[str, ...]:
        """Returns the nodes at a leaf of the tree."""
        return self.edges[leaf].nodes if isinstance(leaf, int) else (leaf.left, leaf.right)

    @cached_property
    def variables(self) -> frozenset[str]:
        """Every node that is to be found."""
        return frozenset(node for leaf in leaves(self.tree) for node in self.nodes_of(leaf)) - {*self.constants}

    def positive(self, tree: Tree) -> frozenset[str]:
        """The variables of a part that occur outside of every negation in it."""
        match tree:
            case Not():
                return frozenset()
            case And() | Or():
                return frozenset().union(*map(self.positive, tree.parts))
        return frozenset(self.nodes_of(tree)) & self.variables

    def mentioned(self, tree: Tree) -> frozenset[str]:
        """All variables of a part."""
        return frozenset(node for leaf in leaves(tree) for node in self.nodes_of(leaf)) & self.variables


def leaves(tree: Tree) -> Iterator["int | Equal"]:
    """Yields the leaves of a tree, from left to right."""
    match tree:
        case Not():
            yield from leaves(tree.part)
        case And() | Or():
            for part in tree.parts:
                yield from leaves(part)
        case _:
            yield tree


@dataclass(frozen=True, eq=False)
class Questions:
    """R questions of one pattern: the constants and labels of each."""

    pattern: Pattern
    constants: Mapping[str, IntArray]  # node -> (R,) entities
    labels: Sequence[Sequence[Label]]  # R rows of E
    pair_relations: Sequence[Sequence[tuple[int, ...]]]  # R rows of E: the relations of the pairs with a variable, or ANY

    def __len__(self) -> int:
        return len(self.labels)


@lru_cache(maxsize=1024)
def pattern_of_shape(shape: Shape) -> Pattern:
    """Returns the pattern of a shape.

    Raises:
        UnsupportedError: The shape is reified.
    """
    if shape.of_kind("blank"):
        raise UnsupportedError(f"reasoning takes statements with qualifiers, found a reified shape: '{shape.text}'. Undo the reification")
    edges = tuple(Edge(*ends, values=tuple((None, node) for node in shape.values_of(edge))) for edge, ends in enumerate(shape.edges))
    tree = cast("Tree", shape.formula)  # edges by their numbers, and no equations
    return Pattern(edges, tree, (TARGET,), shape.anchors)


def questions_of_rows(table: QueryTable, rows: IntArray) -> Questions:
    """Returns rows of a table as questions."""
    pattern = pattern_of_shape(table.shape)
    edges = range(len(pattern.edges))
    constants = {node: table.anchors[rows, column].astype(np.int64) for column, node in enumerate(table.shape.anchors)}
    labels = [[(int(table.relations[row, e]), tuple(sorted({*table.pairs_of(row, e)}))) for e in edges] for row in rows.tolist()]
    opened = [[tuple(relation for relation, _ in table.open_pairs_of(row, e)) for e in edges] for row in rows.tolist()]
    return Questions(pattern, constants, labels, opened)


def question_of(query: Query, graph: Graph) -> Questions:
    """Returns a query as one question; the variables of its pattern are those of the query, as they are written.

    Raises:
        InputError: An identifier does not occur in the graph.
        QueryError: A variable is a relation in one place and an entity in another.
    """
    compiler = _Compiler(graph, relation_variables(query.formula))
    tree = compiler.tree(query.formula)
    pattern = Pattern(tuple(compiler.edges), tree, tuple(map(str, query.answers)), tuple(compiler.constants), frozenset(compiler.relations))
    if both := compiler.relations & compiler.entities:
        raise QueryError(f"a variable ranges over entities or over relations, found {min(both)} in both places. Use two variables")
    constants = {node: np.array([id_]) for node, id_ in compiler.constants.items()}
    return Questions(pattern, constants, [compiler.labels], [compiler.pair_relations])


class _Compiler:
    """Collects the edges of a formula, with their labels and constants."""

    def __init__(self, graph: Graph, of_relations: Collection[Variable]) -> None:
        self._graph, self._relation_variables = graph, of_relations
        self.edges: list[Edge] = []
        self.labels: list[Label] = []
        self.pair_relations: list[tuple[int, ...]] = []
        self.constants: dict[str, int] = {}
        self.relations: set[str] = set()
        self.entities: set[str] = set()

    def tree(self, formula: Formula) -> Tree:
        match formula:
            case Atom():
                return self._edge(formula.plain)
            case Same():
                of_relations = any(term in self._relation_variables for term in formula.terms)
                left, right = map(self._equated_relation if of_relations else self._entity, formula.terms)
                return Equal(left, right)
            case Not():
                return Not(self.tree(formula.part))
            case And():
                return And(tuple(map(self.tree, formula.parts)))
            case Or():
                return Or(tuple(map(self.tree, formula.parts)))

    def _edge(self, atom: Atom) -> int:
        relation = self._relation(atom.relation)
        given, values, pair_relations = [], [], []
        for key, value in atom.qualifiers:
            if isinstance(key, Variable) or isinstance(value, Variable):
                named = self._relation(key)
                values.append((str(key) if isinstance(key, Variable) else None, self._entity(value)))
                pair_relations.append(named)
            else:
                given.append((self._graph.relations.id(key), self._graph.entities.id(value)))
        variable = str(atom.relation) if isinstance(atom.relation, Variable) else None
        self.edges.append(Edge(self._entity(atom.head), self._entity(atom.tail), variable, tuple(values), atom.fact))
        self.labels.append((relation, tuple(sorted(given))))
        self.pair_relations.append(tuple(pair_relations))
        return len(self.edges) - 1

    def _entity(self, term: Term) -> str:
        """Returns the node of an entity."""
        return self._node(term, "", self.entities, self._graph.entities)

    def _equated_relation(self, term: Term) -> str:
        """Returns the node of a relation that is equated with another."""
        return self._node(term, "relation", self.relations, self._graph.relations)

    def _node(self, term: Term, kind: str, variables: set[str], vocabulary: Vocabulary) -> str:
        if isinstance(term, Variable):
            variables.add(str(term))
            return str(term)
        self.constants[node := f"{kind}={term}"] = vocabulary.id(term)
        return node

    def _relation(self, term: Term) -> int:
        if isinstance(term, Variable):
            self.relations.add(str(term))
            return ANY
        return self._graph.relations.id(term)
