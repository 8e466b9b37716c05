"""Symmetries of a shape: which edges can be swapped without changing the meaning of a query.

Equal queries are kept once: of all equivalent orders of their edges, the one with the smallest numbers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, permutations, product
from math import factorial, prod

from starqe.errors import UnsupportedError
from starqe.queries.shape import TARGET, Shape, node_kind
from starqe.queries.tree import renumbered

MOST_IMAGES = 5_040
"""Maximum number of orders of edges that are compared one by one."""

Counts = Sequence[tuple[int, int]]
"""The fewest and the most qualifier pairs of each edge."""


@dataclass(frozen=True, order=True)
class Image:
    """An equivalent order of the edges: ``edge i -> edge edges[i]``."""

    edges: tuple[int, ...]
    values: tuple[tuple[int, ...], ...] = ()
    """For each edge the places, at its image, of its qualifier values that are variables; empty if no edge has any."""


@dataclass(frozen=True)
class Symmetries:
    """What makes a query the first of its equals: edges whose numbers ascend, and images that are not smaller."""

    ascending: tuple[tuple[int, int], ...]
    """Neighbours among freely interchangeable edges: the number of the first is at most that of the second."""
    images: tuple[Image, ...]
    """The other equivalent orders of the edges. They keep the order of interchangeable edges."""


def symmetries(shape: Shape, counts: Counts) -> Symmetries:
    """Finds the symmetries of a shape whose edges have these numbers of qualifier pairs.

    Ends that meet in a variable or the target go to ends that meet; an anchored end goes to any anchored end, since two
    anchors may be the same entity. So where edges share an anchor, an image may ask for two entities at once.

    Raises:
        UnsupportedError: There are too many to compare.
    """
    if not shape.plain:
        return Symmetries((), tuple(sorted(equivalent_orders(shape))))
    ends = [tuple("" if node_kind(node) == "anchor" else node for node in edge) for edge in shape.edges]
    alike: dict[tuple[str, ...], list[int]] = {}
    for index, edge in enumerate(ends):
        alike.setdefault(edge, []).append(index)
    uses = Counter(node for edge in shape.edges for node in edge)
    free = {
        edge: all(uses[node] == 1 for i in own for node in shape.edges[i] if node_kind(node) == "anchor")
        and len({counts[i] for i in own}) == 1
        for edge, own in alike.items()
    }
    found: set[tuple[int, ...]] = set()
    for rename in _renamings(shape, Counter(ends)):
        images = {edge: tuple(alike[tuple(rename[node] for node in edge)]) for edge in alike}
        kept = {edge: free[edge] and free[ends[image[0]]] and counts[alike[edge][0]] == counts[image[0]] for edge, image in images.items()}
        if len(found) + prod(factorial(len(image)) for edge, image in images.items() if not kept[edge]) > MOST_IMAGES:
            raise UnsupportedError(
                f"shape '{shape.name}': at most {MOST_IMAGES:,} orders of equal edges are compared, found more. "
                "Take fewer edges between the same nodes, or the same number of qualifiers on them"
            )
        for choice in product(*([image] if kept[edge] else permutations(image) for edge, image in images.items())):
            mapped = dict(zip(chain(*alike.values()), chain(*choice), strict=True))
            found.add(tuple(mapped[edge] for edge in range(len(shape.edges))))
    found.discard(tuple(range(len(shape.edges))))
    ascending = tuple(pair for edge, own in alike.items() if free[edge] for pair in pairwise(own))
    return Symmetries(tuple(sorted(ascending)), tuple(Image(edges) for edges in sorted(found)))


def equivalent_orders(shape: Shape) -> Iterator[Image]:
    """Tries every order of the edges of a shape with alternatives, negated parts or open values, which has few edges.

    Raises:
        UnsupportedError: There are too many orders.
    """
    edges = range(len(shape.edges))
    if factorial(len(edges)) > MOST_IMAGES:
        raise UnsupportedError(
            f"shape '{shape.name}': at most {MOST_IMAGES:,} orders of edges are compared, which is 7 edges where there are alternatives, "
            f"negations or values to be found; found {len(edges)} edges"
        )
    tree = renumbered(shape.formula, lambda edge: edge)
    for order in permutations(edges):
        if renumbered(shape.formula, order.__getitem__) != tree:
            continue
        inner = [node for node in shape.nodes if node_kind(node) == "variable"]
        for names in permutations(inner):
            rename = {TARGET: TARGET, **dict(zip(inner, names, strict=True))}
            if all(_alike(shape, edge, order[edge], rename) for edge in edges):
                places = tuple(tuple(shape.values_of(order[edge]).index(rename[node]) for node in shape.values_of(edge)) for edge in edges)
                if order != tuple(edges) or any(of_edge != tuple(sorted(of_edge)) for of_edge in places):
                    yield Image(order, places if shape.values else ())


def _alike(shape: Shape, edge: int, other: int, rename: Mapping[str, str]) -> bool:
    """Whether renaming the nodes of one edge gives those of another; any anchor fits any other."""
    ends = zip(shape.edges[edge], shape.edges[other], strict=True)
    same_ends = all(node_kind(one) == node_kind(two) == "anchor" or rename.get(one) == two for one, two in ends)
    return same_ends and {rename[node] for node in shape.values_of(edge)} == {*shape.values_of(other)}


def _renamings(shape: Shape, ends: Counter[tuple[str, ...]]) -> Iterator[dict[str, str]]:
    """Yields every way to rename variables and blank nodes that maps the edges onto themselves."""
    nodes = [node for node in shape.nodes if node_kind(node) in ("variable", "blank")]

    def extend(renamed: dict[str, str]) -> Iterator[dict[str, str]]:
        if len(renamed) == len(nodes) + 2:
            yield renamed
            return
        node = nodes[len(renamed) - 2]
        for image in nodes:
            if image in renamed.values() or node_kind(image) != node_kind(node):
                continue
            more = {**renamed, node: image}
            inside = (edge for edge in ends if set(edge) <= more.keys())
            if all(ends[tuple(more[end] for end in edge)] == ends[edge] for edge in inside):
                yield from extend(more)

    yield from extend({"": "", TARGET: TARGET})
