"""Compiles a shape to the SPARQL 1.2 that finds its queries.

The same joins as in `starqe.queries.generate.sql`, but as the paper did them and sharing no code: a named graph
for each split, the splits of the context merged as the default graph, and a reifier for each statement with qualifiers.
"""

from collections.abc import Sequence
from typing import Literal

from starqe.errors import UnsupportedError
from starqe.kg.iris import RDF
from starqe.kg.rdf.write import SPLIT_GRAPH
from starqe.queries.generate.engine import CONTEXT
from starqe.queries.shape import TARGET, Shape

ANSWER = "?the_answer"
"""The variable of the target; no node of a shape has this name, since names of nodes have no underscore inside."""


Dialect = Literal["1.2", "star"]
"""SPARQL 1.2, and the older SPARQL-star, in which a quoted triple is the subject of its qualifiers: ``<< s p o >> q v``."""


def shape_sparql(
    shape: Shape,
    counts: Sequence[int],
    split: str,
    position: int | None = None,
    hubs: Sequence[str] = (),
    split_graph: str = SPLIT_GRAPH,
    dialect: Dialect = "1.2",
) -> str:
    """Writes the query whose solutions are the queries of a shape with their answers.

    Every edge is a group of its own that gives distinct edge rows: evaluated by itself, then joined. Pairs on an edge
    come in every order, and a query comes in every order that the symmetries of its shape allow.

    Args:
        shape: The shape.
        counts: The number of qualifier pairs of each edge.
        split: The split whose queries are wanted.
        position: The edge that is of this split, while all others are of the context; left out, every edge is of the
            context (which for train is the same).
        hubs: The entities, as SPARQL writes them, that no join may happen at.
        split_graph: What the IRI of a split's named graph begins with; the name of the split follows.
        dialect: Both find the same queries if each edge has at most one pair; with more, SPARQL-star also mixes the pairs of
            several statements about the same triple.

    Raises:
        UnsupportedError: The shape is not a conjunction over heads and tails.
    """
    if not shape.plain:
        raise UnsupportedError(
            f"the paper's formulas are of conjunctions over heads and tails, found shape '{shape.name}' ('{shape.text}'). "
            "Show a query as sparql or logic"
        )
    lines = ["PREFIX rdf: <" + RDF + ">", "SELECT DISTINCT " + " ".join(solution_variables(shape, counts))]
    lines += [f"FROM <{split_graph}{part}>" for part in CONTEXT[split]]
    if position is not None:
        lines.append(f"FROM NAMED <{split_graph}{split}>")
    lines.append("WHERE {")
    for edge in range(len(shape.edges)):
        group = _edge_group(shape, edge, counts[edge], hubs, dialect)
        if edge == position:
            group = [f"GRAPH <{split_graph}{split}> {{", *("  " + line for line in group), "}"]
        lines += ["  {", "    SELECT DISTINCT " + " ".join(_edge_variables(shape, edge, counts[edge])), "    WHERE {"]
        lines += [*("      " + line for line in group), "    }", "  }"]
    for i, j in shape.collapses:
        side = 0 if shape.edges[i][1] == shape.edges[j][1] else 1
        one, two = (node_variable(shape.edges[edge][side]) for edge in (i, j))
        lines.append(f"  FILTER ({f'{one} != {two} || ' if one != two else ''}?relation_{i} != ?relation_{j})")
    return "\n".join([*lines, "}", ""])


def node_variable(node: str) -> str:
    """Returns the variable of a node of a shape."""
    return ANSWER if node == TARGET else f"?{node}"


def solution_variables(shape: Shape, counts: Sequence[int]) -> list[str]:
    """Returns the variables of a solution, each once, edge by edge."""
    return list(dict.fromkeys(name for edge, count in enumerate(counts) for name in _edge_variables(shape, edge, count)))


def pair_variables(edge: int, count: int) -> list[tuple[str, str]]:
    """Returns the variables of the qualifier pairs of an edge: relation and value."""
    return [(f"?key_{edge}_{number}", f"?value_{edge}_{number}") for number in range(count)]


def _edge_variables(shape: Shape, edge: int, count: int) -> list[str]:
    head, tail = map(node_variable, shape.edges[edge])
    return [head, f"?relation_{edge}", tail, *(name for pair in pair_variables(edge, count) for name in pair)]


def _edge_group(shape: Shape, edge: int, count: int, hubs: Sequence[str], dialect: Dialect) -> list[str]:
    """Returns the patterns of one edge: its triple, a reifier with this number of pairs, and no hub where edges meet."""
    head, tail = map(node_variable, shape.edges[edge])
    relation, pairs = f"?relation_{edge}", pair_variables(edge, count)
    # The triple itself is written too, though the reifier implies it: stores have an index for triples, not for triple terms.
    lines = [f"{head} {relation} {tail} ."]
    qualifiers = " ; ".join(f"{key} {value}" for key, value in pairs)
    if dialect == "star":
        lines += [f"<< {head} {relation} {tail} >> {qualifiers} ."] if pairs else []
        lines += [f"FILTER ({key} != rdf:reifies && !isLiteral({value}))" for key, value in pairs or [(relation, tail)]]
    elif pairs:
        lines.append(f"?reifier_{edge} rdf:reifies <<( {head} {relation} {tail} )>> ; {qualifiers} .")
        lines += [f"FILTER ({key} != rdf:reifies && !isLiteral({value}))" for key, value in pairs]
    else:
        lines.append(f"FILTER ({relation} != rdf:reifies && !isLiteral({tail}))")
        lines.append(f"FILTER NOT EXISTS {{ {head} rdf:reifies ?triple_{edge} }}")
    if hubs:
        lines += [f"FILTER ({node_variable(node)} NOT IN ({', '.join(hubs)}))" for node in shape.edges[edge] if node in shape.joins]
    return lines
