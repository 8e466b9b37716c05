"""Small graphs, predictors that are tables of fixed numbers, and truth by trying every assignment."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from starqe.kg import Graph, Known, Statement, graph_of
from starqe.queries import Atom, QueryTable, Shape
from starqe.queries.gaps import HEAD, TAIL, Gaps
from starqe.queries.shape import TARGET
from starqe.reason.executor.pattern import pattern_of_shape
from starqe.reason.executor.plan import plan_of
from tests.columns import query_table
from tests.queries.strategies import random_statements

CONJUNCTION = {
    "product": np.multiply,
    "goedel": np.minimum,
    "lukasiewicz": lambda a, b: np.maximum(a + b - 1, 0),
}


@dataclass
class Numbers:
    """A predictor by a table: the direction, the given entity, the relation, what the pairs are, the other entity."""

    table: np.ndarray  # (2, V, relations, KINDS, V)
    asked: int = 0

    def kind(self, pairs: list[tuple[int, int]]) -> int:
        return sum(3 * relation + value + 1 for relation, value in set(pairs)) % self.table.shape[3]

    def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        self.asked += len(gaps)
        for place, position in enumerate(gaps.position):
            assert position in (HEAD, TAIL)
            given, relation = (gaps.head if position == TAIL else gaps.tail)[place], gaps.relation[place]
            pairs = [tuple(pair) for pair in gaps.pairs[place].tolist()]
            out[place] = torch.from_numpy(self.table[int(position == HEAD), given, relation, self.kind(pairs)])
        return out


def ids_of(atom: Atom, graph: Graph) -> tuple[tuple[int, int, int], list[tuple[int, int]]]:
    """The main triple and the pairs of an atom without variables, by ids."""
    entity, relation = graph.entities.id, graph.relations.id
    pairs = [(relation(str(key)), entity(str(value))) for key, value in atom.qualifiers]
    return (entity(str(atom.head)), relation(str(atom.relation)), entity(str(atom.tail))), pairs


def edge_truth(known: Known, one_hop: Numbers, cap: float, relation: int, pairs: list[tuple[int, int]], side: str) -> np.ndarray:
    """The truth of one edge for every head and tail."""
    truth = np.minimum(cap, one_hop.table[int(side == "tail"), :, relation, one_hop.kind(pairs)]).astype(
        float
    )  # by the given entity and the other
    truth = truth if side == "head" else truth.T
    for row in known.rows:
        if known.graph.relation[row] == relation and set(pairs) <= set(known.graph.pairs_of(row)):
            truth[known.graph.head[row], known.graph.tail[row]] = 1
    return truth


def brute_force(known: Known, one_hop: Numbers, norm: str, cap: float, table: QueryTable, row: int) -> np.ndarray:
    """The truth of every entity as an answer: all assignments of the variables as one big array, then the best of each answer."""
    shape, entities = table.shape, len(known.graph.entities)
    axes = [TARGET, *shape.of_kind("variable")]
    whole = np.ones((entities,) * len(axes))
    for edge, ends in enumerate(shape.edges):
        side = plan_of(pattern_of_shape(shape)).sides()[edge]
        truth = edge_truth(known, one_hop, cap, int(table.relations[row, edge]), table.pairs_of(row, edge), side)
        for axis, node in enumerate(ends):
            if node in shape.anchors:
                truth = np.take(truth, [table.anchors[row, shape.anchors.index(node)]], axis)
        place = [axes.index(node) if node in axes else None for node in ends]
        if None not in place and place[0] > place[1]:
            truth = truth.T
        lengths = np.ones(len(axes), int)
        lengths[[axis for axis in place if axis is not None]] = entities
        whole = CONJUNCTION[norm](whole, truth.reshape(lengths))
    return whole.reshape(entities, -1).max(axis=1)


ENTITIES, RELATIONS, QUALIFIER_RELATIONS, KINDS = "abcdef", "rst", "pq", 3
statements = random_statements(ENTITIES, RELATIONS, 2)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of four to six entities and two or three relations; valid and test have a statement each."""
    always = [Statement("a", "r", "b"), Statement("c", "s", "d", (("p", "a"),))]
    return graph_of(always + draw(st.lists(statements, max_size=8)), [draw(statements)], [draw(statements)])


@st.composite
def predictors(draw: st.DrawFn, graph: Graph) -> Numbers:
    """Tables of random probabilities, many of them equal, zero or one."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entities, relations = len(graph.entities), len(graph.relations)
    steps = draw(st.sampled_from([4, 1000]))
    return Numbers(np.floor(random.random((2, entities, relations, KINDS, entities)) * (steps + 1)).astype(np.float32) / steps)


@st.composite
def tables(draw: st.DrawFn, graph: Graph, shape: Shape, most: int = 3) -> QueryTable:
    """One to three queries of a shape with up to two pairs per edge."""
    entity, relation = st.integers(0, len(graph.entities) - 1), st.sampled_from(np.unique(graph.relation).tolist())
    count = draw(st.integers(1, most))
    pair = st.sampled_from(sorted({pair for row in range(len(graph)) for pair in graph.pairs_of(row)}) or [(0, 0)])
    pairs = [draw(st.lists(pair, max_size=2)) if draw(st.booleans()) else [] for _ in range(count * len(shape.edges))]
    flat = np.array([pair for of_edge in pairs for pair in of_edge], np.int32).reshape(-1, 2)
    return query_table(
        shape,
        np.array([[draw(entity) for _ in shape.anchors] for _ in range(count)], np.int32),
        np.array([[draw(relation) for _ in shape.edges] for _ in range(count)], np.int32),
        np.concatenate([[0], np.cumsum([len(of_edge) for of_edge in pairs])]).astype(np.int64),
        flat[:, 0],
        flat[:, 1],
        np.zeros(count + 1, np.int64),
        np.empty(0, np.int32),
    )
