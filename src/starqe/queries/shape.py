"""Shapes: patterns of queries, as data.

A shape is written as its edges, ``"A>x x>? B>?"``: an upper-case name is an anchor (a given entity), a lower-case name
a variable, ``?`` the target, and a name that begins with ``_`` a blank node (they come with reification). The arrow
points from the head of a statement to its tail. ``x>?{y}`` has a qualifier pair whose value is the variable y.

Edges side by side all hold. ``|`` stands between alternatives, ``!`` before what must not hold: see `starqe.queries.tree`.
"""

import re
import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from starqe.errors import QueryError
from starqe.kg.known import Side
from starqe.queries.formula import And
from starqe.queries.tree import Branch, Tree, branches, leaves, read_tree, tree_text

TARGET = "?"
NodeKind = Literal["anchor", "variable", "target", "blank"]
_NODE = re.compile(r"\?|_?[A-Za-z][A-Za-z0-9]*|_[0-9]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def node_kind(node: str) -> NodeKind:
    """Returns the kind of a node, from the way it is written."""
    if node == TARGET:
        return "target"
    if node.startswith("_"):
        return "blank"
    return "anchor" if node[0].isupper() else "variable"


@dataclass(frozen=True)
class Shape:
    """A connected pattern with one target and at least one anchor.

    Raises:
        QueryError: The name or an edge is malformed, the target or the anchor is missing, it is not connected, or an alternative
            or a negated part leaves the target or a variable without an edge that binds it.
    """

    name: str
    edges: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, ...], ...] = ()
    """For each edge the variables that are values of its qualifier pairs; empty if no edge has any."""
    tree: Tree | None = None
    """How the edges are combined; None if all of them hold."""

    def __post_init__(self) -> None:
        if not any(self.values):
            object.__setattr__(self, "values", ())
        if self.tree == 0 or self.tree == And(tuple(range(len(self.edges)))):
            object.__setattr__(self, "tree", None)
        assert not self.values or len(self.values) == len(self.edges), self.values
        assert self.tree is None or list(leaves(self.tree)) == list(range(len(self.edges))), self.tree
        self._check_nodes()
        if self.tree is not None:
            self._check_tree()

    def _check_nodes(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise QueryError(f"a shape's name is letters, digits and -+._ (it becomes a file name), found {self.name!r}")
        for node in self.nodes:
            if not _NODE.fullmatch(node):
                raise QueryError(f"shape '{self.name}': a node is '?', or letters and digits, found {node!r}")
        if TARGET not in self.nodes:
            raise QueryError(f"shape '{self.name}': a shape has a target '?', found none in '{self.text}'")
        if not self.anchors:
            raise QueryError(f"shape '{self.name}': a shape has an anchor (an upper-case node), found none in '{self.text}'")
        if any(head == tail for head, tail in self.edges):
            raise QueryError(f"shape '{self.name}': an edge joins two different nodes, found one from a node to itself in '{self.text}'")
        for edge, node in self.slots:
            if node_kind(node) not in ("variable", "target"):
                raise QueryError(
                    f"shape '{self.name}': a qualifier value in braces is a variable or the target (given values are set by the number of "
                    f"qualifiers), found '{node}' in '{self.text}'"
                )
            if [*self.edges[edge], *self.values[edge]].count(node) > 1:
                raise QueryError(
                    f"shape '{self.name}': the nodes of an edge are different, found '{node}' twice in '{self.edge_text(edge)}'"
                )
        if len(distances(self.links, TARGET)) < len(self.nodes):
            raise QueryError(f"shape '{self.name}': every node is connected with the target, found parts in '{self.text}'")

    def _check_tree(self) -> None:
        """Checks that every alternative binds the target, and that negated parts share a variable with the rest."""
        for branch in self.branches:
            bound = self.nodes_of(branch.edges)
            if TARGET not in bound:
                raise QueryError(
                    f"shape '{self.name}': every alternative has an edge to the target '?' that is not negated, found one without "
                    f"in '{self.text}'"
                )
            if len(distances(self._links_of(branch.edges), TARGET)) < len(bound):
                raise QueryError(f"shape '{self.name}': the edges of an alternative are connected, found parts in '{self.text}'")
            for part in branch.without:
                if not any(node_kind(node) != "anchor" for node in bound & self.nodes_of(leaves(part))):
                    raise QueryError(
                        f"shape '{self.name}': a negated part shares a variable or the target with edges that are not negated, found none "
                        f"in '{self.text}'"
                    )
                if not all(inner.edges for inner in branches(part)):
                    raise QueryError(
                        f"shape '{self.name}': a negated part has an edge that is not negated again, found none in '{self.text}'"
                    )

    @classmethod
    def parse(cls, name: str, text: str) -> "Shape":
        """Reads a shape from its edges: ``Shape.parse("2p", "A>x x>?")``, ``Shape.parse("up", "(A>x | B>x) x>?")``.

        Raises:
            QueryError: An edge is not ``node>node`` or ``node>node{node,node}``, or the shape breaks a rule.
        """
        tree, texts = read_tree(name, text)
        edges, values = [], []
        for edge in texts:
            head, arrow, rest = edge.partition(">")
            tail, brace, inside = rest.partition("{")
            nodes = inside.removesuffix("}").split(",") if brace else []
            if not (head and arrow and tail) or (brace and not (inside.endswith("}") and all(nodes))):
                raise QueryError(
                    f"shape '{name}': an edge is written node>node, or node>node{{node,node}} with qualifier values, found '{edge}'"
                )
            edges.append((head, tail))
            values.append(tuple(nodes))
        return cls(name, tuple(edges), tuple(values), tree)

    @cached_property
    def text(self) -> str:
        """The shape as it is written: its edges."""
        return tree_text(self.formula, self.edge_text)

    def edge_text(self, edge: int) -> str:
        """One edge as it is written."""
        head, tail = self.edges[edge]
        return f"{head}>{tail}" + (f"{{{','.join(self.values_of(edge))}}}" if self.values_of(edge) else "")

    @property
    def formula(self) -> Tree:
        """How the edges are combined."""
        if self.tree is not None:
            return self.tree
        return 0 if len(self.edges) == 1 else And(tuple(range(len(self.edges))))

    @property
    def plain(self) -> bool:
        """Whether it is a conjunction whose variables are heads and tails: no alternative, negation, or open qualifier value."""
        return self.tree is None and not self.values

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The alternatives, each with the edges that hold and the parts that do not."""
        return tuple(branches(self.formula))

    @cached_property
    def negated(self) -> bool:
        """Whether some part must not hold."""
        return any(branch.without for branch in self.branches)

    def values_of(self, edge: int) -> tuple[str, ...]:
        """The variables that are qualifier values of an edge."""
        return self.values[edge] if self.values else ()

    @cached_property
    def slots(self) -> tuple[tuple[int, str], ...]:
        """Every edge and node of a qualifier value that is a variable: the columns ``value_relations`` of a query table."""
        return tuple((edge, node) for edge, nodes in enumerate(self.values) for node in nodes)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Every node, in the order of first mention."""
        return tuple(dict.fromkeys(node for edge, ends in enumerate(self.edges) for node in (*ends, *self.values_of(edge))))

    def nodes_of(self, edges: Iterable[int]) -> set[str]:
        """The nodes of some edges."""
        return {node for edge in edges for node in (*self.edges[edge], *self.values_of(edge))}

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The nodes that are next to each other: the ends of an edge, and a qualifier value with both of them."""
        return self._links_of(range(len(self.edges)))

    def _links_of(self, edges: Iterable[int]) -> tuple[tuple[str, str], ...]:
        chosen = list(edges)
        return (
            *(self.edges[edge] for edge in chosen),
            *((node, end) for edge in chosen for node in self.values_of(edge) for end in self.edges[edge]),
        )

    def of_kind(self, kind: NodeKind) -> tuple[str, ...]:
        """The nodes of one kind, in the order of first mention."""
        return tuple(node for node in self.nodes if node_kind(node) == kind)

    @cached_property
    def anchors(self) -> tuple[str, ...]:
        """The given entities, in the order of first mention: the anchor columns of a query table."""
        return self.of_kind("anchor")

    @cached_property
    def joins(self) -> tuple[str, ...]:
        """The nodes to be found that two or more edges end in, or are qualified by; hubs are kept out of these."""
        tails = [*(tail for _, tail in self.edges), *(node for _, node in self.slots)]
        return tuple(node for node in self.nodes if node_kind(node) != "anchor" and tails.count(node) >= 2)

    @cached_property
    def collapses(self) -> tuple[tuple[int, int], ...]:
        """Pairs of edges into one node (or out of one): an equal other end and relation would make them one edge."""
        numbered = list(enumerate(self.edges))
        return tuple((i, j) for i, one in numbered for j, two in numbered if i < j and (one[1] == two[1] or one[0] == two[0]))

    def distances(self, start: str) -> dict[str, int]:
        """The number of edges, walked in either direction, from one node to each that can be reached."""
        return distances(self.links, start)

    @cached_property
    def diameter(self) -> int:
        """The longest of the shortest paths between two nodes, walked in either direction."""
        return max(max(self.distances(node).values()) for node in self.nodes)


def distances(edges: Iterable[tuple[str, str]], start: str) -> dict[str, int]:
    """The number of edges, walked in either direction, from one node to each that can be reached."""
    near: dict[str, set[str]] = {}
    for head, tail in edges:
        near.setdefault(head, set()).add(tail)
        near.setdefault(tail, set()).add(head)
    found = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for new in near.get(node, set()) - found.keys():
            found[new] = found[node] + 1
            queue.append(new)
    return found


def _parsed(texts: Mapping[str, str]) -> dict[str, Shape]:
    return {name: Shape.parse(name, edges) for name, edges in texts.items()}


SHAPES: Mapping[str, Shape] = _parsed(
    {
        "1p": "A>?",
        "2p": "A>x x>?",
        "3p": "A>x x>y y>?",
        "2i": "A>? B>?",
        "3i": "A>? B>? C>?",
        "2i-1p": "A>x B>x x>?",
        "1p-2i": "A>x x>? B>?",
    }
)
"""The seven shapes of the paper."""

MORE_SHAPES: Mapping[str, Shape] = _parsed(
    {
        "4p": "A>x x>y y>z z>?",
        "4i": "A>? B>? C>? D>?",
        "2u": "A>? | B>?",
        "up": "(A>x | B>x) x>?",
        "2in": "A>? !B>?",
        "3in": "A>? B>? !C>?",
        "inp": "A>x !B>x x>?",
        "pin": "A>x x>? !B>?",
        "pni": "A>? !(B>x x>?)",
        "2cp": "A>x B>y x>?{y}",
        "3cp": "A>x B>y C>z x>?{y,z}",
    }
)
"""Shapes of the later literature: longer paths and intersections, union, negation, and qualifier values that are variables."""

ALL_SHAPES: Mapping[str, Shape] = {**SHAPES, **MORE_SHAPES}
"""All named shapes."""

INVERSE = Shape.parse("1p-inverse", "?>A")
"""The inverse one-hop query: which heads have this tail?"""
ONE_HOP: Mapping[Side, Shape] = {"head": SHAPES["1p"], "tail": INVERSE}
"""The one-hop shapes by the side that is given."""


def read_shapes(path: Path) -> dict[str, Shape]:
    """Reads a user's shapes from the table ``[shapes]`` of a TOML file: ``"4i" = "A>? B>? C>? D>?"``.

    Raises:
        QueryError: The file is missing, not TOML, has no table [shapes], or a shape breaks a rule.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("shapes")
    except OSError as error:
        raise QueryError(f"{path}: cannot read the shapes ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise QueryError(f"{path}: not a TOML file: {error}") from None
    if not isinstance(table, dict) or not table or not all(isinstance(text, str) for text in table.values()):
        raise QueryError(f'{path}: shapes are in a table [shapes], one line per shape: "4i" = "A>? B>? C>? D>?"')
    return {name: Shape.parse(name, text) for name, text in table.items()}
