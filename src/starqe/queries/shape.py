"""Shapes: patterns of queries, as data.

A shape is written as its edges, ``"A>x x>? B>?"``: an upper-case name is an anchor (a given entity), a lower-case name
a variable, ``?`` the target, and a name that begins with ``_`` a blank node (they come with reification). The arrow
points from the head of a statement to its tail.
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
        QueryError: The name or an edge is malformed, the target or the anchor is missing, or it is not connected.
    """

    name: str
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
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
        if len(self.distances(TARGET)) < len(self.nodes):
            raise QueryError(f"shape '{self.name}': every node is connected with the target, found parts in '{self.text}'")

    @classmethod
    def parse(cls, name: str, text: str) -> "Shape":
        """Reads a shape from its edges: ``Shape.parse("2p", "A>x x>?")``.

        Raises:
            QueryError: An edge is not ``node>node``, or the shape breaks a rule.
        """
        edges = []
        for edge in text.split():
            head, arrow, tail = edge.partition(">")
            if not (head and arrow and tail):
                raise QueryError(f"shape '{name}': an edge is written node>node, found '{edge}'")
            edges.append((head, tail))
        return cls(name, tuple(edges))

    @property
    def text(self) -> str:
        """The shape as it is written: its edges."""
        return " ".join(f"{head}>{tail}" for head, tail in self.edges)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Every node, in the order of first mention."""
        return tuple(dict.fromkeys(node for edge in self.edges for node in edge))

    def of_kind(self, kind: NodeKind) -> tuple[str, ...]:
        """The nodes of one kind, in the order of first mention."""
        return tuple(node for node in self.nodes if node_kind(node) == kind)

    @cached_property
    def anchors(self) -> tuple[str, ...]:
        """The given entities, in the order of first mention: the anchor columns of a query table."""
        return self.of_kind("anchor")

    @cached_property
    def joins(self) -> tuple[str, ...]:
        """The nodes to be found that two or more edges end in; hubs are kept out of these."""
        tails = [tail for _, tail in self.edges]
        return tuple(node for node in self.nodes if node_kind(node) != "anchor" and tails.count(node) >= 2)

    @cached_property
    def collapses(self) -> tuple[tuple[int, int], ...]:
        """Pairs of edges into one node (or out of one): an equal other end and relation would make them one edge."""
        numbered = list(enumerate(self.edges))
        return tuple((i, j) for i, one in numbered for j, two in numbered if i < j and (one[1] == two[1] or one[0] == two[0]))

    def distances(self, start: str) -> dict[str, int]:
        """The number of edges, walked in either direction, from one node to each that can be reached."""
        return distances(self.edges, start)

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


SHAPES: Mapping[str, Shape] = {
    name: Shape.parse(name, edges)
    for name, edges in {
        "1p": "A>?",
        "2p": "A>x x>?",
        "3p": "A>x x>y y>?",
        "2i": "A>? B>?",
        "3i": "A>? B>? C>?",
        "2i-1p": "A>x B>x x>?",
        "1p-2i": "A>x x>? B>?",
    }.items()
}
"""The seven shapes of the paper."""

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
