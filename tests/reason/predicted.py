"""A tiny world for the tests of the predictor, and statements with gaps written by names."""

import numpy as np

from starqe.kg import Graph, Statement, graph_of
from starqe.queries.gaps import MISSING, Gaps
from tests.columns import gaps_of_columns


def tiny_graph() -> Graph:
    """Six facts about a and e in train, one in valid, one in test; z is a qualifier value and nothing else."""
    return graph_of(
        train=[
            Statement("a", "r", "b", (("q", "x"),)),
            Statement("a", "r", "c", (("q", "x"), ("q", "y"))),
            Statement("a", "r", "c", (("p", "z"),)),
            Statement("a", "s", "c"),
            Statement("e", "r", "c", (("q", "y"),)),
            Statement("x", "r", "y"),
        ],
        valid=[Statement("a", "r", "e", (("q", "x"),))],
        test=[Statement("a", "r", "y", (("q", "x"),))],
    )


def gaps(graph: Graph, *written: tuple[str, str, str, dict[str, str] | tuple[tuple[str, str], ...]]) -> Gaps:
    """Makes gaps from names; ``?`` is what is missing."""
    entity = {**{name: number for number, name in enumerate(graph.entities)}, "?": MISSING}
    relation = {**{name: number for number, name in enumerate(graph.relations)}, "?": MISSING}
    pairs = [list(item[3].items()) if isinstance(item[3], dict) else list(item[3]) for item in written]
    flat = [pair for of_one in pairs for pair in of_one]
    offsets = np.concatenate([[0], np.cumsum([len(of_one) for of_one in pairs])]).astype(np.int64)
    return gaps_of_columns(
        np.array([entity[head] for head, *_ in written], np.int32),
        np.array([relation[item[1]] for item in written], np.int32),
        np.array([entity[item[2]] for item in written], np.int32),
        offsets,
        np.array([relation[key] for key, _ in flat], np.int32),
        np.array([entity[value] for _, value in flat], np.int32),
        np.zeros(len(written) + 1, np.int64),
        np.empty(0, np.int32),
    )


def answers_by_name(graph: Graph, answered: Gaps) -> list[list[str]]:
    """Returns the answers of each gap by their names."""
    found = []
    for row in range(len(answered)):
        of_row = answered.answers[row]
        names = graph.relations if answered.relation[row] == MISSING else graph.entities
        found.append([names.identifier(int(one)) for one in of_row])
    return found
