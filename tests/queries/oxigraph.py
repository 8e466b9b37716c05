"""Rows of query tables as SPARQL, answered by Oxigraph: an engine that shares nothing with ours."""

from collections.abc import Sequence

from pyoxigraph import RdfFormat, Store

from starqe.kg import SPLITS, Graph
from starqe.queries.formula import And, Not, Or
from starqe.queries.shape import TARGET, node_kind
from starqe.queries.table import QueryTable

REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"


def store_of(graph: Graph, splits: Sequence[str]) -> Store:
    """Returns a store with a reifier for every statement of some splits."""
    lines = []
    for row in range(len(graph)):
        if SPLITS[graph.split[row]] in splits:
            triple = f"<e:{graph.head[row]}> <r:{graph.relation[row]}> <e:{graph.tail[row]}>"
            pairs = "".join(f" ; <r:{relation}> <e:{value}>" for relation, value in graph.pairs_of(row))
            lines += [f"{triple} .", f"_:s{row} {REIFIES} <<( {triple} )>>{pairs} ."]
    store = Store()
    store.load("\n".join(lines).encode(), RdfFormat.TURTLE)
    return store


def sparql(table: QueryTable, row: int) -> str:
    """Writes one query of a table in SPARQL 1.2."""
    shape = table.shape
    anchors = dict(zip(shape.anchors, table.anchors[row].tolist(), strict=True))
    numbers = iter(range(1000))

    def term(node: str) -> str:
        return f"<e:{anchors[node]}>" if node_kind(node) == "anchor" else "?target" if node == TARGET else f"?{node}"

    def group(tree) -> str:
        match tree:
            case And():
                return " ".join(map(group, sorted(tree.parts, key=lambda part: isinstance(part, Not))))
            case Or():
                return " UNION ".join(f"{{ {group(part)} }}" for part in tree.parts)
            case Not():
                return f"FILTER NOT EXISTS {{ {group(tree.part)} }}"
        head, tail = map(term, shape.edges[tree])
        triple = f"{head} <r:{table.relations[row, tree]}> {tail}"
        pairs = [f"<r:{relation}> <e:{value}>" for relation, value in table.pairs_of(row, tree)]
        pairs += [f"<r:{relation}> {term(node)}" for relation, node in table.open_pairs_of(row, tree)]
        return f"{triple} . ?reifier{next(numbers)} {REIFIES} <<( {triple} )>>{''.join(f' ; {pair}' for pair in pairs)} ."

    return f"SELECT DISTINCT ?target WHERE {{ {group(shape.formula)} }}"


def answers(store: Store, table: QueryTable, row: int) -> list[int]:
    """Returns the answers of one query of a table."""
    return sorted(int(solution["target"].value.removeprefix("e:")) for solution in store.query(sparql(table, row)))
