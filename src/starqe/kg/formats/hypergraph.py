"""The hypergraph of a graph: which entities occur together in a statement, without their roles.

    train<tab>educated at|academic degree<tab>Albert Einstein<tab>ETH Zurich<tab>bachelor

A line is the hyperedge of one statement: its split, its type, and its distinct entities. A type is the composition of
relations, the main one first, joined by ``|`` (in a relation, ``|`` is written ``%7C`` and ``%`` is written ``%25``):
every other composition is another type. The entities are in the order of their identifiers, which says nothing
about heads, tails and values; literals follow the entities. So a hypergraph cannot be imported.
"""

from collections.abc import Iterator
from pathlib import Path

from starqe.folders import new_file
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import written
from starqe.kg.statement import SPLITS


def write_hypergraph(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a graph as a file of hyperedges, one line per statement, and returns the files written.

    Raises:
        StorageError: The file exists and may not be replaced, or the disk refuses. It is written completely or not at all.
    """
    with new_file(destination, overwrite) as place, place.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(_lines(graph))
    return [destination]


def _lines(graph: Graph) -> Iterator[str]:
    entities = [*graph.entities, *map(written, graph.literals)]
    relations = [relation.replace("%", "%25").replace("|", "%7C") for relation in graph.relations]
    columns = (column.tolist() for column in (graph.split, graph.head, graph.relation, graph.tail))
    for row, (split, head, relation, tail) in enumerate(zip(*columns, strict=True)):
        pairs = graph.pairs_of(row)
        type_ = "|".join(relations[key] for key in (relation, *sorted({key for key, _ in pairs})))
        vertices = sorted({head, tail, *(value for _, value in pairs)})
        yield "\t".join((SPLITS[split], type_, *(entities[vertex] for vertex in vertices))) + "\n"
