"""Draws the pictures of the documentation: ``python docs/pictures/draw.py`` writes them beside this file.

The shapes are read from the table `SHAPES`, so a shape that is added there is drawn too. The same code gives the same bytes.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, Polygon

from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from starqe.queries.shape import SHAPES, TARGET, NodeKind, Shape, node_kind
from starqe.queries.text import hypergraph, reified, relation_text, term_text

HERE = Path(__file__).parent
INK, SOFT = "#1f2933", "#52606d"
FILL: dict[NodeKind, str] = {"anchor": "#bfdbfe", "variable": "#ffffff", "target": "#fde68a", "blank": "#e5e7eb"}
RADIUS = 0.2

Point = tuple[float, float]


def layout(shape: Shape) -> dict[str, Point]:
    """Places the target right; a node stands as many steps left of it as it is edges away, near its neighbour on the way there."""
    far = shape.distances(TARGET)
    place: dict[str, Point] = {TARGET: (0.0, 0.0)}
    for depth in range(1, max(far.values()) + 1):
        groups: dict[str, list[str]] = {}
        for node in (node for node in shape.nodes if far[node] == depth):
            near = next(end for edge in shape.edges if node in edge for end in edge if far[end] == depth - 1)
            groups.setdefault(near, []).append(node)
        for near, nodes in groups.items():
            for number, node in enumerate(nodes):
                place[node] = (-2.0 * depth, place[near][1] + 0.95 * ((len(nodes) - 1) / 2 - number))
    return place


def draw_node(axes: Axes, centre: Point, kind: NodeKind, text: str) -> None:
    """Draws one node: anchors and the target are filled, variables are dashed."""
    style = "dashed" if kind == "variable" else "solid"
    axes.add_patch(Circle(centre, RADIUS, facecolor=FILL[kind], edgecolor=INK, linewidth=1.3, linestyle=style, zorder=3))
    axes.text(*centre, text, ha="center", va="center", fontsize=11, color=INK, zorder=4)


def draw_edge(axes: Axes, start: Point, end: Point, text: str) -> None:
    """Draws one edge; its relation and qualifier pair are a tag on it."""
    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, shrinkA=14.5, shrinkB=14.5, color=INK, linewidth=1.3, zorder=2)
    axes.add_patch(arrow)
    # Nearer to the head: where edges meet in one tail, tags in the middle would touch.
    x, y = (start[0] + 0.46 * (end[0] - start[0]), start[1] + 0.46 * (end[1] - start[1]))
    tag = {"boxstyle": "round,pad=0.3", "facecolor": "#dcfce7", "edgecolor": "#15803d", "linewidth": 0.8}
    axes.text(x, y, text, ha="center", va="center", fontsize=9.5, color="#14532d", bbox=tag, zorder=5)


def draw_shape(axes: Axes, shape: Shape) -> None:
    """Draws one shape under its name, with its text form beneath."""
    place = layout(shape)
    for number, (head, tail) in enumerate(shape.edges, 1):
        draw_edge(axes, place[head], place[tail], rf"$r_{number}$ {{$q_{number}$: $v_{number}$}}")
    for node, centre in place.items():
        draw_node(axes, centre, node_kind(node), node)
    axes.set_title(shape.name, fontsize=13, fontweight="bold", color=INK, pad=4)
    axes.text(0.5, -0.06, shape.text, transform=axes.transAxes, ha="center", va="top", fontsize=9.5, family="monospace", color=SOFT)
    _frame(axes, min(x for x, _ in place.values()) / 2, height(shape))


def height(shape: Shape) -> float:
    """Says how much room a shape needs above and below its middle."""
    return 0.3 + max(abs(y) for _, y in layout(shape).values())


def draw_legend(axes: Axes) -> None:
    """Says what the signs mean."""
    lines: list[tuple[NodeKind, str, str]] = [
        ("anchor", "A", "anchor: an entity that the query gives"),
        ("variable", "x", "variable: some entity, not asked for"),
        ("target", TARGET, "target: its values are the answers"),
    ]
    for number, (kind, sign, text) in enumerate(lines):
        y = 0.85 - 0.5 * number
        draw_node(axes, (-1.9, y), kind, sign)
        axes.text(-1.5, y, text, va="center", fontsize=10.5, color=INK)
    draw_edge(axes, (-2.9, -0.7), (-1.0, -0.7), "$r$ {$q$: $v$}")
    axes.text(-0.85, -0.7, "from head to tail: the relation $r$\nwith the qualifier pair $q$: $v$", va="center", fontsize=10.5, color=INK)
    _frame(axes, 0.0, 1.1)


def _frame(axes: Axes, middle: float, half: float) -> None:
    axes.set_xlim(middle - 3.4, middle + 3.4)
    axes.set_ylim(-half, half)
    axes.set_aspect("equal")
    axes.axis("off")


def shapes_figure() -> plt.Figure:
    """Draws all shapes, and the legend in the last place."""
    heights = [*map(height, SHAPES.values()), 1.1]
    tallest = [max(heights[first : first + 2]) for first in range(0, len(heights), 2)]
    size = (11.0, 1.6 * sum(tallest) + 0.6 * len(tallest))
    ratios = {"height_ratios": tallest, "hspace": 0.12}
    figure, grid = plt.subplots(len(tallest), 2, figsize=size, layout="constrained", gridspec_kw=ratios)
    panels = grid.ravel()
    for axes, shape in zip(panels, SHAPES.values(), strict=False):
        draw_shape(axes, shape)
    for axes in panels[len(SHAPES) :]:
        axes.axis("off")
    draw_legend(panels[len(SHAPES)])
    return figure


P, U = Variable("p"), Variable("u")
QUERY = Query.conjunction([Atom("photoelectric", "discoveredBy", P), Atom(P, "educatedAt", U, (("degree", "BSc"),))], "u")
PLACES: dict[str, Point] = {"photoelectric": (-4.4, 0.0), "?p": (0.0, 0.0), "?u": (4.4, 0.0), "BSc": (2.2, 1.3)}
BLANKS: dict[str, Point] = {"_:0": (-2.2, 0.0), "_:1": (2.2, 0.0), "discoveredBy": (-2.2, -1.3), "educatedAt": (2.2, -1.3)}
HYPEREDGES = ("#bfdbfe", "#bbf7d0")


def draw_term(axes: Axes, name: str, centre: Point) -> None:
    """Draws a term of the query with its name below, or above where an edge would cross it."""
    kind: NodeKind = "target" if name == "?u" else "variable" if name == "?p" else "blank" if name.startswith("_:") else "anchor"
    draw_node(axes, centre, kind, name.removeprefix("_:") if kind != "anchor" else "")
    if kind == "anchor":
        x, y = centre
        axes.text(x, y + (0.3 if y > 0 else -0.3), name, ha="center", va="bottom" if y > 0 else "top", fontsize=9.5, color=INK, zorder=4)


def forms_figure() -> plt.Figure:
    """Draws one query as a hyper-relational graph, a hypergraph and a reified graph, each from its text."""
    figure, panels = plt.subplots(3, 1, figsize=(8.0, 8.5), layout="constrained")
    for axes, title in zip(panels, ("hyper-relational graph", "hypergraph", "reified graph"), strict=True):
        axes.set_title(title, fontsize=13, fontweight="bold", color=INK)
        for name, centre in PLACES.items():
            if name != "BSc" or title != "hyper-relational graph":
                draw_term(axes, name, centre)
        _frame(axes, 0.0, 1.9)
        axes.set_xlim(-5.4, 5.4)
    for atom in QUERY.conjuncts("a picture"):
        draw_edge(panels[0], PLACES[term_text(atom.head)], PLACES[term_text(atom.tail)], relation_text(atom))
    for color, line in zip(HYPEREDGES, hypergraph(QUERY).splitlines(), strict=True):
        relation, _, terms = line.partition(" ")
        points = [PLACES[term] for term in terms.strip("{}").split(", ")]
        look = {"facecolor": color, "edgecolor": color, "linewidth": 40, "joinstyle": "round", "capstyle": "round"}
        panels[1].add_patch(Polygon(points, closed=True, alpha=0.6, zorder=1, **look))
        x, y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
        panels[1].text(x, y if len(points) > 2 else y + 0.45, relation, ha="center", va="center", fontsize=9.5, color=INK, zorder=5)
    for name, centre in BLANKS.items():
        draw_term(panels[2], name, centre)
    for line in reified(QUERY).splitlines():
        blank, relation, term = line.split(" ")
        draw_edge(panels[2], BLANKS[blank], {**PLACES, **BLANKS}[term], relation.removeprefix("rdf:"))
    return figure


def main() -> None:
    """Writes every picture."""
    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "starqe", "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans"}
    for name, draw in (("shapes", shapes_figure), ("forms", forms_figure)):
        figure = draw()
        figure.savefig(HERE / f"{name}.svg", facecolor="white", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
