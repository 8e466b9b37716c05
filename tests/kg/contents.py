"""What a graph says, apart from its ids: to be compared."""

from starqe.kg import SPLITS, Graph, Statement


def contents(graph: Graph) -> set[tuple[str, Statement]]:
    """Returns the statements with their splits."""
    return {(split, statement) for split in SPLITS for statement in graph.statements(split)}
