"""A graph whose queries can be worked out by hand."""

from pathlib import Path

from starqe.kg import Graph, Statement, graph_of
from starqe.queries import load_table
from starqe.queries.query_set import table_path

QV, QW = ("q", "v"), ("q", "w")


def fact(text: str, *pairs: tuple[str, str]) -> Statement:
    return Statement(*text.split(), pairs)


# a, b and m point to x (b twice, with q v and with q w); x points to c and d, n to d; c points to e.
# New in valid: d points to e.
GRAPH = graph_of(
    train=[
        fact("a r x", QV),
        fact("b r x", QV),
        fact("b r x", QW),
        fact("m u x", QV),
        fact("x s c", QV),
        fact("x s d", QV),
        fact("n s d", QV),
        fact("c t e", QV),
    ],
    valid=[fact("d t e", QV)],
    test=[fact("a r c")],
)


def asked(folder: Path, graph: Graph, split: str, shape: str) -> dict[tuple[str, ...], str]:
    """Returns the queries of a table as literals: the anchors and then, for each edge, its relation and pairs; and the answers."""
    table = load_table(table_path(folder, split, shape))
    e, r = graph.entities.identifier, graph.relations.identifier
    found = {}
    for row in range(len(table)):
        edges = []
        for edge in range(len(table.shape.edges)):
            pairs = [word for key, value in table.pairs_of(row, edge) for word in (r(key), e(value))]
            edges.append(" ".join([r(table.relations[row, edge]), *pairs]))
        query = (" ".join(map(e, table.anchors[row])), *edges)
        assert query not in found
        found[query] = " ".join(map(e, table.answers[row]))
    return found
